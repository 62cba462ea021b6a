// The functions that RedisBus runs on the server, in Lua, and the names of its keys. docs/bus.md
// describes both; redis_library.h makes functions of the Lua.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// The name of the one consumer group of every stream.
inline constexpr std::string_view kRedisGroup = "g";

// kInvalid: a run on Redis cannot have this name.
Status CheckRedisRun(std::string_view run);

// Everything of a run has the same hash tag, so that a cluster keeps it on one server.
struct RedisKeys {
  explicit RedisKeys(std::string_view run) : prefix("{" + std::string(run) + "}:") {}

  // The topics of everybody, which only the learner lists. Each other role lists what belongs to
  // one of its workers under Topics() + ":ROLE".
  std::string Topics() const { return prefix + "topics"; }
  std::string Epoch() const { return prefix + "epoch"; }
  std::string Client(std::string_view client) const {
    return prefix + "client:" + std::string(client);
  }
  std::string Stream(std::string_view topic) const {
    return prefix + "t:" + std::string(topic) + ":stream";
  }
  std::string Delayed(std::string_view topic) const {
    return prefix + "t:" + std::string(topic) + ":delayed";
  }
  std::string Body(std::string_view client, uint64_t number) const {
    return prefix + "body:" + std::string(client) + ":" + std::to_string(number);
  }

  std::string State(std::string_view topic) const {
    return prefix + "t:" + std::string(topic) + ":state";
  }
  std::string Workers() const { return prefix + "workers"; }
  std::string Worker(std::string_view worker) const {
    return prefix + "worker:" + std::string(worker);
  }
  // Counters added up over all workers there ever were; and those of one process so far.
  std::string Totals() const { return prefix + "totals"; }
  std::string Told(std::string_view worker, int64_t started_ms) const {
    return prefix + "told:" + std::string(worker) + ":" + std::to_string(started_ms);
  }

  std::string prefix;
};

// The bodies of the bus's functions. docs/bus.md has their arguments and replies.
//
// batch: calls of one client, in their order, until the first that has to wait.
//   KEYS  the client's sequence key
//   ARGV  prefix, client, what the sequence key should hold ("*": anything), number of this batch,
//   seconds
//         to keep the sequence key, then the calls, each a letter and its arguments
//   reply {calls done (-1: all, and later batches as well), why it stopped there ("": it did not;
//   "again":
//         this batch was done before; "gap": the one before it was not; "full", "notopic" or an
//         error), {number of a call, "lost" or "gone", ..}, {topic, messages in it, answers owed,
//         ..}, epoch, the topic it stopped at}
std::string RedisBatchBody();
// room: the same on a server without free memory, up to the first call that publishes ("OOM").
std::string RedisRoomBody();

// tick: looks after one topic: makes ready what is due, takes over leases that ran out, tells the
// depth.
//   KEYS  the topic's stream
//   ARGV  prefix, client, topic, cursor ("0-0" to begin), ms during which no other client looks,
//         "1" to forget consumers that left
//   reply {1, epoch, next cursor, in the stream, leased, delayed, owed, dead, capacity, lease ms,
//         deliveries, ms when the stream was made}, or {0, epoch} when there is no such topic
std::string RedisTickBody();

}  // namespace tidemill

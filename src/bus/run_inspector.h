// Looks at what is on a broker, for people and metrics: the runs there are, the depths of a run's
// topics, its dead letters. Waits for each answer; changes only what it is told to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/roster.h"

namespace tidemill {

struct TopicState {
  std::string name;
  TopicOptions options;
  uint64_t ready = 0;    // deliverable now
  uint64_t delayed = 0;  // deliverable later
  uint64_t leased = 0;
  uint64_t owed = 0;  // answers an inbox has room for
  uint64_t died = 0;  // messages of this topic that died so far
  Duration
      oldest_ready{};  // since the oldest message that waits was first published; 0: none waits
  Duration oldest_leased{};  // the same of one that somebody holds
};

struct DeadLetterEntry {
  std::string id;  // of the letter
  std::string topic;
  std::string reason;
  uint32_t deliveries = 0;
  int64_t died_ms = 0;   // by the clock of who buried it
  std::string body;      // empty where body_ref is not
  std::string body_ref;  // where a body is that is not on the broker
};

// Belongs to one thread.
class RunInspector {
 public:
  virtual ~RunInspector() = default;

  // The names of the runs on the broker, sorted. kInvalid: this broker does not tell.
  virtual Result<std::vector<std::string>> Runs() = 0;
  // kNotFound: there is no such run; names those there are, where the broker tells.
  virtual Status CheckRun(std::string_view run) = 0;
  // By name.
  virtual Result<std::vector<TopicState>> Topics(std::string_view run) = 0;
  virtual Result<std::vector<RosterEntry>> Workers(std::string_view run) = 0;
  virtual Result<RosterTotals> Totals(std::string_view run) = 0;

  // Every message of the topic, whether it waits, is held or is delayed; one that moves meanwhile
  // may come twice. A body that is not kept on the broker any more is left out.
  virtual Status ForEachMessage(std::string_view run, std::string_view topic,
                                const std::function<void(std::string_view body)>& visit) = 0;

  struct DeadQuery {
    std::string topic;  // empty: of every topic
    size_t limit = 100;
  };
  // Oldest first.
  virtual Result<std::vector<DeadLetterEntry>> DeadLetters(std::string_view run,
                                                           const DeadQuery& query) = 0;
  // With its body, wherever that is but in a blob store. kNotFound: there is no such letter.
  virtual Result<DeadLetterEntry> DeadLetter(std::string_view run, std::string_view id) = 0;
  // Puts the message back on its topic as if it were new. kNotFound: no such letter, its body or
  // its topic is gone; kFull: the topic is.
  virtual Status Retry(std::string_view run, std::string_view id) = 0;
  // kNotFound: there is no such letter.
  virtual Status Drop(std::string_view run, std::string_view id) = 0;
};

}  // namespace tidemill

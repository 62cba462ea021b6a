#include "bus/redis/redis_roster.h"

#include <hiredis/hiredis.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "core/log.h"
#include "core/message_check.h"

namespace tidemill {
namespace {

std::string Ms(Duration d) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(d).count());
}

// KEYS: the set of workers. ARGV: worker, its key, the beat, ms until it is forgotten, the run's
// totals, what this process told so far, then names and counts since it began. Only what is new is
// added, so that a beat whose answer was lost may be sent again.
constexpr const char* kBeat = R"lua(
local told = {}
local before = redis.call('HGETALL', ARGV[6])
for i = 1, #before, 2 do told[before[i]] = tonumber(before[i + 1]) end
for i = 7, #ARGV, 2 do
  local more = tonumber(ARGV[i + 1]) - (told[ARGV[i]] or 0)
  if more ~= 0 then
    redis.call('HINCRBYFLOAT', ARGV[5], ARGV[i], string.format('%.17g', more))
    redis.call('HSET', ARGV[6], ARGV[i], ARGV[i + 1])
  end
end
redis.call('PEXPIRE', ARGV[6], ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('SET', ARGV[2], ARGV[3], 'PX', ARGV[4])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
)lua";

// KEYS: the set of workers. ARGV: what the key of a worker begins with. Reply: ms since its beat,
// the beat, ..
constexpr const char* kWorkers = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local out = {}
for i = 1, #all, 2 do
  local beat = redis.call('GET', ARGV[1] .. all[i])
  if beat then
    out[#out + 1] = math.max(0, now - tonumber(all[i + 1]))
    out[#out + 1] = beat
  end
end
return out
)lua";

}  // namespace

std::string WorkerName(std::string_view role, int64_t pid) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return std::string(role) + "-" + host + "-" + std::to_string(pid);
}

Result<RedisRoster> RedisRoster::Connect(std::string_view url, std::string_view run) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(RedisClient client, RedisClient::Connect(url));
  return RedisRoster(std::move(client), run);
}

Status RedisRoster::Beat(const v1::Heartbeat& beat, const RosterTotals& counts) {
  std::vector<std::string> arguments = {beat.worker(),
                                        keys_.Worker(beat.worker()),
                                        beat.SerializeAsString(),
                                        Ms(kWorkerForgottenAfter),
                                        keys_.Totals(),
                                        keys_.Told(beat.worker(), beat.started_ms())};
  for (const auto& [name, count] : counts) {
    if (!std::isfinite(count)) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", count);
    arguments.push_back(beat.role() + "/" + name);
    arguments.emplace_back(text);
  }
  const std::vector<std::string_view> views(arguments.begin(), arguments.end());
  return client_.Eval(kBeat, keys_.Workers(), views).status();
}

Status RedisRoster::Leave(std::string_view worker) {
  TM_RETURN_IF_ERROR(client_.Do({"ZREM", keys_.Workers(), worker}).status());
  return client_.Do({"DEL", keys_.Worker(worker)}).status();
}

Result<std::vector<RosterEntry>> ReadRoster(RedisClient& client, const RedisKeys& keys) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply, client.Eval(kWorkers, keys.Workers(), {keys.Worker("")}));
  std::vector<RosterEntry> workers;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    RosterEntry entry;
    entry.age = milliseconds(reply->element[i]->integer);
    const std::string_view bytes = ReplyText(*reply->element[i + 1]);
    if (const Status read = ReadMessage(bytes, entry.beat); !read.ok()) {
      LogOnce("heartbeat", LogLevel::kWarn, "a heartbeat is put aside: " + read.message());
      continue;
    }
    workers.push_back(std::move(entry));
  }
  std::sort(workers.begin(), workers.end(), [](const RosterEntry& a, const RosterEntry& b) {
    return std::tie(a.beat.role(), a.beat.worker()) < std::tie(b.beat.role(), b.beat.worker());
  });
  return workers;
}

Result<RosterTotals> ReadTotals(RedisClient& client, const RedisKeys& keys) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply, client.Do({"HGETALL", keys.Totals()}));
  RosterTotals totals;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    const std::string number(ReplyText(*reply->element[i + 1]));
    const double total = std::strtod(number.c_str(), nullptr);
    if (std::isfinite(total)) totals[std::string(ReplyText(*reply->element[i]))] = total;
  }
  return totals;
}

Status CheckSameMessages(const std::vector<RosterEntry>& workers, const v1::Heartbeat& newcomer) {
  for (const RosterEntry& entry : workers) {
    const v1::Heartbeat& other = entry.beat;
    if (entry.lost() || other.worker() == newcomer.worker()) continue;
    if (other.messages() == newcomer.messages()) continue;
    return Invalid("this program (" + newcomer.version() + ") uses version " +
                   std::to_string(newcomer.messages()) + " of the messages, but worker " +
                   other.worker() + " (" + other.version() + ") of the same run uses version " +
                   std::to_string(other.messages()) + "; run the same program everywhere");
  }
  return Ok();
}

}  // namespace tidemill

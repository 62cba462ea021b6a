#include "bus/redis/redis_roster.h"

#include <hiredis/hiredis.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

namespace tidemill {
namespace {

std::string Ms(Duration d) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(d).count());
}

}  // namespace

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
  return client_.Call(RedisFunction::kBeat, keys_.Workers(), views).status();
}

Status RedisRoster::Leave(std::string_view worker) {
  TM_RETURN_IF_ERROR(client_.Do({"ZREM", keys_.Workers(), worker}).status());
  return client_.Do({"UNLINK", keys_.Worker(worker)}).status();
}

Result<std::vector<RosterEntry>> ReadRoster(RedisClient& client, const RedisKeys& keys) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                      client.Call(RedisFunction::kWorkers, keys.Workers(), {keys.Worker("")}));
  std::vector<RosterEntry> workers;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    std::optional<RosterEntry> entry =
        ReadBeat(ReplyText(*reply->element[i + 1]), milliseconds(reply->element[i]->integer));
    if (entry) workers.push_back(std::move(*entry));
  }
  SortRoster(workers);
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

}  // namespace tidemill

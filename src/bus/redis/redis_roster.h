// The roster on Redis: {RUN}:workers, {RUN}:worker:NAME and {RUN}:totals. Time is the server's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bus/redis/redis_client.h"
#include "bus/redis/redis_scripts.h"
#include "bus/roster.h"
#include "core/status.h"

namespace tidemill {

Result<std::vector<RosterEntry>> ReadRoster(RedisClient& client, const RedisKeys& keys);
Result<RosterTotals> ReadTotals(RedisClient& client, const RedisKeys& keys);

// Belongs to one thread.
class RedisRoster final : public Roster {
 public:
  static Result<RedisRoster> Connect(std::string_view url, std::string_view run);

  Status Beat(const v1::Heartbeat& beat, const RosterTotals& counts = {}) override;
  Status Leave(std::string_view worker) override;
  Result<std::vector<RosterEntry>> Workers() override { return ReadRoster(client_, keys_); }
  Result<RosterTotals> Totals() override { return ReadTotals(client_, keys_); }

 private:
  RedisRoster(RedisClient client, std::string_view run) : client_(std::move(client)), keys_(run) {}

  RedisClient client_;
  RedisKeys keys_;
};

}  // namespace tidemill

// The roster on RabbitMQ: notes in the run's book. Age is by the reader's clock.
//   beat:WORKER               the last heartbeat, for an hour
//   told:ROLE WORKER STARTED  what a process counted
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bus/rabbit/rabbit_client.h"
#include "bus/roster.h"

namespace tidemill {

inline constexpr std::string_view kBeatNote = "beat:";
inline constexpr std::string_view kToldNote = "told:";

std::vector<RosterEntry> ReadRoster(const RabbitBook& book, Time now);
RosterTotals ReadTotals(const RabbitBook& book, Time now);

// Belongs to one thread.
class RabbitRoster final : public Roster {
 public:
  static Result<RabbitRoster> Connect(std::string_view url, std::string_view run);

  Status Beat(const v1::Heartbeat& beat, const RosterTotals& counts = {}) override;
  Status Leave(std::string_view worker) override;
  Result<std::vector<RosterEntry>> Workers() override;
  Result<RosterTotals> Totals() override;

 private:
  explicit RabbitRoster(RabbitClient client) : client_(std::move(client)) {}

  RabbitClient client_;
};

}  // namespace tidemill

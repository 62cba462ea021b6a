#include "bus/rabbit/rabbit_roster.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace tidemill {
namespace {

constexpr Duration kTotalsLast = std::chrono::hours(24 * 30);

}  // namespace

std::vector<RosterEntry> ReadRoster(const RabbitBook& book, Time now) {
  std::vector<RosterEntry> workers;
  book.ForEach(kBeatNote, now, [&](std::string_view, const RabbitNote& note) {
    std::optional<RosterEntry> entry = ReadBeat(note.value, now - note.written);
    if (entry) workers.push_back(std::move(*entry));
  });
  SortRoster(workers);
  return workers;
}

RosterTotals ReadTotals(const RabbitBook& book, Time now) {
  RosterTotals totals;
  book.ForEach(kToldNote, now, [&](std::string_view, const RabbitNote& note) {
    const auto told = nlohmann::json::parse(note.value, nullptr, false);
    if (!told.is_object()) return;
    for (const auto& [name, count] : told.items()) {
      if (count.is_number() && std::isfinite(count.get<double>())) {
        totals[name] += count.get<double>();
      }
    }
  });
  return totals;
}

Result<RabbitRoster> RabbitRoster::Connect(std::string_view url, std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient client, RabbitClient::Connect(url, run));
  return RabbitRoster(std::move(client));
}

Status RabbitRoster::Beat(const v1::Heartbeat& beat, const RosterTotals& counts) {
  if (!counts.empty()) {
    nlohmann::json told = nlohmann::json::object();
    for (const auto& [name, count] : counts) {
      if (std::isfinite(count)) told[beat.role() + "/" + name] = count;
    }
    const std::string key = std::string(kToldNote) + beat.role() + " " + beat.worker() + " " +
                            std::to_string(beat.started_ms());
    TM_RETURN_IF_ERROR(client_.Write(key, told.dump(), kTotalsLast));
  }
  return client_.Write(std::string(kBeatNote) + beat.worker(), beat.SerializeAsString(),
                       kWorkerForgottenAfter);
}

Status RabbitRoster::Leave(std::string_view worker) {
  return client_.Erase(std::string(kBeatNote) + std::string(worker));
}

Result<std::vector<RosterEntry>> RabbitRoster::Workers() {
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client_.Book());
  return ReadRoster(*book, RabbitClient::Now());
}

Result<RosterTotals> RabbitRoster::Totals() {
  TM_ASSIGN_OR_RETURN(const RabbitBook* book, client_.Book());
  return ReadTotals(*book, RabbitClient::Now());
}

}  // namespace tidemill

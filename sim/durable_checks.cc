#include "sim/durable_checks.h"

namespace tidemill::sim {
namespace {

constexpr Duration kTimeToLearn = std::chrono::seconds(30);

bool EarnsACase(const SimTrajectory& stored) {
  return stored.trajectory.purpose() == v1::PURPOSE_TRAIN && stored.verdict &&
         stored.verdict->scored() && stored.trajectory.end() != v1::EPISODE_END_GIVEN_UP &&
         !stored.trajectory.submission().empty();
}

}  // namespace

bool KnowsEveryGroup(const SimDurable& durable) {
  for (const auto& [key, stored] : durable.trajectories) {
    if (durable.groups.count(key.first) == 0) return false;
  }
  return true;
}

std::string WrongCase(const SimDurable& durable, const v1::CaseRecord& record) {
  const auto it = durable.trajectories.find({record.id().group(), record.id().member()});
  if (it == durable.trajectories.end()) return "a case of an episode that is not stored";
  if (!EarnsACase(it->second)) return "a case of an episode without a verdict that counts";
  const std::vector<float> key(record.key().begin(), record.key().end());
  if (!key.empty() && key != SimKey(record.prompt())) {
    return "a case has a key that is not its prompt's";
  }
  return "";
}

const CasesState* MemoryWatch::Begin(const SimDurable& durable, World& world, ProcessId process) {
  began = world.clock().Now();
  if (with_keys) {
    keys = std::make_unique<SimKeys>(world, process, bug == Bug::kFailedKeyIsAKey);
  }
  owed.clear();
  found = {};
  for (const auto& [number, record] : durable.cases) found.cases.push_back({number, record});
  for (const auto& [key, stored] : durable.trajectories) {
    if (!EarnsACase(stored) || durable.case_keys.count(key) != 0) continue;
    owed.insert(key);
    if (bug != Bug::kOwedCaseForgotten) {
      found.unlearned.push_back({stored.trajectory, *stored.verdict});
    }
  }
  return &found;
}

std::string MemoryWatch::Failure(const SimDurable& durable, Time now) const {
  if (!on || began == Time::max() || now - began < kTimeToLearn) return "";
  for (const SimDurable::EpisodeKey& key : owed) {
    if (durable.case_keys.count(key) == 0) return "a verdict of before a crash never became a case";
  }
  return "";
}

void CountCalls(const SimDurable& durable, SimReport& report) {
  for (const auto& [key, stored] : durable.trajectories) {
    report.stale += stored.fate == "stale" ? 1 : 0;
    for (const v1::Turn& turn : stored.trajectory.turns()) {
      for (const v1::ToolCall& call : turn.calls()) {
        report.skipped += call.skipped() ? 1 : 0;
        report.retries += call.retries();
      }
    }
  }
}

}  // namespace tidemill::sim

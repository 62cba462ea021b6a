#include "sim/durable_checks.h"

#include <algorithm>

namespace tidemill::sim {
namespace {

constexpr Duration kTimeToLearn = std::chrono::seconds(30);

bool EarnsACase(const SimTrajectory& stored) {
  return stored.trajectory.purpose() == v1::PURPOSE_TRAIN && stored.verdict &&
         stored.verdict->scored() && stored.trajectory.end() != v1::EPISODE_END_GIVEN_UP &&
         !stored.trajectory.submission().empty();
}

// What a report on a team's group leaves counted in the policy's gate.
int64_t UsesOfPart(const v1::GroupReport& report, const std::string& policy, int64_t paid) {
  for (const v1::PolicyCredit& credit : report.credits()) {
    if (credit.policy() == policy) return credit.accepted() > 0 ? paid : credit.uses();
  }
  return 0;
}

}  // namespace

void CheckGate(const SimStore& store, const Draw& draw, const std::string& policy, uint64_t steps,
               bool team, World& world) {
  int64_t counted = 0;  // uses that what was issued pays for
  const int64_t paid = UsesPaid(draw.replay);
  for (const auto& [id, entry] : store.durable().groups) {
    if (entry.lease.purpose() != v1::PURPOSE_TRAIN) continue;
    if (!team && entry.lease.policy() != policy) continue;
    const bool dropped = entry.report && entry.report->dropped() > 0;
    int64_t uses = dropped ? std::min<int64_t>(paid, store.UsesOf(id)) : paid;
    if (team && entry.report)
      uses = std::min<int64_t>(uses, UsesOfPart(*entry.report, policy, paid));
    counted += uses * entry.lease.members();
  }
  const int64_t allowed = ((draw.eta + 1) * paid + static_cast<int64_t>(steps)) * kBatch;
  if (counted > allowed) {
    world.verdict().Fail("the gate let " + std::to_string(counted) + " uses of episodes through; " +
                         std::to_string(allowed) + " are allowed after " + std::to_string(steps) +
                         " steps");
  }
}

void CheckUses(const SimStore& store, const ReplayConfig& replay, uint64_t learners, World& world) {
  uint64_t uses = 0, accepted = 0;
  for (const auto& [id, entry] : store.durable().groups) {
    if (entry.lease.purpose() != v1::PURPOSE_TRAIN || !entry.report) continue;
    uses += store.UsesOf(id);
    const bool paid_first = entry.report->revision() > 1;  // dropped by a second look, say
    accepted += entry.report->accepted() > 0 || store.UsesOf(id) > 0 || paid_first;
  }
  const uint64_t paid = accepted * learners * UsesPaid(replay);
  if (uses > paid) {
    world.verdict().Fail("groups were used " + std::to_string(uses) + " times; " +
                         std::to_string(paid) + " were paid for by inserts");
  }
}

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
    report.stale += stored.fate == Fate::kStale ? 1 : 0;
    for (const v1::Turn& turn : stored.trajectory.turns()) {
      for (const v1::ToolCall& call : turn.calls()) {
        report.skipped += call.skipped() ? 1 : 0;
        report.retries += call.retries();
        report.background += call.handle().empty() ? 0 : 1;
      }
      report.delivered += static_cast<uint64_t>(turn.delivered_size());
      report.interrupted += turn.end() == v1::TURN_END_INTERRUPTED ? 1 : 0;
    }
  }
}

}  // namespace tidemill::sim

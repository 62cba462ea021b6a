#include "live/quarantine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using QuarantineJson = nlohmann::ordered_json;

constexpr size_t kTenantsMax = 10'000;
constexpr size_t kDiscardedMax = 100'000;
constexpr size_t kSessionsShown = 1000;

}  // namespace

Quarantine::Quarantine(const QuarantineOptions& options, const std::string& earlier)
    : options_(options) {
  Restore(earlier);
}

// An entry that does not look as written is left out: it is decided again from the rewards.
void Quarantine::Restore(const std::string& earlier) {
  const auto json = QuarantineJson::parse(earlier, nullptr, false);
  if (!json.is_object()) return;
  try {
    for (const auto& one : json.at("tenants")) changed_[one.at("tenant")] = one.at("why");
    for (const auto& [tenant, session] : json.at("admitted").items()) admitted_[tenant] = session;
    for (const auto& session : json.at("discarded")) discarded_.insert(session.get<uint64_t>());
  } catch (const QuarantineJson::exception&) {
  }
}

bool Quarantine::Admitted(const std::string& tenant, uint64_t session) const {
  const auto it = admitted_.find(tenant);
  return it != admitted_.end() && session <= it->second;
}

void Quarantine::Put(const std::string& tenant, uint64_t session, double reward,
                     const LiveBaseline::Comparison& others) {
  if (Admitted(tenant, session) || discarded_.contains(session)) return;
  if (const auto held = held_.find(session); held != held_.end() && held->second.outlier) {
    held_.erase(held);
  }
  const double distance = std::abs(reward - others.mean);
  const double deviation = std::max(others.deviation, kDeviationMin);
  if (options_.outlier > 0 && others.others >= kOthersMin &&
      distance > options_.outlier * deviation) {
    held_[session] = {tenant,
                      fmt::format("reward {:.2f}, {} others {:.2f} with a deviation of {:.2f}",
                                  reward, others.others, others.mean, others.deviation),
                      true};
  }
  if (options_.change <= 0) return;
  if (!rewards_.contains(tenant) && rewards_.size() >= kTenantsMax) return;
  std::deque<Reward>& rewards = rewards_[tenant];
  const auto known = std::find_if(rewards.begin(), rewards.end(),
                                  [&](const Reward& one) { return one.session == session; });
  if (known != rewards.end()) {
    known->value = reward;
  } else {
    rewards.push_back({session, reward});
  }
  if (rewards.size() > kRecent + kBefore) rewards.pop_front();
  LookForChange(tenant, rewards);
}

void Quarantine::LookForChange(const std::string& tenant, const std::deque<Reward>& rewards) {
  if (rewards.size() < kRecent + kBefore || changed_.contains(tenant)) return;
  double before = 0, recent = 0;
  for (size_t i = 0; i < rewards.size(); ++i) (i < kBefore ? before : recent) += rewards[i].value;
  before /= kBefore, recent /= kRecent;
  if (std::abs(recent - before) <= options_.change) return;
  changed_[tenant] = fmt::format("its last {} rewards are {:.2f} in the mean, the {} before {:.2f}",
                                 kRecent, recent, kBefore, before);
}

bool Quarantine::Holds(const std::string& tenant, uint64_t session) {
  if (discarded_.contains(session) || held_.contains(session)) return true;
  if (!changed_.contains(tenant) || Admitted(tenant, session)) return false;
  held_[session] = {tenant, "the rewards of its tenant changed at once"};
  return true;
}

Result<std::vector<uint64_t>> Quarantine::Decide(const std::string& tenant, bool train) {
  std::vector<uint64_t> sessions;
  for (const auto& [session, held] : held_) {
    if (held.tenant == tenant) sessions.push_back(session);
  }
  if (sessions.empty() && !changed_.contains(tenant)) {
    return NotFound("nothing of tenant \"" + tenant + "\" is in quarantine");
  }
  for (const uint64_t session : sessions) {
    held_.erase(session);
    if (!train) discarded_.insert(session);
  }
  while (discarded_.size() > kDiscardedMax) discarded_.erase(discarded_.begin());
  if (train && !sessions.empty()) admitted_[tenant] = sessions.back();
  // Judged anew from what comes now.
  changed_.erase(tenant);
  rewards_.erase(tenant);
  return sessions;
}

void Quarantine::Forget(const std::string& tenant, uint64_t session) {
  held_.erase(session);
  discarded_.erase(session);
  const auto it = rewards_.find(tenant);
  if (it == rewards_.end()) return;
  std::erase_if(it->second, [&](const Reward& one) { return one.session == session; });
  if (!it->second.empty()) return;
  rewards_.erase(it);
  changed_.erase(tenant);
  admitted_.erase(tenant);
}

std::string Quarantine::Json() const {
  std::map<std::string, uint64_t> counts;
  QuarantineJson sessions = QuarantineJson::array(), tenants = QuarantineJson::array();
  for (const auto& [session, held] : held_) {
    ++counts[held.tenant];
    if (sessions.size() >= kSessionsShown) continue;
    sessions.push_back({{"session", session}, {"tenant", held.tenant}, {"why", held.why}});
  }
  for (const auto& [tenant, why] : changed_) {
    tenants.push_back({{"tenant", tenant}, {"why", why}, {"sessions", counts[tenant]}});
  }
  QuarantineJson admitted = QuarantineJson::object();
  for (const auto& [tenant, session] : admitted_) admitted[tenant] = session;
  return QuarantineJson({{"tenants", tenants},
                         {"sessions", sessions},
                         {"admitted", admitted},
                         {"discarded", discarded_}})
      .dump(-1, ' ', false, QuarantineJson::error_handler_t::replace);
}

}  // namespace tidemill

#include "engine/held_versions.h"

#include <algorithm>
#include <utility>

namespace tidemill {

HeldVersions::HeldVersions(int32_t versions, int32_t adapters, uint64_t version)
    : places_(static_cast<size_t>(versions + adapters)),
      main_places_(static_cast<size_t>(versions)) {
  Took(0, {.policy = PolicyId::kMain, .version = version});
}

bool HeldVersions::Held::Is(const PolicyVersion& name) const {
  if (weights.policy != name.policy) return false;
  return weights.version == name.version ||
         std::find(also.begin(), also.end(), name.version) != also.end();
}

std::optional<uint64_t> HeldVersions::Newest(PolicyId policy) const {
  const auto found = newest_.find(policy);
  if (found == newest_.end()) return std::nullopt;
  return places_[found->second]->weights.version;
}

size_t HeldVersions::held() const {
  return static_cast<size_t>(
      std::count_if(places_.begin(), places_.end(), [](const auto& h) { return h.has_value(); }));
}

int32_t HeldVersions::PlaceOf(const PolicyVersion& weights) const {
  if (Newest(weights.policy) == weights.version) {
    return static_cast<int32_t>(newest_.at(weights.policy));
  }
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& held) { return held && held->Is(weights); });
  TM_CHECK(found != places_.end(), "the version is held");
  return static_cast<int32_t>(found - places_.begin());
}

HeldVersions::Range HeldVersions::RangeOf(PolicyId policy) const {
  if (policy == PolicyId::kMain) return {0, main_places_};
  return {main_places_, places_.size()};
}

bool HeldVersions::IsNewest(size_t place) const {
  const auto newest = newest_.find(places_[place]->weights.policy);
  return newest != newest_.end() && newest->second == place;
}

bool HeldVersions::Reusable(size_t place) const {
  return !places_[place] || (places_[place]->pins == 0 && !IsNewest(place));
}

int64_t HeldVersions::Spare(const Range& range) const {
  int64_t spare = 0;
  for (size_t i = range.first; i < range.last; ++i) {
    if (Reusable(i)) {
      ++spare;
    } else if (places_[i]->pins > 0 && IsNewest(i)) {
      --spare;
    }
  }
  return spare;
}

Status HeldVersions::Pin(const PolicyVersion& weights) {
  const Range range = RangeOf(weights.policy);
  size_t at = range.first;
  while (at < range.last && !(places_[at] && places_[at]->Is(weights))) ++at;
  if (at == range.last) {
    const std::optional<uint64_t> newest = Newest(weights.policy);
    return NotFound(NameOf(weights) + " is not held" +
                    (newest ? "; the newest is " + std::to_string(*newest) : ""));
  }
  // A pin takes a place that could be reused, or makes the newest need another for its next.
  if (places_[at]->pins == 0 && Spare(range) < 1) {
    const std::string places = std::to_string(range.last - range.first);
    return Unavailable(NameOf(weights) + " cannot be pinned: the engine holds " + places +
                       (weights.policy == PolicyId::kMain ? " versions at once (engine.versions)"
                                                          : " adapters at once") +
                       ", of which one is for new weights");
  }
  ++places_[at]->pins;
  return Ok();
}

void HeldVersions::Unpin(const PolicyVersion& weights) {
  Held& held = *places_[static_cast<size_t>(PlaceOf(weights))];
  TM_CHECK(held.pins > 0, "what is let go of was pinned");
  --held.pins;
}

Status HeldVersions::Alias(uint64_t version, uint64_t as) {
  const PolicyVersion named{.policy = PolicyId::kMain, .version = version};
  for (std::optional<Held>& held : places_) {
    if (!held || !held->Is(named)) continue;
    if (!held->Is({.policy = PolicyId::kMain, .version = as})) held->also.push_back(as);
    return Ok();
  }
  return NotFound(NameOf(named) + " is not held");
}

Result<int32_t> HeldVersions::PlaceForNew(PolicyId policy) const {
  const Range range = RangeOf(policy);
  const auto newest = newest_.find(policy);
  const bool known = newest != newest_.end();
  if (!known && Spare(range) < 1) {
    return Unavailable("there is no room for another policy: the engine holds " +
                       std::to_string(range.last - range.first) + " adapters at once");
  }
  std::optional<size_t> best;
  for (size_t i = range.first; i < range.last; ++i) {
    if (!places_[i]) return static_cast<int32_t>(i);
    if (!Reusable(i)) continue;
    if (!best || places_[i]->taken < places_[*best]->taken) best = i;
  }
  if (!best) {
    TM_CHECK(known && places_[newest->second]->pins == 0, "there is a place for new weights");
    best = newest->second;
  }
  return static_cast<int32_t>(*best);
}

std::vector<PolicyVersion> HeldVersions::Empty(size_t place) {
  std::vector<PolicyVersion> gone;
  if (!places_[place]) return gone;
  TM_CHECK(places_[place]->pins == 0, "a pinned version keeps its place");
  const PolicyVersion weights = places_[place]->weights;
  gone.push_back(weights);
  for (const uint64_t also : places_[place]->also) gone.push_back({weights.policy, also});
  places_[place].reset();
  return gone;
}

std::vector<PolicyVersion> HeldVersions::Took(int32_t place, const PolicyVersion& weights) {
  const auto at = static_cast<size_t>(place);
  std::vector<PolicyVersion> gone = Empty(at);
  places_[at] = Held{.weights = weights, .taken = ++taken_};
  newest_[weights.policy] = at;
  return gone;
}

std::vector<PolicyVersion> HeldVersions::Forget(PolicyId policy) {
  TM_CHECK(policy != PolicyId::kMain, "the main policy stays");
  newest_.erase(policy);
  std::vector<PolicyVersion> gone;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i] || places_[i]->weights.policy != policy) continue;
    for (const PolicyVersion& weights : Empty(i)) gone.push_back(weights);
  }
  return gone;
}

}  // namespace tidemill

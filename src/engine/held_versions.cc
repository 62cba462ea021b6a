#include "engine/held_versions.h"

#include <algorithm>

namespace tidemill {

bool HeldVersions::Held::Is(uint64_t number) const {
  return version == number || std::find(also.begin(), also.end(), number) != also.end();
}

size_t HeldVersions::held() const {
  return static_cast<size_t>(
      std::count_if(places_.begin(), places_.end(), [](const auto& h) { return h.has_value(); }));
}

int32_t HeldVersions::PlaceOf(uint64_t version) const {
  if (newest() == version) return static_cast<int32_t>(newest_);
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& held) { return held && held->Is(version); });
  TM_CHECK(found != places_.end(), "the version is held");
  return static_cast<int32_t>(found - places_.begin());
}

Status HeldVersions::Pin(uint64_t version) {
  Held* wanted = nullptr;
  size_t pinned = 0;
  for (std::optional<Held>& held : places_) {
    if (!held) continue;
    if (held->Is(version)) wanted = &*held;
    if (held->pins > 0) ++pinned;
  }
  if (wanted == nullptr) {
    return NotFound("version " + std::to_string(version) + " is not held; the newest is " +
                    std::to_string(newest()));
  }
  if (wanted->pins == 0 && pinned + 1 >= places_.size()) {
    return Unavailable("version " + std::to_string(version) +
                       " cannot be pinned: the engine holds " + std::to_string(places_.size()) +
                       " versions at once (engine.versions), of which one is for new weights");
  }
  ++wanted->pins;
  return Ok();
}

void HeldVersions::Unpin(uint64_t version) {
  Held& held = *places_[static_cast<size_t>(PlaceOf(version))];
  TM_CHECK(held.pins > 0, "what is let go of was pinned");
  --held.pins;
}

Status HeldVersions::Alias(uint64_t version, uint64_t as) {
  for (std::optional<Held>& held : places_) {
    if (!held || !held->Is(version)) continue;
    if (!held->Is(as)) held->also.push_back(as);
    return Ok();
  }
  return NotFound("version " + std::to_string(version) + " is not held");
}

int32_t HeldVersions::PlaceForNew() const {
  size_t best = newest_;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i]) return static_cast<int32_t>(i);
    if (places_[i]->pins > 0 || i == newest_) continue;
    if (best == newest_ || places_[i]->version < places_[best]->version) best = i;
  }
  return static_cast<int32_t>(best);
}

std::vector<uint64_t> HeldVersions::Took(int32_t place, uint64_t version) {
  std::optional<Held>& held = places_[static_cast<size_t>(place)];
  TM_CHECK(!held || held->pins == 0, "a pinned version keeps its place");
  std::vector<uint64_t> gone;
  if (held) {
    gone = std::move(held->also);
    gone.push_back(held->version);
  }
  held = Held{.version = version};
  newest_ = static_cast<size_t>(place);
  return gone;
}

}  // namespace tidemill

// Which sets of weights an engine holds, where, and which of them sequences are pinned to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Never more versions are pinned than there are places but one, so there is always a place for the
// newest. Not thread-safe.
class HeldVersions {
 public:
  HeldVersions(int32_t places, uint64_t version) : places_(static_cast<size_t>(places)) {
    places_[0] = {.version = version, .pins = 0};
  }

  uint64_t newest() const { return places_[newest_]->version; }
  size_t held() const;
  // Where the weights of `version` are, which is held.
  int32_t PlaceOf(uint64_t version) const;

  // kNotFound: the version is not held. kUnavailable: to hold it, there would be no place left for
  // new weights.
  Status Pin(uint64_t version);
  void Unpin(uint64_t version);
  // The weights of `version` get a second number while they are held. kNotFound: they are not.
  Status Alias(uint64_t version, uint64_t as);

  // Where new weights go: a place with nothing in it, else that of the oldest that nobody pins.
  int32_t PlaceForNew() const;
  // They are there. Returns the numbers of the weights that are not held any more.
  std::vector<uint64_t> Took(int32_t place, uint64_t version);

 private:
  struct Held {
    uint64_t version = 0;
    size_t pins = 0;
    std::vector<uint64_t> also{};  // other numbers of the same
    bool Is(uint64_t number) const;
  };
  std::vector<std::optional<Held>> places_;
  size_t newest_ = 0;
};

}  // namespace tidemill

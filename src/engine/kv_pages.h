// Which pages of the cache are free and how often each other one is used. Only the numbers: what is
// in a page belongs to the backend.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "engine/decode_backend.h"

namespace tidemill {

// Not thread-safe.
class PagePool {
 public:
  explicit PagePool(int32_t pages);

  size_t total() const { return uses_.size(); }
  size_t free() const { return free_.size(); }
  size_t used() const { return total() - free(); }
  bool Shared(PageId page) const { return uses_[static_cast<size_t>(page)] > 1; }

  // A page of its own for the caller; there must be one (free() > 0).
  PageId Take();
  // One user more, one user less. The last one gone, the page is free.
  void Share(PageId page);
  void Drop(PageId page);

 private:
  std::vector<uint32_t> uses_;
  std::vector<PageId>
      free_;  // the last one given back is the next one taken: it may still be in the CPU's cache
};

}  // namespace tidemill

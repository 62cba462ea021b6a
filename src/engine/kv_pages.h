// Which pages of the cache are free and how often each other one is used. Only the numbers: what is
// in a page belongs to the backend.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "engine/decode_backend.h"

namespace tidemill {

// A page is used by sequences and may be kept (by PrefixCache) beside that or alone. Not
// thread-safe.
class PagePool {
 public:
  explicit PagePool(int32_t pages);

  size_t total() const { return pages_.size(); }
  size_t free() const { return free_.size(); }
  size_t idle() const { return idle_; }  // kept, and used by nobody
  size_t used() const { return total() - free() - idle(); }
  bool Used(PageId page) const { return At(page).uses > 0; }
  // Whoever writes to it needs a copy first.
  bool Shared(PageId page) const { return At(page).uses + At(page).keeps > 1; }

  // A page of its own for the caller; there must be one (free() > 0).
  PageId Take();
  // One user more, one user less. With neither users nor keepers the page is free.
  void Share(PageId page);
  void Drop(PageId page);
  void Keep(PageId page);
  void Unkeep(PageId page);

 private:
  struct Page {
    uint32_t uses = 0;
    uint32_t keeps = 0;
  };
  const Page& At(PageId page) const { return pages_[static_cast<size_t>(page)]; }
  Page& At(PageId page) { return pages_[static_cast<size_t>(page)]; }

  std::vector<Page> pages_;
  size_t idle_ = 0;
  std::vector<PageId>
      free_;  // the last one given back is the next one taken: it may still be in the CPU's cache
};

}  // namespace tidemill

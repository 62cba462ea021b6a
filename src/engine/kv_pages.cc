#include "engine/kv_pages.h"

namespace tidemill {

PagePool::PagePool(int32_t pages) : uses_(static_cast<size_t>(pages), 0) {
  free_.reserve(uses_.size());
  for (PageId page = pages - 1; page >= 0; --page) free_.push_back(page);
}

PageId PagePool::Take() {
  TM_CHECK(!free_.empty(), "a page is taken only while one is free");
  const PageId page = free_.back();
  free_.pop_back();
  uses_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::Share(PageId page) {
  TM_CHECK(uses_[static_cast<size_t>(page)] > 0, "a free page cannot be shared");
  ++uses_[static_cast<size_t>(page)];
}

void PagePool::Drop(PageId page) {
  uint32_t& uses = uses_[static_cast<size_t>(page)];
  TM_CHECK(uses > 0, "a free page cannot be dropped");
  if (--uses == 0) free_.push_back(page);
}

}  // namespace tidemill

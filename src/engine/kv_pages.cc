#include "engine/kv_pages.h"

namespace tidemill {

PagePool::PagePool(int32_t pages) : pages_(static_cast<size_t>(pages)) {
  free_.reserve(pages_.size());
  for (PageId page = pages - 1; page >= 0; --page) free_.push_back(page);
}

PageId PagePool::Take() {
  TM_CHECK(!free_.empty(), "a page is taken only while one is free");
  const PageId page = free_.back();
  free_.pop_back();
  At(page).uses = 1;
  return page;
}

void PagePool::Share(PageId page) {
  Page& at = At(page);
  TM_CHECK(at.uses + at.keeps > 0, "a free page cannot be shared");
  if (at.uses++ == 0) --idle_;
}

void PagePool::Drop(PageId page) {
  Page& at = At(page);
  TM_CHECK(at.uses > 0, "an unused page cannot be dropped");
  if (--at.uses > 0) return;
  if (at.keeps > 0) {
    ++idle_;
  } else {
    free_.push_back(page);
  }
}

void PagePool::Keep(PageId page) {
  Page& at = At(page);
  TM_CHECK(at.uses + at.keeps > 0, "a free page cannot be kept");
  ++at.keeps;
}

void PagePool::Unkeep(PageId page) {
  Page& at = At(page);
  TM_CHECK(at.keeps > 0, "a page is let go of by who keeps it");
  if (--at.keeps > 0 || at.uses > 0) return;
  --idle_;
  free_.push_back(page);
}

}  // namespace tidemill

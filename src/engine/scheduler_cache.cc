// The part of the scheduler that takes prompts from the prefix cache and leaves pages to it.
#include <algorithm>

#include "engine/scheduler.h"

namespace tidemill {

void Scheduler::DropPage(PageId page) {
  pool_.Drop(page);
  if (!pool_.Used(page)) cache_.BecameIdle(page, ++uses_);
}

// From the last to the first, so that of a sequence the end goes before the beginning.
void Scheduler::DropPages(std::vector<PageId>& pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) DropPage(*page);
  pages.clear();
}

// A sequence without pages begins with these, which hold `tokens` tokens of it.
void Scheduler::UsePages(Sequence& sequence, std::span<const PageId> pages, int32_t tokens) {
  for (const PageId page : pages) {
    if (!pool_.Used(page)) cache_.BecameUsed(page);
    pool_.Share(page);
  }
  sequence.pages.assign(pages.begin(), pages.end());
  sequence.cached = tokens;
  sequence.computed_before = std::max(sequence.computed_before, tokens);
}

void Scheduler::AttachCached(Sequence& s) {
  if (s.owner.tenant == 0 || s.cached > 0) return;
  // The last token is computed in any case: what follows is drawn from it.
  const auto most = static_cast<int32_t>(s.tokens.size()) - 1;
  const std::vector<PageId> shared = cache_.Match(s.owner.tenant, s.weights, s.tokens);
  int32_t tokens = std::min(most, static_cast<int32_t>(shared.size()) * kPageSlots);
  std::span<const PageId> pages = shared;
  bool clean = true;
  if (s.owner.session != 0) {
    const PrefixCache::SessionHit own = cache_.MatchSession(s.owner, s.weights.policy, s.tokens);
    const int32_t of_session = std::min(most, own.tokens);
    const bool same_weights = own.clean && own.weights == s.weights;
    // A pinned sequence has no token of other weights behind it.
    if (of_session > tokens && (same_weights || !s.pinned)) {
      tokens = of_session;
      pages = own.pages;
      clean = same_weights;
    }
  }
  if (tokens == 0) return;
  const size_t count = static_cast<size_t>((tokens + kPageSlots - 1) / kPageSlots);
  UsePages(s, pages.first(count), tokens);
  s.clean = clean;
}

// Full pages, of tokens that are known.
void Scheduler::PublishPages(Sequence& s) {
  if (s.owner.tenant == 0 || !s.clean || !s.trusted) return;
  const size_t full =
      std::min(static_cast<size_t>(s.cached), s.tokens.size()) / static_cast<size_t>(kPageSlots);
  for (; s.published < full; ++s.published) {
    PageId& page = s.pages[s.published];
    const PageId before = s.published == 0 ? -1 : s.pages[s.published - 1];
    const auto ids = std::span(s.tokens).subspan(s.published * kPageSlots, kPageSlots);
    const PageId known = cache_.Publish(s.owner.tenant, s.weights, before, ids, page);
    if (known == page) continue;
    // Another sequence computed the same: one page is enough.
    if (!pool_.Used(known)) cache_.BecameUsed(known);
    pool_.Share(known);
    DropPage(page);
    page = known;
  }
}

void Scheduler::Retain(Sequence& s) {
  if (s.owner.tenant == 0 || s.owner.session == 0 || !s.trusted || s.pinned) return;
  const size_t known = std::min(static_cast<size_t>(s.cached), s.tokens.size());
  if (known == 0) return;
  const size_t pages = (known + kPageSlots - 1) / kPageSlots;
  cache_.Retain(s.owner, {s.tokens.begin(), s.tokens.begin() + static_cast<long>(known)},
                {s.pages.begin(), s.pages.begin() + static_cast<long>(pages)}, s.clean, s.weights,
                ++uses_);
}

}  // namespace tidemill

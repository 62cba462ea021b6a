#include "engine/prefix_cache.h"

#include <algorithm>

namespace tidemill {
namespace {

// Beginnings kept for one session: its own, and those of helpers that speak between its turns.
constexpr size_t kRetainedOfSession = 4;

size_t Common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t shorter = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<long>(shorter), b.begin()).first -
      a.begin());
}

uint64_t MixWord(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  uint64_t hash = MixWord(seed ^ static_cast<uint64_t>(key.before));
  for (const TokenId id : key.ids) {
    hash = MixWord(hash + 0x9e3779b97f4a7c15ULL + static_cast<uint32_t>(id));
  }
  return hash;
}

PrefixCache::Key PrefixCache::KeyOf(int64_t before, std::span<const TokenId> ids) {
  TM_CHECK(ids.size() == kPageSlots, "a page is known by all its tokens");
  Key key{.before = before};
  std::copy(ids.begin(), ids.end(), key.ids.begin());
  return key;
}

std::vector<PageId> PrefixCache::Match(uint64_t tenant, const PolicyVersion& weights,
                                       std::span<const TokenId> tokens) {
  std::vector<PageId> pages;
  const auto root = roots_.find({weights, tenant});
  if (root == roots_.end()) return pages;
  int64_t before = root->second;
  for (size_t at = 0; at + kPageSlots <= tokens.size(); at += kPageSlots) {
    const auto found = nodes_.find(KeyOf(before, tokens.subspan(at, kPageSlots)));
    if (found == nodes_.end()) break;
    before = found->second.page;
    pages.push_back(found->second.page);
  }
  return pages;
}

PageId PrefixCache::Publish(uint64_t tenant, const PolicyVersion& weights, PageId before,
                            std::span<const TokenId> ids, PageId page) {
  int64_t root = 0;
  if (before < 0) {
    const auto [at, made] = roots_.try_emplace({weights, tenant}, last_root_ - 1);
    if (made) live_roots_.insert(--last_root_);
    root = at->second;
  } else {
    root = by_page_.at(before)->second.root;
  }
  const auto [node, made] = nodes_.try_emplace(KeyOf(before < 0 ? root : before, ids));
  if (!made) return node->second.page;
  node->second = {.page = page, .root = root};
  by_page_[page] = &*node;
  pool_.Keep(page);
  return page;
}

void PrefixCache::BecameIdle(PageId page, uint64_t now) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return;
  Nodes::value_type& node = *found->second;
  if (!live_roots_.contains(node.second.root)) return Remove(node);  // nobody can find it any more
  node.second.idle_since = now;
  idle_.emplace(now, &node);
}

void PrefixCache::BecameUsed(PageId page) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return;
  idle_.erase(found->second->second.idle_since);
  found->second->second.idle_since = 0;
}

// Nothing below it is left: whoever uses a page uses those before it, and they are told idle after
// it.
void PrefixCache::Remove(Nodes::value_type& node) {
  const PageId page = node.second.page;
  if (node.second.idle_since > 0) idle_.erase(node.second.idle_since);
  by_page_.erase(page);
  nodes_.erase(nodes_.find(node.first));
  pool_.Unkeep(page);
}

PrefixCache::SessionHit PrefixCache::MatchSession(const CacheOwner& owner, PolicyId policy,
                                                  std::span<const TokenId> tokens) const {
  SessionHit best;
  const auto found = sessions_.find({owner.tenant, owner.session});
  if (found == sessions_.end()) return best;
  for (const uint64_t when : found->second) {
    const Retained& kept = retained_.at(when);
    if (kept.weights.policy != policy) continue;
    const auto common = static_cast<int32_t>(Common(kept.tokens, tokens));
    if (common < best.tokens || common == 0) continue;
    best = {.pages = kept.pages, .tokens = common, .clean = kept.clean, .weights = kept.weights};
  }
  return best;
}

void PrefixCache::Retain(const CacheOwner& owner, std::vector<TokenId> tokens,
                         std::vector<PageId> pages, bool clean, const PolicyVersion& weights,
                         uint64_t now) {
  for (const PageId page : pages) pool_.Keep(page);
  std::vector<uint64_t>& mine = sessions_[{owner.tenant, owner.session}];
  const std::vector<uint64_t> before = mine;
  mine.push_back(now);
  for (const uint64_t when : before) {
    const Retained& older = retained_.at(when);
    if (older.weights.policy != weights.policy) continue;
    if (Common(older.tokens, tokens) == older.tokens.size()) RemoveRetained(when);
  }
  retained_.emplace(now, Retained{.owner = owner,
                                  .tokens = std::move(tokens),
                                  .pages = std::move(pages),
                                  .clean = clean,
                                  .weights = weights});
  if (mine.size() > kRetainedOfSession) RemoveRetained(mine.front());
  // Several may share their pages, so pages alone do not bound them.
  if (retained_.size() > pool_.total()) RemoveRetained(retained_.begin()->first);
}

void PrefixCache::RemoveRetained(uint64_t since) {
  const auto found = retained_.find(since);
  const Session session{found->second.owner.tenant, found->second.owner.session};
  std::vector<uint64_t>& mine = sessions_.at(session);
  std::erase(mine, since);
  if (mine.empty()) sessions_.erase(session);
  for (const PageId page : found->second.pages) pool_.Unkeep(page);
  retained_.erase(found);
}

uint64_t PrefixCache::Oldest() const {
  uint64_t oldest = UINT64_MAX;
  if (!idle_.empty()) oldest = idle_.begin()->first;
  if (!retained_.empty()) oldest = std::min(oldest, retained_.begin()->first);
  return oldest;
}

void PrefixCache::EvictOldest() {
  const uint64_t oldest = Oldest();
  TM_CHECK(oldest != UINT64_MAX, "an idle page is kept by somebody");
  if (retained_.contains(oldest)) return RemoveRetained(oldest);
  Remove(*idle_.begin()->second);
}

void PrefixCache::ForgetWeights(const PolicyVersion& weights) {
  // Their pages have not been used since, and so are the first to go.
  const auto first = roots_.lower_bound({weights, 0});
  auto last = first;
  for (; last != roots_.end() && last->first.first == weights; ++last) {
    live_roots_.erase(last->second);
  }
  roots_.erase(first, last);
}

void PrefixCache::ForgetSessions(PolicyId policy) {
  std::vector<uint64_t> theirs;
  for (const auto& [when, kept] : retained_) {
    if (kept.weights.policy == policy) theirs.push_back(when);
  }
  for (const uint64_t when : theirs) RemoveRetained(when);
}

void PrefixCache::RemoveAllRetained() {
  while (!retained_.empty()) RemoveRetained(retained_.begin()->first);
}

void PrefixCache::ForgetTenant(uint64_t tenant) {
  std::vector<uint64_t> mine;
  for (const auto& [when, kept] : retained_) {
    if (kept.owner.tenant == tenant) mine.push_back(when);
  }
  for (const uint64_t when : mine) RemoveRetained(when);
  std::unordered_set<int64_t> dead;
  for (auto it = roots_.begin(); it != roots_.end();) {
    if (it->first.second != tenant) {
      ++it;
      continue;
    }
    dead.insert(it->second);
    live_roots_.erase(it->second);
    it = roots_.erase(it);
  }
  // All idle ones of a tree together: below an idle page there is none in use.
  std::vector<Nodes::value_type*> idle;
  for (const auto& [when, node] : idle_) {
    if (dead.contains(node->second.root)) idle.push_back(node);
  }
  for (Nodes::value_type* node : idle) Remove(*node);
}

void PrefixCache::Clear() {
  RemoveAllRetained();
  while (!by_page_.empty()) Remove(*by_page_.begin()->second);
  roots_.clear();
  live_roots_.clear();
}

}  // namespace tidemill

// Pages of finished sequences, kept for later ones that begin the same way.
//
//   a page filled by a sequence --Publish--> tree of its tenant, policy and version --Match-->
//   a new sequence; a released sequence of a session --Retain--> its own pages --MatchSession-->
//   its next turn
//
// A tree has one page to a node; a node is found by the node before it and all its token ids, so a
// hit is exact and no hash has to be trusted. There is one tree for each tenant and version of a
// policy (a version names the weights together with their adapter): no tenant can meet another's
// pages, and nobody those of other weights. What a session retained is found by that session alone,
// under the same policy, whichever version computed it. Where room is needed, what was not used for
// the longest time goes first.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/cpu/cpu_kernels.h"
#include "engine/kv_pages.h"

namespace tidemill {

// Who may use what a sequence computed.
struct CacheOwner {
  uint64_t tenant = 0;
  uint64_t session = 0;  // 0: none
};

// Not thread-safe. Keeps pages of `pool`, which must outlive it; the pages given to sequences are
// counted by the caller.
class PrefixCache {
 public:
  // `seed` makes the places in its hash table unforeseeable.
  PrefixCache(PagePool& pool, uint64_t seed) : pool_(pool), nodes_(0, KeyHash{seed}) {}
  PrefixCache(const PrefixCache&) = delete;

  // The pages that hold the beginning of `tokens`, as many as are there, computed under `weights`.
  std::vector<PageId> Match(uint64_t tenant, const PolicyVersion& weights,
                            std::span<const TokenId> tokens);
  // Makes a full page known: its tokens are `ids`, `before` is the page before it, published too
  // (negative: none). Returns the page that is known for them: `page`, or one published earlier.
  PageId Publish(uint64_t tenant, const PolicyVersion& weights, PageId before,
                 std::span<const TokenId> ids, PageId page);

  struct SessionHit {
    std::span<const PageId> pages;
    int32_t tokens = 0;  // the same at the beginning
    bool clean = false;  // all of it computed under `weights`
    PolicyVersion weights{};
  };
  // The session's retained run under `policy` with the longest prefix in common with `tokens`.
  SessionHit MatchSession(const CacheOwner& owner, PolicyId policy,
                          std::span<const TokenId> tokens) const;
  // Keeps the pages of `tokens` for the session, in place of what begins the same way under the
  // same policy and is shorter.
  void Retain(const CacheOwner& owner, std::vector<TokenId> tokens, std::vector<PageId> pages,
              bool clean, const PolicyVersion& weights, uint64_t now);

  // The last user of a page is gone. The pages of a sequence must be told from the last to the
  // first.
  void BecameIdle(PageId page, uint64_t now);
  void BecameUsed(PageId page);

  // When the oldest that can go was used last; there must be one (pool.idle() > 0).
  uint64_t Oldest() const;
  // Lets the oldest go. A page it had is free then, unless somebody else keeps it.
  void EvictOldest();
  // `weights` are not computed with any more: what is known of them is not found and goes when
  // idle.
  void ForgetWeights(const PolicyVersion& weights);
  // Forgets the runs that sessions retained under the policy.
  void ForgetSessions(PolicyId policy);
  // Nothing of the tenant is found any more. What no sequence uses goes at once, the rest when it
  // is idle.
  void ForgetTenant(uint64_t tenant);
  void Clear();

 private:
  using Ids = std::array<TokenId, kPageSlots>;
  struct Key {
    int64_t before = 0;  // a page, or the root of a tree (negative)
    Ids ids{};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    uint64_t seed;
    size_t operator()(const Key& key) const;
  };
  struct Node {
    PageId page = -1;
    int64_t root = 0;
    uint64_t idle_since = 0;  // 0: it is used
  };
  using Nodes = std::unordered_map<Key, Node, KeyHash>;
  struct Retained {
    CacheOwner owner;
    std::vector<TokenId> tokens;
    std::vector<PageId> pages;
    bool clean = false;
    PolicyVersion weights{};
  };
  using Session = std::pair<uint64_t, uint64_t>;  // tenant, session

  static Key KeyOf(int64_t before, std::span<const TokenId> ids);
  void Remove(Nodes::value_type& node);
  void RemoveRetained(uint64_t since);
  void RemoveAllRetained();

  PagePool& pool_;
  std::map<std::pair<PolicyVersion, uint64_t>, int64_t> roots_;  // by weights and tenant
  std::unordered_set<int64_t> live_roots_;
  int64_t last_root_ = 0;
  Nodes nodes_;
  std::unordered_map<PageId, Nodes::value_type*> by_page_;
  std::map<uint64_t, Nodes::value_type*> idle_;        // by idle_since
  std::map<uint64_t, Retained> retained_;              // by when
  std::map<Session, std::vector<uint64_t>> sessions_;  // where in retained_, the oldest first
};

}  // namespace tidemill

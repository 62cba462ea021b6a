#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tidemill {
namespace {

constexpr PolicyVersion kWeights{.policy = PolicyId::kMain, .version = 7};

TEST(PrefixCache, AForgottenTenantsPagesAreFreeAndOthersStay) {
  PagePool pool(8);
  PrefixCache cache(pool, 1);
  std::vector<TokenId> ids(2 * kPageSlots);
  std::iota(ids.begin(), ids.end(), 10);
  uint64_t now = 0;
  std::vector<PageId> used;
  for (const uint64_t tenant : {uint64_t{1}, uint64_t{2}}) {
    PageId before = -1;
    for (size_t i = 0; i < 2; ++i) {
      const PageId page = pool.Take();
      before = cache.Publish(tenant, kWeights, before,
                             std::span(ids).subspan(i * kPageSlots, kPageSlots), page);
      used.push_back(page);
    }
  }
  cache.Retain({.tenant = 1, .session = 5}, ids, {used[0], used[1]}, true, kWeights, ++now);
  // One tenant's sequence still uses its first page.
  for (const PageId page : {used[3], used[2], used[1]}) {
    pool.Drop(page);
    cache.BecameIdle(page, ++now);
  }
  cache.ForgetTenant(1);
  EXPECT_TRUE(cache.Match(1, kWeights, ids).empty());
  EXPECT_EQ(cache.MatchSession({.tenant = 1, .session = 5}, PolicyId::kMain, ids).tokens, 0);
  EXPECT_EQ(cache.Match(2, kWeights, ids).size(), 2u);
  EXPECT_EQ(pool.used(), 1u);
  EXPECT_EQ(pool.idle(), 2u) << "those of the other tenant";
  pool.Drop(used[0]);
  cache.BecameIdle(used[0], ++now);
  EXPECT_EQ(pool.free(), 6u);
}

TEST(PrefixCache, APolicyFindsNeitherPagesNorSessionsOfAnotherWithTheSameVersion) {
  PagePool pool(4);
  PrefixCache cache(pool, 1);
  const PolicyVersion other{.policy = PolicyId{3}, .version = kWeights.version};
  std::vector<TokenId> ids(kPageSlots);
  std::iota(ids.begin(), ids.end(), 10);
  const PageId page = pool.Take();
  cache.Publish(1, kWeights, -1, ids, page);
  cache.Retain({.tenant = 1, .session = 5}, ids, {page}, true, kWeights, 1);
  EXPECT_TRUE(cache.Match(1, other, ids).empty());
  EXPECT_EQ(cache.MatchSession({.tenant = 1, .session = 5}, other.policy, ids).tokens, 0);
  cache.ForgetWeights(other);
  cache.ForgetSessions(other.policy);
  EXPECT_EQ(cache.Match(1, kWeights, ids).size(), 1u);
  EXPECT_EQ(cache.MatchSession({.tenant = 1, .session = 5}, PolicyId::kMain, ids).tokens,
            kPageSlots);
  cache.ForgetSessions(PolicyId::kMain);
  EXPECT_EQ(cache.MatchSession({.tenant = 1, .session = 5}, PolicyId::kMain, ids).tokens, 0);
}

}  // namespace
}  // namespace tidemill

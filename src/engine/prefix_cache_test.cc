#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tidemill {
namespace {

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
      before = cache.Publish(tenant, 7, before, std::span(ids).subspan(i * kPageSlots, kPageSlots),
                             page);
      used.push_back(page);
    }
  }
  cache.Retain({.tenant = 1, .session = 5}, ids, {used[0], used[1]}, true, 7, ++now);
  // One tenant's sequence still uses its first page.
  for (const PageId page : {used[3], used[2], used[1]}) {
    pool.Drop(page);
    cache.BecameIdle(page, ++now);
  }
  cache.ForgetTenant(1);
  EXPECT_TRUE(cache.Match(1, 7, ids).empty());
  EXPECT_EQ(cache.MatchSession({.tenant = 1, .session = 5}, ids).tokens, 0);
  EXPECT_EQ(cache.Match(2, 7, ids).size(), 2u);
  EXPECT_EQ(pool.used(), 1u);
  EXPECT_EQ(pool.idle(), 2u) << "those of the other tenant";
  pool.Drop(used[0]);
  cache.BecameIdle(used[0], ++now);
  EXPECT_EQ(pool.free(), 6u);
}

}  // namespace
}  // namespace tidemill

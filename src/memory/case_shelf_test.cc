#include "memory/case_shelf.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tasks/case_record.h"
#include "testing/memory_samples.h"

namespace tidemill {
namespace {

v1::CaseRecord OfSession(uint64_t session, uint32_t turn, const std::string& tenant,
                         const std::string& prompt, const std::string& answer, double reward = 1) {
  v1::CaseRecord record = SampleRecord(session, turn, prompt, answer, reward > 0);
  record.mutable_id()->set_task("session-" + std::to_string(session));
  record.set_reward(reward);
  record.set_group_members(1);
  record.set_scope(TenantScope(tenant));
  record.set_tenant(tenant);
  record.set_session(session);
  return record;
}

std::vector<std::string> Answers(const CaseShelf& shelf, const std::string& tenant,
                                 const std::string& prompt = "sort the list",
                                 Retrieval how = Retrieval::kLexical) {
  std::vector<std::string> answers;
  for (const v1::ShownCase& one : shelf.Look({.tenant = tenant, .prompt = prompt, .how = how})) {
    answers.push_back(one.answer());
  }
  return answers;
}

std::string DigestOf(const CaseShelf& shelf) {
  return shelf.With([](const CaseBank& bank) { return bank.Digest(); });
}

TEST(TenantScope, NoTaskReachesIt) {
  v1::Task task;
  task.add_tags("scope:tenant:ann");
  EXPECT_NE(ScopeOf(task), TenantScope("ann"));
  task.set_tags(0, "scope:here");
  EXPECT_EQ(ScopeOf(task), "here");
  v1::CaseRecord record = OfSession(1, 1, "ann", "p", "a");
  EXPECT_TRUE(InItsScope(record));
  record.set_scope(TenantScope("bob"));
  EXPECT_FALSE(InItsScope(record));
  record.set_scope("here");
  EXPECT_FALSE(InItsScope(record));
  v1::CaseRecord of_task = SampleRecord(1, 0, "p", "a", true);
  EXPECT_TRUE(InItsScope(of_task));
  of_task.set_scope(TenantScope("ann"));
  EXPECT_FALSE(InItsScope(of_task));
}

// Whatever was learned in whatever order, with names chosen to be taken for one another.
TEST(CaseShelf, NoTenantIsEverShownACaseOfAnother) {
  const std::vector<std::string> tenants = {"a", "A", "a ", "tenant:a", "a\"", "ab", "*"};
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    Random random(seed);
    CaseShelf shelf({.capacity = 60});
    size_t seen = 0;
    for (uint64_t number = 1; number <= 150; ++number) {
      const std::string& tenant = tenants[random.Below(tenants.size())];
      const std::string prompt = random.Chance(0.5) ? "sort the list" : "walk the tree";
      shelf.Apply(number, OfSession(number, 1, tenant, prompt,
                                    "of " + tenant + " " + std::to_string(random.Below(5)),
                                    random.Chance(0.7) ? 1 : -1));
      for (const std::string& asks : tenants) {
        for (const Retrieval how : {Retrieval::kLexical, Retrieval::kHidden, Retrieval::kNewest,
                                    Retrieval::kRandom, Retrieval::kLearned}) {
          for (const std::string& answer : Answers(shelf, asks, "sort the list", how)) {
            ASSERT_EQ(answer.substr(0, answer.size() - 2), "of " + asks);
            ++seen;
          }
        }
      }
    }
    EXPECT_GT(seen, 1000u);
  }
}

TEST(CaseShelf, EveryRetrievalFindsATenantsOwnCase) {
  CaseShelf shelf({});
  shelf.Apply(1, OfSession(7, 1, "ann", "sort the list", "quickly", 1));
  for (const Retrieval how : {Retrieval::kLexical, Retrieval::kHidden, Retrieval::kNewest,
                              Retrieval::kRandom, Retrieval::kLearned}) {
    EXPECT_EQ(Answers(shelf, "ann", "sort the list", how).size(), 1u) << static_cast<int>(how);
  }
}

TEST(CaseShelf, TheNewestWordOnATurnCounts) {
  CaseShelf shelf({});
  shelf.Apply(1, OfSession(7, 2, "ann", "sort the list", "quickly", 1));
  shelf.Apply(2, OfSession(7, 4, "ann", "sort the list", "slowly", 1));
  EXPECT_EQ(Answers(shelf, "ann").size(), 2u);
  shelf.Apply(3, OfSession(7, 2, "ann", "sort the list", "quickly", -1));
  const auto shown = shelf.Look({.tenant = "ann", .prompt = "sort the list"});
  ASSERT_EQ(shown.size(), 2u);
  for (const v1::ShownCase& one : shown) EXPECT_EQ(one.solved(), one.answer() == "slowly");
}

TEST(CaseShelf, AWordThatIsTakenBackLeavesTheCopiesOfOthers) {
  CaseShelf shelf({});
  shelf.Apply(1, OfSession(7, 1, "ann", "sort the list", "quickly", 1));
  shelf.Apply(2, OfSession(8, 1, "ann", "sort the list", "quickly", 1));
  shelf.Apply(3, OfSession(7, 1, "ann", "sort the list", "quickly", -1));
  shelf.With([](const CaseBank& bank) {
    ASSERT_NE(bank.Find(1), nullptr);
    EXPECT_EQ(bank.Find(1)->copies, 1u);
    ASSERT_NE(bank.Find(3), nullptr);
    EXPECT_FALSE(bank.Find(3)->record.solved());
  });
  // Now the other one, too.
  shelf.Apply(4, OfSession(8, 1, "ann", "sort the list", "quickly", -1));
  shelf.With([](const CaseBank& bank) {
    EXPECT_EQ(bank.Find(1), nullptr);
    EXPECT_EQ(bank.Find(3)->copies, 2u);
  });
}

TEST(CaseShelf, ADeletionLeavesTheBankThatTheNextProcessHas) {
  CaseShelf shelf({});
  std::vector<CasesState::Learned> rows;
  for (uint64_t number = 1; number <= 40; ++number) {
    const uint64_t session = 1 + number % 5;
    rows.push_back({number, OfSession(session, static_cast<uint32_t>(number), "ann", "sort a list",
                                      "answer " + std::to_string(number), number % 3 ? 1 : -1)});
    shelf.Apply(number, rows.back().record);
  }
  std::erase_if(rows, [](const auto& one) { return one.record.session() == 2; });
  const auto erased = shelf.Erase({2}, [&]() -> Result<std::vector<CasesState::Learned>> {
    // On their way to the bank while the database is read.
    shelf.Apply(41, OfSession(2, 90, "ann", "sort a list", "deleted", 1));
    shelf.Apply(42, OfSession(3, 91, "ann", "sort a list", "kept", 1));
    rows.push_back({42, OfSession(3, 91, "ann", "sort a list", "kept", 1)});
    return rows;
  });
  ASSERT_TRUE(erased.ok());
  EXPECT_EQ(*erased, 8u);
  shelf.Apply(43, OfSession(2, 92, "ann", "sort a list", "late", 1));
  CaseShelf next({});
  for (const auto& one : rows) next.Apply(one.number, one.record);
  EXPECT_EQ(DigestOf(shelf), DigestOf(next));
}

TEST(CaseShelf, WithoutTheDatabaseNothingDeletedIsShown) {
  CaseShelf shelf({});
  shelf.Apply(1, OfSession(7, 1, "ann", "sort the list", "quickly", 1));
  const auto erased = shelf.Erase({7}, [] {
    return Result<std::vector<CasesState::Learned>>(Unavailable("the disk is away"));
  });
  EXPECT_EQ(erased.status().code(), Code::kUnavailable);
  EXPECT_TRUE(Answers(shelf, "ann").empty());
}

TEST(CaseShelf, NobodyWaitsForABankThatIsBusy) {
  CaseShelf shelf({});
  shelf.Apply(1, OfSession(7, 1, "ann", "sort the list", "quickly", 1));
  std::vector<std::string> while_busy = {"not asked"};
  shelf.With([&](const CaseBank&) {
    std::thread worker([&] { while_busy = Answers(shelf, "ann"); });
    worker.join();  // comes back although the bank stays busy
  });
  EXPECT_TRUE(while_busy.empty());
  EXPECT_EQ(Answers(shelf, "ann").size(), 1u);
}

}  // namespace
}  // namespace tidemill

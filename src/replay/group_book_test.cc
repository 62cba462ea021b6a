#include "replay/group_book.h"

#include <gmock/gmock.h>

#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;

// Awaits members until it is told of them.
class Work final : public MemberWork {
 public:
  bool Awaits(const ReplayMember& member) const override {
    return !known.contains(member.trajectory.id().member());
  }
  void Buffered(const ReplayGroup&) override { ++buffered; }
  void Forget(uint64_t group, const ReplayMember&) override { forgotten.push_back(group); }

  std::set<uint32_t> known;
  std::vector<uint64_t> forgotten;
  int buffered = 0;
};

class GroupBookTest : public ReplayTest {
 protected:
  GroupBookTest() {
    book_of_.Add(first_);
    book_of_.Add(second_);
  }
  ReplayMember& Put(uint32_t member, double reward) {
    ReplayMember& put = book_of_.Put(Episode(7, member, 1));
    put.verdict.emplace().set_reward(reward);
    put.verdict->set_scored(true);
    return put;
  }
  std::vector<v1::GroupReport> Told() {
    outbox_.Flush(clock_.Now());
    return Reports();
  }

  ReplayCounters counters_;
  Outbox outbox_{bus_};
  ReplayWriter writer_{bus_, store_, outbox_, options_, counters_};
  GroupBook book_of_{writer_, options_, counters_};
  Work first_, second_;
};

TEST_F(GroupBookTest, AGroupIsCompleteWhenNoPartAwaitsAMemberAnyMore) {
  Put(0, 0);
  first_.known = second_.known = {0, 1};
  book_of_.CompleteIfDone(7);
  EXPECT_TRUE(Told().empty()) << "a member is missing";
  Put(1, 1);
  second_.known = {0};
  book_of_.CompleteIfDone(7);
  EXPECT_TRUE(Told().empty()) << "one part awaits a member";
  second_.known = {0, 1};
  book_of_.CompleteIfDone(7);
  book_of_.CompleteIfDone(7);
  const std::vector<v1::GroupReport> reports = Told();
  ASSERT_EQ(reports.size(), 1u) << "it is complete once";
  EXPECT_EQ(reports[0].accepted(), 2u);
  EXPECT_DOUBLE_EQ(reports[0].reward_sum(), 1);
  EXPECT_TRUE(book_of_.BufferOf(PolicyId::kMain).Contains(7));
  EXPECT_EQ(first_.buffered, 1);
}

TEST_F(GroupBookTest, WhoIsStaleIsNotAwaitedAndItsGroupIsAttemptedAgain) {
  book_of_.MarkStale(Put(0, 0), Failure::kUnscorable, "no box");
  ReplayMember& given_up = Put(1, 1);
  given_up.trajectory.set_failure("engine");
  given_up.trajectory.set_stale_cause("engine: no memory");
  book_of_.MarkGivenUp(given_up);
  book_of_.MarkGivenUp(given_up);
  book_of_.CompleteIfDone(7);
  const std::vector<v1::GroupReport> reports = Told();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].dropped(), 2u);
  EXPECT_EQ(reports[0].reason(), "stale");
  EXPECT_TRUE(reports[0].reissue());
  EXPECT_EQ(book_of_.Find(7), nullptr);
  EXPECT_THAT(first_.forgotten, ElementsAre(7, 7));
  EXPECT_EQ(counters_.stale, 2u);
  EXPECT_EQ(counters_.stale_by_kind.of(Failure::kUnscorable), 1u);
  EXPECT_EQ(counters_.stale_by_kind.of(Failure::kEngine), 1u);
}

TEST_F(GroupBookTest, EqualRewardsTeachNothingAndAreNotAttemptedAgain) {
  first_.known = second_.known = {0, 1};
  Put(0, 1), Put(1, 1);
  book_of_.CompleteIfDone(7);
  const std::vector<v1::GroupReport> reports = Told();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].reason(), "zero_variance");
  EXPECT_FALSE(reports[0].reissue());
  EXPECT_EQ(store_.fates.at(0), "zero_variance");
}

}  // namespace
}  // namespace tidemill

// The autoscaler on a virtual clock, over a fleet and processes that only the test knows.
#include "scale/autoscaler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/random.h"
#include "core/topics.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using std::chrono::seconds;

class FakeFleet final : public FleetPort {
 public:
  void Ask() override { reports_.Post(next); }
  Mailbox<FleetReport>& reports() override { return reports_; }
  FleetReport next;

 private:
  Mailbox<FleetReport> reports_{1};
};

class FakeBackend final : public WorkerBackend {
 public:
  void Start(uint64_t id) override {
    running.insert(id);
    events_.Post({.id = id, .name = Name(id)});
  }
  void Drain(uint64_t id) override { draining.insert(id); }
  Mailbox<BackendEvent>& events() override { return events_; }

  static std::string Name(uint64_t id) { return "own-" + std::to_string(id); }
  void End(uint64_t id, Status status = Ok()) {
    running.erase(id);
    draining.erase(id);
    events_.Post({.id = id, .ended = true, .status = std::move(status)});
  }
  void EndDraining() {
    for (const uint64_t id : std::set<uint64_t>(draining)) End(id);
  }

  std::set<uint64_t> running, draining;

 private:
  Mailbox<BackendEvent> events_{1000};
};

class AutoscalerTest : public testing::Test {
 protected:
  AutoscalerTest() {
    options_.rule = {.min = 1, .max = 6, .target_wait = seconds(1), .cool_down = seconds(30)};
  }

  Autoscaler& Scaler() {
    if (!scaler_) {
      scaler_ = std::make_unique<Autoscaler>(fleet_, advice_ ? nullptr : &backend_, options_);
      scaler_->Attach(waker_);
    }
    return *scaler_;
  }

  // A second of the loop's life with this much on tools.run_tests; the roster shows what runs.
  void Second(uint64_t ready, uint64_t leased) {
    fleet_.next.topics = {{std::string(kToolsTestsTopic), ready, leased}};
    fleet_.next.workers = foreign_;
    for (const uint64_t id : backend_.running) {
      fleet_.next.workers.push_back(
          {.name = FakeBackend::Name(id), .leaving = backend_.draining.count(id) != 0});
    }
    const Time until = now_ + seconds(1);
    while (now_ < until) {
      (void)Scaler().Step(now_);
      (void)Scaler().Step(now_);  // the answer is there at once
      now_ += milliseconds(250);
    }
  }
  size_t Working() const { return backend_.running.size() - backend_.draining.size(); }

  FakeFleet fleet_;
  FakeBackend backend_;
  QuietWaker waker_;
  AutoscalerOptions options_;
  std::vector<ToolWorkerState> foreign_;
  bool advice_ = false;
  Time now_ = Time(seconds(100));
  std::unique_ptr<Autoscaler> scaler_;
};

TEST_F(AutoscalerTest, StartsTheMinimumFollowsTheLoadAndDrainsAfterTheCoolDown) {
  Second(0, 0);
  EXPECT_EQ(Working(), 1u);
  Second(4, 1);
  EXPECT_EQ(Working(), 6u) << "4 waiting calls of a second, one running at 90 %";
  Second(1000, 6);
  EXPECT_EQ(Working(), 6u) << "not over the maximum";
  for (int i = 0; i < 29; ++i) Second(0, 0);
  EXPECT_EQ(Working(), 6u);
  for (int i = 0; i < 3; ++i) Second(0, 0);
  EXPECT_EQ(Working(), 1u);
  EXPECT_EQ(backend_.draining.size(), 5u) << "told to leave, not ended";
  EXPECT_EQ(backend_.draining.count(1), 0u) << "the newest go first";
  backend_.EndDraining();
  Second(0, 0);
  EXPECT_EQ(Scaler().counters().drained, 5u);
  EXPECT_EQ(Scaler().counters().failed, 0u);
}

TEST_F(AutoscalerTest, WorkersThatOthersStartedCount) {
  foreign_ = {{.name = "theirs-1"}, {.name = "theirs-2"}};
  Second(0, 0);
  EXPECT_EQ(Working(), 0u);
  Second(4, 0);
  EXPECT_EQ(Working(), 2u);
  EXPECT_EQ(Scaler().counters().foreign, 2u);
  foreign_[0].leaving = true;
  Second(4, 0);
  EXPECT_EQ(Working(), 3u);
}

TEST_F(AutoscalerTest, WithoutABackendItOnlyAdvises) {
  advice_ = true;
  foreign_ = {{.name = "theirs-1"}};
  Second(5, 0);
  EXPECT_EQ(Scaler().counters().wanted, 5u);
  EXPECT_TRUE(backend_.running.empty());
}

TEST_F(AutoscalerTest, TheObservedServiceTimeDecides) {
  foreign_ = {{.name = "theirs", .slots = 1}};
  // Calls of 10 ms: 40 of them wait less than a second for one slot.
  for (int i = 0; i < 40; ++i) {
    foreign_[0].busy_seconds += 1;
    foreign_[0].completed += 100;
    Second(0, 1);
  }
  EXPECT_NEAR(static_cast<double>(Scaler().counters().service_us), 10'000, 500);
  now_ += seconds(60);
  Second(0, 0);
  Second(0, 0);
  Second(40, 0);
  EXPECT_EQ(Scaler().counters().wanted, 1u) << "calls of a second would have asked for all six";
}

TEST_F(AutoscalerTest, AWorkerThatDiesIsReplacedAndOnesThatFailAtOnceAreTriedLessAndLess) {
  options_.rule.max = 1;
  Second(0, 0);
  ASSERT_EQ(backend_.running.size(), 1u);
  backend_.End(*backend_.running.begin(), Internal("signal 9 ended it"));
  Second(0, 0);
  Second(0, 0);
  EXPECT_EQ(backend_.running.size(), 1u) << "again after a second";
  size_t starts = 0;
  for (int i = 0; i < 300; ++i) {
    if (!backend_.running.empty()) {
      ++starts;
      backend_.End(*backend_.running.begin(), Internal("it exited with status 2"));
    }
    Second(0, 0);
  }
  EXPECT_GE(starts, 6u);
  EXPECT_LE(starts, 12u) << "1, 2, 4, .. 60 s between tries";
  EXPECT_EQ(Scaler().counters().failed, starts + 1);
}

TEST_F(AutoscalerTest, WhenTheQueuesCannotBeSeenNothingChanges) {
  Second(3, 0);
  ASSERT_EQ(Working(), 3u);
  fleet_.next.status = Unavailable("redis is away");
  for (int i = 0; i < 100; ++i) Second(0, 0);
  EXPECT_EQ(Working(), 3u);
  fleet_.next.status = Ok();
  for (int i = 0; i < 2; ++i) Second(0, 0);
  EXPECT_EQ(Working(), 1u);
}

TEST_F(AutoscalerTest, DrainTellsEveryWorkerToLeaveAndWaitsForThem) {
  Second(4, 0);
  ASSERT_EQ(Working(), 4u);
  Scaler().Drain();
  Second(100, 0);
  EXPECT_EQ(backend_.draining.size(), 4u);
  EXPECT_EQ(backend_.running.size(), 4u) << "nothing new is started";
  EXPECT_FALSE(Scaler().Drained());
  backend_.EndDraining();
  Second(0, 0);
  EXPECT_TRUE(Scaler().Drained());
}

TEST_F(AutoscalerTest, StaysBetweenMinimumAndMaximumWhateverHappens) {
  options_.rule.min = 2;
  options_.rule.max = 5;
  Random random(7);
  for (int i = 0; i < 5000; ++i) {
    if (random.Below(10) == 0 && !backend_.draining.empty()) {
      backend_.End(*backend_.draining.begin());
    }
    if (random.Below(50) == 0 && !backend_.running.empty()) {
      const uint64_t dies = *backend_.running.begin();
      backend_.End(dies, Internal("signal 9 ended it"));
    }
    Second(random.Below(3) == 0 ? random.Below(50) : 0, random.Below(8));
    ASSERT_LE(Working(), 5u) << "second " << i;
    ASSERT_LE(Scaler().counters().wanted, 5u);
    ASSERT_GE(Scaler().counters().wanted, 2u);
  }
}

}  // namespace
}  // namespace tidemill

#include "core/loop_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <future>
#include <stdexcept>

namespace tidemill {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A loop whose behaviour is given in the test. Everything but the functions is touched by its
// thread only.
class TestLoop : public Loop {
 public:
  explicit TestLoop(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  void Attach(Waker& waker) override {
    if (on_attach) on_attach();
    this->waker = &waker;
  }
  Time Step(Time now) override { return on_step ? on_step(now) : kNever; }
  void Drain() override {
    draining = true;
    if (on_drain) on_drain();
  }
  bool Drained() const override { return drained ? drained() : true; }

  std::function<void()> on_attach;
  std::function<Time(Time)> on_step;
  std::function<void()> on_drain;
  std::function<bool()> drained;
  Waker* waker = nullptr;
  bool draining = false;

 private:
  std::string name_;
};

// Waits until told; a test that is never told fails instead of hanging.
class Gate {
 public:
  void Open() {
    if (!open_.exchange(true)) promise_.set_value();
  }
  bool Wait() { return future_.wait_for(seconds(30)) == std::future_status::ready; }

 private:
  std::atomic<bool> open_{false};
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

TEST(LoopRunner, EveryLoopHasAThreadOfItsName) {
  TestLoop a("rollout"), b("a-name-longer-than-fifteen");
  Gate seen_a, seen_b;
  std::string name_a, name_b;
  auto note = [](std::string& name, Gate& gate) {
    return [&](Time) {
      char buffer[32] = "";
      pthread_getname_np(pthread_self(), buffer, sizeof buffer);
      name = buffer;
      gate.Open();
      return kNever;
    };
  };
  a.on_step = note(name_a, seen_a);
  b.on_step = note(name_b, seen_b);
  LoopRunner runner;
  runner.Add(a);
  runner.Add(b);
  ASSERT_TRUE(runner.Start().ok());
  ASSERT_TRUE(seen_a.Wait() && seen_b.Wait());
  ASSERT_TRUE(runner.Stop().ok());
  EXPECT_EQ(name_a, "rollout");
  EXPECT_EQ(name_b, "a-name-longer-t");
}

TEST(LoopRunner, AWakeFromAnyThreadLeadsToAStep) {
  TestLoop loop("replay");
  std::atomic<int> posted{0}, seen{0};
  constexpr int kThreads = 4, kPosts = 2000;
  Gate all;
  loop.on_step = [&](Time) {
    seen = posted.load();
    if (seen == kThreads * kPosts) all.Open();
    return kNever;
  };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        ++posted;
        loop.waker->Wake();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all.Wait()) << "a wake was lost: saw " << seen << " of " << posted;
  EXPECT_TRUE(runner.Stop().ok());
}

TEST(LoopRunner, ALoopIsSteppedAtTheTimeItAskedFor) {
  TestLoop loop("timer");
  Gate fired;
  Time asked{};
  bool early = false;
  loop.on_step = [&](Time now) {
    if (asked == Time{}) return asked = now + milliseconds(3);
    early = now < asked;
    fired.Open();
    return kNever;
  };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  ASSERT_TRUE(fired.Wait());
  ASSERT_TRUE(runner.Stop().ok());
  EXPECT_FALSE(early);
}

TEST(LoopRunner, ALoopThatHasMoreToDoIsSteppedAgainAtOnce) {
  TestLoop loop("eager");
  Gate done;
  int steps = 0;
  loop.on_step = [&](Time now) {
    if (++steps < 100) return now;
    done.Open();
    return kNever;
  };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  ASSERT_TRUE(done.Wait());
  ASSERT_TRUE(runner.Stop().ok());
  EXPECT_EQ(steps, 100);
  EXPECT_EQ(runner.Usage()[0].steps, 100u);
}

// The loop would sleep for an hour: how long Stop takes beyond that depends on the machine's load.
TEST(LoopRunner, StopWakesLoopsThatWait) {
  TestLoop idle("idle"), far("far");
  far.on_step = [](Time now) { return now + std::chrono::hours(1); };
  LoopRunner runner;
  runner.Add(idle);
  runner.Add(far);
  ASSERT_TRUE(runner.Start().ok());
  EXPECT_FALSE(runner.WaitFor(Duration::zero()));
  ASSERT_TRUE(runner.Stop().ok());
  EXPECT_TRUE(runner.WaitFor(Duration::zero()));
}

TEST(LoopRunner, StopDoesNotDrain) {
  TestLoop loop("busy");
  loop.drained = [] { return false; };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  EXPECT_TRUE(runner.Stop().ok());
  EXPECT_FALSE(loop.draining);
}

// `first` holds three pieces of work and hands each to `second`; both must have finished at the
// end, although `second` is drained from the beginning.
TEST(LoopRunner, DrainGoesOnUntilNoLoopCanGetWorkFromAnother) {
  TestLoop first("first"), second("second");
  int held = 3;
  std::atomic<int> handed{0};
  int finished = 0;
  first.on_step = [&](Time now) {
    if (!first.draining || held == 0) return kNever;
    --held;
    ++handed;
    second.waker->Wake();
    return now;
  };
  first.drained = [&] { return held == 0; };
  second.on_step = [&](Time) {
    finished = handed.load();
    return kNever;
  };
  LoopRunner runner;
  runner.Add(first);
  runner.Add(second);
  ASSERT_TRUE(runner.Start().ok());
  const Status status = runner.Drain(seconds(30));
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(finished, 3);
}

TEST(LoopRunner, DrainWaitsForWhatAPortStillOwes) {
  TestLoop loop("tools");
  std::atomic<bool> answered{false};
  Gate draining;
  loop.on_drain = [&] { draining.Open(); };
  loop.drained = [&] { return answered.load(); };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  runner.RequestDrain(seconds(30));
  ASSERT_TRUE(draining.Wait());
  EXPECT_FALSE(runner.WaitFor(Duration::zero()));
  answered = true;
  loop.waker->Wake();
  EXPECT_TRUE(runner.Wait().ok());
}

TEST(LoopRunner, PatienceEndsAndTheLoopThatHeldWorkIsNamed) {
  TestLoop slow("learner"), quick("replay");
  slow.drained = [] { return false; };
  LoopRunner runner;
  runner.Add(slow);
  runner.Add(quick);
  ASSERT_TRUE(runner.Start().ok());
  const Status status =
      runner.Drain(milliseconds(1000));  // the quick one drains in time even on a busy machine
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(), "not drained in time: learner");
}

TEST(LoopRunner, ALoopThatThrowsIsNamedAndTheOthersAreDrained) {
  TestLoop broken("reward"), other("rollout");
  broken.on_step = [](Time) -> Time { throw std::runtime_error("no scorer is left"); };
  int left = 5;
  other.on_step = [&](Time now) {
    if (other.draining && left > 0) --left;
    return other.draining && left > 0 ? now : kNever;
  };
  other.drained = [&] { return left == 0; };
  LoopRunner runner({.failure_patience = seconds(30)});
  runner.Add(broken);
  runner.Add(other);
  ASSERT_TRUE(runner.Start().ok());
  const Status status = runner.Wait();
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "loop \"reward\" failed: no scorer is left");
  EXPECT_EQ(left, 0);
}

TEST(LoopRunner, AFailureDoesNotWaitForeverForTheOthers) {
  TestLoop broken("reward"), stuck("rollout");
  broken.on_step = [](Time) -> Time { throw 3; };
  stuck.drained = [] { return false; };
  LoopRunner runner({.failure_patience = milliseconds(5)});
  runner.Add(broken);
  runner.Add(stuck);
  ASSERT_TRUE(runner.Start().ok());
  EXPECT_THAT(runner.Wait().message(), HasSubstr("loop \"reward\" failed: something"));
}

TEST(LoopRunner, ALoopMayEndTheRunItself) {
  TestLoop loop("learner");
  LoopRunner runner;
  loop.on_step = [&](Time) {
    runner.RequestDrain(seconds(30));
    return kNever;
  };
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
  EXPECT_TRUE(runner.Wait().ok());
  EXPECT_TRUE(loop.draining);
}

TEST(LoopRunner, ALoopThatCannotAttachKeepsTheRunFromStarting) {
  TestLoop good("bus"), bad("tools");
  std::atomic<int> steps{0};
  good.on_step = [&](Time) { return ++steps, kNever; };
  bad.on_attach = [] { throw std::runtime_error("no such topic"); };
  LoopRunner runner;
  runner.Add(good);
  runner.Add(bad);
  EXPECT_EQ(runner.Start().message(), "loop \"tools\" could not start: no such topic");
  EXPECT_EQ(steps, 0);
}

TEST(LoopRunner, TheTimeInsideStepsIsMeasured) {
  TestLoop busy("busy"), idle("idle");
  Gate done;
  busy.on_step = [&](Time now) {
    while (std::chrono::steady_clock::now() < now + milliseconds(20)) {
    }
    done.Open();
    return kNever;
  };
  LoopRunner runner;
  runner.Add(busy);
  runner.Add(idle);
  ASSERT_TRUE(runner.Start().ok());
  ASSERT_TRUE(done.Wait());
  ASSERT_TRUE(runner.Stop().ok());
  const std::vector<LoopUsage> usage = runner.Usage();
  EXPECT_GE(usage[0].busy, milliseconds(20));
  EXPECT_GE(usage[0].longest_step, milliseconds(20));
  EXPECT_LT(usage[1].busy, usage[0].busy);
}

TEST(LoopRunner, ARunnerThatGoesAwayStopsItsLoops) {
  TestLoop loop("loop");
  loop.drained = [] { return false; };
  LoopRunner runner;
  runner.Add(loop);
  ASSERT_TRUE(runner.Start().ok());
}

}  // namespace
}  // namespace tidemill

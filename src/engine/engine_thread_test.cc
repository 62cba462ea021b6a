// The thread around an engine, with an engine that only counts.
#include <gtest/gtest.h>

#include <optional>

#include <map>
#include <set>

#include "core/mutex.h"
#include "engine/engine_port.h"
#include "testing/number_weights.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

// A turn takes as many steps as it may have tokens; every token is 7. A prompt of {13} breaks the
// step.
class CountingEngine final : public Engine {
 public:
  explicit CountingEngine(uint64_t version) { stats_.version = version; }

  Status Add(SequenceStart start) override {
    if (start.prompt.empty()) return Invalid("empty");
    if (!sequences_.insert(start.id).second) return Exists("twice");
    broken_ |= start.prompt == std::vector<TokenId>{13};
    Begin(start.id, start.turn);
    return Ok();
  }
  Status Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override {
    if (!sequences_.contains(id)) return NotFound("no such sequence");
    if (append.size() > 100) return Invalid("does not fit");
    Begin(id, turn);
    return Ok();
  }
  Status Release(SequenceId id) override {
    turns_.erase(id);
    return sequences_.erase(id) > 0 ? Ok() : NotFound("no such sequence");
  }
  Result<std::vector<TurnOutput>> Step() override {
    if (std::exchange(broken_, false)) return Internal("broken");
    ++stats_.steps;
    std::vector<TurnOutput> finished;
    for (auto it = turns_.begin(); it != turns_.end();) {
      TurnOutput& turn = it->second.output;
      turn.ids.push_back(7);
      turn.versions.push_back({.version = stats_.version, .tokens = 1});
      if (static_cast<int32_t>(turn.ids.size()) < it->second.length) {
        ++it;
        continue;
      }
      finished.push_back(std::move(turn));
      it = turns_.erase(it);
    }
    return finished;
  }
  bool Work() const override { return !turns_.empty(); }
  struct Nothing final : ReadyWeights {};
  Result<std::shared_ptr<ReadyWeights>> Prepare(std::shared_ptr<const Weights>) const override {
    ++prepared;
    MutexLock lock(slow);  // a test holds it
    return std::shared_ptr<ReadyWeights>(std::make_shared<Nothing>());
  }
  Status SwapReady(ReadyWeights&, PolicyVersion version, CacheOnSwap) override {
    if (version.version == 666) return Invalid("a different shape");
    ++stats_.swaps;
    if (version.policy != PolicyId::kMain) return others_.insert(version.policy), Ok();
    stats_.version = version.version;
    return Ok();
  }
  Status DropPolicy(PolicyId policy) override {
    return others_.erase(policy) > 0 ? Ok() : NotFound("no such policy");
  }
  EngineStats Stats() const override { return stats_; }
  int32_t max_context() const override { return 1000; }

  inline static Mutex slow;
  inline static std::atomic<int> prepared = 0;

 private:
  struct Turn {
    TurnOutput output;
    int32_t length;
  };
  void Begin(SequenceId id, const TurnParams& turn) {
    Turn& t = turns_[id];
    t = {.output = {}, .length = turn.max_new_tokens};
    t.output.id = id;
  }
  std::set<SequenceId> sequences_;
  std::set<PolicyId> others_;
  std::map<SequenceId, Turn> turns_;
  EngineStats stats_;
  bool broken_ = false;
};

class EngineThreadTest : public testing::Test {
 protected:
  EngineThreadTest() { thread_.events().Attach(bell_); }

  std::map<SequenceId, EngineEvent> Await(size_t count) {
    std::map<SequenceId, EngineEvent> events;
    while (events.size() < count) {
      bell_.Wait();
      for (EngineEvent& event : thread_.events().TakeAll()) {
        const SequenceId id = event.turn.id;
        events[id] = std::move(event);
      }
    }
    return events;
  }
  static SequenceStart Start(SequenceId id, int32_t tokens, std::vector<TokenId> prompt = {1}) {
    return {.id = id, .prompt = std::move(prompt), .turn = {.max_new_tokens = tokens}};
  }
  static PublishedWeights Version(uint64_t version) { return NumberVersion(version); }

  RealClock clock_;
  Bell bell_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  EngineThread thread_{std::make_unique<CountingEngine>(1), *channel_, clock_, {}};
};

TEST_F(EngineThreadTest, EveryStartAndContinueIsAnsweredOnce) {
  for (SequenceId id = 1; id <= 50; ++id) thread_.Start(Start(id, static_cast<int32_t>(id)));
  auto events = Await(50);
  for (SequenceId id = 1; id <= 50; ++id) {
    ASSERT_TRUE(events.at(id).status.ok());
    EXPECT_EQ(events.at(id).turn.ids.size(), id);
  }
  thread_.Continue(7, {1, 2}, {.max_new_tokens = 3});
  events = Await(1);
  EXPECT_EQ(events.at(7).turn.ids.size(), 3u);
  thread_.Release(7);
  thread_.Continue(7, {}, {});
  EXPECT_EQ(Await(1).at(7).status.code(), Code::kNotFound);
}

TEST_F(EngineThreadTest, WhatCannotStartIsAnsweredWithTheReasonAndIsGone) {
  thread_.Start(Start(1, 3, {}));
  EXPECT_EQ(Await(1).at(1).status.code(), Code::kInvalid);
  thread_.Start(Start(2, 3));
  ASSERT_TRUE(Await(1).at(2).status.ok());
  thread_.Continue(2, std::vector<TokenId>(101), {});
  EXPECT_EQ(Await(1).at(2).status.code(), Code::kInvalid);
  thread_.Continue(2, {}, {});
  EXPECT_EQ(Await(1).at(2).status.code(), Code::kNotFound);
}

TEST_F(EngineThreadTest, AFailedStepTellsAllThatWaitAndLaterOnesGoOn) {
  // Both are in the engine before the step that breaks: the first never ends by itself.
  thread_.Start(Start(1, 1 << 30));
  thread_.Start(Start(2, 5, {13}));
  const auto events = Await(2);
  EXPECT_EQ(events.at(1).status.code(), Code::kInternal);
  EXPECT_EQ(events.at(2).status.code(), Code::kInternal);
  thread_.Start(Start(1, 2));
  EXPECT_TRUE(Await(1).at(1).status.ok());
}

TEST_F(EngineThreadTest, NewWeightsAreTakenBetweenTwoSteps) {
  EXPECT_EQ(thread_.version(), 1u);
  thread_.Start(Start(1, 1 << 30));
  ASSERT_TRUE(channel_->Publish(Version(4)).ok());
  while (thread_.version() != 4) std::this_thread::yield();
  thread_.Start(Start(2, 2));
  const EngineEvent event = Await(1).at(2);
  EXPECT_EQ(event.turn.versions.front().version, 4u);
  thread_.Release(1);
  // Also while there is nothing to do.
  ASSERT_TRUE(channel_->Publish(Version(5)).ok());
  while (thread_.version() != 5) std::this_thread::yield();
  while (thread_.Stats().swaps != 2) std::this_thread::yield();
}

TEST_F(EngineThreadTest, GenerationGoesOnWhileWeightsAreMadeReadyAndTheSwapIsWithoutThatWork) {
  const int before = CountingEngine::prepared;
  MutexLock slow(CountingEngine::slow);
  ASSERT_TRUE(channel_->Publish(Version(2)).ok());
  while (CountingEngine::prepared == before) std::this_thread::yield();
  for (SequenceId id = 1; id <= 5; ++id) {
    thread_.Start(Start(id, 100));
    EXPECT_EQ(Await(1).at(id).turn.versions.back().version, 1u);
  }
  ASSERT_TRUE(channel_->Publish(Version(3)).ok());
  slow.Unlock();
  while (thread_.version() != 3) std::this_thread::yield();
  EXPECT_EQ(CountingEngine::prepared, before + 2) << "2, then the newest";
}

TEST_F(EngineThreadTest, OneThatWaitsForWeightsDrawsNoTokenFromOlderOnes) {
  EngineThread waiting(std::make_unique<CountingEngine>(1), *channel_, clock_,
                       {.wait_for_weights = true});
  waiting.events().Attach(bell_);
  ASSERT_TRUE(channel_->Publish(Version(2)).ok());
  waiting.Start(Start(1, 3));
  bell_.Wait();
  const std::vector<EngineEvent> events = waiting.events().TakeAll();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].turn.versions.front().version, 2u);
}

TEST_F(EngineThreadTest, WeightsTheEngineRefusesLeaveTheOldOnes) {
  ASSERT_TRUE(channel_->Publish(Version(666)).ok());
  thread_.Start(Start(1, 3));
  const EngineEvent event = Await(1).at(1);
  EXPECT_EQ(event.turn.versions.back().version, 1u);
  EXPECT_EQ(thread_.version(), 1u);
}

// The answers to Publish and DropPolicy, in the order in which they come.
class Answers {
 public:
  std::function<void(Status)> Next() {
    return [this](Status status) {
      MutexLock lock(mutex_);
      codes_.push_back(status.code());
      came_.NotifyOne();
    };
  }
  Code Await(size_t index) {
    MutexLock lock(mutex_);
    came_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return codes_.size() > index; });
    return codes_[index];
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::vector<Code> codes_ TM_GUARDED_BY(mutex_);
};

TEST_F(EngineThreadTest, APolicyIsPublishedAndDroppedWhileOthersGenerate) {
  thread_.Start(Start(1, 1 << 30));
  const PolicyVersion first{.policy = PolicyId{2}, .version = 1};
  Answers answers;
  thread_.Publish(first, Version(1).weights, answers.Next());
  EXPECT_EQ(answers.Await(0), Code::kOk);
  thread_.Publish({.policy = PolicyId{2}, .version = 666}, Version(1).weights, answers.Next());
  EXPECT_EQ(answers.Await(1), Code::kInvalid);
  thread_.Publish({.policy = PolicyId::kMain, .version = 9}, Version(9).weights, answers.Next());
  EXPECT_EQ(answers.Await(2), Code::kInvalid) << "the main policy has its channel";
  thread_.DropPolicy(PolicyId{2}, answers.Next());
  EXPECT_EQ(answers.Await(3), Code::kOk);
  thread_.DropPolicy(PolicyId{2}, answers.Next());
  EXPECT_EQ(answers.Await(4), Code::kNotFound);
  EXPECT_EQ(thread_.version(), 1u);
  EXPECT_EQ(thread_.events().TakeAll().size(), 0u) << "the sequence still runs";
}

TEST_F(EngineThreadTest, APublicationThatTheEndOvertakesIsAnsweredToo) {
  std::optional<EngineThread> own(std::in_place, std::make_unique<CountingEngine>(1), *channel_,
                                  clock_, EngineThreadOptions{});
  Answers answers;
  {
    MutexLock slow(CountingEngine::slow);
    const int before = CountingEngine::prepared;
    own->Publish({.policy = PolicyId{1}, .version = 1}, Version(1).weights, answers.Next());
    own->Publish({.policy = PolicyId{2}, .version = 1}, Version(1).weights, answers.Next());
    while (CountingEngine::prepared == before) std::this_thread::yield();
  }
  own.reset();
  for (const size_t answer : {size_t{0}, size_t{1}}) {
    const Code code = answers.Await(answer);
    EXPECT_TRUE(code == Code::kOk || code == Code::kClosed);
  }
}

TEST_F(EngineThreadTest, BusyTimeGrowsWithWork) {
  thread_.Start(Start(1, 1000));
  Await(1);
  EXPECT_GT(thread_.busy().Busy(clock_.Now()).count(), 0);
  while (thread_.Stats().steps < 1000) std::this_thread::yield();
}

TEST_F(EngineThreadTest, StopsWhileASequenceRuns) {
  std::optional<EngineThread> own(std::in_place, std::make_unique<CountingEngine>(1), *channel_,
                                  clock_, EngineThreadOptions{});
  own->Start(Start(1, 1 << 30));
  while (own->Stats().steps == 0) std::this_thread::yield();
  EXPECT_EQ(own->events().TakeAll().size(), 0u) << "the sequence still runs";
  own.reset();  // returns within one step: a test that hangs here fails by its time limit
  EXPECT_FALSE(own.has_value());
}

}  // namespace
}  // namespace tidemill

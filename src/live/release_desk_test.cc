#include "live/release_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files.h"
#include "live/live_operator.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::UnorderedElementsAre;

// Holds what it is told while there is room, as BatchEngine does.
class HoldingEngine final : public EnginePort {
 public:
  void Start(SequenceStart) override {}
  void Continue(SequenceId, std::vector<TokenId>, TurnParams) override {}
  void Release(SequenceId) override {}
  void Hold(uint64_t, uint64_t as) override {
    if (stats.held.size() < room) stats.held.push_back(as);
  }
  void Unhold(uint64_t as) override { std::erase(stats.held, as); }
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  uint64_t version() const override { return 1; }
  EngineStats Stats() const override { return stats; }

  EngineStats stats;
  size_t room = 3;

 private:
  Mailbox<EngineEvent> events_{16};
  TurnFeed feed_;
};

class NumberStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    if (auto* put = std::get_if<PutRelease>(&op)) state = put->state;
    const bool reserves = std::holds_alternative<ReserveVersion>(op);
    events_.Post({tag, failure, reserves ? ++last : 0});
  }
  Mailbox<StoreDone>& events() override { return events_; }
  uint64_t last = 100;
  Status failure;
  v1::ReleaseState state;

 private:
  Mailbox<StoreDone> events_{16};
};

class SilentRecorder final : public TurnRecorder {
 public:
  Result<TurnPrompt> Prepare(const TurnQuestion&) override {
    TurnPrompt prompt;
    prompt.session = session++;
    return prompt;
  }
  void Finished(RecordedTurn, std::function<void(Status)> stored) override { stored(Ok()); }
  void Abandoned(RecordedTurn, TurnLoss, const Status&) override {}
  uint64_t session = 1;
};

class ReleaseDeskTest : public testing::Test {
 protected:
  static ReleaseStart Start(const std::string& file) {
    ReleaseStart start;
    start.options.canary_share = 1;
    start.options.canary_time = std::chrono::milliseconds(1000);
    start.options.canary_answers = 2;
    start.options.alarm_malformed = 0.5;
    start.options.gate_failures = 0;
    start.options.places = 4;
    start.every_steps = 10;
    start.file = file;
    return start;
  }
  void Pass(std::chrono::milliseconds time) {
    clock_.Advance(time);
    desk_.Step(clock_.Now());
    desk_.Tick();
  }
  // The version that a new session's request is pinned to, and its answer.
  uint64_t Ask(const WireJson& message = {{"role", "assistant"}, {"content", "yes"}},
               const std::map<std::string, std::string>& headers = {}) {
    const ChatRequest request;
    const Tenant tenant;
    const auto prompt = recorder_.Prepare({.request = request,
                                           .tenant = tenant,
                                           .headers = headers,
                                           .request_id = "r",
                                           .body_sha256 = "",
                                           .wall_ms = 0});
    RecordedTurn turn;
    turn.output.versions = {{prompt->pin_version.value_or(0), 3}};
    turn.message = message;
    recorder_.Finished(std::move(turn), [](const Status&) {});
    return prompt->pin_version.value_or(0);
  }
  void ToCanary(uint64_t version, uint64_t step) {
    desk_.Take(VersionMade{version, step});
    desk_.Take(StepEvaluated{step, 0.5});
    Pass(std::chrono::milliseconds(10));
  }

  TemporaryDirectory dir_;
  VirtualClock clock_;
  HoldingEngine engine_;
  NumberStore store_;
  ReleaseDesk desk_{Start(dir_ / "release.json"), engine_, store_, clock_};
  ReleasedRecorder recorder_{std::make_unique<SilentRecorder>(), desk_};
};

TEST_F(ReleaseDeskTest, ClientsGetACandidateAfterItsEvaluationAndItIsReleasedAfterTheCanary) {
  EXPECT_EQ(Ask(), 1u);
  desk_.Take(VersionMade{7, 9});
  desk_.Take(VersionMade{8, 10});
  Pass(std::chrono::milliseconds(10));
  EXPECT_THAT(engine_.stats.held, UnorderedElementsAre(1, 8)) << "step 9 is not evaluated";
  EXPECT_EQ(Ask(), 1u);
  desk_.Take(StepEvaluated{10, 0.5});
  Pass(std::chrono::milliseconds(10));
  EXPECT_EQ(Ask(), 8u);
  EXPECT_EQ(Ask(), 8u);
  Pass(std::chrono::milliseconds(1001));
  EXPECT_EQ(desk_.counters().released, 8u);
  const auto written =
      nlohmann::json::parse(*ReadFileBounded(dir_ / "release.json", 1 << 20), nullptr, false);
  EXPECT_EQ(written["released"]["version"], 8);
  EXPECT_EQ(Ask({}, {{"x-policy-version", "3"}}), 0u) << "a request's own pin is the gateway's";
}

TEST_F(ReleaseDeskTest, MalformedCallsEndACanary) {
  ToCanary(8, 10);
  const WireJson broken = {
      {"role", "assistant"},
      {"tool_calls", {{{"function", {{"name", "bash"}, {"arguments", "{not json"}}}}}}};
  for (int i = 0; i < 20; ++i) (void)Ask(broken);
  EXPECT_EQ(desk_.counters().candidate, 0u);
  EXPECT_EQ(Ask(), 1u);
  EXPECT_THAT(engine_.stats.held, UnorderedElementsAre(1, 8)) << "requests under way finish first";
  Pass(std::chrono::seconds(31));
  EXPECT_THAT(engine_.stats.held, UnorderedElementsAre(1));
}

TEST_F(ReleaseDeskTest, AnOperatorsRollbackServesOldWeightsUnderANumberOfTheStore) {
  ToCanary(8, 10);
  (void)Ask(), (void)Ask();
  Pass(std::chrono::milliseconds(1001));
  ASSERT_EQ(Ask(), 8u);
  const auto done = RollbackDeed(desk_)("{}");
  ASSERT_TRUE(done.ok()) << done.status().message();
  Pass(std::chrono::milliseconds(10));
  EXPECT_EQ(Ask(), 101u);
  EXPECT_EQ(RollbackDeed(desk_)(R"({"to": 5})").status().code(), Code::kNotFound);
  EXPECT_EQ(RollbackDeed(desk_)(R"({"to": "x"})").status().code(), Code::kInvalid);
}

TEST_F(ReleaseDeskTest, ACandidateThatTheEngineCannotHoldIsGivenUp) {
  engine_.room = 1;
  desk_.Take(VersionMade{8, 10});
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(desk_.counters().candidate, 8u);
  Pass(std::chrono::seconds(40));
  EXPECT_EQ(desk_.counters().candidate, 0u);
  EXPECT_EQ(Ask(), 1u);
}

TEST_F(ReleaseDeskTest, TheLearnerHearsWhatIsReleasedAndWhatToKeepAndOnlyWhenItChanges) {
  std::vector<ReleaseWish> wishes = desk_.wishes().TakeAll();
  ASSERT_EQ(wishes.size(), 1u);
  EXPECT_THAT(wishes[0].keep, UnorderedElementsAre(1));
  Pass(std::chrono::milliseconds(10));
  EXPECT_TRUE(desk_.wishes().TakeAll().empty());
  ToCanary(8, 10);
  (void)Ask(), (void)Ask();
  Pass(std::chrono::milliseconds(1001));
  wishes = desk_.wishes().TakeAll();
  ASSERT_FALSE(wishes.empty());
  EXPECT_EQ(wishes.back().step, 10u);
  EXPECT_THAT(wishes.back().keep, UnorderedElementsAre(1, 8));
  EXPECT_FALSE(wishes.back().set_back);
}

TEST_F(ReleaseDeskTest, TheStateIsStoredAndStoredAgainWhereTheDiskRefusedIt) {
  EXPECT_EQ(store_.state.released().version(), 1u);
  Pass(std::chrono::milliseconds(10));
  store_.failure = Unavailable("disk full");
  ToCanary(8, 10);
  store_.state.Clear();
  store_.failure = Ok();
  Pass(std::chrono::milliseconds(10));
  EXPECT_EQ(store_.state.events().rbegin()->what(), "canary");
  store_.state.Clear();
  Pass(std::chrono::milliseconds(10));
  EXPECT_FALSE(store_.state.has_released()) << "nothing changed";
}

}  // namespace
}  // namespace tidemill

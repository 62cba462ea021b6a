#include "live/guard_desk.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

nlohmann::json AlarmsOf(const GuardDesk& desk) {
  return nlohmann::json::parse(desk.Json())["alarms"];
}

void Say(GuardDesk& desk, const WireJson& message, int times) {
  for (int i = 0; i < times; ++i) {
    RecordedTurn turn;
    turn.message = message;
    desk.Answered(turn);
  }
}

const WireJson kAsking = {{"role", "assistant"}, {"content", "Shall I? \n"}};
const WireJson kStatement = {{"role", "assistant"}, {"content", "Why? Because."}};

TEST(GuardDesk, EntropyAndKlOfAStepSwitchTheirAlarms) {
  const VirtualClock clock;
  GuardDesk desk({.alarm_entropy = 0.2, .alarm_kl = 0.5}, "", clock);
  desk.Take(StepTrained{1, 0.1, 0.6});
  ASSERT_EQ(AlarmsOf(desk).size(), 2u);
  EXPECT_EQ(AlarmsOf(desk)[0]["why"], "0.1000 in the last step, below 0.2000");
  EXPECT_EQ(desk.counters().alarms.load(), 2u);
  desk.Take(StepEvaluated{1, 0.5});
  EXPECT_EQ(AlarmsOf(desk).size(), 2u) << "no step";
  desk.Take(StepTrained{2, 0.3, 0.4});
  EXPECT_TRUE(AlarmsOf(desk).empty());
}

TEST(GuardDesk, QuestionsAreCountedOverTheNewestAnswers) {
  const VirtualClock clock;
  GuardDesk desk({.alarm_questions = 0.5}, "", clock);
  Say(desk, kAsking, 19);
  EXPECT_TRUE(AlarmsOf(desk).empty()) << "too few";
  Say(desk, kAsking, 1);
  ASSERT_EQ(AlarmsOf(desk).size(), 1u);
  EXPECT_EQ(AlarmsOf(desk)[0]["name"], "questions");
  Say(desk, kStatement, 20);
  EXPECT_TRUE(AlarmsOf(desk).empty());
}

class RefusalRecorder final : public TurnRecorder {
 public:
  explicit RefusalRecorder(std::string& heard) : heard_(heard) {}
  Result<TurnPrompt> Prepare(const TurnQuestion&) override { return TurnPrompt(); }
  void Finished(RecordedTurn, std::function<void(Status)> stored) override { stored(Ok()); }
  void Abandoned(RecordedTurn, TurnLoss, const Status&) override {}
  void Refused(const std::string& session, int status, const std::string& why) override {
    heard_ = session + " " + std::to_string(status) + " " + why;
  }

 private:
  std::string& heard_;
};

TEST(GuardDesk, WhoRecordsTheSessionHearsOfARefusal) {
  const VirtualClock clock;
  GuardDesk desk({}, "", clock);
  std::string heard;
  WatchedRecorder recorder(std::make_unique<RefusalRecorder>(heard), desk);
  recorder.Refused("s", 429, "full");
  EXPECT_EQ(heard, "s 429 full");
}

TEST(GuardDesk, ACallWhoseArgumentsAreNoObjectIsMalformed) {
  const auto call = [](const WireJson& arguments) {
    return WireJson{{"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}};
  };
  EXPECT_TRUE(HasMalformedCall(call("{\"a\": ")));
  EXPECT_FALSE(HasMalformedCall(call(WireJson::object())));
  EXPECT_TRUE(HasMalformedCall({{"tool_calls", {{{"id", "1"}}}}}));
  EXPECT_FALSE(HasMalformedCall(kStatement));
  EXPECT_FALSE(HasMalformedCall(nullptr));
  const VirtualClock clock;
  GuardDesk desk({.alarm_malformed = 0.1}, "", clock);
  Say(desk, call("no"), 3);
  Say(desk, kStatement, 17);
  ASSERT_EQ(AlarmsOf(desk).size(), 1u);
  EXPECT_EQ(AlarmsOf(desk)[0]["why"],
            "15 % of the last 20 answers have a malformed call, more than 10 %");
}

TEST(GuardDesk, ItsFileHasAlarmsAndQuarantine) {
  const TemporaryDirectory dir;
  const VirtualClock clock;
  GuardDesk desk({.alarm_entropy = 1}, dir / "guards.json", clock);
  desk.ShowQuarantine([] { return std::string(R"({"tenants": []})"); });
  desk.Take(StepTrained{1, 0.0, {}});
  desk.Tick();
  const auto text = ReadFileBounded(dir / "guards.json", 4096);
  ASSERT_TRUE(text.ok());
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["alarms"].size(), 1u);
  EXPECT_TRUE(json["quarantine"]["tenants"].empty());
}

}  // namespace
}  // namespace tidemill

#include "bus/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"
#include "testing/bus_test_kit.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTopic = "asked";

class QuestionsTest : public testing::Test {
 protected:
  QuestionsTest() {
    EXPECT_TRUE(bus_.Open(kTopic, {}).ok());
    EXPECT_TRUE(bus_.Open(kDeadTopic, {}).ok());
    questions_.Attach(waker_);
  }
  static QuestionOptions Options(Counter& refused) {
    QuestionOptions options;
    options.inbox = "inbox.me";
    options.most = 4;
    options.patience = minutes(1);
    options.secret = "of this worker";
    options.refused = &refused;
    return options;
  }
  void Ask(const std::string& id, int about) {
    v1::ToolRequest request;
    request.set_request_id(id), request.set_tool("compile");
    questions_.Ask(kTopic, request, about, clock_.Now());
    outbox_.Flush(clock_.Now());
  }
  // The requests on the topic, as whoever is asked sees them.
  std::vector<v1::ToolRequest> Asked() {
    std::vector<v1::ToolRequest> requests;
    for (const Lease& lease : bus_.Receive(kTopic, 100).value()) {
      EXPECT_TRUE(requests.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return requests;
  }
  void Answer(const v1::ToolRequest& request, uint32_t passed = 1) {
    v1::ToolResult result;
    result.set_request_id(request.request_id()), result.set_token(request.token());
    v1::TrajectoryId& episode = *result.mutable_episode();
    episode.set_task("t"), episode.set_group(1), episode.set_attempt(1);
    result.set_outcome(v1::OUTCOME_OK);
    result.set_tests_passed(passed), result.set_tests_total(1);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
  }
  // What the usable answers are about; they are acknowledged.
  std::vector<int> Taken() {
    std::vector<int> taken;
    for (const auto& [about, status, answer, lease] : questions_.TakeAnswers<v1::ToolResult>(100)) {
      if (!status.ok()) continue;
      taken.push_back(about);
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return taken;
  }
  std::vector<int> Lost() {
    std::vector<int> lost;
    for (const auto& [id, about] : questions_.TakeLost(clock_.Now())) lost.push_back(about);
    return lost;
  }
  size_t Owed() { return bus_.Depth(questions_.inbox())->owed; }
  std::vector<std::string> Reasons() { return TakeDeadLetterReasons(bus_); }

  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus memory_{clock_};
  LossyBus bus_{memory_};
  Outbox outbox_{bus_};
  CounterSet counters_;
  Counter refused_{counters_, {.key = "refused", .metric = "", .help = ""}};
  Questions<int> questions_{bus_, outbox_, Options(refused_)};
};

TEST_F(QuestionsTest, AnAnswerComesBackWithWhatItWasAskedAbout) {
  Ask("a", 1), Ask("b", 2);
  const std::vector<v1::ToolRequest> asked = Asked();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].reply_to(), "inbox.me");
  EXPECT_NE(asked[0].token(), asked[1].token());
  Answer(asked[1]);
  EXPECT_THAT(Taken(), ElementsAre(2));
  EXPECT_EQ(questions_.open(), 1u);
  EXPECT_EQ(Owed(), 1u);
}

TEST_F(QuestionsTest, ASecondAnswerAndOneToNoQuestionAreDropped) {
  Ask("a", 1);
  const v1::ToolRequest asked = Asked().at(0);
  v1::ToolRequest other = asked;
  other.set_request_id("never asked");
  Answer(other), Answer(asked), Answer(asked);
  EXPECT_THAT(Taken(), ElementsAre(1));
  EXPECT_THAT(Reasons(), IsEmpty());
  EXPECT_EQ(bus_.Depth("inbox.me")->ready + bus_.Depth("inbox.me")->leased, 0u);
}

TEST_F(QuestionsTest, WhoeverWasNotAskedCannotAnswer) {
  Ask("a", 1), Ask("b", 2);
  const std::vector<v1::ToolRequest> asked = Asked();
  v1::ToolRequest forged = asked.at(0);
  for (const std::string& token : {std::string(), std::string("guessed"), asked.at(1).token()}) {
    forged.set_token(token);
    Answer(forged);
    EXPECT_THAT(Taken(), IsEmpty());
    EXPECT_THAT(Reasons(), ElementsAre("not the token of request a"));
  }
  EXPECT_EQ(refused_, 3u);
  Answer(asked.at(0));
  EXPECT_THAT(Taken(), ElementsAre(1)) << "the true one still counts";
}

TEST_F(QuestionsTest, AnAnswerOutOfItsBoundsIsADeadLetterAndTheOnlyAnswerThereWillBe) {
  Ask("a", 1);
  Answer(Asked().at(0), /*passed=*/5);
  const auto answers = questions_.TakeAnswers<v1::ToolResult>(100);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].about, 1);
  EXPECT_THAT(answers[0].status.message(), HasSubstr("ToolResult.tests_passed"));
  EXPECT_THAT(Reasons(), ElementsAre(answers[0].status.message()));
  EXPECT_EQ(questions_.open(), 0u);
  EXPECT_TRUE(bus_.PublishReply("inbox.me", "no message").ok());
  EXPECT_THAT(Taken(), IsEmpty());
  EXPECT_THAT(Reasons(), ElementsAre("not a ToolResult"));
  EXPECT_EQ(refused_, 2u);
}

TEST_F(QuestionsTest, WhatIsNotAnsweredInTimeIsLostAndItsRoomIsFree) {
  Ask("b", 2);
  clock_.Advance(seconds(30));
  Ask("a", 1);
  const std::vector<v1::ToolRequest> asked = Asked();
  clock_.Advance(seconds(29));
  EXPECT_THAT(Lost(), IsEmpty());
  clock_.Advance(seconds(1));
  EXPECT_THAT(Lost(), ElementsAre(2));
  EXPECT_THAT(Lost(), IsEmpty()) << "once";
  EXPECT_EQ(Owed(), 1u);
  Answer(asked.at(0));
  EXPECT_THAT(Taken(), IsEmpty()) << "too late";
  clock_.Advance(seconds(30));
  EXPECT_THAT(Lost(), ElementsAre(1));
  EXPECT_EQ(Owed(), 0u);
}

TEST_F(QuestionsTest, AQuestionAskedAgainUnderItsIdHasItsPatienceFromThenOn) {
  Ask("a", 1);
  clock_.Advance(seconds(50));
  Ask("a", 2);
  EXPECT_EQ(questions_.open(), 1u);
  EXPECT_EQ(Owed(), 1u);
  clock_.Advance(seconds(50));
  EXPECT_THAT(Lost(), IsEmpty());
  Answer(Asked().at(1));
  EXPECT_THAT(Taken(), ElementsAre(2));
}

TEST_F(QuestionsTest, WhatIsForgottenIsNeitherAnsweredNorLost) {
  Ask("a", 1);
  questions_.Forget("a"), questions_.Forget("a"), questions_.Forget("");
  EXPECT_EQ(Owed(), 0u);
  Answer(Asked().at(0));
  EXPECT_THAT(Taken(), IsEmpty());
  clock_.Advance(minutes(2));
  EXPECT_THAT(Lost(), IsEmpty());
}

TEST(BackOff, DoublesWithEveryTryUpToSixtyFourTimes) {
  EXPECT_EQ(BackOff(milliseconds(200), 0), milliseconds(200));
  EXPECT_EQ(BackOff(milliseconds(200), 1), milliseconds(400));
  EXPECT_EQ(BackOff(milliseconds(200), 6), milliseconds(12'800));
  EXPECT_EQ(BackOff(milliseconds(200), UINT32_MAX), milliseconds(12'800));
}

TEST(LaterQueue, GivesWhatIsDueTheEarliestFirstAndTheEquallyEarlyInTheirOrder) {
  LaterQueue<int> later;
  const Time zero{};
  EXPECT_EQ(later.next(), kNever);
  later.Put(zero + seconds(2), 1), later.Put(zero + seconds(1), 2), later.Put(zero + seconds(2), 3);
  EXPECT_EQ(later.next(), zero + seconds(1));
  EXPECT_THAT(later.TakeDue(zero), IsEmpty());
  EXPECT_THAT(later.TakeDue(zero + seconds(2)), ElementsAre(2, 1, 3));
  EXPECT_EQ(later.next(), kNever);
}

TEST_F(QuestionsTest, WhatTheBusLostIsOverAtOnce) {
  Ask("a", 1), Ask("b", 2);
  EXPECT_THAT(Lost(), IsEmpty());
  bus_.Lose(kTopic);
  EXPECT_THAT(Lost(), ElementsAre(1, 2));
  Ask("a", 1);
  EXPECT_THAT(Lost(), IsEmpty());
  EXPECT_EQ(Asked().size(), 1u);
}

}  // namespace
}  // namespace tidemill

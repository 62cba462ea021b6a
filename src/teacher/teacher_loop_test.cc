#include "teacher/teacher_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeTeacher final : public TeacherPort {
 public:
  void Submit(TeacherCall call) override { calls.push_back(std::move(call)); }
  Mailbox<TeacherDone>& events() override { return events_; }

  // Scores a token by its id and place.
  void Answer(const TeacherCall& call) {
    TeacherDone done;
    done.tag = call.tag;
    for (const TokenSpan& span : call.spans) {
      for (size_t i = span.begin; i < span.begin + span.tokens; ++i) {
        done.scores.logprobs.push_back(-0.5f * static_cast<float>(call.ids[i]));
        done.scores.known.push_back(call.ids[i] != 9);
      }
    }
    events_.Post(std::move(done));
  }
  void Fail(const TeacherCall& call, Status status) { events_.Post({call.tag, status, {}, {}}); }

  std::vector<TeacherCall> calls;

 private:
  Mailbox<TeacherDone> events_{100};
};

class TeacherLoopTest : public testing::Test {
 protected:
  TeacherLoopTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {.lease = std::chrono::seconds(30)}).ok());
    EXPECT_TRUE(bus_.Open("inbox", {}).ok());
  }
  void Make() {
    loop_ = std::make_unique<TeacherLoop>(bus_, port_, options_);
    loop_->Attach(waker_);
  }
  static v1::TeacherRequest Request(const std::string& id) {
    v1::TeacherRequest request;
    request.set_request_id(id), request.set_reply_to("inbox"), request.set_token("secret");
    request.set_temperature(1);
    return request;
  }
  static void AddSequence(v1::TeacherRequest& request, const std::vector<uint32_t>& ids,
                          const std::vector<std::vector<uint32_t>>& spans) {
    v1::TaughtSequence& sequence = *request.add_sequences();
    sequence.mutable_ids()->Add(ids.begin(), ids.end());
    for (const auto& span : spans) {
      v1::TaughtSpan& to = *sequence.add_spans();
      to.set_turn(span[0]), to.set_begin(span[1]), to.set_tokens(span[2]);
    }
  }
  void Ask(const v1::TeacherRequest& request) {
    ASSERT_TRUE(bus_.Publish(kTeacherTopic, request.SerializeAsString()).ok());
    Step();
  }
  void Step() { loop_->Step(clock_.Now()); }
  std::vector<v1::TeacherAnswer> Answers() {
    std::vector<v1::TeacherAnswer> answers;
    for (const Lease& lease : bus_.Receive("inbox", 10).value()) {
      EXPECT_TRUE(answers.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return answers;
  }

  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FakeTeacher port_;
  TeacherOptions options_;
  std::unique_ptr<TeacherLoop> loop_;
};

TEST_F(TeacherLoopTest, EveryTurnGetsTheScoresOfItsOwnTokens) {
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2, 3, 4, 9, 6}, {{0, 1, 2}, {1, 4, 2}});
  AddSequence(request, {7, 8}, {{2, 1, 1}});
  Ask(request);
  ASSERT_EQ(port_.calls.size(), 2u);
  port_.Answer(port_.calls[1]);
  Step();
  EXPECT_TRUE(Answers().empty());
  port_.Answer(port_.calls[0]);
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].available());
  EXPECT_EQ(answers[0].token(), "secret");
  ASSERT_EQ(answers[0].turns_size(), 3);
  EXPECT_EQ(answers[0].turns(0).turn(), 2u);
  EXPECT_THAT(answers[0].turns(0).logprobs(), ElementsAre(-4.0f));
  EXPECT_THAT(answers[0].turns(1).logprobs(), ElementsAre(-1.0f, -1.5f));
  EXPECT_THAT(answers[0].turns(2).logprobs(), ElementsAre(0.0f, -3.0f));
  EXPECT_THAT(answers[0].turns(2).unknown(), ElementsAre(0u));
  EXPECT_EQ(loop_->counters().tokens, 4u);
  EXPECT_EQ(loop_->counters().unknown, 1u);
  EXPECT_EQ(bus_.Depth(kTeacherTopic)->leased, 0u);
}

TEST_F(TeacherLoopTest, ATurnWithSeveralHintsIsScoredAfterEach) {
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2, 3}, {{0, 2, 1}});
  AddSequence(request, {1, 5, 3}, {{0, 2, 1}});
  Ask(request);
  ASSERT_EQ(port_.calls.size(), 2u);
  for (const TeacherCall& call : port_.calls) port_.Answer(call);
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].turns_size(), 2);
}

TEST_F(TeacherLoopTest, ATeacherThatIsAwayIsAskedAgainAndThenReportedNeverScored) {
  options_.retries = 1;
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2}, {{0, 1, 1}});
  Ask(request);
  ASSERT_EQ(port_.calls.size(), 1u);
  port_.Fail(port_.calls[0], Unavailable("no connection"));
  Step();
  EXPECT_EQ(port_.calls.size(), 1u);  // not at once
  clock_.Advance(std::chrono::seconds(1));
  Step();
  ASSERT_EQ(port_.calls.size(), 2u);
  port_.Fail(port_.calls[1], Unavailable("no connection"));
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].available());
  EXPECT_EQ(answers[0].cause(), "no connection");
  EXPECT_EQ(answers[0].turns_size(), 0);
  EXPECT_EQ(loop_->counters().unavailable, 1u);
}

TEST_F(TeacherLoopTest, WhatCannotSucceedIsNotTriedAgain) {
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2}, {{0, 1, 1}});
  AddSequence(request, {1, 2}, {{1, 1, 1}});
  Ask(request);
  port_.Fail(port_.calls.at(0), Invalid("a wrong key"));
  Step();
  ASSERT_EQ(Answers().size(), 1u);
  port_.Answer(port_.calls.at(1));  // of a request that is answered
  Step();
  EXPECT_TRUE(Answers().empty());
}

TEST_F(TeacherLoopTest, NoMoreIsAtThePortThanAllowed) {
  options_.concurrency = 2;
  Make();
  for (const char* id : {"a", "b", "c"}) {
    v1::TeacherRequest request = Request(id);
    AddSequence(request, {1, 2}, {{0, 1, 1}});
    Ask(request);
  }
  EXPECT_EQ(port_.calls.size(), 2u);
  port_.Answer(port_.calls[0]);
  Step();
  EXPECT_EQ(port_.calls.size(), 3u);
}

TEST_F(TeacherLoopTest, NumbersThatAreNoneAndThoseOutOfBoundsDoNotPass) {
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2, 3, 4}, {{0, 1, 3}});
  Ask(request);
  TeacherDone done;
  done.tag = port_.calls.at(0).tag;
  done.scores.logprobs = {std::numeric_limits<float>::quiet_NaN(), -1e9f, 3.0f};
  done.scores.known = {1, 1, 1};
  port_.events().Post(std::move(done));
  Step();
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers[0].turns(0).logprobs(), ElementsAre(0.0f, -50.0f, 0.0f));
  EXPECT_THAT(answers[0].turns(0).unknown(), ElementsAre(0u));
}

TEST_F(TeacherLoopTest, ASpanBeyondItsSequenceIsADeadLetter) {
  Make();
  v1::TeacherRequest request = Request("a");
  AddSequence(request, {1, 2}, {{0, 1, 5}});
  Ask(request);
  v1::TeacherRequest twice = Request("b");
  AddSequence(twice, {1, 2, 3}, {{0, 1, 1}, {0, 2, 1}});
  Ask(twice);
  EXPECT_TRUE(port_.calls.empty());
  EXPECT_EQ(bus_.Depth(kDeadTopic)->ready, 2u);
}

}  // namespace
}  // namespace tidemill

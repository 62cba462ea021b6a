#include "learner/torch/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "learner/torch/rank_follower.h"
#include "learner/torch/rank_meeting.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class RankGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RankGroup::Available()) GTEST_SKIP() << "built without Gloo";
  }
  RankGroupOptions Meeting(int ranks) {
    RankGroupOptions options;
    options.meeting = "file:" + directory_ / ("meeting-" + std::to_string(meetings_));
    options.ranks = ranks;
    options.join_limit = milliseconds(20'000);
    options.timeout = milliseconds(20'000);
    options.secret = "of this test";
    return options;
  }

  TemporaryDirectory directory_;
  int meetings_ = 0;
};

// Six groups whose sequences differ much in length.
std::vector<v1::Batch> Batches(const PolicyWeights& weights, size_t count) {
  std::vector<v1::Batch> batches;
  for (size_t i = 0; i < count; ++i) {
    batches.push_back(RandomBatch(weights, 20 + i, 6, 3));
    batches.back().set_step(i);
  }
  return batches;
}

std::unique_ptr<Trainer> NewTrainer(const std::shared_ptr<const PolicyWeights>& weights,
                                    const TrainerOptions& options) {
  auto trainer = Trainer::New(weights, options, weights);
  EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
  return std::move(*trainer);
}

struct Course {
  std::vector<std::map<std::string, double>> steps;
  NamedTensors weights;
};

Course TrainAlone(Trainer& trainer, const std::vector<v1::Batch>& batches) {
  Course course;
  for (const v1::Batch& batch : batches) {
    const auto report = trainer.Train(batch);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    if (report.ok()) course.steps.push_back(report->metrics);
  }
  course.weights = (*trainer.ExactSnapshot())->tensors();
  return course;
}

// As the trainer's thread does, with the other ranks on threads here.
Course TrainTogether(const RankGroupOptions& meeting,
                     const std::shared_ptr<const PolicyWeights>& weights,
                     const TrainerOptions& options, const std::vector<v1::Batch>& batches) {
  std::vector<std::thread> others;
  for (int r = 1; r < meeting.ranks; ++r) {
    others.emplace_back([&] {
      auto group = RankGroup::Join(meeting);
      ASSERT_TRUE(group.ok()) << group.status().ToString();
      auto trainer = NewTrainer(weights, options);
      const Status followed = FollowOrders(**group, *trainer);
      EXPECT_TRUE(followed.ok()) << followed.ToString();
    });
  }
  Course course;
  {
    auto group = RankGroup::Gather(meeting);
    EXPECT_TRUE(group.ok()) << group.status().ToString();
    EXPECT_EQ((*group)->size(), meeting.ranks);
    auto trainer = NewTrainer(weights, options);
    trainer->Share(group->get());
    EXPECT_TRUE((*group)->Agree(Fingerprint(*trainer)).ok());
    for (const v1::Batch& batch : batches) {
      EXPECT_TRUE(OrderStep(**group, batch).ok());
      const auto report = trainer->Train(batch);
      EXPECT_TRUE(report.ok()) << report.status().ToString();
      if (report.ok()) course.steps.push_back(report->metrics);
    }
    const Status verified = OrderVerify(**group, *trainer);
    EXPECT_TRUE(verified.ok()) << verified.ToString();
    EXPECT_TRUE((*group)->Send({RankOrder::kStop, 0, 0, {}}).ok());
    course.weights = (*trainer->ExactSnapshot())->tensors();
    for (std::thread& other : others) other.join();
  }
  return course;
}

void ExpectSame(const Course& alone, const Course& together) {
  ASSERT_EQ(alone.steps.size(), together.steps.size());
  for (size_t i = 0; i < alone.steps.size(); ++i) {
    for (const auto& [name, value] : alone.steps[i]) {
      if (name == "seconds" || name == "tokens_per_second" || name == "computed_tokens") continue;
      EXPECT_NEAR(value, together.steps[i].at(name), 1e-5 * std::max(1.0, std::abs(value)))
          << name << " of step " << i;
    }
  }
  for (const auto& [name, tensor] : alone.weights) {
    EXPECT_LT((tensor - together.weights.at(name)).abs().max().item<double>(), 1e-5) << name;
  }
}

TEST_F(RankGroupTest, SeveralRanksTakeTheStepsOfOne) {
  // Without biases: those of keys have no gradient but rounding, which AdamW would blow up.
  const auto weights = TinyWeights(TinyConfig(ModelFamily::kLlama));
  const std::vector<v1::Batch> batches = Batches(*weights, 4);
  for (const std::string preset : {"grpo", "vtrace", "dapo"}) {
    TrainerOptions options;
    options.objective = *ObjectivePreset(preset);
    options.schedule.peak = 1e-3;
    options.grad_clip = 0.05;  // always clips
    options.minibatches = 2;
    options.epochs = 2;
    options.microbatch_tokens = 60;
    const Course alone = TrainAlone(*NewTrainer(weights, options), batches);
    EXPECT_GT(alone.steps[0].at("grad_norm"), options.grad_clip);
    for (int ranks : {2, 3}) {
      SCOPED_TRACE(preset + std::string(" with ") + std::to_string(ranks));
      ++meetings_;
      ExpectSame(alone, TrainTogether(Meeting(ranks), weights, options, batches));
    }
  }
}

TEST_F(RankGroupTest, ARankWithNothingToDoIsNoHindrance) {
  const auto weights = TinyWeights(TinyConfig(ModelFamily::kLlama));
  v1::Batch few = RandomBatch(*weights, 3, 1, 2), none;
  none.set_step(1);
  TrainerOptions options;
  options.objective = *ObjectivePreset("grpo");
  options.schedule.peak = 1e-3;
  const std::vector<v1::Batch> batches = {few, none};
  ExpectSame(TrainAlone(*NewTrainer(weights, options), batches),
             TrainTogether(Meeting(3), weights, options, batches));
}

TEST_F(RankGroupTest, ARankThatIsGoneOrSilentIsNamed) {
  RankGroupOptions meeting = Meeting(2);
  meeting.timeout = milliseconds(300);
  std::unique_ptr<RankGroup> other;
  std::thread joins([&] { other = RankGroup::Join(meeting).value(); });
  auto first = RankGroup::Gather(meeting).value();
  joins.join();
  EXPECT_EQ(other->rank(), 1);
  std::thread listens([&] {
    const Result<RankOrder> order = other->Next();
    ASSERT_TRUE(order.ok());
    EXPECT_EQ(order->number, 7u);
    EXPECT_EQ(order->payload, "words");
  });
  const Status sent = first->Send({RankOrder::kPublished, 7, 3, "words"});
  EXPECT_TRUE(sent.ok()) << sent.ToString();
  listens.join();
  // It does not come to the sum.
  const Status silent = first->Sum({at::ones({4})});
  EXPECT_EQ(silent.code(), Code::kUnavailable);
  EXPECT_THAT(silent.message(), HasSubstr("rank 1 (process " + std::to_string(getpid())));
  EXPECT_THAT(silent.message(), HasSubstr("did not answer within 300 ms"));
  EXPECT_EQ(first->lost(), 1);

  ++meetings_;
  meeting = Meeting(2);
  std::thread joins_again([&] { other = RankGroup::Join(meeting).value(); });
  RankGroupOptions watching = meeting;
  bool joined = false;
  watching.fate = [&](int64_t) { return joined ? "was killed by signal 9" : ""; };
  first = RankGroup::Gather(watching).value();
  joins_again.join();
  joined = true;
  other.reset();
  const Status gone = first->Sum({at::ones({4})});
  EXPECT_EQ(gone.code(), Code::kUnavailable);
  EXPECT_THAT(gone.message(), HasSubstr("was killed by signal 9"));
  EXPECT_EQ(first->lost(), 1);
}

TEST_F(RankGroupTest, WhatARankSaysOfItselfArrives) {
  const RankGroupOptions meeting = Meeting(2);
  const auto weights = TinyWeights(TinyConfig());
  TrainerOptions options;
  options.objective = *ObjectivePreset("grpo");
  std::thread other([&] {
    auto group = RankGroup::Join(meeting).value();
    // Begins with other weights.
    auto trainer = NewTrainer(TinyWeights(TinyConfig(), 2), options);
    EXPECT_EQ(FollowOrders(*group, *trainer).code(), Code::kUnavailable);
  });
  {
    auto first = RankGroup::Gather(meeting).value();
    auto trainer = NewTrainer(weights, options);
    const Status differs = first->Agree(Fingerprint(*trainer));
    EXPECT_EQ(differs.code(), Code::kCorrupt);
    EXPECT_THAT(differs.message(), HasSubstr("has different weights than rank 0"));
  }
  other.join();
  ++meetings_;
  const RankGroupOptions second = Meeting(2);
  std::thread fails([&] {
    auto group = RankGroup::Join(second).value();
    auto trainer = NewTrainer(weights, options);
    EXPECT_EQ(FollowOrders(*group, *trainer).code(), Code::kCorrupt);
  });
  {
    auto first = RankGroup::Gather(second).value();
    auto trainer = NewTrainer(weights, options);
    ASSERT_TRUE(first->Agree(Fingerprint(*trainer)).ok());
    ASSERT_TRUE(first->Send({RankOrder::kStep, 0, 0, "no batch"}).ok());
    const Status told = first->Sum({at::ones({1})});
    EXPECT_EQ(told.code(), Code::kCorrupt);
    EXPECT_THAT(told.message(), HasSubstr("a step without a batch"));
  }
  fails.join();
}

TEST_F(RankGroupTest, ThoseWhoCameAreTheGroup) {
  RankGroupOptions meeting = Meeting(3);
  const RankGroupOptions patient = meeting;
  meeting.join_limit = milliseconds(1500);
  std::unique_ptr<RankGroup> other;  // there until rank 0 has connected as well
  std::thread joins([&] { other = RankGroup::Join(patient).value(); });
  const auto first = RankGroup::Gather(meeting);
  joins.join();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ((*first)->size(), 2);
  EXPECT_EQ(other->size(), 2);
  const auto late = RankGroup::Join(meeting);
  EXPECT_EQ(late.status().code(), Code::kClosed);
  EXPECT_THAT(late.status().message(), HasSubstr("already has its 2 ranks"));
}

TEST_F(RankGroupTest, ARankThatEndedBeforeItJoinedIsLeftOut) {
  RankGroupOptions meeting = Meeting(3);
  meeting.join_limit = milliseconds(600'000);  // nobody waits for it
  std::unique_ptr<RankGroup> other;
  std::thread joins([&] { other = RankGroup::Join(meeting).value(); });
  RankGroupOptions watching = meeting;
  watching.ended = [] { return std::vector<std::string>{"process 7 was killed by signal 9"}; };
  const auto first = RankGroup::Gather(watching);
  joins.join();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ((*first)->size(), 2);
  EXPECT_EQ(other->rank(), 1);
  EXPECT_EQ(other->size(), 2);

  ++meetings_;
  RankGroupOptions deserted = Meeting(3);
  deserted.join_limit = milliseconds(600'000);
  deserted.ended = [] { return std::vector<std::string>{"process 7 ..", "process 8 .."}; };
  const auto alone = RankGroup::Gather(deserted);
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  EXPECT_EQ((*alone)->size(), 1);
}

TEST_F(RankGroupTest, WhoDoesNotKnowTheSecretIsNotSeen) {
  RankGroupOptions meeting = Meeting(2);
  meeting.join_limit = milliseconds(300);
  RankGroupOptions stranger = meeting;
  stranger.secret = "a guess";
  Status refused;
  std::thread joins([&] { refused = RankGroup::Join(stranger).status(); });
  const auto first = RankGroup::Gather(meeting);
  joins.join();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ((*first)->size(), 1);
  EXPECT_EQ(refused.code(), Code::kUnavailable) << refused.ToString();
}

TEST(RankMeeting, IsAFileOrAPort) {
  EXPECT_EQ(ParseMeeting("file:/tmp/x")->file, "/tmp/x");
  EXPECT_EQ(ParseMeeting("10.0.0.5:29400")->host, "10.0.0.5");
  EXPECT_EQ(ParseMeeting("10.0.0.5:29400")->port, 29400);
  for (const char* wrong : {"", "host", "host:", ":1", "host:0", "host:70000", "file:x"}) {
    const auto parsed = ParseMeeting(wrong);
    EXPECT_EQ(parsed.status().code(), Code::kInvalid) << wrong;
  }
  EXPECT_EQ(*AddressTowards("127.0.0.1", 1), "127.0.0.1");
}

}  // namespace
}  // namespace tidemill

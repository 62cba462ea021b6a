// The trainer over processes that speak as tidemill_fsdp does (testing/scripted_ranks.py).
#include "learner/remote/remote_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "learner/remote/rank_processes.h"
#include "testing/learner_samples.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class RemoteTrainerTest : public testing::Test {
 protected:
  RankCommand Command(const std::string& fault, uint32_t ranks = 2) const {
    return {.words = {"env", "SCRIPTED_LOG=" + folder_.path(), "python3",
                      SourceDir() + "/testing/scripted_ranks.py", "{socket}", "{ranks}", fault},
            .ranks = ranks,
            .log = folder_ / "ranks.log",
            .join_patience = kPatience,
            .answer_patience = fault == "hang" ? Duration(milliseconds(300)) : kPatience};
  }
  Result<std::unique_ptr<RemoteTrainer>> Make(const std::string& fault,
                                              const std::string& objective = "rloo",
                                              const std::string& checkpoint = "") {
    TM_ASSIGN_OR_RETURN(auto ranks,
                        RankProcesses::Start(Command(fault), {.words = {{"model", "m"}}}));
    RemoteTrainerOptions options;
    TM_ASSIGN_OR_RETURN(options.step.objective, ObjectivePreset(objective));
    options.step.minibatches = minibatches_;
    options.folder = folder_ / "published";
    options.publish_dtype = "float32";
    options.canary_ids = {1, 2, 3};
    options.take = [this](std::shared_ptr<const StoredWeights> stored) {
      taken_ = stored->model();
      return Result<std::shared_ptr<const Weights>>(std::move(stored));
    };
    options.write_checkpoint = [](const std::string& path, const auto& fill) {
      TM_RETURN_IF_ERROR(MakeDirectories(path));
      return fill(path);
    };
    return RemoteTrainer::Start(std::move(ranks), std::move(options), checkpoint,
                                checkpoint.empty() ? 0 : 1, 7, *channel_, clock_);
  }
  template <typename Event>
  Event Await(RemoteTrainer& trainer) {
    std::vector<TrainerEvent> events;
    EXPECT_TRUE(Eventually([&] {
      events = trainer.events().TakeAll();
      return !events.empty();
    }));
    return std::get<Event>(events.at(0));
  }
  static v1::Batch Groups() {
    v1::Batch batch;
    for (uint64_t group = 0; group < 2; ++group) {
      for (uint32_t member = 0; member < 2; ++member) {
        const TurnSpec turn{{5, 6 + member}, {-0.55f, -0.5f}, {{7, 2}}, {}, ""};
        *batch.add_samples() = MakeSample(group, member, member, {1, 2, 3}, {turn});
      }
    }
    return batch;
  }
  std::string Asked() const { return TextOf(folder_ / "asked"); }

  const TemporaryDirectory folder_;
  const RealClock clock_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  uint32_t minibatches_ = 1;
  StoredModel taken_;
};

TEST_F(RemoteTrainerTest, AStepHasItsMetricsAndAVersionReachesTheChannelAsFiles) {
  auto trainer = Make("");
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  (*trainer)->Train(Groups());
  const auto step = Await<TrainDone>(**trainer);
  ASSERT_TRUE(step.status.ok()) << step.status.message();
  EXPECT_DOUBLE_EQ(step.metrics.at("loss"), 0.25);
  EXPECT_DOUBLE_EQ(step.metrics.at("grad_norm"), 2);
  EXPECT_EQ(step.metrics.at("updates"), 1);
  // The ranks say -0.55 and -0.56 or -0.57 of tokens drawn with -0.55 and -0.5.
  EXPECT_NEAR(step.metrics.at("mismatch"), (0.06 + 0.07) / 4, 1e-6);
  (*trainer)->Publish(8, 1);
  ASSERT_TRUE(Await<PublishDone>(**trainer).status.ok());
  auto published = channel_->NewerThan(7);
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->version, 8u);
  EXPECT_EQ(taken_.bytes, 7u);
  EXPECT_EQ(taken_.canary_logprobs.size(), 2u);
  EXPECT_NEAR(taken_.canary_logprobs[0], -0.52, 1e-6);
  const std::string file = taken_.folder + "/model.safetensors";
  EXPECT_TRUE(std::filesystem::exists(file));
  channel_.reset();
  published = Invalid("it is not looked at any more");
  EXPECT_FALSE(std::filesystem::exists(file)) << "nobody needs it any more";
}

TEST_F(RemoteTrainerTest, ARunGoesOnFromItsCheckpointAndFromNoOther) {
  auto trainer = Make("");
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  (*trainer)->Train(Groups());
  (void)Await<TrainDone>(**trainer);
  (*trainer)->Checkpoint({1, 7, folder_ / "step-1"});
  ASSERT_TRUE(Await<CheckpointDone>(**trainer).status.ok());
  trainer = Invalid("it ends");
  auto again = Make("", "rloo", folder_ / "step-1");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_THAT(Asked(), HasSubstr("bye\nrestore\n"));
  again = Invalid("it ends");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "step-1/trainer_state.json", R"({"step": 1})").ok());
  EXPECT_THAT(Make("", "rloo", folder_ / "step-1").status().message(), HasSubstr("own"));
}

TEST_F(RemoteTrainerTest, AStepThatFailsBetweenUpdatesIsTakenBack) {
  minibatches_ = 2;
  auto trainer = Make("nan", "decoupled_ppo");
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  (*trainer)->Train(Groups());
  const auto step = Await<TrainDone>(**trainer);
  EXPECT_EQ(step.status.code(), Code::kInternal);
  EXPECT_THAT(step.status.message(), HasSubstr("weights are unchanged"));
  EXPECT_EQ(Asked(), "score\nbegin\nupdate\nundo\n");
  EXPECT_EQ((*trainer)->ranks_lost(), 0) << "they are well";
}

TEST_F(RemoteTrainerTest, EveryPresetAsksForWhatItsLossNeeds) {
  for (const std::string& preset : ObjectivePresetNames()) {
    if (preset == "distill") continue;  // without a teacher's scores there is nothing to train
    auto trainer = Make("", preset);
    ASSERT_TRUE(trainer.ok()) << trainer.status().message();
    (*trainer)->Train(Groups());
    const auto step = Await<TrainDone>(**trainer);
    EXPECT_TRUE(step.status.ok()) << preset << step.status.message();
    EXPECT_EQ(step.metrics.contains("value_loss"), preset == "vtrace") << preset;
  }
}

TEST_F(RemoteTrainerTest, ARankThatDiesHangsOrTalksNonsenseIsNamedAndNothingFollows) {
  const std::vector<std::pair<std::string, std::string>> faults = {{"die", "rank 1 (process"},
                                                                   {"hang", "rank 1 (process"},
                                                                   {"garbage", "no message"},
                                                                   {"short", "fewer tokens"}};
  for (const auto& [fault, what] : faults) {
    auto trainer = Make(fault);
    ASSERT_TRUE(trainer.ok()) << trainer.status().message();
    (*trainer)->Train(Groups());
    const auto step = Await<TrainDone>(**trainer);
    EXPECT_EQ(step.status.code(), Code::kUnavailable) << fault;
    EXPECT_THAT(step.status.message(), HasSubstr(what)) << fault;
    if (fault == "short") continue;  // their weights changed, the run ends; the ranks are there
    EXPECT_EQ((*trainer)->ranks_lost(), 1) << fault;
    (*trainer)->Publish(8, 1);
    EXPECT_FALSE(Await<PublishDone>(**trainer).status.ok()) << fault;
  }
}

TEST_F(RemoteTrainerTest, RanksThatDoNotComeOrRefuseAreToldWithTheReason) {
  EXPECT_THAT(Make("refuse").status().message(), HasSubstr("no such model"));
  RankCommand command = Command("");
  command.words = {"sh", "-c", "echo {socket}; exit 3"};
  const auto ended = RankProcesses::Start(command, {});
  EXPECT_EQ(ended.status().code(), Code::kUnavailable);
  EXPECT_THAT(ended.status().message(), HasSubstr("exited with status 3"));
  EXPECT_THAT(ended.status().message(), HasSubstr("ranks.log"));
}

}  // namespace
}  // namespace tidemill

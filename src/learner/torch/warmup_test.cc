#include "learner/torch/warmup.h"

#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "learner/torch/demonstrations.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WarmupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.demonstrations = folder_ + "/demos.jsonl";
    options_.config = TinyConfig();
    options_.output = folder_ + "/model";
    options_.batch_tokens = 256;
    options_.schedule = {.peak = 5e-3, .warmup_steps = 5};
    options_.evaluate_every_steps = 20;
    options_.max_steps = 400;
  }

  // The completion is the prompt backwards.
  void WriteReversals(int count) {
    Random random(4);
    std::ofstream file(options_.demonstrations);
    for (int i = 0; i < count; ++i) {
      std::string forwards, backwards;
      for (int k = 0; k < 4; ++k) {
        const std::string id = std::to_string(random.Below(8));
        forwards += (k ? "," : "") + id;
        backwards = id + (k ? "," : "") + backwards;
      }
      file << "{\"prompt_ids\":[" << forwards << ",30],\"completion_ids\":[" << backwards
           << ",31]}\n";
    }
  }

  TemporaryDirectory directory_;
  const std::string folder_ = directory_.path();
  WarmupOptions options_;
};

TEST_F(WarmupTest, LearnsFromNothingWhatTheDemonstrationsShowAndWritesAModel) {
  WriteReversals(600);
  int calls = 0;
  const auto report = RunWarmup(options_, [&](const WarmupProgress& progress) {
    ++calls;
    EXPECT_EQ(progress.step % 20, 0u);
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->examples, 540u);
  EXPECT_EQ(report->held_out, 60u);
  EXPECT_GT(report->first_held_out_loss, 3.0);
  EXPECT_LT(report->best_held_out_loss, 1.7);  // guessing among the 8 costs 1.66
  EXPECT_GT(calls, 3);
  const auto model = PolicyWeights::Load(options_.output);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
}

TEST_F(WarmupTest, StopsWhenTheHeldOutLossNoLongerFallsAndKeepsTheBest) {
  WriteReversals(30);  // soon known by heart
  options_.max_steps = 5000;
  options_.patience = 3;
  const auto report = RunWarmup(options_);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stopped, "held-out loss stopped falling");
  EXPECT_LT(report->last.step, 5000u);
  EXPECT_LE(report->best_held_out_loss, report->last.held_out_loss);
  EXPECT_LT(report->best_step, report->last.step);

  // Going on from what was written begins where the best was.
  options_.model = options_.output;
  options_.output = folder_ + "/again";
  options_.max_steps = 1;
  const auto again = RunWarmup(options_);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_NEAR(again->first_held_out_loss, report->best_held_out_loss, 1e-5);
}

TEST_F(WarmupTest, CutsTheRateWhereTheLossStopsFallingAndGoesOnFromTheBest) {
  WriteReversals(50);
  options_.max_steps = 5000;
  options_.schedule.peak = 2e-2;
  options_.output.clear();
  const auto without = RunWarmup(options_);
  options_.cuts = 2;
  const auto with = RunWarmup(options_);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(with->stopped, "held-out loss stopped falling");
  EXPECT_GT(with->last.step, without->last.step);
  EXPECT_LE(with->best_held_out_loss, without->best_held_out_loss);
}

TEST_F(WarmupTest, IsTheSameForTheSameSeed) {
  WriteReversals(50);
  options_.max_steps = 25;
  options_.output.clear();
  const auto first = RunWarmup(options_), second = RunWarmup(options_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->last.held_out_loss, second->last.held_out_loss);
}

TEST_F(WarmupTest, NamesTheLinesThatAreWrong) {
  std::ofstream(options_.demonstrations) << "{\"prompt_ids\":[1],\"completion_ids\":[2]}\n"
                                         << "{\"prompt_ids\":[1],\"completion_ids\":[]}\n"
                                         << "\n"
                                         << "{\"prompt\":\"a\",\"completion\":3}\n"
                                         << "not json\n"
                                         << "{\"prompt_ids\":[1],\"completion_ids\":[99]}\n"
                                         << "{\"prompt\":\"a\",\"completion\":\"b\"}\n"
                                         << "{\"prompt_ids\":[1, -2],\"completion_ids\":[3]}\n";
  const std::string message = RunWarmup(options_).status().message();
  EXPECT_THAT(message, HasSubstr("demos.jsonl:2: the completion is empty"));
  EXPECT_THAT(message, HasSubstr("demos.jsonl:4: \"completion\" must be a string"));
  EXPECT_THAT(message, HasSubstr("demos.jsonl:5: not valid JSON"));
  EXPECT_THAT(message, HasSubstr("demos.jsonl:6: id 99 is outside the vocabulary of 37"));
  EXPECT_THAT(message, HasSubstr("demos.jsonl:7: it is text, but the model has no tokenizer.json"));
  EXPECT_THAT(message,
              HasSubstr("demos.jsonl:8: \"prompt_ids\" must be a list of token ids, it has -2"));
  EXPECT_FALSE(fs::exists(options_.output));
}

TEST_F(WarmupTest, SaysWhichLimitEndedIt) {
  WriteReversals(50);
  options_.max_steps = 3;
  options_.output.clear();
  EXPECT_EQ(RunWarmup(options_)->stopped, "step limit");
  options_.max_seconds = 1e-9;
  const auto report = RunWarmup(options_);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stopped, kStoppedByClock);
  EXPECT_EQ(report->last.step, 1u);
}

TEST_F(WarmupTest, StopsWhenAsked) {
  WriteReversals(50);
  const auto report = RunWarmup(options_, [](const WarmupProgress&) { return false; });
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stopped, "interrupted");
  EXPECT_EQ(report->last.step, 20u);
}

TEST_F(WarmupTest, AModelIsReplacedOnlyWhereThatIsAskedFor) {
  WriteReversals(30);
  options_.max_steps = 1;
  ASSERT_TRUE(RunWarmup(options_).ok());
  const std::string before = TextOf(options_.output + "/model.safetensors");
  const Status again = RunWarmup(options_).status();
  EXPECT_EQ(again.code(), Code::kExists);
  EXPECT_THAT(again.message(), HasSubstr("--replace"));
  EXPECT_EQ(TextOf(options_.output + "/model.safetensors"), before);
  options_.replace = true;
  options_.seed = 9;
  ASSERT_TRUE(RunWarmup(options_).ok());
  EXPECT_NE(TextOf(options_.output + "/model.safetensors"), before);
}

TEST_F(WarmupTest, WhereNothingCanBeWrittenIsSaidBeforeTheWork) {
  WriteReversals(30);
  std::ofstream(folder_ + "/file") << "in the way";
  options_.output = folder_ + "/file/model";
  int told = 0;
  const Status refused =
      RunWarmup(options_, [&](const WarmupProgress&) { return ++told > 0; }).status();
  EXPECT_THAT(refused.message(), HasSubstr(folder_ + "/file"));
  EXPECT_EQ(told, 0);
}

// Stopped between two evaluations of the third epoch, and gone on with in another process's place.
TEST_F(WarmupTest, AnInterruptedOneGoesOnAsIfItHadNotStopped) {
  WriteReversals(50);
  options_.max_steps = 30;
  options_.evaluate_every_steps = 4;
  options_.patience = 0;
  options_.output = folder_ + "/whole";
  const auto whole = RunWarmup(options_);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_GT(whole->last.epoch, 2u);

  options_.output = folder_ + "/parts";
  int updates = 0;
  options_.stop = [&] { return ++updates == 14; };
  const auto first = RunWarmup(options_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(first->unfinished);
  EXPECT_EQ(first->last.step, 14u);
  EXPECT_FALSE(fs::exists(options_.output)) << "no model is half trained";
  EXPECT_EQ(RunWarmup(options_).status().code(), Code::kExists) << "nothing is lost in silence";

  options_.resume = true;
  options_.seed = 5;
  EXPECT_THAT(RunWarmup(options_).status().message(), HasSubstr("other --seed"));
  options_.seed = 0;
  const auto second = RunWarmup(options_);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_FALSE(second->unfinished);
  EXPECT_EQ(second->last.step, 30u);
  EXPECT_EQ(second->last.held_out_loss, whole->last.held_out_loss);
  EXPECT_EQ(second->last.train_loss, whole->last.train_loss);
  EXPECT_EQ(second->best_step, whole->best_step);
  EXPECT_EQ(TextOf(options_.output + "/model.safetensors"),
            TextOf(folder_ + "/whole/model.safetensors"));
  EXPECT_FALSE(fs::exists(options_.output + ".warmup"));
}

TEST(ParseDemonstration, AnEpisodeThatMayHoldSeveralPromptsBehindOneIsRefused) {
  const std::string rest =
      R"("prompt_ids":[1],"completion_ids":[2],"completion_mask":[1],"group":1,"member":0)";
  EXPECT_TRUE(ParseDemonstration("{\"branch\":1," + rest + "}").ok());
  EXPECT_THAT(ParseDemonstration("{" + rest + "}").status().message(),
              HasSubstr("export the run again"));
}

TEST(EncodeDemonstration, EncodesTextWithTheTokenizerAndEndsIt) {
  const auto tokenizer = Tokenizer::Read(SourceDir() + "/tests/golden/qwen2-tiny");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EncodeOptions options;
  options.tokenizer = &*tokenizer;
  options.end_ids = {7};
  const auto demonstration =
      ParseDemonstration(R"({"prompt": "int f", "completion": "return 1;"})");
  const auto row = EncodeDemonstration(*demonstration, options);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  const auto prompt = tokenizer->Encode("int f", SpecialTokens::kAsText);
  const auto completion = tokenizer->Encode("return 1;", SpecialTokens::kAsText);
  EXPECT_EQ(row->prompt_tokens, prompt.size());
  EXPECT_EQ(row->ids.size(), prompt.size() + completion.size() + 1);
  EXPECT_EQ(row->ids.back(), 7);
  EXPECT_EQ(row->trained_tokens, completion.size() + 1);
  options.append_end = false;
  EXPECT_EQ(EncodeDemonstration(*demonstration, options)->ids.size(),
            prompt.size() + completion.size());
}

}  // namespace
}  // namespace tidemill

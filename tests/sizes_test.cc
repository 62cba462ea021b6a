// Sizes: the memory plan against a run's peak, and runs from random weights, through the program
// itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/number_types.h"
#include "model/safetensors.h"
#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class SizesTest : public LineTest {
 protected:
  // A folder with a config.json and nothing else: that of the tiny model, changed.
  static std::string Shape(const std::string& name, const json& changes) {
    const std::string dir = folder_ + "/" + name;
    fs::create_directories(dir);
    json config = json::parse(std::ifstream(folder_ + "/model/config.json"));
    config.update(changes);
    std::ofstream(dir + "/config.json") << config;
    return dir;
  }
  static std::string Random(const std::string& shape) {
    return " --set model.init=random --set model.path=" + shape +
           " --set model.tokenizer=" + folder_ + "/model ";
  }
  static size_t Files(const std::string& dir) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir), {}));
  }
};

TEST_F(SizesTest, ARunFromRandomWeightsNeedsAShapeAndATokenizerAndWritesNothingBesideThem) {
  const std::string shape =
      Shape("random-shape", {{"vocab_size", 700}, {"torch_dtype", "bfloat16"}});
  const std::string still = "--set learner.learning_rate=0 --set learner.weight_decay=0";
  const ProcessOutput run =
      RunTidemill(Train("random", Random(shape) + "--set run.steps=1 " + still), "2>/dev/null");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Files(shape), 1u);
  const std::string checkpoint = folder_ + "/runs/random/checkpoints/step-00000001";
  EXPECT_TRUE(fs::exists(checkpoint + "/tokenizer.json"));
  // The weights of the start, which did not move, are those of the same seed in float32.
  Shape("wide", {{"vocab_size", 700}, {"torch_dtype", "float32"}});
  MustRun("model new --seed 1 --config " + folder_ + "/wide/config.json --out " + folder_ +
          "/drawn");
  const TensorFiles drawn = TensorFiles::OpenModel(folder_ + "/drawn").value();
  const TensorFiles trained = TensorFiles::OpenModel(checkpoint).value();
  ASSERT_EQ(drawn.tensors().size(), trained.tensors().size());
  for (const TensorView& tensor : drawn.tensors()) {
    const TensorView* other = trained.Find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    ASSERT_EQ(tensor.bytes, other->bytes);
    EXPECT_EQ(std::memcmp(tensor.data, other->data, tensor.bytes), 0) << tensor.name;
  }
  const ProcessOutput resumed =
      RunTidemill("--log-level warn train --json --no-web --set run.steps=2 --resume " + folder_ +
                      "/runs/random",
                  "2>/dev/null");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(Summary(resumed)["steps"], 2);
}

TEST_F(SizesTest, AnAdapterOnRandomWeightsIsResumedOnTheSameOnes) {
  const std::string shape = Shape("random-shape", {{"vocab_size", 700}});
  const std::string more = Random(shape) + "--set learner.lora_rank=4 --set run.steps=1";
  ASSERT_EQ(RunTidemill(Train("lora", more), "2>/dev/null").exit_code, 0);
  const ProcessOutput resumed = RunTidemill(
      "--log-level warn train --json --no-web --set run.steps=2 --resume " + folder_ + "/runs/lora",
      "2>/dev/null");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(Summary(resumed)["steps"], 2);
}

TEST_F(SizesTest, ATokenizerThatIsTooLargeForTheModelIsRefused) {
  const std::string shape = Shape("narrow", {{"vocab_size", 100}, {"eos_token_id", 1}});
  const ProcessOutput run =
      RunTidemill(Train("narrow", Random(shape) + "--set run.steps=1"), "2>&1");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("model.tokenizer"));
}

// On a CPU the optimizer's state is on the host already.
TEST_F(SizesTest, MomentsInBytesTrainAndResume) {
  const std::string shape = Shape("random-shape", {{"vocab_size", 700}});
  const std::string more = Random(shape) +
                           "--set learner.moments=int8 --set learner.optimizer_state=host "
                           "--set run.steps=1";
  ASSERT_EQ(RunTidemill(Train("int8", more), "2>/dev/null").exit_code, 0);
  const TensorFiles saved =
      TensorFiles::Open(folder_ + "/runs/int8/checkpoints/step-00000001/optimizer.safetensors")
          .value();
  const TensorView* codes = saved.Find("m.model.embed_tokens.weight");
  ASSERT_NE(codes, nullptr);
  EXPECT_EQ(codes->dtype, Dtype::kU8);
  const std::string resume = "--log-level warn train --json --no-web --set run.steps=2 ";
  EXPECT_EQ(RunTidemill(resume + "--resume " + folder_ + "/runs/int8", "2>/dev/null").exit_code, 0);
}

TEST_F(SizesTest, ThePlanSaysWhatFitsAndWhatWould) {
  const std::string seven = SourceDir() + "/examples/shapes/7b";
  const auto plan = [&](const std::string& words) {
    return RunTidemill("plan --model " + seven + " " + words, "2>&1");
  };
  const ProcessOutput host = plan("--memory 80GB");
  EXPECT_EQ(host.exit_code, 0) << host.output;
  EXPECT_THAT(host.output, HasSubstr("optimizer state on the host"));
  EXPECT_THAT(host.output, HasSubstr("besides, of the host"));
  const ProcessOutput none = plan("--memory 80GB --set learner.optimizer_state=gpu");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.output, HasSubstr("does not fit"));
  EXPECT_THAT(none.output, HasSubstr("would fit: learner.optimizer_state = \"host\""));
  EXPECT_THAT(none.output,
              HasSubstr("would fit: learner.lora_rank = 16, learner.recompute = true"));
  const ProcessOutput fits =
      plan("--memory 24GB --set learner.lora_rank=16 --set learner.token_budget=0 --json");
  EXPECT_EQ(fits.exit_code, 0) << fits.output;
  const json report = json::parse(fits.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << fits.output;
  EXPECT_EQ(report["fits"], true);
  EXPECT_EQ(report["recompute"], true);
  uint64_t sum = 0;
  for (const json& row : report["rows"]) sum += row["bytes"].get<uint64_t>();
  EXPECT_EQ(sum, report["bytes"].get<uint64_t>());
  EXPECT_EQ(plan("--memory 80furlongs").exit_code, 2);
  EXPECT_EQ(plan("--memory 80GB --set learner.token_budget=5").exit_code, 2);
}

// A gpu_bench whose decode steps are the shorter the more is reserved, and a machine with a GPU.
TEST_F(SizesTest, OfWhatKeepsDecodeStepsShortTheOneWithTheFastestLearnerIsNamed) {
  const std::string dir = folder_ + "/latency";
  fs::create_directories(dir + "/bench");
  std::ofstream(dir + "/nvidia-smi") << "#!/bin/sh\nexit 0\n";
  std::ofstream(dir + "/bench/gpu_bench")
      << "#!/bin/sh\n"  // both 32 --product-tflop X --reserve N
         "[ $4 = 0.14 ] && exit 3\n"
         "echo '{\"tokens_per_s\": 9, \"learner_multiprocessors\": '$((132 - $6))', \"publish\": "
         "{\"step_ms_median\": 2, \"step_ms_p99\": '$((27 - $6))', \"swap_ms_p99\": 1, "
         "\"learner_tokens_per_s\": '$((900 - $6))'}}'\n";
  for (const char* name : {"/nvidia-smi", "/bench/gpu_bench"}) {
    fs::permissions(dir + name, fs::perms::owner_all);
  }
  const ProcessOutput run =
      RunProcess({"sh", "-c",
                  "PATH=" + dir + ":$PATH " + SourceDir() + "/scripts/gpu-sizes --programs " + dir +
                      " --folder " + dir + "/work latency"},
                 std::chrono::seconds(60));
  EXPECT_EQ(run.exit_code, 1) << run.output;  // one has failed
  json best;
  int measured = 0, failed = 0;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    const json said = json::parse(line, nullptr, false);
    ASSERT_TRUE(said.is_object()) << line;
    measured += said.contains("decode_ms_p99") ? 1 : 0;
    failed += said.contains("failed") ? 1 : 0;
    if (said.contains("best")) best = said["best"];
  }
  EXPECT_GE(measured, 8);
  EXPECT_EQ(failed, 1);
  ASSERT_TRUE(best.is_object()) << run.output;
  EXPECT_EQ(best["reserve"], 24);  // 32 is shorter still, and slower
  EXPECT_EQ(best["decode_ms_p99"], 3);
  EXPECT_EQ(best["learner_tokens_per_s"], 876);
}

// A model large enough to outweigh the program; batches of more tokens than the budget.
TEST_F(SizesTest, TheCpusPlanIsWithinATenthOfARunsPeak) {
  const std::string shape = Shape("middle", {{"vocab_size", 4096},
                                             {"hidden_size", 384},
                                             {"intermediate_size", 1536},
                                             {"num_hidden_layers", 6},
                                             {"num_attention_heads", 6},
                                             {"num_key_value_heads", 2},
                                             {"head_dim", 64},
                                             {"max_position_embeddings", 1024}});
  const std::string settings =
      "--set learner.token_budget=512 --set rollout.cache_mb=32 --set rollout.max_context=512 "
      "--set threads.trainer=2 ";
  const ProcessOutput run = RunTidemill(Train("middle", Random(shape) + settings +
                                                            "--set run.steps=3 --set "
                                                            "learner.checkpoint_every_steps=1"),
                                        "2>/dev/null");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  struct rusage usage {};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  const double peak = static_cast<double>(usage.ru_maxrss) * 1024;
  const ProcessOutput planned =
      RunTidemill("plan --device cpu --json --model " + shape + " " + settings);
  const json report = json::parse(planned.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << planned.output;
  EXPECT_NEAR(report["bytes"].get<double>() / peak, 1, 0.1) << peak / (1 << 20) << " MiB, planned\n"
                                                            << planned.output;
}

}  // namespace
}  // namespace tidemill

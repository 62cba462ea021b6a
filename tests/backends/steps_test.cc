// One step of our learner against the same step of FSDP2 ranks: same batch, same weights, every
// preset, with and without an adapter. TIDEMILL_BACKENDS_PYTHON is a Python with tidemill_fsdp,
// TIDEMILL_BACKENDS_RANKS how many ranks there are.
#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>

#include "core/random.h"
#include "learner/remote/rank_processes.h"
#include "learner/remote/remote_step.h"
#include "learner/torch/adamw.h"
#include "learner/torch/trainer.h"
#include "model/safetensors.h"
#include "model/torch/lora.h"
#include "model/torch/score.h"
#include "testing/golden.h"
#include "testing/learner_samples.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

constexpr double kRate = 1e-3;

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

uint32_t RankCount() {
  return static_cast<uint32_t>(std::stoul(Environment("TIDEMILL_BACKENDS_RANKS", "1")));
}

struct Case {
  std::string model;
  bool lora = false;
  bool values = false;
};

// Three members in two groups, one or two turns each; drawn by a policy near `weights`.
v1::Batch NearBatch(const PolicyWeights& weights, bool taught) {
  Random random(7);
  v1::Batch batch;
  for (uint32_t s = 0; s < 6; ++s) {
    std::vector<uint32_t> prompt = {11, 12, 13 + s / 3, 14};
    std::vector<TurnSpec> turns(1 + s % 2);
    std::vector<TokenId> all(prompt.begin(), prompt.end());
    for (TurnSpec& turn : turns) {
      const auto count = 3 + static_cast<uint32_t>(random.Below(6));
      for (uint32_t i = 0; i < count; ++i) {
        turn.ids.push_back(static_cast<uint32_t>(
            random.Below(static_cast<uint64_t>(weights.config().vocab_size))));
        all.push_back(static_cast<TokenId>(turn.ids.back()));
      }
      turn.versions = {{1, 1}, {2, count - 1}};
      turn.observation = {15, 16, 17};
      all.insert(all.end(), {15, 16, 17});
    }
    const std::vector<float> now = ScoreTokens(weights, all).value();
    size_t at = prompt.size() - 1;
    for (TurnSpec& turn : turns) {
      for (size_t i = 0; i < turn.ids.size(); ++i) {
        const double noise = 0.4 * (random.Uniform() - 0.5);
        turn.logprobs.push_back(std::min(0.0f, now[at++] + static_cast<float>(noise)));
      }
      at += 3;
    }
    v1::Sample& sample = *batch.add_samples();
    sample = MakeSample(1 + s / 3, s % 3, random.Uniform(), prompt, turns);
    if (!taught) continue;
    for (size_t t = 0; t < turns.size(); ++t) {
      v1::TurnScores& scores = *sample.add_teacher();
      scores.set_turn(static_cast<uint32_t>(t));
      for (const float logprob : turns[t].logprobs) {
        scores.add_logprobs(std::min(0.0f, logprob + static_cast<float>(random.Uniform() - 0.5)));
      }
    }
  }
  return batch;
}

class StepsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string python = Environment("TIDEMILL_BACKENDS_PYTHON", "");
    ASSERT_FALSE(python.empty()) << "TIDEMILL_BACKENDS_PYTHON names no Python with tidemill_fsdp";
    model_ = GoldenDir() + "/" + GetParam().model;
    first_ = PolicyWeights::Load(model_, {.dtype = Dtype::kF32}).value();
    RankMessage hello;
    hello.words = {{"model", model_},    {"adapter", ""},     {"precision", "float32"},
                   {"recompute", false}, {"reference", true}, {"value_head", GetParam().values},
                   {"beta1", 0.9},       {"beta2", 0.95},     {"eps", 1e-8},
                   {"weight_decay", 0.1}};
    if (GetParam().lora) {
      LoraConfig lora;
      lora.rank = 4;
      lora.alpha = 8;
      lora.target_pattern = "all-linear";
      lora.base_model = model_;
      auto adapter = NewAdapter(lora, first_->config(), 3).value();
      ASSERT_TRUE(SaveAdapter(*adapter, folder_ / "adapter").ok());
      first_ = PolicyWeights::WithAdapter(first_, adapter).value();
      hello.words["adapter"] = folder_ / "adapter";
    }
    RankCommand command{
        .words = {python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                  "{ranks}", "-m", "tidemill_fsdp", "--socket", "{socket}"},
        .ranks = RankCount(),
        .log = folder_ / "ranks.log",
        .join_patience = std::chrono::minutes(5),
        .answer_patience = std::chrono::minutes(2)};
    auto ranks = RankProcesses::Start(command, hello);
    ASSERT_TRUE(ranks.ok()) << ranks.status().message() << TextOf(folder_ / "ranks.log");
    ranks_ = std::move(*ranks);
  }

  void Ask(nlohmann::json words) {
    const auto answer = ranks_->Ask({.words = std::move(words)});
    ASSERT_TRUE(answer.ok()) << answer.status().message();
  }
  NamedTensors Gradients() {
    const std::string file = folder_ / "gradients.safetensors";
    Ask({{"verb", "gradients"}, {"file", file}});
    return Named(TensorFiles::Open(file).value());
  }
  static NamedTensors Named(const TensorFiles& files) {
    NamedTensors tensors;
    for (const TensorView& view : files.tensors()) {
      std::string name = view.name;  // as PEFT wraps them
      if (name.starts_with("base_model.model.")) name = name.substr(17);
      for (const char* part : {".default", ".base_layer"}) {
        if (const size_t at = name.find(part); at != std::string::npos) {
          name.erase(at, std::string(part).size());
        }
      }
      tensors.emplace(name, CopyToTensor(view).value());
    }
    return tensors;
  }
  std::shared_ptr<const PolicyWeights> Published(const std::string& name) {
    const std::string folder = folder_ / name;
    Ask({{"verb", "publish"}, {"folder", folder}, {"dtype", "float32"}, {"merged", false}});
    if (!GetParam().lora) return PolicyWeights::Load(folder, {.dtype = Dtype::kF32}).value();
    return PolicyWeights::WithAdapter(first_, LoadAdapter(folder, first_->config()).value())
        .value();
  }
  static RemoteStepOptions Remote(const ObjectiveConfig& objective) {
    RemoteStepOptions options;
    options.objective = objective;
    options.schedule.peak = kRate;
    options.microbatch_tokens = 40;
    options.grad_clip = 0.5;
    return options;
  }

  // Our learner's step from weights `from` against what the ranks made of it.
  void Compare(const ObjectiveConfig& objective, const std::shared_ptr<const PolicyWeights>& from,
               const v1::Batch& batch, const std::map<std::string, double>& theirs,
               const NamedTensors& gradients);

  const TemporaryDirectory folder_;
  std::string model_;
  std::shared_ptr<const PolicyWeights> first_;
  std::unique_ptr<RankProcesses> ranks_;
};

// Only what is trained: names and tensors of a set of weights.
NamedTensors TrainedOf(const PolicyWeights& weights) {
  return weights.adapter() != nullptr ? weights.adapter()->tensors : weights.tensors();
}

double Largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
}

// A name of PEFT's file or of ours to the one both have.
std::string Plain(std::string name) {
  if (name.starts_with("base_model.model.")) name = name.substr(17);
  return name;
}

void StepsTest::Compare(const ObjectiveConfig& objective,
                        const std::shared_ptr<const PolicyWeights>& from, const v1::Batch& batch,
                        const std::map<std::string, double>& theirs,
                        const NamedTensors& gradients) {
  TrainerOptions options;
  options.objective = objective;
  options.schedule.peak = kRate;
  options.adamw.weight_decay = 0.1;
  options.grad_clip = 0.5;
  options.microbatch_tokens = 40;
  auto trainer = Trainer::New(from, options, objective.NeedsReference() ? first_ : nullptr).value();
  trainer->NotePublished(1, 0);
  trainer->NotePublished(2, 1);
  const auto ours = trainer->Train(batch);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  for (const char* metric : {"loss", "grad_norm", "entropy", "ratio", "ess", "mismatch"}) {
    const double right = ours->metrics.at(metric);
    EXPECT_NEAR(theirs.at(metric), right, 1e-5 * std::abs(right) + 1e-7) << metric;
  }
  size_t compared = 0;
  for (const auto& [name, leaf] : trainer->Leaves()) {
    const auto found = gradients.find(Plain(name));
    ASSERT_NE(found, gradients.end()) << name;
    const double scale = Largest(leaf.grad());
    EXPECT_LE(Largest(leaf.grad() - found->second), 1e-4 * scale + 1e-9) << name;
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());
}

TEST_P(StepsTest, LossNormAndGradientsAreThoseOfOurLearnerForEveryPreset) {
  RemoteProgress progress;
  progress.versions.Published(1, 0);
  progress.versions.Published(2, 1);
  std::vector<std::string> warnings;
  // A first update, so that policy and reference differ.
  ObjectiveConfig plain = ObjectivePreset(GetParam().values ? "vtrace" : "rloo").value();
  v1::Batch batch = NearBatch(*first_, true);
  batch.set_step(2);
  RemoteStep first(*ranks_, Remote(plain));
  const auto moved = first.Train(batch, progress, warnings);
  ASSERT_TRUE(moved.ok()) << moved.status().message();

  // The update itself: our AdamW from equal gradients.
  const NamedTensors gradients = Gradients();
  const auto after = Published("first");
  NamedTensors leaves;
  for (const auto& [name, tensor] : TrainedOf(*first_)) {
    at::Tensor leaf = tensor.detach().clone().set_requires_grad(true);
    const auto found = gradients.find(Plain(name));
    ASSERT_NE(found, gradients.end()) << name;
    leaf.mutable_grad() = found->second.clone();
    leaves.emplace(name, leaf);
  }
  AdamW adamw({.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  const double norm = moved->at("grad_norm");
  adamw.Step(leaves, kRate, norm > 0.5 ? 0.5 / norm : 1.0);
  for (const auto& [name, tensor] : TrainedOf(*after)) {
    EXPECT_LE(Largest(tensor - leaves.at(name).detach()), 1e-6) << name;
  }

  if (GetParam().values) {
    // From the first weights, where our value head is theirs.
    Compare(plain, first_, batch, *moved, gradients);
    return;
  }
  for (const std::string& preset : ObjectivePresetNames()) {
    if (preset == "vtrace") continue;
    SCOPED_TRACE(preset);
    ObjectiveConfig objective = ObjectivePreset(preset).value();
    if (objective.kl != KlKind::kNone) objective.kl_coefficient = 0.05;
    objective.entropy_coefficient = 0.01;
    Ask({{"verb", "begin"}});
    RemoteStep step(*ranks_, Remote(objective));
    const auto theirs = step.Train(batch, progress, warnings);
    ASSERT_TRUE(theirs.ok()) << theirs.status().message();
    Compare(objective, after, batch, *theirs, Gradients());
    Ask({{"verb", "undo"}});
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StepsTest,
                         testing::Values(Case{"qwen2-tiny"}, Case{"llama-tiny"}, Case{"qwen3-tiny"},
                                         Case{"qwen2-tiny", true}, Case{"qwen2-tiny", false, true}),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.model + (info.param.lora ? "_lora" : "") +
                                              (info.param.values ? "_values" : "");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tidemill

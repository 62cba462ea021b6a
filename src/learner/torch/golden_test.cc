// Advantages, objectives with their gradients, effective sample size and V-trace against reference
// values computed in float64 elsewhere. TIDEMILL_GOLDEN names another copy of the file or its
// folder.
#include "model/torch/aten.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "learner/advantages.h"
#include "learner/staleness.h"
#include "learner/torch/objective.h"
#include "learner/vtrace.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-6;

const json& Golden() {
  static const json golden = [] {
    std::filesystem::path path = SourceDir() + "/tests/golden";
    if (const char* given = std::getenv("TIDEMILL_GOLDEN")) path = given;
    if (std::filesystem::is_directory(path)) path /= "objectives.json";
    std::ifstream file(path);
    EXPECT_TRUE(file.good()) << "no reference values at " << path;
    return json::parse(file);
  }();
  return golden;
}

struct Flat {
  std::vector<double> behaviour, proximal, current, reference, mask, rewards;
  std::vector<int64_t> sequence;
  std::vector<uint64_t> groups;

  explicit Flat(const json& batch) {
    for (const json& row : batch.at("sequences")) {
      const auto index = static_cast<int64_t>(rewards.size());
      rewards.push_back(row.at("reward"));
      groups.push_back(row.at("group"));
      for (size_t i = 0; i < row.at("mask").size(); ++i) {
        behaviour.push_back(row.at("behaviour")[i]);
        proximal.push_back(row.at("proximal")[i]);
        current.push_back(row.at("current")[i]);
        reference.push_back(row.at("reference")[i]);
        mask.push_back(row.at("mask")[i]);
        sequence.push_back(index);
      }
    }
  }
};

AdvantageKind KindOf(const std::string& name) {
  ObjectiveConfig config;
  EXPECT_TRUE(SetObjectiveOption(config, "advantage", name).ok()) << name;
  return config.advantage;
}

ObjectiveConfig ConfigOf(const json& options) {
  ObjectiveConfig config;
  config.proximal = ProximalKind::kRecompute;
  for (const auto& [key, value] : options.items()) {
    const Status set = value.is_string() ? SetObjectiveOption(config, key, value.get<std::string>())
                                         : SetObjectiveOption(config, key, value.get<double>());
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  return config;
}

ObjectiveInput InputOf(const Flat& flat, const std::vector<double>& advantages,
                       const at::TensorOptions& options) {
  const auto tensor = [&](const std::vector<double>& values) {
    return torch::tensor(values, torch::kFloat64).to(options);
  };
  std::vector<double> per_token;
  for (int64_t row : flat.sequence) per_token.push_back(advantages[static_cast<size_t>(row)]);
  ObjectiveInput input;
  input.current = tensor(flat.current).requires_grad_(true);
  input.behaviour = tensor(flat.behaviour);
  input.proximal = tensor(flat.proximal);
  input.reference = tensor(flat.reference);
  input.mask = tensor(flat.mask);
  input.advantages = tensor(per_token);
  input.sequence = torch::tensor(flat.sequence, torch::kInt64);
  input.sequences = static_cast<int64_t>(flat.rewards.size());
  return input;
}

void ExpectObjectives(at::ScalarType type, double tolerance) {
  int checked = 0;
  for (const json& batch : Golden().at("batches")) {
    const Flat flat(batch);
    ObjectiveTotals totals{0, static_cast<double>(flat.rewards.size())};
    for (double m : flat.mask) totals.tokens += m;
    for (const json& objective : batch.at("objectives")) {
      SCOPED_TRACE(objective.at("options").dump());
      const ObjectiveConfig config = ConfigOf(objective.at("options"));
      const auto advantages = ComputeAdvantages(config.advantage, flat.rewards, flat.groups);
      ObjectiveInput input = InputOf(flat, advantages, type);
      const ObjectiveLoss loss = ComputeObjective(config, input, totals);
      loss.loss.backward();
      EXPECT_NEAR(loss.loss.item<double>(), objective.at("loss").get<double>(), tolerance);
      const at::Tensor gradient = input.current.grad().to(torch::kFloat64);
      int64_t i = 0;
      for (const json& row : objective.at("grad")) {
        for (const json& expected : row) {
          EXPECT_NEAR(gradient[i].item<double>(), expected.get<double>(), tolerance) << i;
          ++i;
        }
      }
      EXPECT_EQ(i, gradient.numel());
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(Golden, AdvantagesAreThoseOfTheReference) {
  for (const json& batch : Golden().at("batches")) {
    const Flat flat(batch);
    for (const auto& [name, expected] : batch.at("advantages").items()) {
      const auto got = ComputeAdvantages(KindOf(name), flat.rewards, flat.groups);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], expected[i].get<double>(), kTolerance) << name << " " << i;
      }
    }
  }
}

TEST(Golden, EveryObjectiveAndItsGradientAreThoseOfTheReferenceInDoublePrecision) {
  ExpectObjectives(torch::kFloat64, kTolerance);
}

TEST(Golden, EveryObjectiveIsCloseInSinglePrecisionToo) {
  ExpectObjectives(torch::kFloat32, 1e-5);
}

TEST(Golden, SplittingABatchIntoMicrobatchesChangesNeitherLossNorGradient) {
  for (const json& batch : Golden().at("batches")) {
    const Flat whole(batch);
    ObjectiveTotals totals{0, static_cast<double>(whole.rewards.size())};
    for (double m : whole.mask) totals.tokens += m;
    for (const json& objective : batch.at("objectives")) {
      const ObjectiveConfig config = ConfigOf(objective.at("options"));
      const auto advantages = ComputeAdvantages(config.advantage, whole.rewards, whole.groups);
      double loss = 0;
      for (size_t row = 0; row < whole.rewards.size(); ++row) {
        json one = batch;
        one["sequences"] = json::array({batch.at("sequences")[row]});
        ObjectiveInput input = InputOf(Flat(one), {advantages[row]}, torch::kFloat64);
        loss += ComputeObjective(config, input, totals).loss.item<double>();
      }
      EXPECT_NEAR(loss, objective.at("loss").get<double>(), kTolerance);
    }
  }
}

TEST(Golden, EffectiveSampleSizeIsThatOfTheReference) {
  for (const json& batch : Golden().at("batches")) {
    const Flat flat(batch);
    std::vector<double> log_weights;
    for (size_t i = 0; i < flat.mask.size(); ++i) {
      if (flat.mask[i] == 1) log_weights.push_back(flat.current[i] - flat.behaviour[i]);
    }
    EXPECT_NEAR(EffectiveSampleSize(log_weights), batch.at("effective_sample_size").get<double>(),
                kTolerance);
  }
}

TEST(Golden, VtraceTargetsAndAdvantagesAreThoseOfTheReference) {
  ASSERT_FALSE(Golden().at("vtrace").empty());
  for (const json& one : Golden().at("vtrace")) {
    const auto numbers = [&](const char* key) { return one.at(key).get<std::vector<double>>(); };
    const auto ratio = numbers("log_ratio"), rewards = numbers("rewards"),
               discounts = numbers("discounts"), values = numbers("values");
    const VtraceOutput got =
        ComputeVtrace({ratio, rewards, discounts, values, one.at("bootstrap")},
                      {one.at("rho_cap"), one.at("c_cap"), one.at("pg_rho_cap")});
    for (size_t t = 0; t < values.size(); ++t) {
      EXPECT_NEAR(got.vs[t], numbers("vs")[t], kTolerance);
      EXPECT_NEAR(got.advantages[t], numbers("advantages")[t], kTolerance);
    }
  }
}

TEST(InterpolateProximal, StandsWhereTheLagPutsIt) {
  const auto b = torch::tensor({-1.0, -1.0, -1.0}), c = torch::tensor({-2.0, -2.0, -2.0});
  const auto p = InterpolateProximal(b, c, torch::tensor({0.0, 1.0, 3.0}));
  EXPECT_TRUE(torch::allclose(p, torch::tensor({-1.0, -1.5, -1.75}))) << p;
}

}  // namespace
}  // namespace tidemill

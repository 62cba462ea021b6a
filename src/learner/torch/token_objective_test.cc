#include "learner/torch/token_objective.h"

#include "model/torch/aten.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/random.h"

namespace tidemill {
namespace {

// Tokens of sequences of different length.
struct LossCase {
  std::vector<float> p, q, w, mask;
  std::vector<int64_t> sequence;
  int64_t sequences = 0;
};

LossCase RandomCase(uint64_t seed) {
  Random random(seed);
  LossCase made;
  made.sequences = 5;
  for (int64_t s = 0; s < made.sequences; ++s) {
    for (int64_t i = random.Between(1, 9); i > 0; --i) {
      made.p.push_back(static_cast<float>(-3 * random.Uniform()));
      made.q.push_back(made.p.back() + static_cast<float>(0.8 * random.Uniform() - 0.4));
      made.w.push_back(random.Chance(0.2) ? 0.0f : static_cast<float>(2 * random.Uniform() - 1));
      made.mask.push_back(random.Chance(0.3) ? 0.0f : 1.0f);
      made.sequence.push_back(s);
    }
  }
  return made;
}

struct LossAndGradient {
  double loss = 0;
  std::vector<double> gradient;
};

// The formulas of docs/tinker.md written out for each token, in float64.
LossAndGradient Reference(const TokenLoss& loss, const LossCase& c) {
  LossAndGradient out{.loss = 0, .gradient = std::vector<double>(c.p.size())};
  std::vector<double> mean(static_cast<size_t>(c.sequences)), count(mean);
  for (size_t i = 0; i < c.p.size(); ++i) {
    if (c.mask[i] == 0) continue;
    const auto s = static_cast<size_t>(c.sequence[i]);
    mean[s] += double{c.p[i]} - double{c.q[i]};
    count[s] += 1;
  }
  for (size_t i = 0; i < c.p.size(); ++i) {
    const double p = c.p[i], q = c.q[i], a = c.w[i];
    const auto s = static_cast<size_t>(c.sequence[i]);
    const double token_ratio = std::exp(p - q);
    const double sequence_ratio = std::exp(mean[s] / std::max(count[s], 1.0));
    const double r = loss.kind == TokenLossKind::kGspo ? sequence_ratio : token_ratio;
    const double bounded = std::clamp(r, loss.clip_low, loss.clip_high);
    switch (loss.kind) {
      case TokenLossKind::kCrossEntropy:
        out.loss -= a * p;
        out.gradient[i] = -a;
        break;
      case TokenLossKind::kImportanceSampling:
        out.loss -= r * a;
        out.gradient[i] = -r * a;
        break;
      case TokenLossKind::kPpo:
      case TokenLossKind::kGspo:
        out.loss -= std::min(r * a, bounded * a);
        out.gradient[i] = r * a <= bounded * a ? -r * a : 0;
        break;
      case TokenLossKind::kCispo:
        out.loss -= bounded * p * a;
        out.gradient[i] = -bounded * a;
        break;
      case TokenLossKind::kDro:
        out.loss -= p * a - loss.beta / 2 * (p - q) * (p - q);
        out.gradient[i] = -(a - loss.beta * (p - q));
        break;
    }
  }
  return out;
}

LossAndGradient Computed(const TokenLoss& loss, const LossCase& c) {
  const at::Tensor p = at::tensor(c.p).set_requires_grad(true);
  const at::Tensor total = ComputeTokenLoss(
      loss,
      {.current = p,
       .weights = at::tensor(c.w),
       .behaviour = loss.kind == TokenLossKind::kCrossEntropy ? at::Tensor() : at::tensor(c.q),
       .ratio_mask = loss.kind == TokenLossKind::kGspo ? at::tensor(c.mask) : at::Tensor(),
       .sequence = at::tensor(c.sequence),
       .sequences = c.sequences});
  total.backward();
  LossAndGradient out{.loss = total.item<double>(), .gradient = {}};
  const at::Tensor gradient = p.grad().contiguous();
  const float* from = gradient.data_ptr<float>();
  out.gradient.assign(from, from + gradient.numel());
  return out;
}

void ExpectSame(const TokenLoss& loss) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LossCase c = RandomCase(seed);
    const LossAndGradient wanted = Reference(loss, c), got = Computed(loss, c);
    // Of the sum of magnitudes: signs may cancel.
    double size = 0;
    for (size_t i = 0; i < c.p.size(); ++i) size += std::abs(double{c.w[i]} * c.p[i]) + 0.1;
    EXPECT_NEAR(got.loss, wanted.loss, 1e-6 * size);
    for (size_t i = 0; i < c.p.size(); ++i) {
      // Of dro's two terms, which may cancel, the larger counts.
      const double terms = std::max(std::abs(wanted.gradient[i]), std::abs(double{c.w[i]}));
      EXPECT_NEAR(got.gradient[i], wanted.gradient[i], 1e-5 * terms + 1e-9) << "token " << i;
    }
  }
}

TEST(TokenObjective, CrossEntropyIsTheWeightedSumAlsoOfNegativeWeights) {
  ExpectSame({.kind = TokenLossKind::kCrossEntropy});
}
TEST(TokenObjective, ImportanceSamplingIsNotClipped) {
  ExpectSame({.kind = TokenLossKind::kImportanceSampling});
}
TEST(TokenObjective, PpoClipsAtAbsoluteBounds) {
  ExpectSame({.kind = TokenLossKind::kPpo});
  ExpectSame({.kind = TokenLossKind::kPpo, .clip_low = 0.9, .clip_high = 1.05});
}
TEST(TokenObjective, CispoClipsTheWeightOnBothSides) {
  ExpectSame({.kind = TokenLossKind::kCispo, .clip_low = 0.85, .clip_high = 1.1});
}
TEST(TokenObjective, DroPullsEveryTokenToTheSampler) {
  ExpectSame({.kind = TokenLossKind::kDro, .beta = 0.3});
}
TEST(TokenObjective, GspoHasOneRatioASequenceAndAGradientAToken) {
  ExpectSame({.kind = TokenLossKind::kGspo});
  ExpectSame({.kind = TokenLossKind::kGspo, .clip_low = 0.97, .clip_high = 1.02});
}

TEST(TokenObjective, ATokenWithoutAnAdvantageMayHaveAnyLogprob) {
  LossCase c = RandomCase(3);
  c.w[0] = 0;
  c.q[0] = -1000;
  for (const TokenLossKind kind :
       {TokenLossKind::kImportanceSampling, TokenLossKind::kPpo, TokenLossKind::kCispo}) {
    const LossAndGradient got = Computed({.kind = kind}, c);
    EXPECT_TRUE(std::isfinite(got.loss));
    EXPECT_EQ(got.gradient[0], 0);
    for (const double g : got.gradient) EXPECT_TRUE(std::isfinite(g));
  }
}

}  // namespace
}  // namespace tidemill

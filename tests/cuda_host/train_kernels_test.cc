// The learner's kernels against plain loops in double precision.
#include "model/cuda/train_kernels.h"

#include <numeric>

#include "tests/cuda_host/kernel_kit.h"

namespace tidemill {
namespace {

using Low = __nv_bfloat16;

// Rows of 128 numbers are held in registers, others are not; 530 rows are more than there are parts
// of the weight's gradient.
struct NormShape {
  size_t rows, width;
};
class CudaHostTrainNorm : public testing::TestWithParam<NormShape> {};

TEST_P(CudaHostTrainNorm, ForwardAndBackward) {
  const auto [rows, width] = GetParam();
  const TrainNormShape shape{static_cast<int64_t>(rows), static_cast<int>(width), 0.1f};
  for (const bool adds : {false, true}) {
    OnDevice<Low> x(rows * width), more(x.size()), sum(x.size()), y(x.size());
    OnDevice<Low> dy(x.size()), dsum(x.size()), dx(x.size());
    OnDevice<float> w(width), rstd(rows);
    Fill(x, 1);
    Fill(more, 2);
    Fill(dy, 3);
    Fill(dsum, 4);
    Fill(w, 5);
    TrainNormForward(
        shape,
        {.x = x.data(), .more = adds ? more.data() : nullptr, .sum = adds ? sum.data() : nullptr},
        w.data(), y.data(), rstd.data(), nullptr);
    const OnDevice<Low>& s = adds ? sum : x;
    const auto parts = static_cast<size_t>(TrainNormParts(shape.rows));
    OnDevice<float> dw_parts(parts * width);
    TrainNormBackward(shape, s.data(), w.data(), rstd.data(),
                      {.dy = dy.data(),
                       .dsum = adds ? dsum.data() : nullptr,
                       .dx = dx.data(),
                       .dw_parts = dw_parts.data()},
                      nullptr);
    // Of frozen gains no gradient is wanted.
    OnDevice<Low> alone(x.size());
    TrainNormBackward(shape, s.data(), w.data(), rstd.data(),
                      {.dy = dy.data(),
                       .dsum = adds ? dsum.data() : nullptr,
                       .dx = alone.data(),
                       .dw_parts = nullptr},
                      nullptr);
    for (size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(Value(alone[i]), Value(dx[i])) << i;
    std::vector<double> dw(width);
    for (size_t r = 0; r < rows; ++r) {
      double squares = 0, dot = 0;
      for (size_t i = r * width; i < (r + 1) * width; ++i) {
        if (adds) ExpectNear(sum[i], Value(x[i]) + Value(more[i]), "sum", i);
        squares += Value(s[i]) * Value(s[i]);
        dot += Value(s[i]) * Value(dy[i]) * Value(w[i - r * width]);
      }
      const auto count = static_cast<double>(width);
      const double scale = 1 / std::sqrt(squares / count + Value(0.1f));
      ExpectNear(rstd[r], scale, "rstd", r);
      for (size_t c = 0; c < width; ++c) {
        const size_t i = r * width + c;
        ExpectNear(y[i], Value(s[i]) * scale * Value(w[c]), "y", i);
        const double through =
            scale * (Value(dy[i]) * Value(w[c]) - Value(s[i]) * dot * scale * scale / count);
        ASSERT_NEAR(Value(dx[i]), through + (adds ? Value(dsum[i]) : 0.0), 0.02) << i;
        dw[c] += Value(dy[i]) * Value(s[i]) * scale;
      }
    }
    for (size_t c = 0; c < width; ++c) {
      double got = 0;
      for (size_t p = 0; p < parts; ++p) got += Value(dw_parts[p * width + c]);
      ASSERT_NEAR(got, dw[c], 1e-3) << "dw at " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaHostTrainNorm,
                         testing::Values(NormShape{9, 256}, NormShape{530, 128}, NormShape{3, 1028},
                                         NormShape{530, 12}));

// A row's vector turned by its angles, or back.
std::vector<double> Turn(const std::vector<double>& x, const float* cos, const float* sin,
                         bool back) {
  const size_t half = x.size() / 2;
  std::vector<double> out(x.size());
  for (size_t i = 0; i < half; ++i) {
    const double c = cos[i], s = back ? -Value(sin[i]) : Value(sin[i]);
    out[i] = x[i] * c - x[i + half] * s;
    out[i + half] = x[i + half] * c + x[i] * s;
  }
  return out;
}

// Heads of 16 take the wide kernel, those of 8 the narrow one. Back, the keys of row 1 are the sum
// of what three sequences saw, those of row 2 nobody saw.
TEST(CudaHostTrainRotate, TurnsAndSumsWhatSeveralSequencesSaw) {
  constexpr size_t kRows = 3, kHeads = 3, kKeys = 2, kSeen = 4;
  for (const size_t d : {16, 8}) {
    OnDevice<Low> q(kRows * kHeads * d), k(kSeen * kKeys * d), v(kSeen * kKeys * d);
    OnDevice<float> cos(kRows * d / 2), sin(cos.size());
    OnDevice<int32_t> first_use{0, 1, 4, 4}, uses{2, 0, 1, 3};
    Fill(q, 6);
    Fill(k, 7);
    Fill(v, 8);
    Fill(cos, 9);
    Fill(sin, 10);
    for (const bool back : {false, true}) {
      OnDevice<Low> out(kRows * (kHeads + 2 * kKeys) * d);
      TrainRotate({.rows = kRows,
                   .heads = kHeads,
                   .kv_heads = kKeys,
                   .head_dim = static_cast<int>(d),
                   .q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .q_stride = static_cast<int64_t>(kHeads * d),
                   .k_stride = static_cast<int64_t>(kKeys * d),
                   .v_stride = static_cast<int64_t>(kKeys * d),
                   .cos = cos.data(),
                   .sin = sin.data(),
                   .back = back,
                   .first_use = back ? first_use.data() : nullptr,
                   .uses = back ? uses.data() : nullptr,
                   .out = out.data()},
                  nullptr);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t head = 0; head < kHeads + 2 * kKeys; ++head) {
          std::vector<double> x(d);
          const auto add = [&](const OnDevice<Low>& from, size_t vector) {
            for (size_t i = 0; i < d; ++i) x[i] += Value(from[vector * d + i]);
          };
          if (head < kHeads) {
            add(q, r * kHeads + head);
          } else {
            const OnDevice<Low>& from = head < kHeads + kKeys ? k : v;
            const size_t key = (head - kHeads) % kKeys;
            const auto begin = static_cast<size_t>(first_use[r]),
                       end = static_cast<size_t>(first_use[r + 1]);
            if (!back) add(from, r * kKeys + key);
            for (size_t use = begin; back && use < end; ++use) {
              add(from, static_cast<size_t>(uses[use]) * kKeys + key);
            }
          }
          const bool turns = head < kHeads + kKeys;
          const std::vector<double> expected =
              turns ? Turn(x, cos.data() + r * d / 2, sin.data() + r * d / 2, back) : x;
          for (size_t i = 0; i < d; ++i) {
            ExpectNear(out[(r * (kHeads + 2 * kKeys) + head) * d + i], expected[i], "out", i);
          }
        }
      }
    }
  }
}

TEST(CudaHostTrainGate, ForwardAndBackward) {
  constexpr size_t kRows = 5, kWidth = 260;
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    OnDevice<Low> gate_up(kRows * 2 * kWidth), act(kRows * kWidth), dact(act.size());
    OnDevice<Low> dgate_up(gate_up.size());
    Fill(gate_up, 11, 4);
    Fill(dact, 12);
    TrainGateForward(activation, kRows, kWidth, gate_up.data(), act.data(), nullptr);
    TrainGateBackward(activation, kRows, kWidth, gate_up.data(), dact.data(), dgate_up.data(),
                      nullptr);
    const auto active = [&](double g) {
      if (activation == Activation::kSilu) return g / (1 + std::exp(-g));
      return g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
    };
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kWidth; ++c) {
        const size_t gate_at = r * 2 * kWidth + c, up_at = gate_at + kWidth, i = r * kWidth + c;
        const double g = Value(gate_up[gate_at]), u = Value(gate_up[up_at]), d = Value(dact[i]);
        const double slope = (active(g + 1e-4) - active(g - 1e-4)) / 2e-4;
        ExpectNear(act[i], active(g) * u, "act", i);
        ExpectNear(dgate_up[gate_at], d * u * slope, "dgate", i);
        ExpectNear(dgate_up[up_at], d * active(g), "dup", i);
      }
    }
  }
}

// With what was kept of the forward pass, and from the logits again.
TEST(CudaHostTrainScores, LogprobsEntropiesAndTheirGradients) {
  constexpr size_t kRows = 4;
  for (const size_t width : {1003, 2056}) {
    OnDevice<float> logits(kRows * width), log_sums(kRows), logprobs(kRows), entropy(kRows);
    OnDevice<float> dlog(kRows), dent(kRows);
    OnDevice<int64_t> targets{0, 17, 1002, 999};
    OnDevice<Low> relative(kRows * width), dlogits(kRows * width);
    Fill(logits, 13, 6);
    Fill(dlog, 14);
    Fill(dent, 15);
    TrainScoresArgs args{.rows = kRows,
                         .width = static_cast<int64_t>(width),
                         .scale = 0.8f,
                         .logits = logits.data(),
                         .targets = targets.data(),
                         .log_sums = log_sums.data(),
                         .logprobs = logprobs.data(),
                         .entropy = entropy.data(),
                         .relative = relative.data()};
    TrainScoresForward(args, nullptr);
    TrainScoresBackward(args, dlog.data(), dent.data(), dlogits.data(), nullptr);
    TrainScoresBackwardInPlace(args, dlog.data(), dent.data(), nullptr);
    const double scale = Value(0.8f);
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0, h = 0;
      for (size_t i = 0; i < width; ++i) sum += std::exp(scale * Value(logits[r * width + i]));
      const double log_sum = std::log(sum);
      const auto log_p = [&](size_t i) { return scale * Value(logits[r * width + i]) - log_sum; };
      for (size_t i = 0; i < width; ++i) h -= std::exp(log_p(i)) * log_p(i);
      const auto target = static_cast<size_t>(targets[r]);
      EXPECT_NEAR(log_sums[r], log_sum, 1e-4);
      EXPECT_NEAR(logprobs[r], log_p(target), 1e-4);
      EXPECT_NEAR(entropy[r], h, 1e-3);
      for (size_t i = 0; i < width; ++i) {
        const double p = std::exp(log_p(i));
        const double d = scale * (Value(dlog[r]) * ((i == target ? 1.0 : 0.0) - p) -
                                  Value(dent[r]) * p * (log_p(i) + h));
        ASSERT_NEAR(Value(dlogits[r * width + i]), d, std::abs(d) / 128 + 1e-6) << i;
        // What is kept is a rounded probability; the terms that it is a factor of may cancel.
        const double terms =
            std::abs(Value(dlog[r])) + std::abs(Value(dent[r])) * (std::abs(log_p(i)) + h + 1);
        ASSERT_NEAR(Value(relative[r * width + i]), d, (std::abs(d) + p * terms) / 128 + 1e-6) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tidemill

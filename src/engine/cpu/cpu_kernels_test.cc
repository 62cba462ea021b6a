// Every instruction set this machine has, against the plainest loops in double precision.
#include "engine/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/random.h"

namespace tidemill {
namespace {

std::vector<float> Randoms(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.Normal());
  return values;
}

class CpuKernelsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = CpuKernelsNamed(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  const CpuKernels* kernels_ = nullptr;
};

TEST_P(CpuKernelsTest, MatmulIsTheDoubleLoop) {
  for (const long n : {5, 32, 70}) {
    for (long rows = 1; rows <= 27; ++rows) {
      const long k = 37, panels = (n + kernels_->panel - 1) / kernels_->panel, ld = 96;
      const auto a = Randoms(static_cast<size_t>(rows * k), 1),
                 w = Randoms(static_cast<size_t>(n * k), 2);
      auto bias = Randoms(96, 3);
      std::vector<float> packed(static_cast<size_t>(panels * k * kernels_->panel));
      std::vector<float> c(static_cast<size_t>(rows * ld), 2.0f);
      kernels_->pack(w.data(), n, k, packed.data());
      MatmulArgs args{.a = a.data(),
                      .packed = packed.data(),
                      .bias = bias.data(),
                      .c = c.data(),
                      .rows = rows,
                      .k = k,
                      .panels = panels,
                      .lda = k,
                      .ldc = ld,
                      .mode = MatmulMode::kAdd};
      kernels_->matmul(args);
      for (long i = 0; i < rows; ++i) {
        for (long j = 0; j < n; ++j) {
          double sum = 2.0 + bias[static_cast<size_t>(j)];
          for (long p = 0; p < k; ++p) {
            sum += double{a[static_cast<size_t>(i * k + p)]} * w[static_cast<size_t>(j * k + p)];
          }
          ASSERT_NEAR(c[static_cast<size_t>(i * ld + j)], sum, 1e-4)
              << rows << " " << i << " " << j;
        }
      }
    }
  }
}

TEST_P(CpuKernelsTest, MatmulOfBytesIsTheDoubleLoopOverThem) {
  const long k = 37, n = 45, ld = 64, panels = (n + kernels_->panel - 1) / kernels_->panel;
  auto w = Randoms(static_cast<size_t>(n * k), 2);
  for (long p = 0; p < k; ++p) w[static_cast<size_t>(3 * k + p)] = 0;  // a row without numbers
  const auto bias = Randoms(64, 3);
  const size_t columns = static_cast<size_t>(panels * kernels_->panel);
  std::vector<float> packed(columns * static_cast<size_t>(k)), scales(columns);
  std::vector<signed char> bytes(columns * 40);
  kernels_->pack(w.data(), n, k, packed.data());
  kernels_->quantize(packed.data(), k, panels, bytes.data(), scales.data());
  for (long rows = 1; rows <= 27; ++rows) {
    const auto a = Randoms(static_cast<size_t>(rows * k), 1);
    const auto start = Randoms(static_cast<size_t>(rows) * columns, 4);
    std::vector<float> c(static_cast<size_t>(rows * ld), 2.0f);
    kernels_->matmul({.a = a.data(),
                      .packed = nullptr,
                      .bias = bias.data(),
                      .c = c.data(),
                      .rows = rows,
                      .k = k,
                      .panels = panels,
                      .lda = k,
                      .ldc = ld,
                      .mode = MatmulMode::kAdd,
                      .start = start.data(),
                      .bytes = bytes.data(),
                      .scales = scales.data()});
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
      for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
        double largest = 0, sum = 0;
        for (size_t p = 0; p < static_cast<size_t>(k); ++p) {
          largest = std::max(largest, std::abs(double{w[j * static_cast<size_t>(k) + p]}));
        }
        for (size_t p = 0; p < static_cast<size_t>(k); ++p) {
          const double number = w[j * static_cast<size_t>(k) + p];
          const double steps = largest > 0 ? std::round(number / largest * 127) : 0;
          sum += double{a[i * static_cast<size_t>(k) + p]} * steps * largest / 127;
        }
        const double begin = 2.0 + bias[j] + start[i * columns + j];
        ASSERT_NEAR(c[i * static_cast<size_t>(ld) + j], begin + sum, 1e-4) << rows << " " << j;
      }
    }
  }
}

TEST_P(CpuKernelsTest, TheGateOfStoredSumsIsTheFusedOneToTheBit) {
  const long rows = 7, k = 24, n = 21, ld = 32, half = kernels_->panel / 2;
  const long panels = (n + half - 1) / half, whole = panels * kernels_->panel;
  const auto a = Randoms(static_cast<size_t>(rows * k), 1);
  const auto gate = Randoms(static_cast<size_t>(n * k), 2),
             up = Randoms(static_cast<size_t>(n * k), 3);
  std::vector<float> packed(static_cast<size_t>(whole * k)), fused(rows * ld, 1.0f),
      apart(rows * ld, 1.0f), pairs(static_cast<size_t>(rows * whole));
  kernels_->pack_gated(gate.data(), up.data(), n, k, packed.data());
  for (const MatmulMode mode : {MatmulMode::kSwiGlu, MatmulMode::kGeGlu}) {
    MatmulArgs args{.a = a.data(),
                    .packed = packed.data(),
                    .bias = nullptr,
                    .c = fused.data(),
                    .rows = rows,
                    .k = k,
                    .panels = panels,
                    .lda = k,
                    .ldc = ld,
                    .mode = mode};
    kernels_->matmul(args);
    args.c = pairs.data();
    args.ldc = whole;
    args.mode = MatmulMode::kStore;
    kernels_->matmul(args);
    kernels_->gate(mode, pairs.data(), rows, panels, apart.data(), ld);
    EXPECT_EQ(fused, apart);
  }
}

TEST_P(CpuKernelsTest, GatesAreTheirFormulas) {
  const long rows = 7, k = 24, n = 21, ld = 32;
  const auto a = Randoms(static_cast<size_t>(rows * k), 1);
  const auto gate = Randoms(static_cast<size_t>(n * k), 2),
             up = Randoms(static_cast<size_t>(n * k), 3);
  const long panels = (n + kernels_->panel / 2 - 1) / (kernels_->panel / 2);
  std::vector<float> packed(static_cast<size_t>(panels * k * kernels_->panel)), c(rows * ld);
  kernels_->pack_gated(gate.data(), up.data(), n, k, packed.data());
  for (const MatmulMode mode : {MatmulMode::kSwiGlu, MatmulMode::kGeGlu}) {
    kernels_->matmul({.a = a.data(),
                      .packed = packed.data(),
                      .bias = nullptr,
                      .c = c.data(),
                      .rows = rows,
                      .k = k,
                      .panels = panels,
                      .lda = k,
                      .ldc = ld,
                      .mode = mode});
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
      for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
        double g = 0, u = 0;
        for (size_t p = 0; p < static_cast<size_t>(k); ++p) {
          g += double{a[i * k + p]} * gate[j * k + p];
          u += double{a[i * k + p]} * up[j * k + p];
        }
        const double inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        const double active =
            mode == MatmulMode::kSwiGlu ? g / (1 + std::exp(-g)) : g / 2 * (1 + std::tanh(inner));
        ASSERT_NEAR(c[i * ld + j], active * u, 1e-4);
      }
    }
  }
}

TEST_P(CpuKernelsTest, AttentionIsTheFormulaForEveryGroupingLengthAndWindow) {
  struct Shape {
    int heads, kv_heads, head_dim;
  };
  for (const Shape& s : {Shape{4, 4, 16}, Shape{6, 2, 10}, Shape{7, 1, 32}, Shape{8, 2, 64}}) {
    const int stride = (s.head_dim + 15) / 16 * 16, pages = 6;
    const long keys = long{s.kv_heads} * s.head_dim * 16, values = long{s.kv_heads} * 16 * stride;
    const auto pool = Randoms(static_cast<size_t>(pages * (keys + values)), 4);
    const auto q = Randoms(static_cast<size_t>(s.heads * s.head_dim), 5);
    const int order[pages] = {3, 0, 5, 1, 4, 2};
    for (const auto& [length, window] : {std::pair{1, 0},
                                         {2, 0},
                                         {15, 0},
                                         {16, 0},
                                         {17, 0},
                                         {63, 0},
                                         {64, 0},
                                         {80, 0},
                                         {95, 0},
                                         {95, 1},
                                         {64, 16},
                                         {80, 17},
                                         {63, 40},
                                         {17, 16},
                                         {9, 9},
                                         {3, 20}}) {
      std::vector<float> out(q.size(), 9.0f), scratch(4 * 128);
      kernels_->attention({.q = q.data(),
                           .out = out.data(),
                           .pool = pool.data(),
                           .pages = order,
                           .page_stride = keys + values,
                           .k_offset = 0,
                           .v_offset = keys,
                           .heads = s.heads,
                           .kv_heads = s.kv_heads,
                           .head_dim = s.head_dim,
                           .value_stride = stride,
                           .length = length,
                           .window = window,
                           .next_pages = order,
                           .next_length = 40,
                           .scratch = scratch.data()});
      for (int h = 0; h < s.heads; ++h) {
        const int kv = h / (s.heads / s.kv_heads);
        std::vector<double> p(static_cast<size_t>(length));
        double sum = 0;
        const int first = window > 0 ? std::max(0, length - window) : 0;
        for (int t = first; t < length; ++t) {
          double score = 0;
          for (int d = 0; d < s.head_dim; ++d) {
            score += double{q[static_cast<size_t>(h * s.head_dim + d)]} *
                     pool[static_cast<size_t>(order[t / 16] * (keys + values) +
                                              (long{kv} * s.head_dim + d) * 16 + t % 16)];
          }
          sum += p[static_cast<size_t>(t)] = std::exp(score);
        }
        for (int d = 0; d < s.head_dim; ++d) {
          double mixed = 0;
          for (int t = 0; t < length; ++t) {
            mixed += p[static_cast<size_t>(t)] / sum *
                     pool[static_cast<size_t>(order[t / 16] * (keys + values) + keys +
                                              (long{kv} * 16 + t % 16) * stride + d)];
          }
          ASSERT_NEAR(out[static_cast<size_t>(h * s.head_dim + d)], mixed, 2e-5)
              << "length " << length << " head " << h << " of " << s.heads;
        }
      }
    }
  }
}

TEST_P(CpuKernelsTest, RowsAttendedTogetherHaveTheNumbersTheyHaveAlone) {
  struct Shape {
    int heads, kv_heads, head_dim;
  };
  for (const Shape& s : {Shape{4, 4, 16}, Shape{6, 2, 10}, Shape{4, 2, 32}, Shape{7, 1, 24}}) {
    const int stride = (s.head_dim + 15) / 16 * 16, pages = 6;
    const long keys = long{s.kv_heads} * s.head_dim * 16, values = long{s.kv_heads} * 16 * stride;
    const auto pool = Randoms(static_cast<size_t>(pages * (keys + values)), 4);
    const int order[pages] = {3, 0, 5, 1, 4, 2};
    const long width = s.heads * s.head_dim + 5;
    for (const int rows : {2, 3, 9, 20}) {
      const auto q = Randoms(static_cast<size_t>(rows * width), 5);
      for (const auto& [length, window] : {std::pair{1, 0},
                                           {14, 0},
                                           {16, 0},
                                           {61, 0},
                                           {70, 0},
                                           {1, 5},
                                           {14, 16},
                                           {61, 7},
                                           {70, 33}}) {
        std::vector<float> together(q.size()), alone(q.size());
        std::vector<float> scratch(static_cast<size_t>(4 * 128 + 8 * s.head_dim));
        AttentionArgs args{.q = q.data(),
                           .out = together.data(),
                           .pool = pool.data(),
                           .pages = order,
                           .page_stride = keys + values,
                           .k_offset = 0,
                           .v_offset = keys,
                           .heads = s.heads,
                           .kv_heads = s.kv_heads,
                           .head_dim = s.head_dim,
                           .value_stride = stride,
                           .length = length,
                           .window = window,
                           .next_pages = nullptr,
                           .next_length = 0,
                           .scratch = scratch.data()};
        kernels_->attention_rows(
            {.first = args, .rows = rows, .q_stride = width, .out_stride = width});
        for (int r = 0; r < rows; ++r, ++args.length, args.q += width) {
          args.out = alone.data() + r * width;
          kernels_->attention(args);
        }
        ASSERT_EQ(together, alone) << rows << " rows from " << length << ", heads " << s.heads;
      }
    }
  }
}

TEST_P(CpuKernelsTest, ExpRowIsExactToSingleErrors) {
  for (const long n : {1, 3, 16, 50, 333}) {
    auto x = Randoms(static_cast<size_t>(n), 6);
    for (float& value : x) value *= 12;
    std::vector<float> e(static_cast<size_t>(n + 64));
    float top = 0;
    const float sum = kernels_->exp_row(x.data(), n, 0.8f, e.data(), &top);
    double expected = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(double{(x[i] - top) * 0.8f});
      ASSERT_NEAR(e[i], exact, 1e-6 * exact + 1e-37);
      expected += exact;
    }
    EXPECT_NEAR(sum, expected, 1e-5 * expected);
  }
}

TEST_P(CpuKernelsTest, PickFindsTheIntervalOfTheTarget) {
  std::vector<float> e(100, 0.0f);
  for (size_t i = 0; i < e.size(); i += 3) e[i] = 1.0f;  // 34 of them
  EXPECT_EQ(kernels_->pick(e.data(), 100, 0.0f), 0);
  EXPECT_EQ(kernels_->pick(e.data(), 100, 0.99f), 0);
  EXPECT_EQ(kernels_->pick(e.data(), 100, 1.0f), 3);
  EXPECT_EQ(kernels_->pick(e.data(), 100, 33.5f), 99);
  EXPECT_EQ(kernels_->pick(e.data(), 100, 34.0f), 99) << "rounding must not lead past the end";
  e[99] = 0;
  EXPECT_EQ(kernels_->pick(e.data(), 100, 40.0f), 96);
}

TEST_P(CpuKernelsTest, AreChosenByTheirName) {
  EXPECT_EQ(&ChooseCpuKernels(GetParam()), kernels_);
}

TEST(CpuKernels, AreTheBestWhereTheNameIsUnknown) {
  EXPECT_EQ(&ChooseCpuKernels("abacus"), &ChooseCpuKernels(nullptr));
}

INSTANTIATE_TEST_SUITE_P(Machines, CpuKernelsTest, testing::Values("plain", "avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tidemill

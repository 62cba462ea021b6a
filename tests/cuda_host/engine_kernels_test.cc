// The engine's kernels against plain loops in double precision.
#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/cuda/gemm.h"
#include "model/cuda/kernels.h"
#include "tests/cuda_host/kernel_kit.h"

namespace tidemill {
namespace {

using Bf16 = __nv_bfloat16;

template <typename T>
constexpr CudaType kTypeOf = sizeof(T) == 2 ? CudaType::kBF16 : CudaType::kF32;

template <typename T>
class CudaHostKernels : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(CudaHostKernels, Types);

// x is kept where no rows are selected.
template <typename T>
void CheckNorm(int width, bool biased, bool selects, float offset) {
  const std::vector<int32_t> chosen = {2, 0, 2};
  const auto w = static_cast<size_t>(width);
  OnDevice<float> x(3 * w);
  OnDevice<T> weight(w), bias(w), out(3 * w);
  OnDevice<int32_t> select{2, 0, 2};
  Fill(x, 1, 3);
  Fill(weight, 2);
  Fill(bias, 3);
  const std::vector<float> before(x.begin(), x.end());
  CudaNorm({.type = kTypeOf<T>,
            .x = x.data(),
            .weight = weight.data(),
            .bias = biased ? bias.data() : nullptr,
            .select = selects ? select.data() : nullptr,
            .out = out.data(),
            .rows = 3,
            .width = width,
            .eps = 0.1f,
            .offset = offset},
           nullptr);
  for (size_t r = 0; r < 3; ++r) {
    const size_t from = selects ? static_cast<size_t>(chosen[r]) : r;
    std::vector<double> row(w);
    double squares = 0;
    for (size_t i = 0; i < w; ++i) {
      row[i] = before[from * w + i] + (biased ? Value(bias[i]) : 0.0);
      squares += row[i] * row[i];
    }
    const double scale = 1 / std::sqrt(squares / width + 0.1);
    for (size_t i = 0; i < w; ++i) {
      ExpectNear(out[r * w + i], row[i] * scale * (Value(offset) + Value(weight[i])), "norm",
                 r * w + i);
      const bool kept = biased && !selects;
      ExpectNear(x[r * w + i], kept ? row[i] : Value(before[r * w + i]), "x", r * w + i);
    }
  }
}

TYPED_TEST(CudaHostKernels, NormAddsABiasAndTakesSelectedRows) {
  // Rows of four warps, of eight, and more than their threads keep in registers.
  for (const int width : {20, 2052, 5124}) {
    for (const bool biased : {false, true}) {
      for (const bool selects : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(CheckNorm<TypeParam>(width, biased, selects, biased ? 1.0f : 0.0f));
      }
    }
  }
}

// Behind a product: what it gave is normed and added.
TYPED_TEST(CudaHostKernels, AddNormAddsTheNormOfAProductWithItsBias) {
  for (const int width : {20, 644}) {
    for (const bool biased : {false, true}) {
      const auto w = static_cast<size_t>(width);
      OnDevice<float> from(3 * w), x(3 * w);
      OnDevice<TypeParam> weight(w), bias(w);
      Fill(from, 1, 3);
      Fill(x, 2);
      Fill(weight, 3);
      Fill(bias, 4);
      const std::vector<float> before(x.begin(), x.end());
      CudaAddNorm({.type = kTypeOf<TypeParam>,
                   .from = from.data(),
                   .weight = weight.data(),
                   .bias = biased ? bias.data() : nullptr,
                   .x = x.data(),
                   .rows = 3,
                   .width = width,
                   .eps = 0.1f,
                   .offset = 1},
                  nullptr);
      for (size_t r = 0; r < 3; ++r) {
        const auto value = [&](size_t i) {
          return Value(from[r * w + i]) + (biased ? Value(bias[i]) : 0.0);
        };
        double squares = 0;
        for (size_t i = 0; i < w; ++i) squares += value(i) * value(i);
        const double scale = 1 / std::sqrt(squares / width + 0.1);
        for (size_t i = 0; i < w; ++i) {
          const double expected =
              Value(before[r * w + i]) + value(i) * scale * (1 + Value(weight[i]));
          ASSERT_NEAR(Value(x[r * w + i]), expected, 1e-5) << r << " " << i;
        }
      }
    }
  }
}

TYPED_TEST(CudaHostKernels, NarrowRounds) {
  OnDevice<float> x(2052);
  OnDevice<TypeParam> out(2052);
  Fill(x, 1, 3);
  CudaNarrow(kTypeOf<TypeParam>, x.data(), 2052, out.data(), nullptr);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(Value(out[i]), Value(TypeParam(x[i])));
}

TYPED_TEST(CudaHostKernels, EmbedTakesTokensAndWhatWasDrawnBefore) {
  constexpr size_t kWidth = 12;
  OnDevice<TypeParam> table(5 * kWidth);
  Fill(table, 4);
  OnDevice<CudaRow> rows{{.token = 3}, {.token = ~1}, {.token = ~0}};
  OnDevice<CudaDrawn> drawn{{.token = -1}, {.token = 4}};
  OnDevice<float> x(3 * kWidth);
  CudaEmbed({.type = kTypeOf<TypeParam>,
             .rows = rows.data(),
             .count = 3,
             .drawn = drawn.data(),
             .table = table.data(),
             .width = kWidth,
             .scale = 2,
             .x = x.data()},
            nullptr);
  const size_t tokens[] = {3, 4, 0};
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < kWidth; ++i) {
      EXPECT_EQ(x[r * kWidth + i], 2 * static_cast<float>(table[tokens[r] * kWidth + i]));
    }
  }
}

double Activated(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TYPED_TEST(CudaHostKernels, GatesOfEveryWidth) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    for (const size_t width : {12, 16, 520}) {
      OnDevice<TypeParam> gate_up(3 * 2 * width), out(3 * width);
      Fill(gate_up, 5, 4);
      CudaGate(activation, kTypeOf<TypeParam>, gate_up.data(), 3, static_cast<int>(width),
               out.data(), nullptr);
      for (size_t r = 0; r < 3; ++r) {
        for (size_t i = 0; i < width; ++i) {
          const double gate = Value(gate_up[r * 2 * width + i]);
          const double up = Value(gate_up[r * 2 * width + width + i]);
          ExpectNear(out[r * width + i], Activated(activation, gate) * up, "gate", i);
        }
      }
    }
  }
}

// Sequences whose pages lie anywhere in a pool, and what attention over them gives.
template <typename T>
struct PagedCase {
  CudaHeads heads;
  std::vector<int> positions;  // of the rows, each of a sequence of its own
  OnDevice<T> qkv, cache;
  OnDevice<CudaRow> rows;
  OnDevice<int32_t> pages;
  OnDevice<float> cos, sin;

  static constexpr int kPositions = 640;

  PagedCase(CudaHeads of, const std::vector<int>& at)
      : heads(of),
        positions(at),
        qkv(at.size() * static_cast<size_t>(of.QkvWidth())),
        cache(PagesOf(at) * of.PageNumbers()),
        rows(at.size()),
        pages(PagesOf(at)),
        cos(static_cast<size_t>(kPositions * of.head_dim / 2)),
        sin(cos.size()) {
    Fill(qkv, 6, 2);
    Fill(cache, 7, 2);
    int32_t page = 0;
    const auto all = static_cast<int32_t>(pages.size());
    for (int32_t i = 0; i < all; ++i) pages[static_cast<size_t>(i)] = (i * 5 + 3) % all;
    for (size_t r = 0; r < at.size(); ++r) {
      rows[r] = {.token = 0, .position = at[r], .pages = page};
      page += at[r] / kCudaPageSlots + 1;
    }
    for (size_t i = 0; i < cos.size(); ++i) {
      const auto half = static_cast<size_t>(of.head_dim / 2);
      const double angle = static_cast<double>(i / half) * std::pow(0.01, Part(i % half, half));
      cos[i] = static_cast<float>(std::cos(angle));
      sin[i] = static_cast<float>(std::sin(angle));
    }
  }
  static double Part(size_t i, size_t of) {
    return static_cast<double>(i) / static_cast<double>(of);
  }
  // Not divisible by 5, so that i -> 5 i + 3 meets every page.
  static size_t PagesOf(const std::vector<int>& at) {
    size_t pages = 0;
    for (const int position : at) pages += static_cast<size_t>(position / kCudaPageSlots + 1);
    return pages % 5 == 0 ? pages + 1 : pages;
  }
  const T* Slot(size_t r, int position, int kv_head, bool value) const {
    const int32_t page = pages[static_cast<size_t>(rows[r].pages + position / kCudaPageSlots)];
    return cache.data() + static_cast<size_t>(page) * heads.PageNumbers() +
           static_cast<size_t>(((value ? heads.kv_heads : 0) + kv_head) * kCudaPageSlots +
                               position % kCudaPageSlots) *
               static_cast<size_t>(heads.head_dim);
  }
  // Head `head` of row r against positions [0, position], from the cache as it is.
  std::vector<double> Attend(const std::vector<double>& q, size_t r, int head, int position,
                             int window = 0) const {
    const auto d = static_cast<size_t>(heads.head_dim);
    const int kv_head = head / (heads.heads / heads.kv_heads);
    std::vector<double> out(d);
    double sum = 0;
    for (int p = window > 0 ? std::max(0, position - window + 1) : 0; p <= position; ++p) {
      double dot = 0;
      for (size_t i = 0; i < d; ++i) dot += q[i] * Value(Slot(r, p, kv_head, false)[i]);
      const double weight = std::exp(dot * Value(Scale()));
      sum += weight;
      for (size_t i = 0; i < d; ++i) out[i] += weight * Value(Slot(r, p, kv_head, true)[i]);
    }
    for (double& x : out) x /= sum;
    return out;
  }
  // Vector `index` of row r (queries, keys, values), turned and rounded to T.
  std::vector<double> Turned(const std::vector<T>& before, size_t r, int index) const {
    const auto d = static_cast<size_t>(heads.head_dim), half = d / 2;
    const T* x =
        before.data() + r * static_cast<size_t>(heads.QkvWidth()) + static_cast<size_t>(index) * d;
    const size_t angles = static_cast<size_t>(positions[r]) * half;
    std::vector<double> out(d);
    for (size_t i = 0; i < half; ++i) {
      const double c = cos[angles + i], s = sin[angles + i], a = Value(x[i]),
                   b = Value(x[i + half]);
      out[i] = Value(T(static_cast<float>(a * c - b * s)));
      out[i + half] = Value(T(static_cast<float>(b * c + a * s)));
    }
    return out;
  }
  float Scale() const { return 1.25f / std::sqrt(static_cast<float>(heads.head_dim)); }
  std::vector<T> Before() const { return std::vector<T>(qkv.begin(), qkv.end()); }
  CudaAttentionArgs Args(OnDevice<T>& out) const {
    return {.heads = heads,
            .qkv = qkv.data(),
            .out = out.data(),
            .rows = rows.data(),
            .pages = pages.data(),
            .count = static_cast<int>(rows.size()),
            .cache = cache.data(),
            .scale = Scale()};
  }
  std::vector<double> Query(size_t r, int head) const {
    const T* q = qkv.data() + r * static_cast<size_t>(heads.QkvWidth()) +
                 static_cast<size_t>(head * heads.head_dim);
    std::vector<double> out;
    for (int i = 0; i < heads.head_dim; ++i) out.push_back(Value(q[i]));
    return out;
  }
};

TYPED_TEST(CudaHostKernels, RotateTurnsQueriesAndPutsKeysAndValuesIntoTheirPages) {
  const CudaHeads heads{.type = kTypeOf<TypeParam>, .heads = 6, .kv_heads = 2, .head_dim = 24};
  PagedCase<TypeParam> c(heads, {0, 17, 31, 5});
  c.rows[3].position = -1;  // padding
  const std::vector<TypeParam> before = c.Before();
  const std::vector<TypeParam> cache(c.cache.begin(), c.cache.end());
  CudaRotate({.heads = heads,
              .qkv = c.qkv.data(),
              .rows = c.rows.data(),
              .pages = c.pages.data(),
              .count = 4,
              .cos = c.cos.data(),
              .sin = c.sin.data(),
              .cache = c.cache.data()},
             nullptr);
  size_t written = 0;
  for (size_t r = 0; r < 3; ++r) {
    for (int head = 0; head < 8; ++head) {
      const std::vector<double> turned = c.Turned(before, r, head);
      const TypeParam* at = head < 6 ? c.qkv.data() + r * static_cast<size_t>(heads.QkvWidth()) +
                                           static_cast<size_t>(head) * 24
                                     : c.Slot(r, c.positions[r], head - 6, false);
      for (size_t i = 0; i < 24; ++i) ExpectNear(at[i], turned[i], "turned", i);
    }
    for (int kv = 0; kv < 2; ++kv) {
      const TypeParam* value = c.Slot(r, c.positions[r], kv, true);
      for (size_t i = 0; i < 24; ++i) {
        const size_t from =
            r * static_cast<size_t>(heads.QkvWidth()) + static_cast<size_t>(8 + kv) * 24 + i;
        EXPECT_EQ(Value(value[i]), Value(before[from]));
      }
    }
  }
  for (size_t i = 0; i < cache.size(); ++i) written += Value(cache[i]) != Value(c.cache[i]) ? 1 : 0;
  EXPECT_LE(written, 3u * 4 * 24) << "nothing else is written";
}

TYPED_TEST(CudaHostKernels, PlainAttentionOfAnyHead) {
  const CudaHeads heads{.type = kTypeOf<TypeParam>, .heads = 6, .kv_heads = 2, .head_dim = 40};
  const PagedCase<TypeParam> c(heads, {0, 15, 16, 70});
  for (const int window : {0, 1, 16, 50}) {
    OnDevice<TypeParam> out(4 * 6 * 40);
    CudaAttentionArgs args = c.Args(out);
    args.window = window;
    CudaDecodeAttention(args, nullptr);
    for (size_t r = 0; r < 4; ++r) {
      for (int head = 0; head < 6; ++head) {
        const auto expected = c.Attend(c.Query(r, head), r, head, c.positions[r], window);
        const size_t at = (r * 6 + static_cast<size_t>(head)) * 40;
        for (size_t i = 0; i < 40; ++i) ExpectNear(out[at + i], expected[i], "attention", at + i);
      }
    }
  }
}

// All queries of a row have one norm, and all its keys.
TYPED_TEST(CudaHostKernels, RotateNormsByHeadOrTheWholeRow) {
  const CudaHeads heads{.type = kTypeOf<TypeParam>, .heads = 6, .kv_heads = 2, .head_dim = 24};
  for (const bool whole : {false, true}) {
    PagedCase<TypeParam> c(heads, {0, 17, 31});
    OnDevice<TypeParam> q_norm(6 * 24), k_norm(2 * 24);
    Fill(q_norm, 3);
    Fill(k_norm, 4);
    const std::vector<TypeParam> before = c.Before();
    CudaRotate({.heads = heads,
                .qkv = c.qkv.data(),
                .rows = c.rows.data(),
                .pages = c.pages.data(),
                .count = 3,
                .q_norm = q_norm.data(),
                .k_norm = k_norm.data(),
                .whole_norm = whole,
                .eps = 0.1f,
                .offset = 1,
                .cos = c.cos.data(),
                .sin = c.sin.data(),
                .cache = c.cache.data()},
               nullptr);
    for (size_t r = 0; r < 3; ++r) {
      const TypeParam* row = before.data() + r * static_cast<size_t>(heads.QkvWidth());
      for (int head = 0; head < 8; ++head) {
        const bool key = head >= 6;
        const size_t first = whole ? (key ? 6 * 24 : 0) : static_cast<size_t>(head) * 24;
        const size_t width = whole ? (key ? 2 * 24 : 6 * 24) : 24;
        double squares = 0;
        for (size_t i = first; i < first + width; ++i) squares += Value(row[i]) * Value(row[i]);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 0.1);
        const OnDevice<TypeParam>& norm = key ? k_norm : q_norm;
        const size_t gains = whole ? static_cast<size_t>(key ? head - 6 : head) * 24 : 0;
        std::vector<double> x(24);
        for (size_t i = 0; i < 24; ++i) {
          x[i] =
              Value(row[static_cast<size_t>(head) * 24 + i]) * scale * (1 + Value(norm[gains + i]));
        }
        const TypeParam* got = key ? c.Slot(r, c.positions[r], head - 6, false)
                                   : c.qkv.data() + r * static_cast<size_t>(heads.QkvWidth()) +
                                         static_cast<size_t>(head) * 24;
        for (size_t i = 0; i < 12; ++i) {
          const size_t at = static_cast<size_t>(c.positions[r]) * 12 + i;
          const double cos = Value(c.cos[at]), sin = Value(c.sin[at]);
          // Sums of two products: they may be small beside what they are sums of.
          const double tolerance = sizeof(TypeParam) == 2 ? 0.05 : 1e-4;
          ASSERT_NEAR(Value(got[i]), x[i] * cos - x[i + 12] * sin, tolerance);
          ASSERT_NEAR(Value(got[i + 12]), x[i + 12] * cos + x[i] * sin, tolerance);
        }
      }
    }
  }
}

struct FastShape {
  int head_dim, heads, kv_heads;
};
class CudaHostAttention : public testing::TestWithParam<FastShape> {
 protected:
  CudaHeads heads_{.type = CudaType::kBF16,
                   .heads = GetParam().heads,
                   .kv_heads = GetParam().kv_heads,
                   .head_dim = GetParam().head_dim};
  // Weights of values are rounded to bfloat16 on their way.
  static void ExpectRow(const Bf16* got, const std::vector<double>& expected, const char* what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(Value(got[i]), expected[i], 0.02) << what << ", column " << i;
    }
  }
};

// Also of contexts that are cut into parts.
TEST_P(CudaHostAttention, OfSingleRowsOverScatteredPages) {
  const PagedCase<Bf16> c(heads_, {0, 15, 16, 77, 600});
  const auto h = static_cast<size_t>(heads_.heads), d = static_cast<size_t>(heads_.head_dim);
  for (const auto& [splits, window] : {std::pair{1, 0}, {4, 0}, {1, 18}, {4, 18}, {4, 400}}) {
    OnDevice<Bf16> out(5 * h * d);
    OnDevice<float> partial(static_cast<size_t>(splits) * 5 * h * (d + 2));
    CudaAttentionArgs args = c.Args(out);
    args.window = window;
    args.splits = splits;
    args.partial = partial.data();
    ASSERT_TRUE(CudaFastAttention(heads_));
    CudaDecodeAttention(args, nullptr);
    for (size_t r = 0; r < 5; ++r) {
      for (int head = 0; head < heads_.heads; ++head) {
        const auto expected = c.Attend(c.Query(r, head), r, head, c.positions[r], window);
        const Bf16* got = out.data() + (r * h + static_cast<size_t>(head)) * d;
        ASSERT_NO_FATAL_FAILURE(ExpectRow(got, expected, "a row"));
      }
    }
  }
}

TEST_P(CudaHostAttention, RotatesAndWritesTheCacheItself) {
  PagedCase<Bf16> c(heads_, {0, 16, 47, 300});
  const auto h = static_cast<size_t>(heads_.heads), d = static_cast<size_t>(heads_.head_dim);
  const std::vector<Bf16> before = c.Before();
  for (const int splits : {1, 4}) {
    OnDevice<Bf16> out(4 * h * d);
    OnDevice<float> partial(static_cast<size_t>(splits) * 4 * h * (d + 2));
    // The own slot holds something else until it is written.
    for (size_t r = 0; r < 4; ++r) {
      for (int kv = 0; kv < heads_.kv_heads; ++kv) {
        for (size_t i = 0; i < d; ++i) {
          const_cast<Bf16*>(c.Slot(r, c.positions[r], kv, false))[i] = 9.0f;
          const_cast<Bf16*>(c.Slot(r, c.positions[r], kv, true))[i] = 9.0f;
        }
      }
    }
    CudaAttentionArgs args = c.Args(out);
    args.splits = splits;
    args.partial = partial.data();
    args.cos = c.cos.data();
    args.sin = c.sin.data();
    CudaDecodeAttention(args, nullptr);
    for (size_t r = 0; r < 4; ++r) {
      for (int kv = 0; kv < heads_.kv_heads; ++kv) {
        const std::vector<double> key = c.Turned(before, r, heads_.heads + kv);
        const Bf16* slot = c.Slot(r, c.positions[r], kv, false);
        for (size_t i = 0; i < d; ++i) ExpectNear(slot[i], key[i], "key", i);
      }
      for (int head = 0; head < heads_.heads; ++head) {
        const auto expected = c.Attend(c.Turned(before, r, head), r, head, c.positions[r]);
        const Bf16* got = out.data() + (r * h + static_cast<size_t>(head)) * d;
        ASSERT_NO_FATAL_FAILURE(ExpectRow(got, expected, "a row"));
      }
    }
  }
}

// Two prompts, one of them from the middle of a sequence on.
TEST_P(CudaHostAttention, OfPartsOfPrompts) {
  constexpr int kLengths[] = {21, 13}, kFirsts[] = {0, 30};
  std::vector<int> last;  // a row for each sequence says how many pages it has
  for (int s = 0; s < 2; ++s) last.push_back(kFirsts[s] + kLengths[s] - 1);
  const PagedCase<Bf16> pool(heads_, last);
  const auto h = static_cast<size_t>(heads_.heads), d = static_cast<size_t>(heads_.head_dim);
  OnDevice<Bf16> qkv(34 * static_cast<size_t>(heads_.QkvWidth())), out(34 * h * d);
  Fill(qkv, 8, 2);
  std::vector<CudaPrefillTile> work;
  const int group = heads_.heads / heads_.kv_heads;
  for (int s = 0, row = 0; s < 2; row += kLengths[s++]) {
    const int tiles = (kLengths[s] * group + kCudaPrefillVectors - 1) / kCudaPrefillVectors;
    for (int t = 0; t < tiles; ++t) {
      work.push_back({.row = row,
                      .length = kLengths[s],
                      .first = kFirsts[s],
                      .pages = pool.rows[static_cast<size_t>(s)].pages,
                      .tile = t});
    }
  }
  OnDevice<CudaPrefillTile> tiles(work.size());
  std::copy(work.begin(), work.end(), tiles.begin());
  CudaAttentionArgs args = pool.Args(out);
  args.qkv = qkv.data();
  for (const int window : {0, 1, 7, 20}) {
    args.window = window;
    CudaPrefillAttention(args, tiles.data(), static_cast<int>(work.size()), nullptr);
    for (int s = 0, row = 0; s < 2; row += kLengths[s++]) {
      for (int i = 0; i < kLengths[s]; ++i) {
        for (int head = 0; head < heads_.heads; ++head) {
          const size_t r = static_cast<size_t>(row + i);
          const Bf16* from = qkv.data() + r * static_cast<size_t>(heads_.QkvWidth()) +
                             static_cast<size_t>(head) * d;
          std::vector<double> query;
          for (size_t n = 0; n < d; ++n) query.push_back(Value(from[n]));
          const auto expected =
              pool.Attend(query, static_cast<size_t>(s), head, kFirsts[s] + i, window);
          const Bf16* got = out.data() + (r * h + static_cast<size_t>(head)) * d;
          ASSERT_NO_FATAL_FAILURE(ExpectRow(got, expected, "a prompt's row"));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, CudaHostAttention,
                         testing::Values(FastShape{64, 14, 2}, FastShape{64, 3, 3},
                                         FastShape{128, 14, 1}, FastShape{128, 4, 2}));

// Logits of 4,096 columns and a few more: two parts.
struct DrawCase {
  static constexpr int kColumns = kCudaPartColumns + 10;
  static constexpr int64_t kStride = kColumns + 2;
  OnDevice<float> logits;
  OnDevice<CudaDraw> draws;
  OnDevice<CudaPart> parts;
  OnDevice<CudaDrawn> drawn, told;
  OnDevice<int32_t> block{1};
  static constexpr int kMaskWords = (kColumns + 31) / 32;
  OnDevice<uint32_t> masks = OnDevice<uint32_t>(2 * kMaskWords);

  explicit DrawCase(size_t count)
      : logits(count * kStride), draws(count), parts(count * 2), drawn(count), told(2 * count) {}

  void Run() {
    const auto count = static_cast<int>(draws.size());
    for (const int first : {0, kCudaPartColumns}) {
      CudaDrawParts({.logits = logits.data() + first,
                     .stride = kStride,
                     .draws = draws.data(),
                     .count = count,
                     .first_column = first,
                     .columns = first == 0 ? kCudaPartColumns : kColumns - kCudaPartColumns,
                     .masks = masks.data(),
                     .mask_words = kMaskWords,
                     .parts = parts.data(),
                     .part_stride = 2},
                    nullptr);
    }
    CudaDrawFinish({.parts = parts.data(),
                    .part_stride = 2,
                    .part_count = 2,
                    .draws = draws.data(),
                    .count = count,
                    .drawn = drawn.data(),
                    .told = told.data(),
                    .told_stride = count,
                    .told_block = block.data()},
                   nullptr);
  }
};

TEST(CudaHostDraw, TheFirstOfTheLargestIsTheGreedyOne) {
  DrawCase c(3);
  Fill(c.logits, 9);
  for (size_t d = 0; d < 3; ++d) c.draws[d] = {.seed = 1, .position = 1, .inverse_temperature = 0};
  c.logits[77] = c.logits[78] = c.logits[4100] = 5;  // in both parts
  c.logits[DrawCase::kStride + 4105] = 6;            // in the last columns
  c.logits[2 * DrawCase::kStride + 1234] = NAN;      // nothing can be drawn
  c.Run();
  EXPECT_EQ(c.drawn[0].token, 77);
  EXPECT_EQ(c.drawn[1].token, 4105);
  EXPECT_LT(c.drawn[2].token, 0);
  double sum = 0;
  for (size_t i = 0; i < DrawCase::kColumns; ++i) {
    sum += std::exp(Value(c.logits[DrawCase::kStride + i]) - 6);
  }
  EXPECT_NEAR(c.drawn[1].logprob, -std::log(sum), 1e-4);
  EXPECT_EQ(c.told[3 + 1].token, 4105) << "the host's block";
}

TEST(CudaHostDraw, TokensComeAsOftenAsTheirProbabilityAndWithIt) {
  constexpr size_t kDraws = 1500;
  const std::map<size_t, float> likely = {{0, 1.0f},    {513, 2.0f},  {2049, 0.5f},
                                          {4095, 1.5f}, {4096, 2.5f}, {4105, 1.0f}};
  DrawCase c(kDraws);
  for (size_t d = 0; d < kDraws; ++d) {
    for (size_t i = 0; i < DrawCase::kStride; ++i) {
      const auto found = likely.find(i);
      c.logits[d * DrawCase::kStride + i] = found != likely.end() ? found->second : -60.0f;
    }
    c.draws[d] = {.seed = d, .position = 5, .inverse_temperature = 1.25f};
  }
  c.Run();
  double sum = 0;
  for (const auto& [token, logit] : likely) sum += std::exp(1.25 * logit);
  std::map<size_t, int> seen;
  for (size_t d = 0; d < kDraws; ++d) {
    const auto token = static_cast<size_t>(c.drawn[d].token);
    ASSERT_TRUE(likely.contains(token)) << token;
    ++seen[token];
    ASSERT_NEAR(c.drawn[d].logprob, 1.25 * likely.at(token) - std::log(sum), 1e-4);
  }
  for (const auto& [token, logit] : likely) {
    const double p = std::exp(1.25 * logit) / sum;
    EXPECT_NEAR(seen[token] / double{kDraws}, p, 4.5 * std::sqrt(p * (1 - p) / kDraws)) << token;
  }
}

TEST(CudaHostDraw, AMaskLeavesItsTokensAndTheirDistribution) {
  constexpr size_t kDraws = 600;
  DrawCase c(kDraws);
  Fill(c.logits, 12);
  std::fill(c.masks.begin(), c.masks.end(), 0u);
  // The first mask leaves tokens of both parts, the second of the last part alone.
  const std::vector<size_t> kept[] = {{3, 64, 2050, 4095, 4097, 4105}, {4096, 4100}};
  for (size_t m = 0; m < 2; ++m) {
    for (const size_t id : kept[m]) {
      c.masks[m * DrawCase::kMaskWords + id / 32] |= 1u << (id % 32);
    }
  }
  for (size_t d = 0; d < kDraws; ++d) {
    float* row = c.logits.data() + d * DrawCase::kStride;
    row[d % 50] = 90;  // by far the likeliest, and left out where it is not 3
    c.draws[d] = {.seed = d,
                  .position = 2,
                  .inverse_temperature = d % 5 == 0 ? 0.0f : 0.8f,
                  .mask = static_cast<int32_t>(1 + d % 2)};
  }
  c.Run();
  for (size_t d = 0; d < kDraws; ++d) {
    const float* row = c.logits.data() + d * DrawCase::kStride;
    const std::vector<size_t>& left = kept[d % 2];
    const auto token = static_cast<size_t>(c.drawn[d].token);
    ASSERT_NE(std::find(left.begin(), left.end(), token), left.end()) << d << ": " << token;
    const double scale = d % 5 == 0 ? 1 : 0.8;
    double sum = 0, best = -1e9;
    for (const size_t id : left) {
      sum += std::exp(scale * (Value(row[id]) - Value(row[token])));
      best = std::max<double>(best, Value(row[id]));
    }
    EXPECT_NEAR(c.drawn[d].logprob, -std::log(sum), 1e-3) << d;
    if (d % 5 == 0) {
      EXPECT_EQ(Value(row[token]), best) << "the most likely of those that are left";
    }
  }
}

TEST(CudaHostCopies, PagesOfEveryLayerAndWholeBlocks) {
  constexpr size_t kPage = 48, kPages = 6, kLayers = 3;
  OnDevice<float> pool(kLayers * kPages * kPage / 4);
  Fill(pool, 10);
  const std::vector<float> before(pool.begin(), pool.end());
  OnDevice<CudaCopies> copies(1);
  copies[0] = {.count = 2, .pages = {{.from = 1, .to = 4}, {.from = 1, .to = 0}}};
  CudaCopyPages({.pool = pool.data(),
                 .layer_bytes = kPages * kPage,
                 .page_bytes = kPage,
                 .layers = kLayers,
                 .copies = copies.data()},
                nullptr);
  for (size_t i = 0; i < pool.size(); ++i) {
    const size_t page = i / (kPage / 4) % kPages;
    const bool copied = page == 4 || page == 0;
    EXPECT_EQ(pool[i], before[copied ? i + (kPage / 4) - page * (kPage / 4) : i]);
  }
  OnDevice<float> from(300'000 * 4), to(from.size());  // four at once, and the rest
  Fill(from, 11);
  CudaCopyBlock(from.data(), to.data(), from.size() * 4, nullptr);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
}

TYPED_TEST(CudaHostKernels, ProductsWithBiasOrAddedToWhatIsThere) {
  using T = TypeParam;
  cuda_host::SetProposals(2);
  auto gemm = CudaGemm::New(nullptr);
  ASSERT_TRUE(gemm.ok());
  constexpr int kRows = 3, kN = 10, kK = 21, kStride = 12;
  OnDevice<T> x(kRows * kK), w(kN * kK), bias(kN), low(kRows * kStride);
  OnDevice<float> wide(kRows * kStride);
  Fill(x, 12);
  Fill(w, 13);
  Fill(bias, 14);
  Fill(wide, 15);
  const std::vector<float> before(wide.begin(), wide.end());
  const GemmShape shape{
      .type = kTypeOf<T>, .bias = true, .rows = kRows, .n = kN, .k = kK, .stride = kStride};
  ASSERT_TRUE((*gemm)->Run(shape, x.data(), w.data(), bias.data(), low.data()).ok());
  GemmShape adding = shape;
  adding.bias = false;
  adding.wide = adding.accumulate = true;
  ASSERT_TRUE((*gemm)->Run(adding, x.data(), w.data(), nullptr, wide.data()).ok());
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (size_t k = 0; k < kK; ++k) sum += Value(x[r * kK + k]) * Value(w[n * kK + k]);
      ExpectNear(low[r * kStride + n], sum + Value(bias[n]), "with bias", n);
      ExpectNear(wide[r * kStride + n], sum + before[r * kStride + n], "added", n);
    }
    EXPECT_EQ(wide[r * kStride + kN], before[r * kStride + kN]) << "beside the columns";
  }
  cuda_host::SetProposals(1);
}

TEST(CudaHostGemm, TheFastestOfSeveralProposalsIsFoundInAGraph) {
  cuda_host::SetProposals(2);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  {
    auto gemm = CudaGemm::New(stream);
    ASSERT_TRUE(gemm.ok());
    OnDevice<float> x{1, 2}, w{3, 4}, out(1);
    const GemmShape shape{
        .type = CudaType::kF32, .wide = true, .rows = 1, .n = 1, .k = 2, .stride = 1};
    const std::vector<const void*> weights = {w.data(), w.data()};
    ASSERT_TRUE((*gemm)->Tune(shape, x.data(), weights, nullptr, out.data()).ok());
    out[0] = 0;
    ASSERT_TRUE((*gemm)->Run(shape, x.data(), w.data(), nullptr, out.data()).ok());
    cudaStreamSynchronize(stream);
    EXPECT_EQ(out[0], 11.0f);
  }
  cudaStreamDestroy(stream);
  cuda_host::SetProposals(1);
}

}  // namespace
}  // namespace tidemill

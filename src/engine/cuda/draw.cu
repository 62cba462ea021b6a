// Draws tokens from logits that exist only a few thousand columns at a time: each part of a row
// draws one candidate of its own and says what it weighs; at the end one part is drawn by weight.
// That is exactly a draw from the whole row, and what is drawn depends on logits, seed and position
// alone.
#include <cfloat>

#include "model/cuda/convert.cuh"
#include "model/cuda/kernels.h"
#include "model/cuda/launch.cuh"

namespace tidemill {
namespace {

constexpr int kThreads = 256;
constexpr int kQuads = kCudaPartColumns / (4 * kThreads);  // float4 a thread holds
constexpr int kDrawWarps = kThreads / 32;

__device__ __forceinline__ uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Uniform in [0, 1); `stream` 0 is the choice between parts, others the choice within one.
__device__ __forceinline__ double Uniform(const CudaDraw& draw, uint32_t stream) {
  const uint64_t place = static_cast<uint64_t>(static_cast<uint32_t>(draw.position)) << 32 | stream;
  return static_cast<double>(Mix(Mix(draw.seed) ^ Mix(~place)) >> 11) * 0x1.0p-53;
}

struct Best {
  float value;
  int index;
};
__device__ __forceinline__ Best Better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
__device__ __forceinline__ Best WarpBest(Best best) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Best other{__shfl_xor_sync(0xffffffffu, best.value, step),
                     __shfl_xor_sync(0xffffffffu, best.index, step)};
    best = Better(best, other);
  }
  return best;
}

__device__ __forceinline__ int WarpMin(int x) {
  return __reduce_min_sync(0xffffffffu, x);
}

struct PartScratch {
  float values[kDrawWarps];
  int indices[kDrawWarps];
  float sums[kDrawWarps];
  float inclusive[kThreads];
};

// The column of this thread's q-th float4.
__device__ __forceinline__ int Column(int q) {
  return (q * kThreads + threadIdx.x) * 4;
}

// Lets the one thread whose share of the sum holds the target say which of its columns it is.
__device__ void PickWithin(const float (&logits)[kQuads * 4], float top, float scale, float own,
                           double uniform, int first_column, PartScratch& s, CudaPart& out) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float inclusive = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float below = __shfl_up_sync(0xffffffffu, inclusive, step);
    if (lane >= step) inclusive += below;
  }
  if (lane == 31) s.sums[warp] = inclusive;
  __syncthreads();
  float base = 0, total = 0;
#pragma unroll
  for (int w = 0; w < kDrawWarps; ++w) {
    if (w == warp) base = total;
    total += s.sums[w];
  }
  s.inclusive[threadIdx.x] = base + inclusive;
  __syncthreads();
  // The bounds of neighbours are the same number, so the shares tile [0, last) without gaps.
  const float last = s.inclusive[kThreads - 1];
  const float target =
      fminf(static_cast<float>(uniform * static_cast<double>(last)), last * (1.0f - 1e-7f));
  const float low = threadIdx.x == 0 ? 0.0f : s.inclusive[threadIdx.x - 1];
  const float high = s.inclusive[threadIdx.x];
  if (!(low <= target && target < high)) return;
  float left = target - low;
  int chosen = -1;
#pragma unroll
  for (int i = 0; i < kQuads * 4; ++i) {
    const float weight = Exp2((logits[i] - top) * scale);
    if (weight <= 0.0f || (chosen >= 0 && left < 0)) continue;
    chosen = i;  // the last one with weight, should rounding leave something over
    left -= weight;
  }
#pragma unroll
  for (int i = 0; i < kQuads * 4; ++i) {
    if (i != chosen) continue;
    out.token = first_column + Column(i / 4) + i % 4;
    out.logit = logits[i];
  }
}

// The first of this thread's columns that holds `value`, or INT_MAX.
__device__ __forceinline__ int FirstColumn(const float (&logits)[kQuads * 4], float value) {
  int first = INT_MAX;
#pragma unroll
  for (int i = 0; i < kQuads * 4; ++i) {
    if (logits[i] == value) first = min(first, Column(i / 4) + i % 4);
  }
  return first;
}

// What the mask leaves out can no longer be drawn. `offset`: of the block's columns among those of
// the launch, which begins a part, as does the launch's first column.
__device__ void HoldToMask(const CudaPartArgs& args, int mask, int offset, int columns,
                           float (&logits)[kQuads * 4]) {
  const uint32_t* bits = args.masks + static_cast<int64_t>(mask - 1) * args.mask_words;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int column = Column(q);
    if (column >= columns) continue;
    const int token = args.first_column + offset + column;
    const uint32_t four = bits[token / 32] >> (token % 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((four >> i & 1u) == 0) logits[q * 4 + i] = -INFINITY;
    }
  }
}

__global__ void __launch_bounds__(kThreads, 6) PartKernel(const CudaPartArgs args) {
  __shared__ PartScratch s;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t d = blockIdx.y;
  const CudaDraw draw = args.draws[d];
  const int offset = static_cast<int>(blockIdx.x) * kCudaPartColumns;
  const int columns = min(kCudaPartColumns, args.columns - offset);
  const float* row = args.logits + d * args.stride + offset;
  float logits[kQuads * 4];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int column = Column(q);
    const float4 v = column < columns ? Load4(row + column) : float4{};
    logits[q * 4] = v.x;
    logits[q * 4 + 1] = v.y;
    logits[q * 4 + 2] = v.z;
    logits[q * 4 + 3] = v.w;
  }
  if (columns < kCudaPartColumns) {
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      if (Column(i / 4) + i % 4 >= columns) logits[i] = -INFINITY;
    }
  }
  if (draw.mask > 0) HoldToMask(args, draw.mask, offset, columns, logits);
  float top = logits[0];
#pragma unroll
  for (int i = 1; i < kQuads * 4; ++i) top = fmaxf(top, logits[i]);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  }
  if (lane == 0) s.values[warp] = top;
  __syncthreads();
  top = s.values[0];
#pragma unroll
  for (int w = 1; w < kDrawWarps; ++w) top = fmaxf(top, s.values[w]);

  // The mask may leave nothing of a part; it then weighs nothing.
  const bool none = draw.mask > 0 && top == -INFINITY;
  const float base = none ? 0.0f : top;
  const bool greedy = draw.inverse_temperature <= 0;
  const float scale = (greedy ? 1.0f : draw.inverse_temperature) * 1.4426950408889634f;
  float own = 0;
#pragma unroll
  for (int i = 0; i < kQuads * 4; ++i) own += Exp2((logits[i] - base) * scale);
  const int first_part = args.first_column / kCudaPartColumns;
  const int part = first_part + static_cast<int>(blockIdx.x);
  CudaPart& out = args.parts[d * args.part_stride + part];
  const int first_column = args.first_column + offset;
  if (greedy) {
    const int first = WarpMin(FirstColumn(logits, top));
    if (lane == 0) s.indices[warp] = first;
  } else {
    PickWithin(logits, base, scale, own, Uniform(draw, static_cast<uint32_t>(part) + 1),
               first_column, s, out);
  }
  __syncthreads();
  own = WarpSum(own);
  if (lane == 0) s.sums[warp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int w = 0; w < kDrawWarps; ++w) sum += s.sums[w];
  // Numbers that are none are in the sum, infinite ones in the top.
  out.top = isfinite(top) && isfinite(sum) ? top : NAN;
  out.sum = sum;
  if (none) {
    out = {-FLT_MAX, 0, first_column, -INFINITY};
    return;
  }
  if (greedy) {
    int first = s.indices[0];
    for (int w = 1; w < kDrawWarps; ++w) first = min(first, s.indices[w]);
    out.token = first_column + first;
    out.logit = top;
  }
}

// One warp a draw.
__global__ void FinishKernel(const CudaFinishArgs args) {
  const int d = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = threadIdx.x % 32;
  if (d >= args.count) return;
  const int part_count = args.part_count;
  const CudaPart* row = args.parts + static_cast<int64_t>(d) * args.part_stride;
  const CudaDraw draw = args.draws[d];
  const bool greedy = draw.inverse_temperature <= 0;
  const float scale = greedy ? 1.0f : draw.inverse_temperature;
  Best best{-INFINITY, INT_MAX};
  bool broken = false;
  for (int p = lane; p < part_count; p += 32) {
    broken |= !isfinite(row[p].top);
    best = Better(best, {row[p].top, p});
  }
  best = WarpBest(best);
  broken = __any_sync(0xffffffffu, broken);
  const auto weight = [&](int p) {
    return p < part_count ? static_cast<double>(row[p].sum) *
                                exp(static_cast<double>((row[p].top - best.value) * scale))
                          : 0.0;
  };
  double total = 0;
  for (int p = lane; p < part_count; p += 32) total += weight(p);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
  int chosen = best.index;
  if (!greedy && !broken) {
    double left = Uniform(draw, 0) * total;
    int last = best.index;
    bool found = false;
    for (int first = 0; first < part_count && !found; first += 32) {
      double inclusive = weight(first + lane);
      const unsigned heavy = __ballot_sync(0xffffffffu, inclusive > 0);
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const double below = __shfl_up_sync(0xffffffffu, inclusive, step);
        if (lane >= step) inclusive += below;
      }
      const unsigned beyond = __ballot_sync(0xffffffffu, left < inclusive) & heavy;
      if (heavy != 0) last = first + 31 - __clz(static_cast<int>(heavy));
      if (beyond != 0) {
        last = first + __ffs(static_cast<int>(beyond)) - 1;
        found = true;
      }
      left -= __shfl_sync(0xffffffffu, inclusive, 31);
    }
    chosen = last;
  }
  if (lane != 0) return;
  CudaDrawn drawn{-1, 0};
  if (!broken && total > 0 && isfinite(total)) {
    const CudaPart part = row[chosen];
    drawn = {part.token,
             static_cast<float>(static_cast<double>(part.logit - best.value) * scale - log(total))};
  }
  args.drawn[d] = drawn;
  args.told[static_cast<int64_t>(*args.told_block) * args.told_stride + d] = drawn;
}

}  // namespace

void CudaDrawParts(const CudaPartArgs& args, CudaStream stream) {
  const dim3 grid(static_cast<unsigned>((args.columns + kCudaPartColumns - 1) / kCudaPartColumns),
                  static_cast<unsigned>(args.count));
  Launch(PartKernel, {.grid = grid, .threads = kThreads, .stream = stream}, args);
}

void CudaDrawFinish(const CudaFinishArgs& args, CudaStream stream) {
  const auto blocks = static_cast<unsigned>((args.count + 3) / 4);
  Launch(FinishKernel, {.grid = blocks, .threads = 128, .stream = stream}, args);
}

}  // namespace tidemill

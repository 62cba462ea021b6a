// AdamW of weights in two halves with moments in a byte each. Compiled without fused
// multiply-adds: so it agrees with the CPU (model/moment_codes.h).
#include "model/cuda/train_kernels.cuh"
#include "model/moment_codes.h"
#include "model/split_float.h"

namespace tidemill {
namespace {

constexpr int kNumbers = 8;  // of a thread
constexpr int kLanes = 8;    // threads that share a block of moments
constexpr int kThreads = 256;
static_assert(kNumbers * kLanes == kMomentBlock);

template <typename T>
struct alignas(kNumbers * sizeof(T)) Eight {
  T at[kNumbers];
};

// The first `count` of eight numbers, the others 0. kWide: they are aligned to eight.
template <bool kWide, typename T>
__device__ __forceinline__ Eight<T> LoadEight(const T* from, int count) {
  if (kWide && count == kNumbers) return *reinterpret_cast<const Eight<T>*>(from);
  Eight<T> numbers;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) numbers.at[i] = i < count ? from[i] : T{};
  return numbers;
}
template <bool kWide, typename T>
__device__ __forceinline__ void StoreEight(T* to, const Eight<T>& numbers, int count) {
  if (kWide && count == kNumbers) {
    *reinterpret_cast<Eight<T>*>(to) = numbers;
    return;
  }
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    if (i < count) to[i] = numbers.at[i];
  }
}

// The largest of the lanes that share a block.
__device__ __forceinline__ float BlockMax(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  }
  return x;
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    SplitAdamWKernel(const AdamWUpdate u, uint32_t step, const TrainSplitWeights w) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t first = thread * kNumbers, block = thread / kLanes;
  const int64_t left = w.count - first;
  const int n = left >= kNumbers ? kNumbers : left > 0 ? static_cast<int>(left) : 0;
  const bool in_block = block * kMomentBlock < w.count;
  const Eight<uint16_t> grad = LoadEight<kWide>(static_cast<const uint16_t*>(w.grad) + first, n);
  Eight<uint16_t> high = LoadEight<kWide>(static_cast<uint16_t*>(w.high) + first, n);
  Eight<int16_t> rest = LoadEight<kWide>(w.rest + first, n);
  Eight<uint8_t> m_codes = LoadEight<kWide>(w.first_moments + first, n);
  Eight<uint8_t> v_codes = LoadEight<kWide>(w.second_moments + first, n);
  const float m_had = in_block ? w.first_scales[block] : 0.0f;
  const float v_had = in_block ? w.second_scales[block] : 0.0f;
  const float inverse_root = 1.0f / u.root;
  float m[kNumbers], v[kNumbers], m_scale = 0, v_scale = 0;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    m[i] = DecodeFirst(m_codes.at[i], m_had);
    v[i] = DecodeSecond(v_codes.at[i], v_had);
    const SplitFloat split = SplitOf(AdamWNumber(u, inverse_root, WidenBfloat16(grad.at[i]),
                                                 JoinFloat(high.at[i], rest.at[i]), m[i], v[i]));
    high.at[i] = split.high;
    rest.at[i] = split.rest;
    m_scale = fmaxf(m_scale, fabsf(m[i]));
    v_scale = fmaxf(v_scale, v[i]);
  }
  m_scale = BlockMax(m_scale);
  v_scale = BlockMax(v_scale);
  const float m_inverse = InverseScale(m_scale), v_inverse = InverseScale(v_scale);
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const uint32_t index = static_cast<uint32_t>(w.first + first) + static_cast<uint32_t>(i);
    m_codes.at[i] = EncodeFirst(m[i], m_inverse, MomentChance(step, FirstMomentPlace(index)));
    v_codes.at[i] = EncodeSecond(v[i], v_inverse, MomentChance(step, SecondMomentPlace(index)));
  }
  StoreEight<kWide>(static_cast<uint16_t*>(w.high) + first, high, n);
  StoreEight<kWide>(w.rest + first, rest, n);
  StoreEight<kWide>(w.first_moments + first, m_codes, n);
  StoreEight<kWide>(w.second_moments + first, v_codes, n);
  if (in_block && threadIdx.x % kLanes == 0) {
    w.first_scales[block] = m_scale;
    w.second_scales[block] = v_scale;
  }
}

bool AlignedTo(const void* p, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

}  // namespace

void TrainSplitAdamWStep(const AdamWUpdate& update, uint64_t step, const TrainSplitWeights& w,
                         CudaStream stream) {
  if (w.count == 0) return;
  const bool wide = AlignedTo(w.grad, 16) && AlignedTo(w.high, 16) && AlignedTo(w.rest, 16) &&
                    AlignedTo(w.first_moments, 8) && AlignedTo(w.second_moments, 8);
  Launch(wide ? SplitAdamWKernel<true> : SplitAdamWKernel<false>,
         {.grid = BlocksFor(w.count, int64_t{kThreads} * kNumbers),
          .threads = kThreads,
          .stream = stream},
         update, static_cast<uint32_t>(step), w);
}

}  // namespace tidemill

// CUDA on the CPU, for tests: the sources of our GPU path compile against this folder with g++, and
// their kernels run here.
//
//   Launch (model/cuda/launch.cuh) -> a stream's queue -> block by block, each thread a fiber
//
// It shows indexing, layout, numerics and what the host does: a block runs alone, its threads meet
// at barriers and in warp operations as on a GPU, and whoever is missing there is named (the
// program aborts). The order of blocks and threads follows a seed, TIDEMILL_CUDA_HOST_SEED (1
// unless set), and is another one at every launch, so what depends on a missing barrier comes out
// wrong. Work on a stream that was created starts when somebody waits for it, as late as a GPU
// might; on the null stream at once. Memory is filled with NaN, and writes beside it are found when
// it is freed. A launch that a GPU would refuse is refused.
//
// It does not show speed, races that need threads running at the same moment (between blocks, or
// between two instructions without a meeting point), reads of shared memory that nobody wrote
// (it holds what the block before left), the precision of approximate instructions, PTX (what
// model/cuda/intrinsics.cuh says instead runs) or the real cuBLASLt and flash attention.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
// A block runs alone on its thread of the operating system.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// Of the thread that runs.
extern thread_local uint3 threadIdx, blockIdx;
extern thread_local dim3 blockDim, gridDim;

namespace cuda_host {

struct KernelLaunch {
  const void* kernel = nullptr;  // for messages
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
};
void Launch(const KernelLaunch& launch, cudaStream_t stream, std::function<void()> body);
void* DynamicShared();

// What the lanes of a warp do together; all those of a mask must do the same.
enum class Meeting : uint8_t {
  kSync,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kVote,
  kReduce,
  kMma
};
inline constexpr size_t kLaneBytes = 32;
struct LaneValues {
  alignas(16) std::byte of[32][kLaneBytes];
};
// Gives this lane's value and returns those of all lanes in `mask`, which stay until this lane has
// met twice more. `last` runs once, when all are there.
const LaneValues& Meet(Meeting kind, unsigned mask, const void* value, size_t bytes,
                       void (*last)(LaneValues&) = nullptr);
// Ends the program with the kernel, the block, the thread and what is wrong.
[[noreturn]] void Wrong(const char* what);

template <typename T>
T FromLane(const LaneValues& values, unsigned mask, unsigned lane) {
  static_assert(sizeof(T) <= kLaneBytes);
  if ((mask >> lane & 1) == 0) Wrong("a shuffle reads from a lane that its mask leaves out");
  T value;
  std::memcpy(&value, values.of[lane], sizeof(T));
  return value;
}

// f(a, b) over the lanes of the mask.
template <typename T, typename F>
T Fold(unsigned mask, T value, F&& f) {
  const LaneValues& values = Meet(Meeting::kReduce, mask, &value, sizeof(T));
  T all = FromLane<T>(values, mask, static_cast<unsigned>(std::countr_zero(mask)));
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0) all = f(all, FromLane<T>(values, mask, lane));
  }
  return all;
}

// See model/cuda/intrinsics.cuh.
void Mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

}  // namespace cuda_host

void __syncthreads();

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cuda_host::Meet(cuda_host::Meeting::kSync, mask, nullptr, 0);
}

// `width` is a power of two: lanes shuffle within groups of so many. A lane whose source is outside
// of its group gets its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const auto& values = cuda_host::Meet(cuda_host::Meeting::kShuffle, mask, &value, sizeof(value));
  const unsigned lane = threadIdx.x % 32, group = lane & ~static_cast<unsigned>(width - 1);
  return cuda_host::FromLane<T>(values, mask,
                                group + (static_cast<unsigned>(source) & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
  const auto& values =
      cuda_host::Meet(cuda_host::Meeting::kShuffleXor, mask, &value, sizeof(value));
  const unsigned lane = threadIdx.x % 32, source = lane ^ static_cast<unsigned>(with);
  const unsigned last = lane | static_cast<unsigned>(width - 1);
  return cuda_host::FromLane<T>(values, mask, source > last ? lane : source);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const auto& values = cuda_host::Meet(cuda_host::Meeting::kShuffleUp, mask, &value, sizeof(value));
  const unsigned lane = threadIdx.x % 32, in_group = lane & static_cast<unsigned>(width - 1);
  return cuda_host::FromLane<T>(values, mask, in_group < by ? lane : lane - by);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const auto& values =
      cuda_host::Meet(cuda_host::Meeting::kShuffleDown, mask, &value, sizeof(value));
  const unsigned lane = threadIdx.x % 32, in_group = lane & static_cast<unsigned>(width - 1);
  return cuda_host::FromLane<T>(values, mask,
                                in_group + by >= static_cast<unsigned>(width) ? lane : lane + by);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned mine = predicate != 0 ? 1u << threadIdx.x % 32 : 0u;
  return cuda_host::Fold(mask, mine, [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask ? 1 : 0;
}
inline int __reduce_min_sync(unsigned mask, int value) {
  return cuda_host::Fold(mask, value, [](int a, int b) { return a < b ? a : b; });
}
inline int __reduce_max_sync(unsigned mask, int value) {
  return cuda_host::Fold(mask, value, [](int a, int b) { return a > b ? a : b; });
}

// Threads of other blocks do not run meanwhile.
template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}

inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
using std::isfinite;
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
// The place of the lowest bit, counted from 1; 0 where there is none.
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
// Four bytes of the eight in `high`:`low`, each chosen by four bits of `which`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned byte = which >> (4 * i) & 7;
    out |= static_cast<unsigned>(both >> (8 * byte) & 0xff) << (8 * i);
  }
  return out;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, T value) {
  *to = value;
}

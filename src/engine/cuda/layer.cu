// The small kernels of a layer: embedding, norms, rotation with the write to the cache, the gate.
#include "model/cuda/convert.cuh"
#include "model/cuda/kernels.h"
#include "model/cuda/launch.cuh"

namespace tidemill {
namespace {

template <typename T>
__global__ void EmbedKernel(const CudaEmbedArgs args) {
  const int64_t r = blockIdx.x;
  const int32_t said = args.rows[r].token;
  // A draw from logits that are not finite is no token; the host says so.
  const int64_t token = said >= 0 ? said : max(args.drawn[~said].token, 0);
  const T* from = static_cast<const T*>(args.table) + token * args.width;
  for (int i = threadIdx.x * 4; i < args.width; i += blockDim.x * 4) {
    const float4 v = Load4(from + i);
    Store4(args.x + r * args.width + i,
           {v.x * args.scale, v.y * args.scale, v.z * args.scale, v.w * args.scale});
  }
}

__device__ __forceinline__ float4 Plus(float4 v, float x) {
  return {v.x + x, v.y + x, v.z + x, v.w + x};
}

__device__ __forceinline__ float4 Sum(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

__device__ __forceinline__ float SquareSum(float4 v) {
  return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

__device__ __forceinline__ float4 Scaled(float4 v, float scale, float4 gain) {
  return {v.x * scale * gain.x, v.y * scale * gain.y, v.z * scale * gain.z, v.w * scale * gain.w};
}

// Each thread has up to 4 kKept numbers of a row and their gains on the way at once, and keeps them
// in registers. Of rows that are wider than all threads hold the rest is read twice.
template <typename T, int kThreads, int kKept>
__global__ void __launch_bounds__(kThreads) NormKernel(const CudaNormArgs args) {
  __shared__ float scratch[kThreads / 32];
  const int64_t r = blockIdx.x;
  const int64_t source = args.select != nullptr ? args.select[r] : r;
  float* x = args.x + source * args.width;
  const T* bias = static_cast<const T*>(args.bias);
  const T* weight = static_cast<const T*>(args.weight);
  const auto at = [](int n) { return (n * kThreads + static_cast<int>(threadIdx.x)) * 4; };
  float4 kept[kKept], gains[kKept];
#pragma unroll
  for (int n = 0; n < kKept; ++n) {
    const bool inside = at(n) < args.width;
    kept[n] = inside ? Load4(x + at(n)) : float4{};
    gains[n] = inside ? Load4(weight + at(n)) : float4{};
  }
  const auto biased = [&](float4 v, int i) {
    v = Sum(v, Load4(bias + i));
    if (args.select == nullptr) Store4(x + i, v);
    return v;
  };
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kKept; ++n) {
    if (bias != nullptr && at(n) < args.width) kept[n] = biased(kept[n], at(n));
    sum += SquareSum(kept[n]);
  }
  for (int i = at(kKept); i < args.width; i += kThreads * 4) {
    const float4 v = Load4(x + i);
    sum += SquareSum(bias != nullptr ? biased(v, i) : v);
  }
  const float scale =
      rsqrtf(BlockSum<kThreads>(sum, scratch) / static_cast<float>(args.width) + args.eps);
  T* out = static_cast<T*>(args.out) + r * args.width;
#pragma unroll
  for (int n = 0; n < kKept; ++n) {
    if (at(n) < args.width)
      Store4(out + at(n), Scaled(kept[n], scale, Plus(gains[n], args.offset)));
  }
  const bool again = bias != nullptr && args.select != nullptr;  // x was left as it is
  for (int i = at(kKept); i < args.width; i += kThreads * 4) {
    const float4 v = again ? Sum(Load4(x + i), Load4(bias + i)) : Load4(x + i);
    Store4(out + i, Scaled(v, scale, Plus(Load4(weight + i), args.offset)));
  }
}

constexpr int kAddNormThreads = 128;

// A block for each row; what comes in is read twice, the second time from the cache.
template <typename T>
__global__ void __launch_bounds__(kAddNormThreads) AddNormKernel(const CudaAddNormArgs args) {
  __shared__ float scratch[kAddNormThreads / 32];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * args.width;
  const T* bias = static_cast<const T*>(args.bias);
  const T* weight = static_cast<const T*>(args.weight);
  const auto take = [&](int i) {
    const float4 v = Load4(args.from + first + i);
    return bias == nullptr ? v : Sum(v, Load4(bias + i));
  };
  float sum = 0;
  for (int i = threadIdx.x * 4; i < args.width; i += kAddNormThreads * 4) {
    sum += SquareSum(take(i));
  }
  const float scale =
      rsqrtf(BlockSum<kAddNormThreads>(sum, scratch) / static_cast<float>(args.width) + args.eps);
  for (int i = threadIdx.x * 4; i < args.width; i += kAddNormThreads * 4) {
    const float4 v = Scaled(take(i), scale, Plus(Load4(weight + i), args.offset));
    Store4(args.x + first + i, Sum(Load4(args.x + first + i), v));
  }
}

template <typename T>
__global__ void NarrowKernel(const float* x, int64_t count, T* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i < count) Store4(out + i, Load4(x + i));
}

// The fastest on an H200 (docs/lab/gpu.md); rows of up to 5,120 numbers are in registers.
template <typename T>
auto NormKernelFor(int width, unsigned& threads) {
  threads = width > 2048 ? 256 : 128;
  if (width <= 1024) return NormKernel<T, 128, 2>;
  if (width <= 2048) return NormKernel<T, 128, 4>;
  return width <= 4096 ? NormKernel<T, 256, 4> : NormKernel<T, 256, 5>;
}

constexpr int kRotateThreads = 128;

// One over the root mean square of `width` numbers, by the whole block.
template <typename T>
__device__ __forceinline__ float WholeScale(const T* x, int width, float eps, float* scratch) {
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += kRotateThreads) sum += ToFloat(x[i]) * ToFloat(x[i]);
  return rsqrtf(BlockSum<kRotateThreads>(sum, scratch) / static_cast<float>(width) + eps);
}

// A warp takes one head of a row; a lane the pairs (i, i + half) for i = lane, lane + 32, ..
template <typename T>
__global__ void __launch_bounds__(kRotateThreads) RotateKernel(const CudaRotateArgs args) {
  __shared__ float scratch[2][kRotateThreads / 32];
  const int64_t r = blockIdx.x;
  const CudaRow row = args.rows[r];
  if (row.position < 0) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const CudaHeads& h = args.heads;
  const int d = h.head_dim, half = d / 2;
  T* qkv = static_cast<T*>(args.qkv) + r * h.QkvWidth();
  const int slot = row.position % kCudaPageSlots;
  T* page = static_cast<T*>(args.cache) +
            static_cast<int64_t>(args.pages[row.pages + row.position / kCudaPageSlots]) *
                static_cast<int64_t>(h.PageNumbers());
  const float* cos = args.cos + static_cast<int64_t>(row.position) * half;
  const float* sin = args.sin + static_cast<int64_t>(row.position) * half;
  float whole_q = 1, whole_k = 1;
  if (args.whole_norm) {
    whole_q = WholeScale(qkv, h.heads * d, args.eps, scratch[0]);
    whole_k = WholeScale(qkv + h.heads * d, h.kv_heads * d, args.eps, scratch[1]);
    __syncthreads();  // before queries change where they lie
  }
  for (int head = warp; head < h.heads + 2 * h.kv_heads; head += warps) {
    T* x = qkv + head * d;
    const int key = head - h.heads, value = key - h.kv_heads;
    if (value >= 0) {
      T* to = page + ((h.kv_heads + value) * kCudaPageSlots + slot) * d;
      for (int i = lane; i < d; i += 32) to[i] = x[i];
      continue;
    }
    T* to = key >= 0 ? page + (key * kCudaPageSlots + slot) * d : x;
    const T* norm = static_cast<const T*>(key >= 0 ? args.k_norm : args.q_norm);
    float scale = key >= 0 ? whole_k : whole_q;
    if (args.whole_norm) {
      norm += (key >= 0 ? key : head) * d;
    } else if (norm != nullptr) {
      float sum = 0;
      for (int i = lane; i < d; i += 32) sum += ToFloat(x[i]) * ToFloat(x[i]);
      scale = rsqrtf(WarpSum(sum) / static_cast<float>(d) + args.eps);
    }
    for (int i = lane; i < half; i += 32) {
      float a = ToFloat(x[i]) * scale, b = ToFloat(x[i + half]) * scale;
      if (norm != nullptr) {
        a *= ToFloat(norm[i]) + args.offset;
        b *= ToFloat(norm[i + half]) + args.offset;
      }
      to[i] = FromFloat<T>(a * cos[i] - b * sin[i]);
      to[i + half] = FromFloat<T>(b * cos[i] + a * sin[i]);
    }
  }
}

template <Activation kActivation>
__device__ __forceinline__ float Active(float x) {
  const float z =
      kActivation == Activation::kSilu ? x : x * kGeluSlope * (1.0f + kGeluCubic * x * x);
  return x / (1.0f + __expf(-z));
}

template <Activation kActivation, typename T>
__global__ void GateKernel(const T* gate_up, int64_t total, int width, T* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const float4 g = Load4(gate_up + r * 2 * width + c);
  const float4 u = Load4(gate_up + r * 2 * width + width + c);
  Store4(out + i, {Active<kActivation>(g.x) * u.x, Active<kActivation>(g.y) * u.y,
                   Active<kActivation>(g.z) * u.z, Active<kActivation>(g.w) * u.w});
}

// Two bfloat16 in a word each.
template <Activation kActivation>
__device__ __forceinline__ unsigned GatePair(unsigned gate, unsigned up) {
  const float2 g = UnpackBf16(gate), u = UnpackBf16(up);
  return PackBf16(Active<kActivation>(g.x) * u.x, Active<kActivation>(g.y) * u.y);
}

// The same for widths that are multiples of 8, eight numbers at once.
template <Activation kActivation>
__global__ void GateWideKernel(const __nv_bfloat16* gate_up, int64_t total, int width,
                               __nv_bfloat16* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const __nv_bfloat16* gate = gate_up + r * 2 * width + c;
  const uint4 g = *reinterpret_cast<const uint4*>(gate);
  const uint4 u = *reinterpret_cast<const uint4*>(gate + width);
  *reinterpret_cast<uint4*>(out + i) =
      make_uint4(GatePair<kActivation>(g.x, u.x), GatePair<kActivation>(g.y, u.y),
                 GatePair<kActivation>(g.z, u.z), GatePair<kActivation>(g.w, u.w));
}

template <Activation kActivation>
void LaunchGate(CudaType type, const void* gate_up, int rows, int width, void* out,
                CudaStream stream) {
  const int64_t total = static_cast<int64_t>(rows) * width;
  const auto shape = [&](int64_t a_thread) {
    const auto blocks = static_cast<unsigned>((total / a_thread + 255) / 256);
    return LaunchShape{.grid = blocks, .threads = 256, .stream = stream};
  };
  if (type == CudaType::kF32) {
    return Launch(GateKernel<kActivation, float>, shape(4), static_cast<const float*>(gate_up),
                  total, width, static_cast<float*>(out));
  }
  const bool wide = width % 8 == 0;
  Launch(wide ? GateWideKernel<kActivation> : GateKernel<kActivation, __nv_bfloat16>,
         shape(wide ? 8 : 4), static_cast<const __nv_bfloat16*>(gate_up), total, width,
         static_cast<__nv_bfloat16*>(out));
}

__global__ void CopyPagesKernel(const CudaCopyArgs args) {
  char* layer = static_cast<char*>(args.pool) + blockIdx.y * args.layer_bytes;
  for (int n = static_cast<int>(blockIdx.x); n < args.copies->count; n += gridDim.x) {
    const CudaCopies::Pair page = args.copies->pages[n];
    const char* from = layer + static_cast<size_t>(page.from) * args.page_bytes;
    char* to = layer + static_cast<size_t>(page.to) * args.page_bytes;
    for (size_t i = threadIdx.x * 16; i < args.page_bytes; i += blockDim.x * 16) {
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    }
  }
}

constexpr int kCopyThreads = 512;

__global__ void __launch_bounds__(kCopyThreads)
    CopyBlockKernel(const uint4* from, uint4* to, size_t count) {
  constexpr int kAtOnce = 4;
  const size_t stride = static_cast<size_t>(gridDim.x) * kCopyThreads;
  size_t i = static_cast<size_t>(blockIdx.x) * kCopyThreads + threadIdx.x;
  for (; i + (kAtOnce - 1) * stride < count; i += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) v[n] = __ldcs(from + i + n * stride);
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) __stcs(to + i + n * stride, v[n]);
  }
  for (; i < count; i += stride) to[i] = from[i];
}

}  // namespace

void CudaCopyBlock(const void* from, void* to, size_t bytes, CudaStream stream) {
  Launch(CopyBlockKernel, {.grid = 132 * 4, .threads = kCopyThreads, .stream = stream},
         static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / 16);
}

void CudaEmbed(const CudaEmbedArgs& args, CudaStream stream) {
  const auto kernel = args.type == CudaType::kF32 ? EmbedKernel<float> : EmbedKernel<__nv_bfloat16>;
  const auto rows = static_cast<unsigned>(args.count);
  Launch(kernel, {.grid = rows, .threads = 128, .stream = stream}, args);
}

void CudaNorm(const CudaNormArgs& args, CudaStream stream) {
  unsigned threads = 0;
  const auto kernel = args.type == CudaType::kF32
                          ? NormKernelFor<float>(args.width, threads)
                          : NormKernelFor<__nv_bfloat16>(args.width, threads);
  const auto rows = static_cast<unsigned>(args.rows);
  Launch(kernel, {.grid = rows, .threads = threads, .stream = stream}, args);
}

void CudaAddNorm(const CudaAddNormArgs& args, CudaStream stream) {
  const auto kernel =
      args.type == CudaType::kF32 ? AddNormKernel<float> : AddNormKernel<__nv_bfloat16>;
  const auto rows = static_cast<unsigned>(args.rows);
  Launch(kernel, {.grid = rows, .threads = kAddNormThreads, .stream = stream}, args);
}

void CudaNarrow(CudaType type, const float* x, int64_t count, void* out, CudaStream stream) {
  const auto blocks = static_cast<unsigned>((count / 4 + 255) / 256);
  const LaunchShape shape{.grid = blocks, .threads = 256, .stream = stream};
  if (type == CudaType::kF32) {
    Launch(NarrowKernel<float>, shape, x, count, static_cast<float*>(out));
  } else {
    Launch(NarrowKernel<__nv_bfloat16>, shape, x, count, static_cast<__nv_bfloat16*>(out));
  }
}

void CudaRotate(const CudaRotateArgs& args, CudaStream stream) {
  const auto kernel =
      args.heads.type == CudaType::kF32 ? RotateKernel<float> : RotateKernel<__nv_bfloat16>;
  const auto rows = static_cast<unsigned>(args.count);
  Launch(kernel, {.grid = rows, .threads = kRotateThreads, .stream = stream}, args);
}

void CudaGate(Activation activation, CudaType type, const void* gate_up, int rows, int width,
              void* out, CudaStream stream) {
  const auto launch = activation == Activation::kSilu ? LaunchGate<Activation::kSilu>
                                                      : LaunchGate<Activation::kGeluTanh>;
  launch(type, gate_up, rows, width, out, stream);
}

void CudaCopyPages(const CudaCopyArgs& args, CudaStream stream) {
  // Few blocks: in most steps there is little or nothing to copy.
  const dim3 grid(8, static_cast<unsigned>(args.layers));
  Launch(CopyPagesKernel, {.grid = grid, .threads = 128, .stream = stream}, args);
}

}  // namespace tidemill

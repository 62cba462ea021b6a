// The small kernels of a layer: embedding, norm, rotation with the write to the cache, SwiGLU.
#include "model/cuda/convert.cuh"
#include "model/cuda/kernels.h"
#include "model/cuda/launch.cuh"

namespace tidemill {
namespace {

template <typename T>
__global__ void EmbedKernel(const CudaEmbedArgs args) {
  const int64_t r = blockIdx.x;
  const int32_t said = args.rows[r].token;
  // What was drawn from logits that are not finite is no token; the host says so.
  const int64_t token = said >= 0 ? said : max(args.drawn[~said].token, 0);
  const T* from = static_cast<const T*>(args.table) + token * args.width;
  for (int i = threadIdx.x * 4; i < args.width; i += blockDim.x * 4) {
    Store4(args.x + r * args.width + i, Load4(from + i));
  }
}

// Of rows up to 4 kThreads kKept numbers each thread keeps its own in registers between the passes,
// and has the gains there before they are needed.
template <typename T, int kThreads, int kKept>
__global__ void __launch_bounds__(kThreads) NormKernel(const CudaNormArgs args) {
  __shared__ float scratch[kThreads / 32];
  const int64_t r = blockIdx.x;
  const int64_t source = args.select != nullptr ? args.select[r] : r;
  float* x = args.x + source * args.width;
  const T* bias = static_cast<const T*>(args.bias);
  const T* weight = static_cast<const T*>(args.weight);
  float sum = 0;
  float4 kept[kKept], gains[kKept];
#pragma unroll
  for (int n = 0; n < kKept; ++n) {
    const int i = (n * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (bias != nullptr || i >= args.width) break;
    kept[n] = Load4(x + i);
    gains[n] = Load4(weight + i);
    sum += kept[n].x * kept[n].x + kept[n].y * kept[n].y + kept[n].z * kept[n].z +
           kept[n].w * kept[n].w;
  }
  const int rest = bias != nullptr ? 0 : kKept * kThreads * 4;
  for (int i = rest + threadIdx.x * 4; i < args.width; i += kThreads * 4) {
    float4 v = Load4(x + i);
    if (bias != nullptr) {
      const float4 b = Load4(bias + i);
      v = {v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w};
      if (args.select == nullptr) Store4(x + i, v);
    }
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float scale =
      rsqrtf(BlockSum<kThreads>(sum, scratch) / static_cast<float>(args.width) + args.eps);
  T* out = static_cast<T*>(args.out) + r * args.width;
#pragma unroll
  for (int n = 0; n < kKept; ++n) {
    const int i = (n * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (bias != nullptr || i >= args.width) break;
    const float4 v = kept[n], w = gains[n];
    Store4(out + i, {v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w});
  }
  for (int i = rest + threadIdx.x * 4; i < args.width; i += kThreads * 4) {
    float4 v = Load4(x + i);
    if (bias != nullptr && args.select != nullptr) {
      const float4 b = Load4(bias + i);
      v = {v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w};
    }
    const float4 w = Load4(weight + i);
    Store4(out + i, {v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w});
  }
}

// Narrow rows by four warps, wide ones by eight: up to 2,048 and 5,120 numbers in registers.
template <typename T>
auto NormKernelFor(int width, unsigned& threads) {
  const bool wide = width > 2048;
  threads = wide ? 256 : 128;
  return wide ? NormKernel<T, 256, 5> : NormKernel<T, 128, 4>;
}

// A warp takes one head of a row; a lane the pairs (i, i + half) for i = lane, lane + 32, ..
template <typename T>
__global__ void RotateKernel(const CudaRotateArgs args) {
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
    float scale = 1;
    if (norm != nullptr) {
      float sum = 0;
      for (int i = lane; i < d; i += 32) sum += ToFloat(x[i]) * ToFloat(x[i]);
      scale = rsqrtf(WarpSum(sum) / static_cast<float>(d) + args.eps);
    }
    for (int i = lane; i < half; i += 32) {
      float a = ToFloat(x[i]) * scale, b = ToFloat(x[i + half]) * scale;
      if (norm != nullptr) {
        a *= ToFloat(norm[i]);
        b *= ToFloat(norm[i + half]);
      }
      to[i] = FromFloat<T>(a * cos[i] - b * sin[i]);
      to[i + half] = FromFloat<T>(b * cos[i] + a * sin[i]);
    }
  }
}

__device__ __forceinline__ float Silu(float x) {
  return x / (1.0f + __expf(-x));
}

template <typename T>
__global__ void SwiGluKernel(const T* gate_up, int64_t total, int width, T* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const float4 g = Load4(gate_up + r * 2 * width + c);
  const float4 u = Load4(gate_up + r * 2 * width + width + c);
  Store4(out + i, {Silu(g.x) * u.x, Silu(g.y) * u.y, Silu(g.z) * u.z, Silu(g.w) * u.w});
}

// Two bfloat16 in a word each.
__device__ __forceinline__ unsigned SwiGluPair(unsigned gate, unsigned up) {
  const float2 g = UnpackBf16(gate), u = UnpackBf16(up);
  return PackBf16(Silu(g.x) * u.x, Silu(g.y) * u.y);
}

// The same for widths that are multiples of 8, eight numbers at once.
__global__ void SwiGluWideKernel(const __nv_bfloat16* gate_up, int64_t total, int width,
                                 __nv_bfloat16* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const __nv_bfloat16* gate = gate_up + r * 2 * width + c;
  const uint4 g = *reinterpret_cast<const uint4*>(gate);
  const uint4 u = *reinterpret_cast<const uint4*>(gate + width);
  *reinterpret_cast<uint4*>(out + i) = make_uint4(SwiGluPair(g.x, u.x), SwiGluPair(g.y, u.y),
                                                  SwiGluPair(g.z, u.z), SwiGluPair(g.w, u.w));
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

void CudaRotate(const CudaRotateArgs& args, CudaStream stream) {
  const auto kernel =
      args.heads.type == CudaType::kF32 ? RotateKernel<float> : RotateKernel<__nv_bfloat16>;
  const auto rows = static_cast<unsigned>(args.count);
  Launch(kernel, {.grid = rows, .threads = 128, .stream = stream}, args);
}

void CudaSwiGlu(CudaType type, const void* gate_up, int rows, int width, void* out,
                CudaStream stream) {
  const int64_t total = static_cast<int64_t>(rows) * width;
  const auto shape = [&](int64_t a_thread) {
    const auto blocks = static_cast<unsigned>((total / a_thread + 255) / 256);
    return LaunchShape{.grid = blocks, .threads = 256, .stream = stream};
  };
  if (type == CudaType::kF32) {
    return Launch(SwiGluKernel<float>, shape(4), static_cast<const float*>(gate_up), total, width,
                  static_cast<float*>(out));
  }
  const bool wide = width % 8 == 0;
  Launch(wide ? SwiGluWideKernel : SwiGluKernel<__nv_bfloat16>, shape(wide ? 8 : 4),
         static_cast<const __nv_bfloat16*>(gate_up), total, width,
         static_cast<__nv_bfloat16*>(out));
}

void CudaCopyPages(const CudaCopyArgs& args, CudaStream stream) {
  // Few blocks: in most steps there is little or nothing to copy.
  const dim3 grid(8, static_cast<unsigned>(args.layers));
  Launch(CopyPagesKernel, {.grid = grid, .threads = 128, .stream = stream}, args);
}

}  // namespace tidemill

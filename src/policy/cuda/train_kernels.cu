#include "policy/cuda/train_kernels.h"

#include "policy/cuda/convert.cuh"

namespace tidemill {
namespace {

using bf16 = __nv_bfloat16;

constexpr int kNormThreads = 256;
constexpr int kMaxNormParts = 528;  // four blocks on each of 132 multiprocessors

__global__ void __launch_bounds__(kNormThreads)
    NormForwardKernel(const TrainNormShape shape, const bf16* x, const float* w, bf16* y,
                      float* rstd) {
  __shared__ float scratch[kNormThreads / 32];
  const int64_t r = blockIdx.x;
  const bf16* from = x + r * shape.width;
  float sum = 0;
  for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) {
    const float4 v = Load4(from + i);
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float scale =
      rsqrtf(BlockSum<kNormThreads>(sum, scratch) / static_cast<float>(shape.width) + shape.eps);
  if (threadIdx.x == 0) rstd[r] = scale;
  for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) {
    const float4 v = Load4(from + i), g = Load4(w + i);
    Store4(y + r * shape.width + i,
           {v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w});
  }
}

// Each block goes through rows blockIdx.x, blockIdx.x + gridDim.x, ..; a thread keeps the same
// columns throughout, so the weight's gradient gathers in registers (shared memory beyond them).
__global__ void __launch_bounds__(kNormThreads)
    NormBackwardKernel(const TrainNormShape shape, const bf16* x, const float* w, const float* rstd,
                       const bf16* dy, bf16* dx, float* dw_parts) {
  extern __shared__ float dw[];
  __shared__ float scratch[2][kNormThreads / 32];
  for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) Store4(dw + i, float4{});
  int turn = 0;
  for (int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const float scale = rstd[r];
    const bf16* xr = x + r * shape.width;
    const bf16* dyr = dy + r * shape.width;
    float dot = 0;
    for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) {
      const float4 v = Load4(xr + i), d = Load4(dyr + i), g = Load4(w + i);
      dot += v.x * d.x * g.x + v.y * d.y * g.y + v.z * d.z * g.z + v.w * d.w * g.w;
      float4 gathered = Load4(dw + i);
      gathered = {gathered.x + v.x * scale * d.x, gathered.y + v.y * scale * d.y,
                  gathered.z + v.z * scale * d.z, gathered.w + v.w * scale * d.w};
      Store4(dw + i, gathered);
    }
    // Two scratch areas in turn: one barrier a row is enough.
    const float mean = BlockSum<kNormThreads>(dot, scratch[turn]) * scale * scale /
                       static_cast<float>(shape.width);
    turn ^= 1;
    for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) {
      const float4 v = Load4(xr + i), d = Load4(dyr + i), g = Load4(w + i);
      Store4(dx + r * shape.width + i,
             {scale * (d.x * g.x - v.x * mean), scale * (d.y * g.y - v.y * mean),
              scale * (d.z * g.z - v.z * mean), scale * (d.w * g.w - v.w * mean)});
    }
  }
  float* out = dw_parts + static_cast<int64_t>(blockIdx.x) * shape.width;
  for (int i = threadIdx.x * 4; i < shape.width; i += kNormThreads * 4) {
    Store4(out + i, Load4(dw + i));
  }
}

__global__ void RotateRowsKernel(const TrainRotateArgs args) {
  const int64_t r = blockIdx.x;
  const int d = args.head_dim, half = d / 2;
  const int heads = args.heads + args.kv_heads, all = heads + args.kv_heads;
  const float* cos = args.cos + r * half;
  const float* sin = args.sin + r * half;
  bf16* out = static_cast<bf16*>(args.out) + r * all * d;
  // Pairs of neighbours, so that every access is two numbers wide.
  for (int i = static_cast<int>(threadIdx.x) * 2; i < all * half; i += blockDim.x * 2) {
    const int head = i / half, c = i % half;
    const bf16* from = head < args.heads ? static_cast<const bf16*>(args.q) + r * args.q_stride +
                                               static_cast<int64_t>(head) * d
                       : head < heads ? static_cast<const bf16*>(args.k) + r * args.k_stride +
                                            static_cast<int64_t>(head - args.heads) * d
                                      : static_cast<const bf16*>(args.v) + r * args.v_stride +
                                            static_cast<int64_t>(head - heads) * d;
    const unsigned low = *reinterpret_cast<const unsigned*>(from + c);
    const unsigned high = *reinterpret_cast<const unsigned*>(from + half + c);
    unsigned* to = reinterpret_cast<unsigned*>(out + head * d + c);
    unsigned* to_high = reinterpret_cast<unsigned*>(out + head * d + half + c);
    if (head >= heads) {
      *to = low;
      *to_high = high;
      continue;
    }
    const float2 a = UnpackBf16(low), b = UnpackBf16(high);
    const float sign = args.back ? -1.0f : 1.0f;
    const float c0 = cos[c], c1 = cos[c + 1], s0 = sign * sin[c], s1 = sign * sin[c + 1];
    *to = PackBf16(a.x * c0 - b.x * s0, a.y * c1 - b.y * s1);
    *to_high = PackBf16(b.x * c0 + a.x * s0, b.y * c1 + a.y * s1);
  }
}

__device__ __forceinline__ float Sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

__global__ void SwiGluForwardKernel(int64_t total, int width, const bf16* gate_up, bf16* act) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const float4 g = Load4(gate_up + r * 2 * width + c);
  const float4 u = Load4(gate_up + r * 2 * width + width + c);
  Store4(act + i, {g.x * Sigmoid(g.x) * u.x, g.y * Sigmoid(g.y) * u.y, g.z * Sigmoid(g.z) * u.z,
                   g.w * Sigmoid(g.w) * u.w});
}

struct GateUp {
  float gate, up;
};
__device__ __forceinline__ GateUp SwiGluGradient(float g, float u, float d) {
  const float s = Sigmoid(g);
  return {d * u * s * (1.0f + g * (1.0f - s)), d * g * s};
}

__global__ void SwiGluBackwardKernel(int64_t total, int width, const bf16* gate_up,
                                     const bf16* dact, bf16* dgate_up) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width, at = r * 2 * width + c;
  const float4 g = Load4(gate_up + at), u = Load4(gate_up + at + width), d = Load4(dact + i);
  const GateUp a = SwiGluGradient(g.x, u.x, d.x), b = SwiGluGradient(g.y, u.y, d.y);
  const GateUp e = SwiGluGradient(g.z, u.z, d.z), f = SwiGluGradient(g.w, u.w, d.w);
  Store4(dgate_up + at, {a.gate, b.gate, e.gate, f.gate});
  Store4(dgate_up + at + width, {a.up, b.up, e.up, f.up});
}

constexpr int kScoreThreads = 512;

// Sums of exp(x - top) and of exp(x - top) x over some numbers.
struct Mass {
  float top, sum, weighted;
};
__device__ __forceinline__ Mass Join(Mass a, Mass b) {
  const float top = fmaxf(a.top, b.top);
  const float base = top == -INFINITY ? 0.0f : top;
  const float wa = __expf(a.top - base), wb = __expf(b.top - base);
  return {top, a.sum * wa + b.sum * wb, a.weighted * wa + b.weighted * wb};
}

__global__ void __launch_bounds__(kScoreThreads) ScoresForwardKernel(const TrainScoresArgs args) {
  __shared__ Mass warps[kScoreThreads / 32];
  const int64_t r = blockIdx.x;
  const float* row = args.logits + r * args.width;
  Mass mass{-INFINITY, 0, 0};
  const auto take = [&](float logit) {
    const float x = logit * args.scale;
    if (x > mass.top) {
      const float shrink = __expf(mass.top - x);
      mass.sum *= shrink;
      mass.weighted *= shrink;
      mass.top = x;
    }
    const float e = __expf(x - mass.top);
    mass.sum += e;
    mass.weighted += e * x;
  };
  if (args.width % 4 == 0) {
    for (int64_t i = threadIdx.x * 4; i < args.width; i += kScoreThreads * 4) {
      const float4 v = Load4(row + i);
      take(v.x);
      take(v.y);
      take(v.z);
      take(v.w);
    }
  } else {
    for (int64_t i = threadIdx.x; i < args.width; i += kScoreThreads) take(row[i]);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    mass = Join(mass, {__shfl_xor_sync(0xffffffffu, mass.top, step),
                       __shfl_xor_sync(0xffffffffu, mass.sum, step),
                       __shfl_xor_sync(0xffffffffu, mass.weighted, step)});
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mass;
  __syncthreads();
  mass = warps[0];
  for (int w = 1; w < kScoreThreads / 32; ++w) mass = Join(mass, warps[w]);
  const float log_sum = mass.top + logf(mass.sum);
  if (threadIdx.x == 0) {
    args.log_sums[r] = log_sum;
    args.logprobs[r] = row[args.targets[r]] * args.scale - log_sum;
    args.entropy[r] = log_sum - mass.weighted / mass.sum;
  }
  if (args.probabilities == nullptr) return;
  bf16* out = static_cast<bf16*>(args.probabilities) + r * args.width;
  const auto probability = [&](float logit) { return __expf(logit * args.scale - log_sum); };
  if (args.width % 4 == 0) {
    for (int64_t i = threadIdx.x * 4; i < args.width; i += kScoreThreads * 4) {
      const float4 v = Load4(row + i);
      Store4(out + i, {probability(v.x), probability(v.y), probability(v.z), probability(v.w)});
    }
  } else {
    for (int64_t i = threadIdx.x; i < args.width; i += kScoreThreads) {
      out[i] = __float2bfloat16(probability(row[i]));
    }
  }
}

// From logits, or where kKept from probabilities.
template <bool kKept, typename T>
__global__ void __launch_bounds__(kScoreThreads)
    ScoresBackwardKernel(const TrainScoresArgs args, const float* dlogprobs, const float* dentropy,
                         const T* from, bf16* dlogits) {
  const int64_t r = blockIdx.x;
  const T* row = from + r * args.width;
  bf16* out = dlogits + r * args.width;
  const float log_sum = args.log_sums[r], entropy = args.entropy[r];
  const float dlog = dlogprobs != nullptr ? dlogprobs[r] * args.scale : 0.0f;
  const float dent = dentropy != nullptr ? dentropy[r] * args.scale : 0.0f;
  const int64_t target = args.targets[r];
  // d log p_t / dz_j = [j = t] - p_j and dH / dz_j = -p_j (log p_j + H), each times the scale.
  // Where p_t is near 1 its rounding would be as large as 1 - p_t: of the target it is exact.
  const float target_log_p = kKept ? args.logprobs[r] : 0.0f, target_p = __expf(target_log_p);
  const auto gradient = [&](float x, int64_t j) {
    const bool exact = kKept && j == target;
    const float kept = exact ? target_p : x;
    const float log_p =
        kKept ? (exact ? target_log_p : __logf(fmaxf(kept, 1e-37f))) : x * args.scale - log_sum;
    const float p = kKept ? kept : __expf(log_p);
    return (j == target ? dlog : 0.0f) - p * (dlog + dent * (log_p + entropy));
  };
  if (args.width % 4 == 0) {
    for (int64_t i = threadIdx.x * 4; i < args.width; i += kScoreThreads * 4) {
      const float4 v = Load4(row + i);
      Store4(out + i,
             {gradient(v.x, i), gradient(v.y, i + 1), gradient(v.z, i + 2), gradient(v.w, i + 3)});
    }
  } else {
    for (int64_t i = threadIdx.x; i < args.width; i += kScoreThreads) {
      out[i] = __float2bfloat16(gradient(static_cast<float>(row[i]), i));
    }
  }
}

__global__ void AdamWKernel(const TrainAdamW u, int64_t count, const float* grad, float* p,
                            float* m, float* v) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float g = grad[i] * u.grad_scale;
  const float first = u.beta1 * m[i] + (1.0f - u.beta1) * g;
  const float second = u.beta2 * v[i] + (1.0f - u.beta2) * g * g;
  m[i] = first;
  v[i] = second;
  p[i] = u.decay * p[i] - u.rate * first / (sqrtf(second) / u.root + u.eps);
}

unsigned BlocksFor(int64_t count, int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

const bf16* In(const void* p) {
  return static_cast<const bf16*>(p);
}
bf16* Out(void* p) {
  return static_cast<bf16*>(p);
}

}  // namespace

void TrainNormForward(const TrainNormShape& shape, const void* x, const float* w, void* y,
                      float* rstd, CudaStream stream) {
  NormForwardKernel<<<static_cast<unsigned>(shape.rows), kNormThreads, 0, stream>>>(shape, In(x), w,
                                                                                    Out(y), rstd);
}

int TrainNormParts(int64_t rows) {
  return static_cast<int>(rows < kMaxNormParts ? rows : kMaxNormParts);
}

void TrainNormBackward(const TrainNormShape& shape, const void* x, const float* w,
                       const float* rstd, const void* dy, void* dx, float* dw_parts,
                       CudaStream stream) {
  const size_t shared = static_cast<size_t>(shape.width) * sizeof(float);
  NormBackwardKernel<<<static_cast<unsigned>(TrainNormParts(shape.rows)), kNormThreads, shared,
                       stream>>>(shape, In(x), w, rstd, In(dy), Out(dx), dw_parts);
}

void TrainRotate(const TrainRotateArgs& args, CudaStream stream) {
  RotateRowsKernel<<<static_cast<unsigned>(args.rows), 256, 0, stream>>>(args);
}

void TrainSwiGluForward(int64_t rows, int width, const void* gate_up, void* act,
                        CudaStream stream) {
  const int64_t total = rows * width;
  SwiGluForwardKernel<<<BlocksFor(total, 1024), 256, 0, stream>>>(total, width, In(gate_up),
                                                                  Out(act));
}

void TrainSwiGluBackward(int64_t rows, int width, const void* gate_up, const void* dact,
                         void* dgate_up, CudaStream stream) {
  const int64_t total = rows * width;
  SwiGluBackwardKernel<<<BlocksFor(total, 1024), 256, 0, stream>>>(total, width, In(gate_up),
                                                                   In(dact), Out(dgate_up));
}

void TrainScoresForward(const TrainScoresArgs& args, CudaStream stream) {
  ScoresForwardKernel<<<static_cast<unsigned>(args.rows), kScoreThreads, 0, stream>>>(args);
}

void TrainScoresBackward(const TrainScoresArgs& args, const float* dlogprobs, const float* dentropy,
                         void* dlogits, CudaStream stream) {
  ScoresBackwardKernel<false><<<static_cast<unsigned>(args.rows), kScoreThreads, 0, stream>>>(
      args, dlogprobs, dentropy, args.logits, Out(dlogits));
}

void TrainScoresBackwardInPlace(const TrainScoresArgs& args, const float* dlogprobs,
                                const float* dentropy, CudaStream stream) {
  ScoresBackwardKernel<true><<<static_cast<unsigned>(args.rows), kScoreThreads, 0, stream>>>(
      args, dlogprobs, dentropy, In(args.probabilities), Out(args.probabilities));
}

void TrainAdamWStep(const TrainAdamW& update, int64_t count, const float* grad, float* p, float* m,
                    float* v, CudaStream stream) {
  AdamWKernel<<<BlocksFor(count, 256), 256, 0, stream>>>(update, count, grad, p, m, v);
}

}  // namespace tidemill

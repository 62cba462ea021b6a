#include "model/cuda/train_kernels.cuh"

namespace tidemill {
namespace {

// kWords words of two numbers of each half of a head a thread.
template <int kWords>
struct alignas(kWords * 4) Words {
  unsigned word[kWords];
};

template <int kWords>
__global__ void RotateRowsKernel(const TrainRotateArgs args) {
  constexpr int kNumbers = kWords * 2;
  const int d = args.head_dim, half = d / 2, pieces = half / kNumbers;
  const int heads = args.heads + args.kv_heads, all = heads + args.kv_heads;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t r = index / (all * pieces);
  if (r >= args.rows) return;
  const int in_row = static_cast<int>(index % (all * pieces));
  const int head = in_row / pieces, c = in_row % pieces * kNumbers;
  float2 low[kWords] = {}, high[kWords] = {};
  const auto add = [&](const void* base, int64_t at) {
    const bf16* from = static_cast<const bf16*>(base) + at + c;
    const auto a = *reinterpret_cast<const Words<kWords>*>(from);
    const auto b = *reinterpret_cast<const Words<kWords>*>(from + half);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float2 x = UnpackBf16(a.word[i]), y = UnpackBf16(b.word[i]);
      low[i] = {low[i].x + x.x, low[i].y + x.y};
      high[i] = {high[i].x + y.x, high[i].y + y.y};
    }
  };
  const auto add_key = [&](int64_t row) {
    if (head < heads) {
      add(args.k, row * args.k_stride + static_cast<int64_t>(head - args.heads) * d);
    } else {
      add(args.v, row * args.v_stride + static_cast<int64_t>(head - heads) * d);
    }
  };
  if (head < args.heads) {
    add(args.q, r * args.q_stride + static_cast<int64_t>(head) * d);
  } else if (args.uses == nullptr) {
    add_key(r);
  } else {
    for (int use = args.first_use[r]; use < args.first_use[r + 1]; ++use) add_key(args.uses[use]);
  }
  Words<kWords> low_out, high_out;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    float2 cos{1, 1}, sin{0, 0};
    if (head < heads) {
      cos = *reinterpret_cast<const float2*>(args.cos + r * half + c + 2 * i);
      sin = *reinterpret_cast<const float2*>(args.sin + r * half + c + 2 * i);
      if (args.back) sin = {-sin.x, -sin.y};
    }
    const float2 a = low[i], b = high[i];
    low_out.word[i] = PackBf16(a.x * cos.x - b.x * sin.x, a.y * cos.y - b.y * sin.y);
    high_out.word[i] = PackBf16(b.x * cos.x + a.x * sin.x, b.y * cos.y + a.y * sin.y);
  }
  bf16* out = static_cast<bf16*>(args.out) + (r * all + head) * d + c;
  *reinterpret_cast<Words<kWords>*>(out) = low_out;
  *reinterpret_cast<Words<kWords>*>(out + half) = high_out;
}

__device__ __forceinline__ float Sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

// activation(gate) = gate sigmoid(z): z, and gate dz / dgate.
template <Activation kActivation>
struct GateCurve {
  static __device__ __forceinline__ float Z(float g) {
    return kActivation == Activation::kSilu ? g : g * kGeluSlope * (1.0f + kGeluCubic * g * g);
  }
  static __device__ __forceinline__ float Growth(float g) {
    return kActivation == Activation::kSilu ? g
                                            : g * kGeluSlope * (1.0f + 3.0f * kGeluCubic * g * g);
  }
};

template <Activation kActivation>
__device__ __forceinline__ float Active(float g) {
  return g * Sigmoid(GateCurve<kActivation>::Z(g));
}

template <Activation kActivation>
__global__ void GateForwardKernel(int64_t total, int width, const bf16* gate_up, bf16* act) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width;
  const float4 g = Load4(gate_up + r * 2 * width + c);
  const float4 u = Load4(gate_up + r * 2 * width + width + c);
  Store4(act + i, {Active<kActivation>(g.x) * u.x, Active<kActivation>(g.y) * u.y,
                   Active<kActivation>(g.z) * u.z, Active<kActivation>(g.w) * u.w});
}

struct GateUp {
  float gate, up;
};
template <Activation kActivation>
__device__ __forceinline__ GateUp GateGradient(float g, float u, float d) {
  const float s = Sigmoid(GateCurve<kActivation>::Z(g));
  return {d * u * s * (1.0f + GateCurve<kActivation>::Growth(g) * (1.0f - s)), d * g * s};
}

template <Activation kActivation>
__global__ void GateBackwardKernel(int64_t total, int width, const bf16* gate_up, const bf16* dact,
                                   bf16* dgate_up) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= total) return;
  const int64_t r = i / width, c = i % width, at = r * 2 * width + c;
  const float4 g = Load4(gate_up + at), u = Load4(gate_up + at + width), d = Load4(dact + i);
  const GateUp a = GateGradient<kActivation>(g.x, u.x, d.x);
  const GateUp b = GateGradient<kActivation>(g.y, u.y, d.y);
  const GateUp e = GateGradient<kActivation>(g.z, u.z, d.z);
  const GateUp f = GateGradient<kActivation>(g.w, u.w, d.w);
  Store4(dgate_up + at, {a.gate, b.gate, e.gate, f.gate});
  Store4(dgate_up + at + width, {a.up, b.up, e.up, f.up});
}

constexpr int kScoreThreads = 512;
// Of a probability by the target's: what is kept stays finite whatever was drawn.
constexpr float kLargestExponent = 80.0f;

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
  bf16* kept = static_cast<bf16*>(args.relative) + r * args.width;
  const bool keep = args.relative != nullptr;
  const float target = row[args.targets[r]] * args.scale;
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
  const auto relative = [&](float logit) {
    return __expf(fminf(logit * args.scale - target, kLargestExponent));
  };
  if (args.width % 4 == 0) {
    for (int64_t i = threadIdx.x * 4; i < args.width; i += kScoreThreads * 4) {
      const float4 v = Load4(row + i);
      take(v.x);
      take(v.y);
      take(v.z);
      take(v.w);
      if (keep) Store4(kept + i, {relative(v.x), relative(v.y), relative(v.z), relative(v.w)});
    }
  } else {
    for (int64_t i = threadIdx.x; i < args.width; i += kScoreThreads) {
      take(row[i]);
      if (keep) kept[i] = __float2bfloat16(relative(row[i]));
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    mass = Join(mass, {__shfl_xor_sync(0xffffffffu, mass.top, step),
                       __shfl_xor_sync(0xffffffffu, mass.sum, step),
                       __shfl_xor_sync(0xffffffffu, mass.weighted, step)});
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mass;
  __syncthreads();
  if (threadIdx.x != 0) return;
  mass = warps[0];
  for (int w = 1; w < kScoreThreads / 32; ++w) mass = Join(mass, warps[w]);
  const float log_sum = mass.top + logf(mass.sum);
  args.log_sums[r] = log_sum;
  args.logprobs[r] = target - log_sum;
  args.entropy[r] = log_sum - mass.weighted / mass.sum;
}

// From logits, or where kKept from probabilities relative to the target's.
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
  const float target_log_p = kKept ? args.logprobs[r] : 0.0f, target_p = __expf(target_log_p);
  // d log p_t / dz_j = [j = t] - p_j and dH / dz_j = -p_j (log p_j + H), each times the scale.
  const auto gradient = [&](float x, int64_t j) {
    const float log_p = kKept ? __logf(fmaxf(x, 1e-37f)) + target_log_p : x * args.scale - log_sum;
    const float p = kKept ? x * target_p : __expf(log_p);
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

__device__ __forceinline__ void AdamWOne(const TrainAdamW& u, float grad, float& p, float& m,
                                         float& v) {
  const float g = grad * u.grad_scale;
  m = u.beta1 * m + (1.0f - u.beta1) * g;
  v = u.beta2 * v + (1.0f - u.beta2) * g * g;
  p = u.decay * p - u.rate * m / (sqrtf(v) / u.root + u.eps);
}

__global__ void AdamWKernel(const TrainAdamW u, int64_t count, const float* grad, float* p,
                            float* m, float* v) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) AdamWOne(u, grad[i], p[i], m[i], v[i]);
}

// Four at once.
__global__ void AdamWWideKernel(const TrainAdamW u, int64_t count, const float* grad, float* p,
                                float* m, float* v) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i >= count) return;
  const float4 g = Load4(grad + i);
  float4 p4 = Load4(p + i), m4 = Load4(m + i), v4 = Load4(v + i);
  AdamWOne(u, g.x, p4.x, m4.x, v4.x);
  AdamWOne(u, g.y, p4.y, m4.y, v4.y);
  AdamWOne(u, g.z, p4.z, m4.z, v4.z);
  AdamWOne(u, g.w, p4.w, m4.w, v4.w);
  Store4(p + i, p4);
  Store4(m + i, m4);
  Store4(v + i, v4);
}

bool Aligned(const void* p, int64_t stride_bytes, uintptr_t to) {
  return reinterpret_cast<uintptr_t>(p) % to == 0 && static_cast<uintptr_t>(stride_bytes) % to == 0;
}

// A block for each row.
LaunchShape ScoreBlocks(const TrainScoresArgs& args, CudaStream stream) {
  return {.grid = static_cast<unsigned>(args.rows), .threads = kScoreThreads, .stream = stream};
}

}  // namespace

void TrainRotate(const TrainRotateArgs& args, CudaStream stream) {
  const int64_t halves = args.rows * (args.heads + 2 * args.kv_heads) * (args.head_dim / 2);
  const bool wide = args.head_dim % 16 == 0 && Aligned(args.q, args.q_stride * 2, 16) &&
                    Aligned(args.k, args.k_stride * 2, 16) &&
                    Aligned(args.v, args.v_stride * 2, 16);
  Launch(wide ? RotateRowsKernel<4> : RotateRowsKernel<1>,
         {.grid = BlocksFor(halves / (wide ? 8 : 2), 256), .threads = 256, .stream = stream}, args);
}

void TrainGateForward(Activation activation, int64_t rows, int width, const void* gate_up,
                      void* act, CudaStream stream) {
  const int64_t total = rows * width;
  Launch(activation == Activation::kSilu ? GateForwardKernel<Activation::kSilu>
                                         : GateForwardKernel<Activation::kGeluTanh>,
         {.grid = BlocksFor(total, 1024), .threads = 256, .stream = stream}, total, width,
         In(gate_up), Out(act));
}

void TrainGateBackward(Activation activation, int64_t rows, int width, const void* gate_up,
                       const void* dact, void* dgate_up, CudaStream stream) {
  const int64_t total = rows * width;
  Launch(activation == Activation::kSilu ? GateBackwardKernel<Activation::kSilu>
                                         : GateBackwardKernel<Activation::kGeluTanh>,
         {.grid = BlocksFor(total, 1024), .threads = 256, .stream = stream}, total, width,
         In(gate_up), In(dact), Out(dgate_up));
}

void TrainScoresForward(const TrainScoresArgs& args, CudaStream stream) {
  Launch(ScoresForwardKernel, ScoreBlocks(args, stream), args);
}

void TrainScoresBackward(const TrainScoresArgs& args, const float* dlogprobs, const float* dentropy,
                         void* dlogits, CudaStream stream) {
  Launch(ScoresBackwardKernel<false, float>, ScoreBlocks(args, stream), args, dlogprobs, dentropy,
         args.logits, Out(dlogits));
}

void TrainScoresBackwardInPlace(const TrainScoresArgs& args, const float* dlogprobs,
                                const float* dentropy, CudaStream stream) {
  Launch(ScoresBackwardKernel<true, bf16>, ScoreBlocks(args, stream), args, dlogprobs, dentropy,
         In(args.relative), Out(args.relative));
}

void TrainAdamWStep(const TrainAdamW& update, int64_t count, const float* grad, float* p, float* m,
                    float* v, CudaStream stream) {
  const bool wide = count % 4 == 0 && Aligned(grad, 0, 16) && Aligned(p, 0, 16) &&
                    Aligned(m, 0, 16) && Aligned(v, 0, 16);
  Launch(wide ? AdamWWideKernel : AdamWKernel,
         {.grid = BlocksFor(wide ? count / 4 : count, 256), .threads = 256, .stream = stream},
         update, count, grad, p, m, v);
}

}  // namespace tidemill

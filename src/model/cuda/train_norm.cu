// The norm of rows, with a sum before it, and its gradient.
#include "model/cuda/train_kernels.cuh"

namespace tidemill {
namespace {

constexpr int kTrainNormThreads = 256;
constexpr int kTrainNormWarps = kTrainNormThreads / 32;
constexpr int kMaxNormParts = 528;  // four blocks on each of 132 multiprocessors

__device__ __forceinline__ float4 Add(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
__device__ __forceinline__ float Dot(float4 a, float4 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
__device__ __forceinline__ float4 Times(float4 a, float4 b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}
__device__ __forceinline__ float4 Times(float4 a, float b) {
  return {a.x * b, a.y * b, a.z * b, a.w * b};
}

// x, or where there is something to add the rounded sum, which is written.
__device__ __forceinline__ float4 TakeSum(const TrainNormIn& in, int64_t at) {
  const float4 x = Load4(static_cast<const bf16*>(in.x) + at);
  if (in.more == nullptr) return x;
  bf16* sum = static_cast<bf16*>(in.sum) + at;
  Store4(sum, Add(x, Load4(static_cast<const bf16*>(in.more) + at)));
  return Load4(sum);
}

__global__ void __launch_bounds__(kTrainNormThreads)
    NormForwardKernel(const TrainNormShape shape, const TrainNormIn in, const float* w, bf16* y,
                      float* rstd) {
  __shared__ float scratch[kTrainNormWarps];
  const int64_t r = blockIdx.x;
  float sum = 0;
  for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
    const float4 v = TakeSum(in, r * shape.width + i);
    sum += Dot(v, v);
  }
  const float scale = rsqrtf(
      BlockSum<kTrainNormThreads>(sum, scratch) / static_cast<float>(shape.width) + shape.eps);
  if (threadIdx.x == 0) rstd[r] = scale;
  const bf16* from = static_cast<const bf16*>(in.more == nullptr ? in.x : in.sum);
  for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
    const int64_t at = r * shape.width + i;
    Store4(y + at, Times(Times(Load4(from + at), scale), Load4(w + i)));
  }
}

// The same for rows of 128 kQuads numbers, which a warp holds in registers.
template <int kQuads>
__global__ void __launch_bounds__(kTrainNormThreads)
    NormForwardWarpKernel(const TrainNormShape shape, const TrainNormIn in, const float* w, bf16* y,
                          float* rstd) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kTrainNormWarps + threadIdx.x / 32;
  if (r >= shape.rows) return;
  const int64_t first = r * shape.width + lane * 4;
  float4 v[kQuads];
  float sum = 0;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    v[q] = TakeSum(in, first + q * 128);
    sum += Dot(v[q], v[q]);
  }
  const float scale = rsqrtf(WarpSum(sum) / static_cast<float>(shape.width) + shape.eps);
  if (lane == 0) rstd[r] = scale;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    Store4(y + first + q * 128, Times(Times(v[q], scale), Load4(w + lane * 4 + q * 128)));
  }
}

// d of the sum: what comes through the norm, and what comes otherwise.
__device__ __forceinline__ float4 SumGradient(const TrainNormGradients& g, int64_t at, float4 v,
                                              float4 dy_w, float scale, float mean) {
  const float4 through = Times(Add(dy_w, Times(v, -mean)), scale);
  return g.dsum == nullptr ? through : Add(through, Load4(static_cast<const bf16*>(g.dsum) + at));
}

// Each block goes through rows blockIdx.x, blockIdx.x + gridDim.x, ..; a thread keeps the same
// columns throughout, so the weight's gradient gathers in shared memory of its own. Without
// `kGains` there is none.
template <bool kGains>
__global__ void __launch_bounds__(kTrainNormThreads)
    NormBackwardKernel(const TrainNormShape shape, const bf16* x, const float* w, const float* rstd,
                       const TrainNormGradients g) {
  float* dw = DynamicShared<float>();
  __shared__ float scratch[2][kTrainNormWarps];
  const bf16* dy = static_cast<const bf16*>(g.dy);
  for (int i = threadIdx.x * 4; kGains && i < shape.width; i += kTrainNormThreads * 4)
    Store4(dw + i, float4{});
  int turn = 0;
  for (int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const float scale = rstd[r];
    const int64_t first = r * shape.width;
    float dot = 0;
    for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
      const float4 v = Load4(x + first + i), d = Load4(dy + first + i);
      dot += Dot(v, Times(d, Load4(w + i)));
      if constexpr (kGains) Store4(dw + i, Add(Load4(dw + i), Times(Times(v, d), scale)));
    }
    // Two scratch areas in turn: one barrier a row is enough.
    const float mean = BlockSum<kTrainNormThreads>(dot, scratch[turn]) * scale * scale /
                       static_cast<float>(shape.width);
    turn ^= 1;
    for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
      const float4 dy_w = Times(Load4(dy + first + i), Load4(w + i));
      Store4(static_cast<bf16*>(g.dx) + first + i,
             SumGradient(g, first + i, Load4(x + first + i), dy_w, scale, mean));
    }
  }
  if constexpr (kGains) {
    float* out = g.dw_parts + static_cast<int64_t>(blockIdx.x) * shape.width;
    for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
      Store4(out + i, Load4(dw + i));
    }
  }
}

// The same for rows of 128 kQuads numbers: a warp takes one row after the other and holds row and
// gathered gradient in registers; the block's warps add up at the end.
template <int kQuads, bool kGains>
__global__ void __launch_bounds__(kTrainNormThreads, 2)
    NormBackwardWarpKernel(const TrainNormShape shape, const bf16* x, const float* w,
                           const float* rstd, const TrainNormGradients g) {
  float* dw = DynamicShared<float>();  // [kTrainNormWarps][width]
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bf16* dy = static_cast<const bf16*>(g.dy);
  float4 gathered[kQuads] = {};
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kTrainNormWarps + warp; r < shape.rows;
       r += static_cast<int64_t>(gridDim.x) * kTrainNormWarps) {
    const float scale = rstd[r];
    const int64_t first = r * shape.width + lane * 4;
    float4 v[kQuads], dy_w[kQuads];
    float dot = 0;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      v[q] = Load4(x + first + q * 128);
      const float4 d = Load4(dy + first + q * 128);
      if constexpr (kGains) gathered[q] = Add(gathered[q], Times(Times(v[q], d), scale));
      dy_w[q] = Times(d, Load4(w + lane * 4 + q * 128));
      dot += Dot(v[q], dy_w[q]);
    }
    const float mean = WarpSum(dot) * scale * scale / static_cast<float>(shape.width);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      Store4(static_cast<bf16*>(g.dx) + first + q * 128,
             SumGradient(g, first + q * 128, v[q], dy_w[q], scale, mean));
    }
  }
  if constexpr (kGains) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      Store4(dw + warp * shape.width + lane * 4 + q * 128, gathered[q]);
    }
    __syncthreads();
    float* out = g.dw_parts + static_cast<int64_t>(blockIdx.x) * shape.width;
    for (int i = threadIdx.x * 4; i < shape.width; i += kTrainNormThreads * 4) {
      float4 sum = Load4(dw + i);
      for (int other = 1; other < kTrainNormWarps; ++other) {
        sum = Add(sum, Load4(dw + other * shape.width + i));
      }
      Store4(out + i, sum);
    }
  }
}

// Calls f with the number of float4 a lane holds of a row, as a constant; false: rows are too long
// for registers, or no multiple of 128.
template <typename F>
bool ForWarpRows(int width, F&& f) {
  if (width % 128 != 0) return false;
  switch (width / 128) {
    case 1:
      return f.template operator()<1>(), true;
    case 2:
      return f.template operator()<2>(), true;
    case 3:
      return f.template operator()<3>(), true;
    case 4:
      return f.template operator()<4>(), true;
    case 5:
      return f.template operator()<5>(), true;
    case 6:
      return f.template operator()<6>(), true;
    case 7:
      return f.template operator()<7>(), true;
    case 8:
      return f.template operator()<8>(), true;
    default:
      return false;
  }
}

template <bool kGains>
void LaunchNormBackward(const TrainNormShape& shape, const void* x, const float* w,
                        const float* rstd, const TrainNormGradients& gradients, CudaStream stream) {
  const auto blocks = static_cast<unsigned>(TrainNormParts(shape.rows));
  const size_t row = kGains ? static_cast<size_t>(shape.width) * sizeof(float) : 0;
  const auto with = [&](size_t shared_bytes) {
    return LaunchShape{.grid = blocks,
                       .threads = kTrainNormThreads,
                       .shared_bytes = shared_bytes,
                       .stream = stream};
  };
  const bool done = ForWarpRows(shape.width, [&]<int kQuads>() {
    Launch(NormBackwardWarpKernel<kQuads, kGains>, with(row * kTrainNormWarps), shape, In(x), w,
           rstd, gradients);
  });
  if (done) return;
  Launch(NormBackwardKernel<kGains>, with(row), shape, In(x), w, rstd, gradients);
}

}  // namespace

void TrainNormForward(const TrainNormShape& shape, const TrainNormIn& in, const float* w, void* y,
                      float* rstd, CudaStream stream) {
  const bool done = ForWarpRows(shape.width, [&]<int kQuads>() {
    Launch(NormForwardWarpKernel<kQuads>,
           {.grid = BlocksFor(shape.rows, kTrainNormWarps),
            .threads = kTrainNormThreads,
            .stream = stream},
           shape, in, w, Out(y), rstd);
  });
  if (done) return;
  const auto rows = static_cast<unsigned>(shape.rows);
  Launch(NormForwardKernel, {.grid = rows, .threads = kTrainNormThreads, .stream = stream}, shape,
         in, w, Out(y), rstd);
}

int TrainNormParts(int64_t rows) {
  return static_cast<int>(rows < kMaxNormParts ? rows : kMaxNormParts);
}

void TrainNormBackward(const TrainNormShape& shape, const void* x, const float* w,
                       const float* rstd, const TrainNormGradients& gradients, CudaStream stream) {
  if (gradients.dw_parts != nullptr) {
    LaunchNormBackward<true>(shape, x, w, rstd, gradients, stream);
  } else {
    LaunchNormBackward<false>(shape, x, w, rstd, gradients, stream);
  }
}

}  // namespace tidemill

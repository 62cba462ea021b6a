// CUDA on the CPU itself: that it computes what a GPU would, and finds what a GPU would not say.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "model/cuda/intrinsics.cuh"
#include "model/cuda/launch.cuh"
#include "tests/cuda_host/kernel_kit.h"

namespace tidemill {
namespace {

void ReverseKernel(int* values) {
  int* shared = DynamicShared<int>();
  shared[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(CudaHost, ThreadsOfABlockShareMemoryAndMeetAtABarrier) {
  OnDevice<int> values(4 * 100);
  for (int i = 0; i < 400; ++i) values[static_cast<size_t>(i)] = i;
  Launch(ReverseKernel, {.grid = 4, .threads = 100, .shared_bytes = 400}, values.data());
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], i / 100 * 100 + 99 - i % 100);
  }
}

void ShuffleKernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_xor_sync(0xffffffffu, lane, 5);
  out[32 + lane] = __shfl_up_sync(0xffffffffu, lane, 3);
  out[64 + lane] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
  out[96 + lane] = __shfl_sync(0xffffffffu, lane * 10, 7);
  out[128 + lane] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 3 == 0));
  out[160 + lane] = __reduce_min_sync(0xffffffffu, 100 - lane);
}

TEST(CudaHost, LanesExchangeValuesAsTheDocumentationSays) {
  OnDevice<int> out(6 * 32);
  Launch(ShuffleKernel, {.grid = 1, .threads = 32}, out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<size_t>(lane);
    EXPECT_EQ(out[at], lane ^ 5);
    EXPECT_EQ(out[32 + at], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(out[64 + at], lane % 8 + 3 >= 8 ? lane : lane + 3);
    EXPECT_EQ(out[96 + at], 70);
    EXPECT_EQ(out[128 + at], 0x49249249);
    EXPECT_EQ(out[160 + at], 69);
  }
}

// Loads and stores a tile by the table in PTX's documentation of m16n8k16.
void TileKernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto word = [](const __nv_bfloat16* low, const __nv_bfloat16* high) {
    return static_cast<unsigned>(low->bits) | static_cast<unsigned>(high->bits) << 16;
  };
  unsigned in[4];
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat16* at = a + (g + (i % 2) * 8) * 16 + t * 2 + (i / 2) * 8;
    in[i] = word(at, at + 1);
  }
  const __nv_bfloat16* column = b + t * 2 * 8 + g;
  float sums[4] = {1, 1, 1, 1};
  Mma(sums, in, word(column, column + 8), word(column + 64, column + 72));
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sums[i];
}

TEST(CudaHost, TheMatrixUnitMultipliesATile) {
  OnDevice<__nv_bfloat16> a(16 * 16), b(16 * 8);
  OnDevice<float> c(16 * 8);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6.0f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) * 0.5f;
  Launch(TileKernel, {.grid = 1, .threads = 32}, a.data(), b.data(), c.data());
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float sum = 1;
      for (size_t k = 0; k < 16; ++k) {
        sum += static_cast<float>(a[row * 16 + k]) * static_cast<float>(b[k * 8 + column]);
      }
      EXPECT_EQ(c[row * 8 + column], sum) << row << " " << column;
    }
  }
}

TEST(CudaHost, Bfloat16RoundsToTheNearestEven) {
  EXPECT_EQ(__float2bfloat16(1.0f + 0x1p-8f).bits, __float2bfloat16(1.0f).bits);
  EXPECT_EQ(__bfloat162float(__float2bfloat16(1.0f + 0x1.8p-7f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(__bfloat162float(__float2bfloat16(1.0f + 0x1.01p-8f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16(NAN))));
  EXPECT_EQ(__bfloat162float(__float2bfloat16(-INFINITY)), -INFINITY);
}

void OrderKernel(int* next, int* order) {
  order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

TEST(CudaHost, BlocksAndThreadsRunInAnotherOrderAtEveryLaunch) {
  std::set<std::vector<int>> orders;
  for (int launch = 0; launch < 4; ++launch) {
    OnDevice<int> next(1), order(4 * 64);
    next[0] = 0;
    Launch(OrderKernel, {.grid = 4, .threads = 64}, next.data(), order.data());
    orders.insert(std::vector<int>(order.data(), order.data() + order.size()));
  }
  EXPECT_GE(orders.size(), 3u);
}

void LeavingKernel() {
  if (threadIdx.x == 40) return;
  __syncthreads();
}
void LoneShuffleKernel(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}
void MixedKernel(int* out) {
  out[threadIdx.x] =
      threadIdx.x < 16 ? __shfl_xor_sync(0xffffffffu, 1, 1) : __any_sync(0xffffffffu, 1);
}
void WriteKernel(int* out, int at) {
  out[at] = 1;
}

TEST(CudaHostDeathTest, WhoeverIsMissingAtAMeetingIsNamed) {
  OnDevice<int> out(64);
  EXPECT_DEATH(Launch(LeavingKernel, {.grid = 1, .threads = 64}),
               "LeavingKernel.* 1 of 64 have left the kernel, 63 wait at __syncthreads");
  EXPECT_DEATH(Launch(LoneShuffleKernel, {.grid = 1, .threads = 32}, out.data()),
               "LoneShuffleKernel.*0000ffff of the mask ffffffff");
  EXPECT_DEATH(Launch(MixedKernel, {.grid = 1, .threads = 32}, out.data()),
               "MixedKernel.*different warp operations");
}

TEST(CudaHostDeathTest, WritesBesideMemoryAreFoundWhenItIsFreed) {
  EXPECT_DEATH(
      {
        OnDevice<int> out(10);
        Launch(WriteKernel, {.grid = 1, .threads = 1}, out.data(), 10);
      },
      "a write behind: memory of 40 bytes");
}

TEST(CudaHost, MemoryThatNobodyWroteIsNotANumber) {
  OnDevice<float> fresh(3);
  EXPECT_TRUE(std::isnan(fresh[2]));
}

void AddKernel(int* to, int value) {
  *to += value;
}

TEST(CudaHost, AStreamWorksWhenSomebodyWaitsAndAGraphRepeatsWhatWasCaptured) {
  OnDevice<int> sum(1);
  sum[0] = 0;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = stream}, sum.data(), 1);
  EXPECT_EQ(sum[0], 0);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  cudaEventRecord(event, stream);
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = stream}, sum.data(), 10);
  cudaEventSynchronize(event);
  EXPECT_EQ(sum[0], 1) << "what comes after the event waits";
  cudaStreamSynchronize(stream);
  EXPECT_EQ(sum[0], 11);

  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  int value = 100;
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = stream}, sum.data(), value);
  value = 0;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t ready = nullptr;
  cudaGraphInstantiate(&ready, graph);
  cudaGraphDestroy(graph);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(sum[0], 11);
  cudaGraphLaunch(ready, stream);
  cudaGraphLaunch(ready, stream);
  cudaGraphExecDestroy(ready);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(sum[0], 211);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

TEST(CudaHost, AStreamWaitsForWhatAnEventWasRecordedBehindThen) {
  OnDevice<int> sum(1);
  sum[0] = 0;
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  cudaStreamWaitEvent(second, event);  // never recorded: nothing to wait for
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = first}, sum.data(), 1);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event);
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = second}, sum.data(), 10);
  Launch(AddKernel, {.grid = 1, .threads = 1, .stream = first}, sum.data(), 100);
  cudaEventRecord(event, first);
  cudaStreamSynchronize(second);
  EXPECT_EQ(sum[0], 11) << "not for what it was recorded behind later";
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  EXPECT_EQ(sum[0], 111);
}

TEST(CudaHost, ALaunchThatAGpuRefusesIsRefused) {
  OnDevice<int> sum(1);
  sum[0] = 0;
  for (const LaunchShape& shape :
       {LaunchShape{.grid = 0, .threads = 1}, LaunchShape{.grid = 1, .threads = 1025},
        LaunchShape{.grid = dim3(1, 65536), .threads = 1},
        LaunchShape{.grid = 1, .threads = 1, .shared_bytes = 50000}}) {
    Launch(AddKernel, shape, sum.data(), 1);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(sum[0], 0);
}

}  // namespace
}  // namespace tidemill

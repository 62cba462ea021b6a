#include "tests/cuda_host/stream.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "tests/cuda_host/block.h"

using Work = std::vector<std::function<void()>>;

struct CUgraph_st {
  Work work;
};
// Shared with the launches under way.
struct CUgraphExec_st {
  std::shared_ptr<const Work> work;
};

struct CUstream_st {
  tidemill::Mutex lock;
  std::deque<std::function<void()>> waiting TM_GUARDED_BY(lock);
  std::unique_ptr<CUgraph_st> captured TM_GUARDED_BY(lock);

  // Until `done` says so, or nothing is left.
  template <typename Done>
  void Drain(Done&& done) {
    const tidemill::MutexLock held(lock);
    while (!waiting.empty() && !done()) {
      const std::function<void()> next = std::move(waiting.front());
      waiting.pop_front();
      next();
    }
  }
};

// A place in a stream's queue. Streams that wait for it share it: the event may be recorded again
// before they get there.
struct Recorded {
  std::atomic<bool> done = false;  // any thread may drain the stream
  cudaStream_t stream = nullptr;
  std::chrono::steady_clock::time_point when;

  void Reach() const {
    if (!done) stream->Drain([this] { return done.load(); });
  }
};
struct CUevent_st {
  std::shared_ptr<Recorded> last;  // null: never recorded
};

namespace cuda_host {
namespace {

struct Streams {
  tidemill::Mutex lock;
  std::set<cudaStream_t> all TM_GUARDED_BY(lock);
};
Streams& TheStreams() {
  static auto* streams = new Streams;
  return *streams;
}

thread_local cudaError_t last_error = cudaSuccess;

// Whether a GPU could start it.
bool Possible(const KernelLaunch& launch) {
  constexpr size_t kSharedBytes = size_t{48} << 10;  // unless the kernel asks for more
  const dim3& grid = launch.grid;
  return launch.threads >= 1 && launch.threads <= 1024 && grid.x >= 1 && grid.x <= INT_MAX &&
         grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535 &&
         launch.shared_bytes <= kSharedBytes;
}

}  // namespace

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  const tidemill::MutexLock held(stream->lock);
  if (stream->captured != nullptr) {
    stream->captured->work.push_back(std::move(work));
  } else {
    stream->waiting.push_back(std::move(work));
  }
}

void DrainAll() {
  // With the lock held: another thread may be about to destroy its stream.
  const tidemill::MutexLock held(TheStreams().lock);
  for (const cudaStream_t stream : TheStreams().all) stream->Drain([] { return false; });
}

void Launch(const KernelLaunch& launch, cudaStream_t stream, std::function<void()> body) {
  if (!Possible(launch)) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  Enqueue(stream, [launch, body = std::move(body)] { RunKernel(launch, body); });
}

}  // namespace cuda_host

using cuda_host::TheStreams;

cudaError_t cudaGetLastError() {
  return std::exchange(cuda_host::last_error, cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  cuda_host::DrainAll();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  const tidemill::MutexLock held(TheStreams().lock);
  TheStreams().all.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const tidemill::MutexLock held(TheStreams().lock);
    TheStreams().all.erase(stream);
  }
  stream->Drain([] { return false; });
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return cudaSuccess;
  {
    const tidemill::MutexLock held(stream->lock);
    if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  }
  stream->Drain([] { return false; });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cudaEventSynchronize(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->last = std::make_shared<Recorded>();
  event->last->stream = stream;
  cuda_host::Enqueue(stream, [recorded = event->last] {
    recorded->when = std::chrono::steady_clock::now();
    recorded->done = true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->last != nullptr) event->last->Reach();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->last == nullptr) return cudaSuccess;
  cuda_host::Enqueue(stream, [recorded = event->last] { recorded->Reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = std::chrono::duration<float, std::milli>(to->last->when - from->last->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const tidemill::MutexLock held(stream->lock);
  if (stream->captured != nullptr) return cudaErrorIllegalState;
  stream->captured = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const tidemill::MutexLock held(stream->lock);
  if (stream->captured == nullptr) return cudaErrorIllegalState;
  *graph = stream->captured.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = new CUgraphExec_st{std::make_shared<const Work>(graph->work)};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  cuda_host::Enqueue(stream, [work = graph->work] {
    for (const std::function<void()>& step : *work) step();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

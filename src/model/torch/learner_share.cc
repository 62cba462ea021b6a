#include "model/torch/learner_share.h"

#include "model/torch/aten.h"

#include <string>

#if defined(TIDEMILL_CUDA) && !defined(TIDEMILL_CUDA_HOST)
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "core/mutex.h"
#include "model/multiprocessor_share.h"
#include "model/torch/catch.h"
#endif

namespace tidemill {

#if defined(TIDEMILL_CUDA) && !defined(TIDEMILL_CUDA_HOST)
namespace {

// What comes to `later` runs after what `earlier` holds now.
void RunAfter(const c10::cuda::CUDAStream& earlier, const c10::cuda::CUDAStream& later) {
  at::cuda::CUDAEvent event;
  event.record(earlier);
  event.block(later);
}

c10::DeviceIndex IndexOf(const c10::Device& device) {
  return device.has_index() ? device.index() : c10::DeviceIndex{0};
}

#if CUDART_VERSION >= 12080
// The functions' forms are those of the header that this is built with; all are there since 12.8.
constexpr unsigned kDriverVersion = CUDA_VERSION;

struct DriverCalls {
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuDeviceGet) device = nullptr;
  decltype(&cuDeviceGetDevResource) resource = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) create = nullptr;
  decltype(&cuGreenCtxStreamCreate) stream = nullptr;
};

Result<DriverCalls> FindDriverCalls() {
  constexpr std::array kNames = {"cuGetErrorName",
                                 "cuDeviceGet",
                                 "cuDeviceGetDevResource",
                                 "cuDevSmResourceSplitByCount",
                                 "cuDevResourceGenerateDesc",
                                 "cuGreenCtxCreate",
                                 "cuGreenCtxStreamCreate"};
  const auto find = [](const char* name) -> void* {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &address, kDriverVersion, cudaEnableDefault, &found);
    if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // it is told here alone
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? address : nullptr;
  };
  TM_ASSIGN_OR_RETURN(const std::vector<void*> at, FindEntryPoints(kNames, find));
  DriverCalls calls;
  size_t next = 0;
  const auto take = [&]<typename Call>(Call& call) { call = reinterpret_cast<Call>(at[next++]); };
  take(calls.error_name);
  take(calls.device);
  take(calls.resource);
  take(calls.split);
  take(calls.describe);
  take(calls.create);
  take(calls.stream);
  return calls;
}

class GreenContextDriver final : public MultiprocessorDriver {
 public:
  GreenContextDriver(const DriverCalls& calls, c10::DeviceIndex device)
      : calls_(calls), index_(device) {}

  Result<MultiprocessorCounts> Counts() override {
    TM_RETURN_IF_ERROR(Check("cuDeviceGet", calls_.device(&device_, index_)));
    TM_RETURN_IF_ERROR(
        Check("cuDeviceGetDevResource", calls_.resource(device_, &all_, CU_DEV_RESOURCE_TYPE_SM)));
    // Of compute capability 9.0, where the driver does not say.
    MultiprocessorCounts counts{.all = static_cast<int>(all_.sm.smCount), .smallest = 8, .step = 8};
#if CUDA_VERSION >= 13000
    if (all_.sm.minSmPartitionSize > 0 && all_.sm.smCoscheduledAlignment > 0) {
      counts.smallest = static_cast<int>(all_.sm.minSmPartitionSize);
      counts.step = static_cast<int>(all_.sm.smCoscheduledAlignment);
    }
#endif
    return counts;
  }

  // The learner gets the group, not what remains: only groups are promised room for clusters of
  // blocks, which its products use.
  Result<int> Group(int count) override {
    unsigned groups = 1;
    CUdevResource rest{};
    group_ = {};
    TM_RETURN_IF_ERROR(
        Check("cuDevSmResourceSplitByCount",
              calls_.split(&group_, &groups, &all_, &rest, 0, static_cast<unsigned>(count))));
    if (groups != 1) return Unavailable("the driver makes no group of multiprocessors");
    return static_cast<int>(group_.sm.smCount);
  }

  Result<void*> Stream() override {
    CUdevResourceDesc described = nullptr;
    CUgreenCtx context = nullptr;
    CUstream stream = nullptr;
    TM_RETURN_IF_ERROR(Check("cuDevResourceGenerateDesc", calls_.describe(&described, &group_, 1)));
    TM_RETURN_IF_ERROR(Check("cuGreenCtxCreate", calls_.create(&context, described, device_,
                                                               CU_GREEN_CTX_DEFAULT_STREAM)));
    TM_RETURN_IF_ERROR(Check("cuGreenCtxStreamCreate",
                             calls_.stream(&stream, context, CU_STREAM_NON_BLOCKING, 0)));
    return static_cast<void*>(stream);
  }

  // A product by cuBLAS and a sum on libtorch's own stream, which waits for it by an event.
  Status Try(void* stream) override {
    return CatchTorchStatus("a product on the share", [&]() -> Status {
      const at::NoGradGuard no_grad;
      const auto own = c10::cuda::getCurrentCUDAStream(index_);
      const auto other =
          c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), index_);
      constexpr int64_t kSize = 256;
      at::Tensor product;
      {
        const c10::cuda::CUDAStreamGuard guard(other);
        const auto options = at::TensorOptions().device(at::kCUDA, index_).dtype(at::kBFloat16);
        const at::Tensor ones = at::ones({kSize, kSize}, options);
        product = at::mm(ones, ones);
      }
      RunAfter(other, own);
      const double sum = product.to(at::kFloat).sum().item<double>();
      if (sum == static_cast<double>(kSize * kSize * kSize)) return Ok();
      return Internal("its sum is " + std::to_string(sum));
    });
  }

 private:
  Status Check(const char* call, CUresult result) const {
    if (result == CUDA_SUCCESS) return Ok();
    const char* name = nullptr;
    if (calls_.error_name(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown";
    return Unavailable(std::string(call) + " failed: " + name);
  }

  const DriverCalls calls_;
  const c10::DeviceIndex index_;
  CUdevice device_ = 0;
  CUdevResource all_{}, group_{};
};

Result<MultiprocessorShare> NewShare(c10::DeviceIndex device, int reserved) {
  TM_ASSIGN_OR_RETURN(const DriverCalls calls, FindDriverCalls());
  GreenContextDriver driver(calls, device);
  return MakeShare(driver, reserved);
}
#else
Result<MultiprocessorShare> NewShare(c10::DeviceIndex, int) {
  return Unavailable("this program was built with a CUDA older than 12.8");
}
#endif

// All shares of the process.
class Shares {
 public:
  Result<MultiprocessorShare> Of(c10::DeviceIndex device, int reserved) {
    MutexLock lock(mutex_);
    const auto found = shares_.find({device, reserved});
    if (found != shares_.end()) return found->second;
    TM_ASSIGN_OR_RETURN(const MultiprocessorShare share, NewShare(device, reserved));
    shares_[{device, reserved}] = share;
    counts_[share.stream] = share.learner;
    any_ = true;
    // Products with a bias go by cuBLASLt, which has no handle to be told.
    at::globalContext()._setSMCarveout_EXPERIMENTAL(share.all - share.learner);
    return share;
  }

  bool any() const { return any_; }
  // 0: all multiprocessors.
  int CountOf(void* stream) {
    MutexLock lock(mutex_);
    const auto found = counts_.find(stream);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, int>, MultiprocessorShare> shares_ TM_GUARDED_BY(mutex_);
  std::map<void*, int> counts_ TM_GUARDED_BY(mutex_);
};

Shares& AllShares() {
  static Shares* const shares = new Shares;  // streams outlive what ends with the process
  return *shares;
}

}  // namespace

LearnerShare::LearnerShare(const c10::Device& device, int reserved) : device_(device) {
  if (reserved <= 0) return;
  if (!device.is_cuda()) {
    status_ = Unavailable("the learner is not on a GPU");
    return;
  }
  const auto share = CatchTorch<MultiprocessorShare>(
      "a share of the GPU", [&] { return AllShares().Of(IndexOf(device), reserved); });
  status_ = share.status();
  if (!share.ok()) return;
  multiprocessors_ = share->learner;
  stream_ = share->stream;
}

struct LearnerShare::Use::Streams {
  c10::cuda::CUDAStream before, share;
  c10::cuda::CUDAStreamGuard guard;
};

LearnerShare::Use::Use(const LearnerShare& share) {
  if (share.stream_ == nullptr) return;
  const c10::DeviceIndex device = IndexOf(share.device_);
  const auto before = c10::cuda::getCurrentCUDAStream(device);
  const auto stream =
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(share.stream_), device);
  if (before == stream) return;  // within another Use
  RunAfter(before, stream);
  streams_.reset(new Streams{before, stream, c10::cuda::CUDAStreamGuard(stream)});
}

LearnerShare::Use::~Use() {
  if (streams_ == nullptr) return;
  try {
    RunAfter(streams_->share, streams_->before);
  } catch (const std::exception&) {
    // The GPU has failed; whoever uses it next hears of it.
    static_cast<void>(cudaStreamSynchronize(streams_->share.stream()));
  }
}

void TellProductsOfShare() {
  Shares& shares = AllShares();
  if (!shares.any()) return;
  const int count = shares.CountOf(c10::cuda::getCurrentCUDAStream().stream());
  static thread_local int told = -1;  // libtorch's handle belongs to the thread
  if (told == count) return;
  // libtorch brings the library; a program that has none is linked to nothing of it.
  static const auto set = reinterpret_cast<decltype(&cublasSetSmCountTarget)>(
      dlsym(RTLD_DEFAULT, "cublasSetSmCountTarget"));
  if (set != nullptr) static_cast<void>(set(at::cuda::getCurrentCUDABlasHandle(), count));
  told = count;
}

#else

LearnerShare::LearnerShare(const c10::Device& device, int reserved) : device_(device) {
  if (reserved > 0) status_ = Unavailable("the learner is not on a GPU");
}

struct LearnerShare::Use::Streams {};
LearnerShare::Use::Use(const LearnerShare&) {}
LearnerShare::Use::~Use() = default;

#endif

}  // namespace tidemill

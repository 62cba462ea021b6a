#include "model/torch/device.h"

#include <charconv>

#ifdef TIDEMILL_CUDA
#include "model/cuda/check.h"
#endif
#include "model/torch/gpu_runtime.h"
#include "model/torch/moved_weights.h"
#include "model/torch/weight_block.h"

namespace tidemill {
namespace {

#ifdef TIDEMILL_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

}  // namespace

bool IsGpu(const std::string& device) {
  return device.starts_with("cuda");
}

Result<std::string> ResolveDevice(const std::string& wanted) {
  if (wanted == "auto") return std::string(CountGpus() > 0 ? "cuda:0" : "cpu");
  if (wanted == "cpu") return wanted;
  const std::string number = wanted.starts_with("cuda:") ? wanted.substr(5) : "0";
  int index = -1;
  const char* end = number.data() + number.size();
  const bool numeric = std::from_chars(number.data(), end, index).ptr == end && index >= 0;
  if ((wanted != "cuda" && !wanted.starts_with("cuda:")) || !numeric) {
    return Invalid("\"" + wanted + "\" is not a device; use auto, cpu, cuda or cuda:N");
  }
  if (!kBuiltWithCuda) return Invalid(wanted + ": this program was built without CUDA");
  if (index >= CountGpus()) {
    return Invalid(wanted + ": there are " + std::to_string(CountGpus()) + " GPUs here");
  }
  return "cuda:" + std::to_string(index);
}

Result<uint64_t> FreeDeviceBytes(const std::string& device) {
#ifdef TIDEMILL_CUDA
  if (IsGpu(device)) {
    size_t free = 0, total = 0;
    TM_CUDA(cudaSetDevice(at::Device(device).index()));
    TM_CUDA(cudaMemGetInfo(&free, &total));
    return uint64_t{free};
  }
#endif
  static_cast<void>(device);
  return uint64_t{0};
}

Result<uint64_t> DefaultCacheBytes(const std::string& device) {
  if (!IsGpu(device)) return uint64_t{512} << 20;
  TM_ASSIGN_OR_RETURN(const uint64_t free, FreeDeviceBytes(device));
  return free / 4;
}

Result<std::shared_ptr<const PolicyWeights>> WeightsToSample(
    const std::shared_ptr<const PolicyWeights>& weights) {
  const at::Tensor& embed = weights->view().embed;
  if (!OnGpu(embed)) return weights;
  // The engine adds an adapter in its products where the base lies in one block.
  if (embed.scalar_type() == at::kBFloat16 &&
      (weights->adapter() == nullptr || WholeBlock(*weights) != nullptr)) {
    return weights;
  }
  return MovedWeights(weights, embed.device().str(), at::kBFloat16);
}

}  // namespace tidemill

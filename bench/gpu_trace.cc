#include "bench/gpu_trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace tidemill {
namespace {

constexpr size_t kKernelsShown = 32;
constexpr size_t kNameShown = 90;

const std::set<torch::profiler::impl::ActivityType> kDevice{
    torch::profiler::impl::ActivityType::CUDA};

}  // namespace

void BeginGpuTrace() {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  torch::autograd::profiler::prepareProfiler(config, kDevice);
  torch::autograd::profiler::enableProfiler(config, kDevice);
}

Result<nlohmann::ordered_json> EndGpuTrace() {
  const std::string path = "/tmp/tidemill-gpu-trace-" + std::to_string(getpid()) + ".json";
  torch::autograd::profiler::disableProfiler()->save(path);
  const nlohmann::json trace =
      nlohmann::json::parse(std::ifstream(path), nullptr, /*allow_exceptions=*/false);
  unlink(path.c_str());
  if (trace.is_discarded()) return Internal("the profiler's trace is no JSON");
  struct Sum {
    uint64_t count = 0;
    double ms = 0;
  };
  std::map<std::string, Sum> sums;
  double first = 0, last = 0, busy = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const std::string kind = event.value("cat", "");
    if (kind != "kernel" && kind != "gpu_memcpy" && kind != "gpu_memset") continue;
    const double begin = event.at("ts").get<double>() / 1e3;
    const double ms = event.at("dur").get<double>() / 1e3;
    first = first == 0 ? begin : std::min(first, begin);
    last = std::max(last, begin + ms);
    busy += ms;
    Sum& sum = sums[event.at("name").get<std::string>().substr(0, kNameShown)];
    ++sum.count;
    sum.ms += ms;
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  if (order.size() > kKernelsShown) order.resize(kKernelsShown);
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : order) {
    kernels.push_back({{"ms", sum.ms}, {"count", sum.count}, {"name", name}});
  }
  return nlohmann::ordered_json{{"span_ms", last - first}, {"busy_ms", busy}, {"kernels", kernels}};
}

}  // namespace tidemill

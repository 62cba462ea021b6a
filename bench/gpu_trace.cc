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

constexpr size_t kNameShown = 90;

const std::set<torch::profiler::impl::ActivityType> kDevice{
    torch::profiler::impl::ActivityType::CUDA};

struct Work {
  std::string name;
  double begin, ms;
};

struct Sum {
  uint64_t count = 0;
  double ms = 0;
  void Add(double more) {
    ++count;
    ms += more;
  }
};

nlohmann::ordered_json Costliest(const std::map<std::string, Sum>& sums, size_t most) {
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  if (order.size() > most) order.resize(most);
  nlohmann::ordered_json shown = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : order) {
    shown.push_back({{"ms", sum.ms}, {"count", sum.count}, {"name", name}});
  }
  return shown;
}

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
  std::vector<Work> works;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const std::string kind = event.value("cat", "");
    if (kind != "kernel" && kind != "gpu_memcpy" && kind != "gpu_memset") continue;
    works.push_back({event.at("name").get<std::string>().substr(0, kNameShown),
                     event.at("ts").get<double>() / 1e3, event.at("dur").get<double>() / 1e3});
  }
  if (works.empty()) return Internal("the profiler saw nothing");
  std::sort(works.begin(), works.end(),
            [](const Work& a, const Work& b) { return a.begin < b.begin; });
  std::map<std::string, Sum> kernels, gaps;
  double busy = 0, until = works.front().begin;
  const std::string* last = &works.front().name;
  for (const Work& work : works) {
    kernels[work.name].Add(work.ms);
    if (work.begin > until) gaps[*last + " -> " + work.name].Add(work.begin - until);
    const double end = work.begin + work.ms;
    if (end <= until) continue;
    busy += end - std::max(until, work.begin);
    until = end;
    last = &work.name;
  }
  return nlohmann::ordered_json{{"span_ms", until - works.front().begin},
                                {"busy_ms", busy},
                                {"kernels", Costliest(kernels, 32)},
                                {"gaps", Costliest(gaps, 8)}};
}

}  // namespace tidemill

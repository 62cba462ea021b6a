#include "bench/disk_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/fd.h"
#include "core/files.h"
#include "core/threads.h"
#include "learner/torch/checkpoint.h"
#include "model/random_weights.h"
#include "model/torch/device.h"
#include "model/torch/model.h"
#include "model/torch/weight_block.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

template <typename Work>
Result<double> Timed(Work&& work) {
  const auto began = std::chrono::steady_clock::now();
  TM_RETURN_IF_ERROR(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// As cat FILE >/dev/null.
Status ReadThrough(const std::string& dir, uint64_t& bytes) {
  std::vector<char> buffer(size_t{128} << 10);
  bytes = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const Fd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return FileFailure(entry.path().string(), "cannot open", errno);
    ssize_t n = 0;
    while ((n = read(fd.get(), buffer.data(), buffer.size())) > 0)
      bytes += static_cast<uint64_t>(n);
  }
  return Ok();
}

// On a GPU as one block of bfloat16, as engine and learner read it there.
Status LoadOnce(const std::string& dir, const std::string& device, int threads) {
  if (IsGpu(device)) {
    return LoadWeightBlock(dir, {.device = device, .dtype = Dtype::kBF16, .threads = threads})
        .status();
  }
  return PolicyWeights::Load(dir, {.device = device, .dtype = Dtype::kF32, .threads = threads})
      .status();
}

// As large as a checkpoint's weights and moments: 12 bytes for each parameter, or 6 of a GPU's,
// as with learner.moments = int8.
Result<CheckpointContent> ContentLike(const std::string& dir, const std::string& device) {
  const Dtype dtype = IsGpu(device) ? Dtype::kBF16 : Dtype::kF32;
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::Load(dir, {device, dtype}));
  CheckpointContent content;
  content.config = weights->config();
  content.parameters = Clones(weights->tensors());
  for (const auto& [name, tensor] : Clones(weights->tensors())) {
    content.optimizer["m." + name] = tensor;
  }
  for (const auto& [name, tensor] : Clones(weights->tensors())) {
    content.optimizer["v." + name] = tensor;
  }
  content.state = "{}";
  return content;
}

Result<Json> MeasureDisk(const DiskBenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(options.config, 1 << 20));
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ParseModelConfig(text, options.config));
  const std::string model = options.folder + "/model";
  const int cores = AvailableCores();
  TM_ASSIGN_OR_RETURN(const std::string device, ResolveDevice(options.device));
  Json report{{"parameters", config.ParameterCount()}, {"threads", cores}, {"device", device}};
  TM_ASSIGN_OR_RETURN(report["new_seconds"],
                      Timed([&] { return WriteRandomModel(config, 1, cores, model); }));
  uint64_t bytes = 0;
  TM_RETURN_IF_ERROR(ReadThrough(model, bytes));  // into the page cache
  report["bytes"] = bytes;
  for (int round = 0; round < 3; ++round) {
    Json one;
    TM_ASSIGN_OR_RETURN(one["read"], Timed([&] { return ReadThrough(model, bytes); }));
    if (!IsGpu(device)) {
      TM_ASSIGN_OR_RETURN(one["load_1_thread"], Timed([&] { return LoadOnce(model, device, 1); }));
    }
    TM_ASSIGN_OR_RETURN(one["load"], Timed([&] { return LoadOnce(model, device, cores); }));
    report["seconds"].push_back(one);
  }
  if (options.load_only) return report;
  TM_ASSIGN_OR_RETURN(const CheckpointContent content, ContentLike(model, device));
  report["checkpoint_bytes"] = content.bytes();
  CopyMemory memory;
  for (int round = 0; round < 2; ++round) {
    std::optional<CheckpointContent> copy;
    TM_ASSIGN_OR_RETURN(const double copied, Timed([&]() -> Status {
                          TM_ASSIGN_OR_RETURN(copy, CopyToHost(content, memory));
                          return Ok();
                        }));
    TM_ASSIGN_OR_RETURN(const double written, Timed([&] {
                          return WriteCheckpoint(*copy, options.folder + "/checkpoint", "");
                        }));
    report["checkpoints"].push_back({{"copy_seconds", copied}, {"write_seconds", written}});
  }
  return report;
}

}  // namespace

Result<DiskBenchReport> RunDiskBench(const DiskBenchOptions& options) {
  if (fs::exists(options.folder)) {
    return Exists(options.folder + " exists; choose another folder");
  }
  Result<Json> report = Internal("not run");
  try {
    report = MeasureDisk(options);
  } catch (const std::exception& error) {
    report = Internal(error.what());
  }
  std::error_code ignored;
  fs::remove_all(options.folder, ignored);
  if (!report.ok()) return report.status();
  return DiskBenchReport{std::move(*report)};
}

std::string DiskBenchReport::ToText() const {
  return figures.dump(1);
}

std::string DiskBenchReport::ToJson() const {
  return figures.dump();
}

}  // namespace tidemill

#include "learner/torch/checkpoint.h"

#include "model/torch/aten.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "core/fd.h"
#include "core/files.h"
#include "core/text.h"
#include "model/torch/catch.h"
#include "model/torch/lora.h"
#include "model/torch/named_tensors.h"
#include "store/run_directory.h"
#include "weights/weight_wire.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kStateBytesMax = size_t{64} << 20;
constexpr size_t kTokenizerBytesMax = size_t{256} << 20;
constexpr int kFormat = 1;
constexpr const char* kUnfinished = ".unfinished";
constexpr const char* kChecksums = "checksums.xxh3";
constexpr const char* kChecksumMark = "XXH3_";
constexpr size_t kChecksumsBytesMax = size_t{1} << 20;
constexpr size_t kChecksumBytesAtOnce = size_t{1} << 20;

// What belongs to a model besides config and weights.
constexpr const char* kModelFiles[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "generation_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "chat_template.jinja"};

Status CopyModelFiles(const std::string& from, const std::string& to) {
  if (from.empty()) return Ok();
  for (const char* name : kModelFiles) {
    const std::string path = from + "/" + name;
    if (!fs::exists(path)) continue;
    TM_ASSIGN_OR_RETURN(const std::string content, ReadFileBounded(path, kTokenizerBytesMax));
    TM_RETURN_IF_ERROR(WriteFileAtomically(to + "/" + name, content));
  }
  return Ok();
}

// Puts `made` at `dir`; what was there before is gone afterwards. One rename, so that a crash
// leaves the one or the other.
Status PutInPlace(const std::string& made, const std::string& dir) {
  const bool there = fs::exists(dir);
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, dir.c_str(), there ? RENAME_EXCHANGE : 0) != 0) {
    return Internal("cannot rename " + made + " to " + dir + ": " + std::strerror(errno));
  }
  std::error_code ignored;
  if (there) fs::remove_all(made, ignored);
  const fs::path parent = fs::absolute(dir).parent_path();
  return SyncDirectory(parent.string());
}

// Runs `fill` on an empty directory beside `dir` and puts that in its place.
Status Replace(const std::string& dir, const std::function<Status(const std::string&)>& fill) {
  const std::string made = dir + kUnfinished;
  std::error_code error;
  fs::remove_all(made, error);
  fs::create_directories(made, error);
  if (error) return Internal("cannot create " + made + ": " + error.message());
  Status status = fill(made);
  if (status.ok()) status = SyncDirectory(made);
  if (status.ok()) status = PutInPlace(made, dir);
  if (!status.ok()) fs::remove_all(made, error);
  return status.WithContext("writing " + dir);
}

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

Result<std::string> ChecksumOf(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path, "cannot open", errno);
  TM_RETURN_IF_ERROR(RegularFileSize(fd, path).status());
  WeightChecksum sum;
  std::vector<std::byte> bytes(kChecksumBytesAtOnce);
  while (true) {
    const ssize_t n = ::read(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileFailure(path, "cannot read", errno);
    if (n == 0) return Hex(sum.Value());
    sum.Add(bytes.data(), static_cast<size_t>(n));
  }
}

// As xxhsum writes and reads them.
Status WriteChecksums(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    names.insert(entry.path().filename().string());
  }
  std::string lines;
  for (const std::string& name : names) {
    TM_ASSIGN_OR_RETURN(const std::string sum, ChecksumOf(dir + "/" + name));
    lines += kChecksumMark + sum + "  " + name + "\n";
  }
  return WriteFileAtomically(dir + "/" + kChecksums, lines);
}

std::string StateJson(const Trainer& trainer, const CheckpointInfo& info) {
  const TrainerProgress& progress = trainer.progress();
  json versions = json::array();
  for (const auto& [version, step] : progress.versions.all()) versions.push_back({version, step});
  return json{{"format", kFormat},
              {"step", info.step},
              {"version", info.version},
              {"lora", trainer.lora()},
              {"objective", trainer.options().objective.name},
              {"trainer_steps", progress.steps},
              {"optimizer_steps", trainer.optimizer_steps()},
              {"version_steps", versions},
              {"gradient_norms", progress.gradient_norms},
              {"token_budget", progress.token_budget}}
      .dump(1);
}

struct SavedState {
  CheckpointInfo info;
  TrainerProgress progress;
  uint64_t optimizer_steps = 0;
  bool lora = false;
};

Result<SavedState> ReadState(const std::string& dir) {
  const std::string path = dir + "/trainer_state.json";
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kStateBytesMax));
  try {
    const json state = json::parse(text);
    if (state.at("format").get<int>() != kFormat) {
      return Invalid(path + ": format " + state.at("format").dump() + ", this program reads " +
                     std::to_string(kFormat));
    }
    SavedState saved;
    saved.info = {state.at("step").get<uint64_t>(), state.at("version").get<uint64_t>()};
    saved.lora = state.at("lora").get<bool>();
    saved.optimizer_steps = state.at("optimizer_steps").get<uint64_t>();
    saved.progress.steps = state.at("trainer_steps").get<uint64_t>();
    saved.progress.gradient_norms = state.at("gradient_norms").get<std::vector<double>>();
    saved.progress.token_budget = state.value("token_budget", int64_t{0});
    for (const json& pair : state.at("version_steps")) {
      saved.progress.versions.Published(pair.at(0).get<uint64_t>(), pair.at(1).get<uint64_t>());
    }
    return saved;
  } catch (const json::exception& error) {
    return Corrupt(path + ": " + error.what());
  }
}

Result<NamedTensors> ReadParameters(const std::string& dir, const Trainer& trainer) {
  if (trainer.lora()) {
    TM_ASSIGN_OR_RETURN(const auto adapter, LoadAdapter(dir, trainer.config()));
    return adapter->tensors;
  }
  TM_ASSIGN_OR_RETURN(const Dtype dtype,
                      ToDtype(trainer.Parameters().begin()->second.scalar_type()));
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::Load(dir, {"cpu", dtype}));
  return weights->tensors();
}

// The N of "step-N".
std::optional<uint64_t> StepOf(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || name.size() == prefix.size() || name.size() > 24) return {};
  uint64_t step = 0;
  for (char c : name.substr(prefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + static_cast<uint64_t>(c - '0');
  }
  return step;
}

}  // namespace

uint64_t CheckpointContent::bytes() const {
  uint64_t sum = 0;
  for (const NamedTensors* part : {&parameters, &value_head, &optimizer}) {
    sum += CopyMemory::BytesOf(*part);
  }
  return sum;
}

CheckpointContent ContentOf(const Trainer& trainer, const CheckpointInfo& info) {
  CheckpointContent content;
  content.config = trainer.config();
  if (trainer.adapter() != nullptr) content.adapter = trainer.adapter()->config;
  content.parameters = trainer.Parameters();
  content.value_head = trainer.ValueHead();
  content.optimizer = trainer.SharedOptimizerState();
  content.state = StateJson(trainer, info);
  return content;
}

Result<CheckpointCopy> CheckpointCopy::Begin(const CheckpointContent& content, CopyMemory& memory) {
  return CatchTorch<CheckpointCopy>("copying a checkpoint", [&]() -> Result<CheckpointCopy> {
    CheckpointCopy copy;
    copy.content_ = content;
    memory.Reserve(content.bytes());
    copy.copies_.Add(copy.content_.parameters, memory);
    copy.copies_.Add(copy.content_.value_head, memory);
    copy.copies_.Add(copy.content_.optimizer, memory);
    copy.copies_.Ready();
    return copy;
  });
}

Result<CheckpointContent> CheckpointCopy::Take() {
  TM_RETURN_IF_ERROR(copies_.Take().WithContext("copying a checkpoint"));
  return std::move(content_);
}

Result<CheckpointContent> CopyToHost(const CheckpointContent& content, CopyMemory& memory) {
  TM_ASSIGN_OR_RETURN(CheckpointCopy copy, CheckpointCopy::Begin(content, memory));
  return copy.Take();
}

Status WriteCheckpointBy(const std::string& dir, const std::string& files_from,
                         const std::function<Status(const std::string& made)>& fill) {
  return Replace(dir, [&](const std::string& made) -> Status {
    TM_RETURN_IF_ERROR(fill(made));
    TM_RETURN_IF_ERROR(CopyModelFiles(files_from, made));
    return WriteChecksums(made);
  });
}

Status WriteCheckpoint(const CheckpointContent& content, const std::string& dir,
                       const std::string& files_from) {
  return WriteCheckpointBy(dir, files_from, [&](const std::string& made) -> Status {
    if (content.adapter) {
      TM_RETURN_IF_ERROR(SaveAdapter({*content.adapter, content.parameters}, made));
    } else {
      TM_ASSIGN_OR_RETURN(const auto weights,
                          PolicyWeights::FromTensors(content.config, content.parameters));
      TM_RETURN_IF_ERROR(weights->Save(made));
    }
    if (!content.value_head.empty()) {
      TM_RETURN_IF_ERROR(WriteTensors(made + "/value_head.safetensors", content.value_head));
    }
    TM_RETURN_IF_ERROR(WriteTensors(made + "/optimizer.safetensors", content.optimizer));
    return WriteFileAtomically(made + "/trainer_state.json", content.state);
  });
}

namespace {

// Of the files that are `wanted`.
Status CompareChecksums(const std::string& dir, bool (*wanted)(std::string_view name)) {
  const std::string list = dir + "/" + kChecksums;
  const Result<std::string> text = ReadFileBounded(list, kChecksumsBytesMax);
  if (text.status().code() == Code::kNotFound && fs::exists(dir)) return Ok();
  if (!text.ok()) return text.status();
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t gap = line.find("  ");
    if (!line.starts_with(kChecksumMark) || gap == std::string::npos) {
      return Corrupt(list + ": \"" + Beginning(line, 80) + "\" is no line of a checksum");
    }
    if (!wanted(std::string_view(line).substr(gap + 2))) continue;
    const std::string path = dir + "/" + line.substr(gap + 2);
    const Result<std::string> sum = ChecksumOf(path);
    if (!sum.ok()) return Corrupt(sum.status().message());
    if (kChecksumMark + *sum != line.substr(0, gap)) {
      return Corrupt(path + ": was damaged after it was written, its checksum is not that of " +
                     kChecksums);
    }
  }
  return Ok();
}

}  // namespace

Status CheckCheckpoint(const std::string& dir) {
  return CompareChecksums(dir, [](std::string_view) { return true; });
}

Status CheckModelWeights(const std::string& dir) {
  if (!fs::exists(dir + "/" + kChecksums)) return Ok();
  return CompareChecksums(dir, [](std::string_view name) {
    return name.ends_with(".safetensors") && !name.starts_with("optimizer");
  });
}

Status SaveCheckpoint(const Trainer& trainer, const std::string& dir, const CheckpointInfo& info,
                      const std::string& files_from) {
  return WriteCheckpoint(ContentOf(trainer, info), dir, files_from);
}

Result<CheckpointInfo> LoadCheckpoint(const std::string& dir, Trainer& trainer) {
  const std::string context = "reading the checkpoint " + dir;
  auto saved = ReadState(dir);
  if (!saved.ok()) return saved.status().WithContext(context);
  if (saved->lora != trainer.lora()) {
    return Invalid(context + (saved->lora ? ": it holds an adapter, the run trains all weights"
                                          : ": it holds all weights, the run trains an adapter"));
  }
  auto parameters = ReadParameters(dir, trainer);
  if (!parameters.ok()) return parameters.status().WithContext(context);
  auto moments = ReadTensors(dir + "/optimizer.safetensors");
  if (!moments.ok()) return moments.status().WithContext(context);
  NamedTensors head;
  if (fs::exists(dir + "/value_head.safetensors")) {
    auto read = ReadTensors(dir + "/value_head.safetensors");
    if (!read.ok()) return read.status().WithContext(context);
    head = std::move(*read);
  }
  const Status restored =
      trainer.Restore(*parameters, head, *moments, saved->optimizer_steps, saved->progress);
  if (!restored.ok()) return restored.WithContext(context);
  return saved->info;
}

std::optional<bool> SavedMomentsInBlocks(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!StepOf(entry.path().filename().string()).has_value()) continue;
    const auto saved = TensorFiles::Open((entry.path() / "optimizer.safetensors").string());
    if (!saved.ok()) continue;
    std::optional<bool> in_blocks;
    for (const TensorView& tensor : saved->tensors()) {
      if (!tensor.name.starts_with("m.")) continue;
      in_blocks = in_blocks.value_or(false) || tensor.dtype == Dtype::kU8;
    }
    if (in_blocks.has_value()) return in_blocks;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> PruneCheckpoints(const std::string& folder, uint64_t keep_last,
                                                  std::optional<uint64_t> keep_step) {
  std::vector<std::pair<uint64_t, std::string>> checkpoints;
  std::vector<std::string> doomed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::string whole = name.substr(0, name.rfind('.'));
    if (name.ends_with(kUnfinished) && StepOf(whole).has_value()) doomed.push_back(name);
    if (const auto step = StepOf(name); step.has_value()) checkpoints.emplace_back(*step, name);
  }
  if (error) return Internal("cannot list " + folder + ": " + error.message());
  const std::string best = fs::read_symlink(folder + "/" + kBestCheckpoint, error).string();
  std::sort(checkpoints.rbegin(), checkpoints.rend());
  for (size_t i = keep_last; i < checkpoints.size(); ++i) {
    const std::string& name = checkpoints[i].second;
    if (name != best && checkpoints[i].first != keep_step) doomed.push_back(name);
  }
  for (const std::string& name : doomed) {
    fs::remove_all(folder + "/" + name, error);
    if (error) return Internal("cannot delete " + folder + "/" + name + ": " + error.message());
  }
  return doomed;
}

Status CheckModelPlace(const std::string& dir, bool replace) {
  std::error_code error;
  if (!fs::exists(dir, error) || (fs::is_directory(dir, error) && fs::is_empty(dir, error))) {
    return Ok();
  }
  if (!fs::exists(dir + "/config.json", error)) {
    return Exists(dir + " exists and is not a model directory; choose another");
  }
  if (replace) return Ok();
  return Exists(dir + " is a model already; choose another, or replace it with --replace");
}

Status SaveModelDirectory(const PolicyWeights& weights, const std::string& dir,
                          const std::string& files_from, bool replace) {
  TM_RETURN_IF_ERROR(CheckModelPlace(dir, replace));
  return Replace(dir, [&](const std::string& made) -> Status {
    TM_RETURN_IF_ERROR(CopyModelFiles(files_from, made));
    return weights.Save(made);
  });
}

}  // namespace tidemill

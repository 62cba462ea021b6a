#include "model/gguf/gguf_import.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/files.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tensors.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/mapped_file.h"
#include "model/safetensors.h"

namespace tidemill {
namespace {

constexpr size_t kPartsMax = 10'000;

// "-00002-of-00003.gguf": which part of how many.
struct PartName {
  std::string stem;
  size_t count = 1;
};

std::optional<size_t> FiveDigits(std::string_view text) {
  size_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<size_t>(c - '0');
  }
  return value;
}

std::optional<PartName> SplitName(const std::string& path) {
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kTail || !path.ends_with(".gguf")) return std::nullopt;
  const std::string tail = path.substr(path.size() - kTail);
  const auto part = FiveDigits(std::string_view(tail).substr(1, 5));
  const auto count = FiveDigits(std::string_view(tail).substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !part || !count) return std::nullopt;
  if (*part < 1 || *part > *count || *count > kPartsMax) return std::nullopt;
  return PartName{path.substr(0, path.size() - kTail), *count};
}

std::string PartPath(const PartName& name, size_t part) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05zu-of-%05zu.gguf", part, name.count);
  return name.stem + tail;
}

// The files of one model: the first part's metadata, the tensors of all.
struct GgufModel {
  std::vector<std::shared_ptr<const MappedFile>> maps;  // shared: as MappedFile gives them
  std::unique_ptr<GgufFile> file;
};

Status AddPart(const std::string& path, size_t part, size_t count, GgufModel& model) {
  TM_ASSIGN_OR_RETURN(auto map, MappedFile::Open(path));
  TM_ASSIGN_OR_RETURN(GgufFile file, ParseGguf(map->bytes(), path));
  const auto number = file.metadata.MaybeInt("split.no", 0, 1 << 16);
  const auto parts = file.metadata.MaybeInt("split.count", 0, 1 << 16);
  TM_RETURN_IF_ERROR(file.metadata.status());
  const bool whole = count == 1 && parts.value_or(0) <= 1;
  if (!whole && (parts != static_cast<int64_t>(count) || number != static_cast<int64_t>(part))) {
    return Invalid(path + ": its metadata say part " + std::to_string(number.value_or(0) + 1) +
                   " of " + std::to_string(parts.value_or(1)) + ", its name part " +
                   std::to_string(part + 1) + " of " + std::to_string(count));
  }
  model.maps.push_back(std::move(map));
  if (part == 0) {
    model.file = std::make_unique<GgufFile>(std::move(file));
    return Ok();
  }
  for (GgufTensor& tensor : file.tensors) model.file->tensors.push_back(std::move(tensor));
  return Ok();
}

Result<GgufModel> OpenGguf(const std::string& path) {
  const std::optional<PartName> split = SplitName(path);
  const size_t count = split ? split->count : 1;
  GgufModel model;
  for (size_t part = 0; part < count; ++part) {
    TM_RETURN_IF_ERROR(AddPart(split ? PartPath(*split, part + 1) : path, part, count, model));
  }
  const auto total = model.file->metadata.MaybeInt("split.tensors.count", 0, int64_t{1} << 30);
  TM_RETURN_IF_ERROR(model.file->metadata.status());
  if (count > 1 && total && *total != static_cast<int64_t>(model.file->tensors.size())) {
    return Corrupt(path + ": split.tensors.count is " + std::to_string(*total) +
                   ", the parts have " + std::to_string(model.file->tensors.size()) + " tensors");
  }
  return model;
}

Status WriteTensors(const std::vector<GgufTensorPlan>& plans, const std::string& dir,
                    const GgufImportOptions& options) {
  std::vector<TensorView> views;
  std::map<std::string, const GgufTensorPlan*> by_name;
  for (const GgufTensorPlan& plan : plans) {
    TensorView view{.name = plan.name, .dtype = options.dtype, .shape = plan.shape};
    view.bytes =
        static_cast<size_t>(plan.source->elements() / plan.parts) * DtypeSize(options.dtype);
    views.push_back(std::move(view));
    by_name.emplace(plan.name, &plan);
  }
  return WriteModelTensors(
      dir, views,
      [&](const TensorView& view, std::span<std::byte> out) {
        return FillTensor(*by_name.at(view.name), options.dtype, out);
      },
      options.max_shard_bytes);
}

}  // namespace

Result<GgufImported> ImportGguf(const std::string& path, const std::string& out_dir,
                                const GgufImportOptions& options) {
  if (options.dtype != Dtype::kF32 && options.dtype != Dtype::kBF16) {
    return Invalid("weights are written as float32 or bfloat16");
  }
  if (std::filesystem::exists(std::filesystem::path(out_dir) / "config.json")) {
    return Exists(out_dir + " holds a model already; name another directory");
  }
  TM_ASSIGN_OR_RETURN(const GgufModel model, OpenGguf(path));
  GgufMetadata& metadata = model.file->metadata;
  TM_ASSIGN_OR_RETURN(ModelConfig config, GgufModelConfig(metadata, model.file->tensors, path));
  config.dtype = options.dtype;
  TM_ASSIGN_OR_RETURN(const auto plans, PlanGgufTensors(config, model.file->tensors, path));
  TM_ASSIGN_OR_RETURN(const GgufTokenizerFiles tokenizer, GgufTokenizer(metadata, config, path));
  TM_RETURN_IF_ERROR(MakeDirectories(out_dir));
  TM_RETURN_IF_ERROR(WriteTensors(plans, out_dir, options));
  TM_RETURN_IF_ERROR(WriteFileAtomically(out_dir + "/tokenizer.json", tokenizer.tokenizer));
  TM_RETURN_IF_ERROR(
      WriteFileAtomically(out_dir + "/tokenizer_config.json", tokenizer.tokenizer_config));
  TM_RETURN_IF_ERROR(
      WriteFileAtomically(out_dir + "/generation_config.json", tokenizer.generation_config));
  TM_RETURN_IF_ERROR(WriteModelConfig(config, out_dir));
  return GgufImported{config.ParameterCount(), plans.size(), model.maps.size()};
}

}  // namespace tidemill

#include "run/torch/served_versions.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "core/files.h"
#include "model/safetensors_parts.h"
#include "model/torch/model.h"
#include "model/torch/moved_weights.h"
#include "model/torch/score.h"
#include "weights/stored_weights.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_wire.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kCanaryTokens = 48;
constexpr char kVersionFolder[] = "version-";

void RemoveFolder(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
}

// The bytes of the file and their checksum.
Result<WeightFiles> WriteFolder(const PolicyWeights& weights, const std::string& folder) {
  TM_ASSIGN_OR_RETURN(const EncodedWeights encoded, EncodeWeights(weights));
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  WeightFiles files;
  files.folder = folder;
  files.file = folder + "/model.safetensors";
  TM_RETURN_IF_ERROR(WriteFileAtomically(files.file, std::span(encoded.parts->parts)));
  WeightChecksum sum;
  for (const std::string_view part : encoded.parts->parts) {
    sum.Add(reinterpret_cast<const std::byte*>(part.data()), part.size());
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum.Value()));
  files.checksum = digits;
  files.bytes = encoded.parts->bytes();
  // Last: a directory without it is not taken for a model.
  TM_RETURN_IF_ERROR(WriteModelConfig(weights.config(), folder));
  return files;
}

VersionPointer FromStored(std::shared_ptr<const StoredWeights> stored, uint64_t version) {
  const StoredModel& model = stored->model();
  WeightFiles files{.version = version,
                    .folder = model.folder,
                    .file = model.folder + "/model.safetensors",
                    .bytes = model.bytes,
                    .checksum = model.checksum};
  Canary canary{.ids = model.canary_ids, .logprobs = model.canary_logprobs};
  return std::make_shared<PreparedVersion>(std::move(files), std::move(canary),
                                           [keep = std::move(stored)]() mutable { keep.reset(); });
}

}  // namespace

// A walk that meets tokens of the whole vocabulary, and some twice.
std::vector<TokenId> CanaryIds(const ModelConfig& model) {
  const auto vocabulary = static_cast<uint64_t>(model.vocab_size);
  const auto most = std::min<int64_t>(kCanaryTokens, model.max_position_embeddings - 2);
  std::vector<TokenId> ids;
  uint64_t at = 0x9e3779b97f4a7c15u;
  while (static_cast<int64_t>(ids.size()) < most) {
    at = at * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<TokenId>((at >> 33) % vocabulary));
  }
  return ids;
}

Result<ServedVersions> ServedVersions::In(const std::string& folder, Dtype dtype) {
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kVersionFolder)) RemoveFolder(entry.path());
  }
  return ServedVersions(fs::absolute(folder).lexically_normal().string(), dtype);
}

Result<VersionPointer> ServedVersions::Prepare(const PublishedWeights& published) const {
  if (auto stored = std::dynamic_pointer_cast<const StoredWeights>(published.weights)) {
    return FromStored(std::move(stored), published.version);
  }
  const std::shared_ptr<const PolicyWeights> weights = ToPolicyWeights(published.weights);
  Canary canary{.ids = CanaryIds(weights->config()), .logprobs = {}};
  TM_ASSIGN_OR_RETURN(auto merged, PolicyWeights::Merged(weights));
  if (dtype_ == Dtype::kBF16 && merged->config().dtype != Dtype::kBF16) {
    TM_ASSIGN_OR_RETURN(merged, MovedWeights(merged, "cpu", at::kBFloat16));
  }
  TM_ASSIGN_OR_RETURN(canary.logprobs, ScoreTokens(*merged, canary.ids));
  const std::string folder = folder_ + "/" + kVersionFolder + std::to_string(published.version);
  Result<WeightFiles> files = WriteFolder(*merged, folder);
  if (!files.ok()) {
    RemoveFolder(folder);
    return files.status();
  }
  files->version = published.version;
  return VersionPointer(std::make_shared<PreparedVersion>(std::move(*files), std::move(canary),
                                                          [folder] { RemoveFolder(folder); }));
}

}  // namespace tidemill

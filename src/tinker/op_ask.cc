#include "tinker/op_ask.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

constexpr size_t kMetadataBytesMax = 64 * 1024;
constexpr int64_t kTtlMaxS = int64_t{100} * 365 * 86400;
constexpr std::string_view kScheme = "tinker://";
constexpr std::string_view kTraining = "weights/", kSampler = "sampler_weights/";

// From 0 up to a bound of its own.
Result<double> RateField(const WireJson& json, const char* name, double absent, double most) {
  TM_ASSIGN_OR_RETURN(const double value, NumberField(json, name, absent));
  if (!(value >= 0 && value <= most)) {
    return Invalid("\"" + std::string(name) + "\" must be from 0 to " + std::to_string(most));
  }
  return value;
}

}  // namespace

Result<OpPlace> ReadOpPlace(const WireJson& json) {
  OpPlace place;
  TM_ASSIGN_OR_RETURN(place.model, TextField(json, "model_id"));
  TM_ASSIGN_OR_RETURN(const int64_t seq, WholeField(json, "seq_id", 1, INT32_MAX));
  place.seq = static_cast<uint64_t>(seq);
  return place;
}

Result<AdamRates> ReadStepAsk(const WireJson& json) {
  if (FieldOf(json, "optimizer_params") != nullptr) {
    return Invalid(
        "\"optimizer_params\" is not supported: the optimizer is AdamW (\"adam_params\")");
  }
  const WireJson* const adam = FieldOf(json, "adam_params");
  if (adam == nullptr || !adam->is_object()) return Invalid("\"adam_params\" must be an object");
  AdamRates rates;
  constexpr double kMost = 1e9, kBelowOne = 1.0 - 1e-9;
  TM_ASSIGN_OR_RETURN(rates.learning_rate, RateField(*adam, "learning_rate", 1e-4, kMost));
  TM_ASSIGN_OR_RETURN(rates.beta1, RateField(*adam, "beta1", 0.9, kBelowOne));
  TM_ASSIGN_OR_RETURN(rates.beta2, RateField(*adam, "beta2", 0.95, kBelowOne));
  TM_ASSIGN_OR_RETURN(rates.eps, RateField(*adam, "eps", 1e-12, kMost));
  TM_ASSIGN_OR_RETURN(rates.weight_decay, RateField(*adam, "weight_decay", 0.0, kMost));
  TM_ASSIGN_OR_RETURN(rates.clip_norm, RateField(*adam, "grad_clip_norm", 0.0, kMost));
  return rates;
}

Result<SaveAsk> ReadSaveAsk(const WireJson& json, bool for_sampler) {
  SaveAsk ask;
  if (for_sampler) {
    TM_ASSIGN_OR_RETURN(ask.sampler, WholeField(json, "sampling_session_seq_id", 0, INT32_MAX, -1));
    TM_ASSIGN_OR_RETURN(const auto kind, OptionalText(json, "kind"));
    if (kind && *kind != "snapshot" && *kind != "inflight") {
      return Invalid("\"kind\" must be snapshot or inflight, got \"" + Beginning(*kind, 40) + "\"");
    }
    ask.inflight = kind && *kind == "inflight";
  }
  TM_ASSIGN_OR_RETURN(const auto name, OptionalText(json, "path"));
  if (name) {
    TM_RETURN_IF_ERROR(CheckCheckpointName(*name));
    ask.name = *name;
  } else if (ask.sampler < 0) {
    return Invalid(for_sampler ? "\"path\" or \"sampling_session_seq_id\" is missing"
                               : "\"path\" is missing: the checkpoint's name");
  }
  if (name && ask.inflight) return Invalid("\"kind\" inflight is for samplers without a \"path\"");
  if (FieldOf(json, "ttl_seconds") != nullptr) {
    TM_ASSIGN_OR_RETURN(ask.ttl_s, WholeField(json, "ttl_seconds", 1, kTtlMaxS));
  }
  TM_ASSIGN_OR_RETURN(ask.overwrite, BoolField(json, "overwrite", false));
  TM_ASSIGN_OR_RETURN(ask.metadata, ReadMetadata(json));
  return ask;
}

Result<std::string> ReadMetadata(const WireJson& json) {
  const WireJson* const metadata = FieldOf(json, "user_metadata");
  if (metadata == nullptr) return std::string("{}");
  const bool strings =
      metadata->is_object() && std::all_of(metadata->begin(), metadata->end(),
                                           [](const WireJson& value) { return value.is_string(); });
  if (!strings) return Invalid("\"user_metadata\" must be an object of strings");
  std::string text = DumpWire(*metadata);
  if (text.size() > kMetadataBytesMax) return Invalid("\"user_metadata\" is over 64 KiB");
  return text;
}

std::string CheckpointPath::Id() const {
  return std::string(training ? kTraining : kSampler) + name;
}

std::string CheckpointPath::Text() const {
  return std::string(kScheme) + model + "/" + Id();
}

Result<CheckpointPath> ParseCheckpointId(std::string_view model, std::string_view id) {
  CheckpointPath path;
  path.model = model;
  for (const std::string_view prefix : {kTraining, kSampler}) {
    if (!id.starts_with(prefix)) continue;
    path.training = prefix == kTraining;
    path.name = id.substr(prefix.size());
    TM_RETURN_IF_ERROR(CheckCheckpointName(path.name));
    return path;
  }
  return Invalid("\"" + Beginning(id, 80) +
                 "\" is no checkpoint: weights/NAME or sampler_weights/NAME");
}

Result<CheckpointPath> ParseCheckpointPath(std::string_view path) {
  const std::string_view rest =
      path.starts_with(kScheme) ? path.substr(kScheme.size()) : std::string_view();
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos || slash == 0) {
    return Invalid("\"" + Beginning(path, 80) + "\" is no path like tinker://MODEL/weights/NAME");
  }
  return ParseCheckpointId(rest.substr(0, slash), rest.substr(slash + 1));
}

Status CheckCheckpointName(std::string_view name) {
  const bool good =
      !name.empty() && name.size() <= 128 && name.front() != '.' &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
      });
  if (good) return Ok();
  return Invalid(
      "a checkpoint's name must be letters, digits, '-', '_' and '.', at most 128 and "
      "none of the last in front, got \"" +
      Beginning(name, 80) + "\"");
}

}  // namespace tidemill

// Versions of the policy as inference servers take them: a model directory each, with a canary.
//
//   PublishedWeights -> FOLDER/version-N/{config.json, model.safetensors} -> PreparedVersion
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "engine/remote/prepared_version.h"
#include "model/model_config.h"
#include "weights/weight_channel.h"

namespace tidemill {

// The fixed text of a canary: the same for the same vocabulary.
std::vector<TokenId> CanaryIds(const ModelConfig& model);

// Belongs to one thread at a time.
class ServedVersions {
 public:
  // Makes `folder`. What an earlier process left there of its versions is removed. `dtype` is what
  // servers compute in, F32 or BF16.
  static Result<ServedVersions> In(const std::string& folder, Dtype dtype);

  // An adapter is merged; weights that lie in a directory already (StoredWeights) are taken as they
  // are. The directory goes with the last pointer. kUnavailable: it could not be written;
  // kInternal: the canary could not be computed.
  Result<VersionPointer> Prepare(const PublishedWeights& published) const;

 private:
  ServedVersions(std::string folder, Dtype dtype) : folder_(std::move(folder)), dtype_(dtype) {}
  std::string folder_;
  Dtype dtype_;
};

}  // namespace tidemill

#include "tinker/parts.h"

#include <filesystem>

namespace tidemill {
namespace {

void RemoveTree(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

const BaseModel* TinkerParts::BaseOf(const std::string& name) const {
  if (const auto it = bases.find(name); it != bases.end()) return &it->second;
  std::error_code error;
  const std::string folder = std::filesystem::weakly_canonical(name, error).string();
  for (const auto& [key, base] : bases) {
    if (!error && base.folder == folder) return &base;
  }
  return nullptr;
}

Result<SessionRow> LivingSession(const TinkerParts& parts, const Tenant& tenant,
                                 const std::string& id) {
  TM_ASSIGN_OR_RETURN(auto session, parts.books.Session(id));
  if (!session || session->tenant != tenant.name) return NotFound("there is no session " + id);
  if (session->ended) return Closed("the session " + id + " has ended");
  return std::move(*session);
}

Result<ModelRow> OwnModel(const TinkerParts& parts, const Tenant& tenant, const std::string& id) {
  TM_ASSIGN_OR_RETURN(auto model, parts.books.Model(id));
  if (!model || model->tenant != tenant.name) return NotFound("there is no model " + id);
  return std::move(*model);
}

Result<CheckpointRow> ReadableCheckpoint(const TinkerParts& parts, const Tenant& tenant,
                                         const std::string& path) {
  TM_ASSIGN_OR_RETURN(auto checkpoint, parts.books.Checkpoint(path));
  if (!checkpoint || (checkpoint->tenant != tenant.name && !checkpoint->open)) {
    return NotFound("there is no checkpoint " + path);
  }
  return std::move(*checkpoint);
}

Status EndSession(const TinkerParts& parts, const std::string& session) {
  TM_ASSIGN_OR_RETURN(const auto models, parts.books.ModelsOf(session));
  TM_ASSIGN_OR_RETURN(const auto samplers, parts.books.SamplersOf(session));
  TM_RETURN_IF_ERROR(parts.books.EndSession(session));
  std::vector<std::string> names;
  for (const ModelRow& model : models) {
    parts.queue.DropModel(model.id);
    names.push_back(model.id);
    if (model.saved_seq >= 0) RemoveTree(parts.folders.State(model.id, model.saved_seq));
    RemoveTree(parts.folders.Inflight(model.id));
  }
  for (const SamplerRow& sampler : samplers) RemoveTree(parts.folders.Sampler(sampler.id));
  parts.worker.Forget(names);
  return Ok();
}

Status RemoveCheckpoint(const TinkerParts& parts, const CheckpointRow& checkpoint) {
  TM_RETURN_IF_ERROR(parts.books.DropCheckpoint(checkpoint.path));
  RemoveTree(checkpoint.folder);
  return Ok();
}

}  // namespace tidemill

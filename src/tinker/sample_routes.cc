// Samplers and samples.
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tinker/op_ask.h"
#include "tinker/routes.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

Result<SamplerRow> OwnSampler(const TinkerAsk& ask, const std::string& id) {
  TM_ASSIGN_OR_RETURN(auto sampler, ask.parts.books.Sampler(id));
  if (!sampler || sampler->tenant != ask.tenant.name) {
    return NotFound("there is no sampler " + id +
                    " (any more: a session keeps its newest ones, and loses them when it ends)");
  }
  return std::move(*sampler);
}

SampleWeights WeightsOf(const TinkerParts& parts, const SamplerRow& sampler) {
  switch (sampler.kind) {
    case SamplerKind::kBase:
      return {};
    case SamplerKind::kSnapshot:
      return {.name = sampler.weights, .folder = sampler.weights};
    case SamplerKind::kInflight:
      return {.name = parts.folders.Inflight(sampler.weights),
              .folder = parts.folders.Inflight(sampler.weights)};
  }
  TM_CHECK(false, "a sampler of an unknown kind");
}

// Fills in what the sampler draws from: a base, or a checkpoint.
Status ReadSource(const TinkerAsk& ask, const WireJson& json, SamplerRow& sampler) {
  TM_ASSIGN_OR_RETURN(const auto path, OptionalText(json, "model_path"));
  TM_ASSIGN_OR_RETURN(const auto base_name, OptionalText(json, "base_model"));
  if (!path) {
    if (!base_name) return Invalid("\"base_model\" or \"model_path\" is missing");
    const BaseModel* const base = ask.parts.BaseOf(*base_name);
    if (base == nullptr) {
      return Invalid("this server has no base \"" + Beginning(*base_name, 200) + "\"");
    }
    sampler.base = base->name;
    return Ok();
  }
  TM_ASSIGN_OR_RETURN(const CheckpointPath parsed, ParseCheckpointPath(*path));
  TM_ASSIGN_OR_RETURN(const CheckpointRow checkpoint,
                      ReadableCheckpoint(ask.parts, ask.tenant, parsed.Text()));
  TM_ASSIGN_OR_RETURN(const auto model, ask.parts.books.Model(checkpoint.model));
  if (!model) return NotFound("nothing is known of the model of " + *path);
  sampler.base = model->base;
  sampler.kind = SamplerKind::kSnapshot;
  sampler.path = checkpoint.path;
  sampler.weights = checkpoint.folder;
  return Ok();
}

}  // namespace

Answered CreateSampler(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  SamplerRow sampler;
  TM_ASSIGN_OR_RETURN(sampler.session, TextField(json, "session_id"));
  TM_ASSIGN_OR_RETURN(const int64_t number,
                      WholeField(json, "sampling_session_seq_id", 0, INT32_MAX));
  TM_RETURN_IF_ERROR(LivingSession(ask.parts, ask.tenant, sampler.session).status());
  sampler.id = sampler.session + ":sample:" + std::to_string(number);
  sampler.tenant = ask.tenant.name;
  TM_RETURN_IF_ERROR(ReadSource(ask, json, sampler));
  TM_RETURN_IF_ERROR(ask.parts.books.AddSampler(sampler).status());
  return WireJson{{"type", "create_sampling_session"}, {"sampling_session_id", sampler.id}};
}

Answered ShowSampler(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const SamplerRow sampler, OwnSampler(ask, ask.id));
  WireJson json = {{"sampler_id", sampler.id}, {"base_model", sampler.base}};
  if (!sampler.path.empty()) json["model_path"] = sampler.path;
  return json;
}

Answered Sample(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(SampleAsk sample, ParseSampleAsk(ask.http.body));
  TM_ASSIGN_OR_RETURN(const SamplerRow sampler, OwnSampler(ask, sample.sampler));
  const auto desk = ask.parts.desks.find(sampler.base);
  if (desk == ask.parts.desks.end()) {
    return NotFound("this server was started without the base " + sampler.base);
  }
  TM_ASSIGN_OR_RETURN(
      const SamplePromises::Made made,
      ask.parts.samples.Make(ask.tenant.name, ask.tenant.concurrency, sample.sampler, sample.seq));
  WireJson ids = WireJson::array();
  for (uint32_t i = 0; i < sample.samples; ++i) ids.push_back(made.id + "." + std::to_string(i));
  if (made.fresh) {
    desk->second->Submit({.promise = made.id,
                          .tenant = ask.tenant.id,
                          .weights = WeightsOf(ask.parts, sampler),
                          .ask = std::move(sample)});
  }
  return WireJson{{"request_id", made.id}, {"sample_sequence_ids", std::move(ids)}};
}

}  // namespace tidemill

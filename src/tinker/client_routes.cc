// A client's beginning and end: its settings, its session.
#include <nlohmann/json.hpp>

#include "tinker/op_ask.h"
#include "tinker/routes.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
Answered ClientConfig(const TinkerAsk& ask) {
  // As large as the server reads: a batch in one piece needs no order among its pieces.
  const auto bytes = static_cast<int64_t>(ask.parts.limits.body_bytes_max / 2);
  return WireJson{{"parallel_fwdbwd_chunks", true},
                  {"proto_compress_fwdbwd", false},
                  {"fwdbwd_max_chunk_len", kDatumsMax},
                  {"fwdbwd_max_chunk_bytes_count", bytes},
                  {"fwdbwd_dispatch_bytes_semaphore_size", 2 * bytes},
                  {"sample_use_retrieve_futures", false},
                  {"custom_loss_server_side", false},
                  {"sample_join_sampling_session", false},
                  {"pjwt_auth_enabled", false}};
}

Answered DynamicConfig(const TinkerAsk&) {
  return WireJson{{"refresh_interval_sec", 300},
                  {"sample_cancel_enabled", false},
                  {"sample_cancel_max_batch_size", 64}};
}

Answered CreateSession(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  SessionRow session;
  session.tenant = ask.tenant.name;
  session.created_ms = ask.parts.clock.WallMs();
  TM_ASSIGN_OR_RETURN(session.metadata, ReadMetadata(json));
  TM_ASSIGN_OR_RETURN(
      const std::string id,
      ask.parts.books.MakeSession(session, std::string(ask.http.Header("x-idempotency-key"))));
  return WireJson{{"type", "create_session"}, {"session_id", id}};
}

Answered Heartbeat(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(const std::string id, TextField(json, "session_id"));
  TM_RETURN_IF_ERROR(LivingSession(ask.parts, ask.tenant, id).status());
  TM_RETURN_IF_ERROR(ask.parts.books.Beat(id, ask.parts.clock.WallMs()));
  return WireJson{{"type", "session_heartbeat"}};
}

Answered FinishSession(const TinkerAsk& ask) {
  const auto session = LivingSession(ask.parts, ask.tenant, ask.id);
  if (session.status().code() == Code::kClosed) return WireJson::object();
  TM_RETURN_IF_ERROR(session.status());
  TM_RETURN_IF_ERROR(EndSession(ask.parts, ask.id));
  return WireJson::object();
}

Answered TakeTelemetry(const TinkerAsk&) {
  return WireJson{{"status", "accepted"}};
}

Answered Capabilities(const TinkerAsk& ask) {
  WireJson models = WireJson::array();
  for (const auto& [name, base] : ask.parts.bases) {
    models.push_back({{"model_name", name},
                      {"max_context_length", base.context},
                      {"trainable", true},
                      {"sampleable", true}});
  }
  return WireJson{{"supported_models", std::move(models)}};
}

Answered ListSessions(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const auto sessions, ask.parts.books.Sessions(ask.tenant.name));
  WireJson ids = WireJson::array();
  for (const SessionRow& session : sessions) ids.push_back(session.id);
  return WireJson{{"sessions", std::move(ids)}};
}

Answered ShowSession(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const auto session, ask.parts.books.Session(ask.id));
  if (!session || session->tenant != ask.tenant.name) {
    return NotFound("there is no session " + ask.id);
  }
  TM_ASSIGN_OR_RETURN(const auto models, ask.parts.books.ModelsOf(ask.id));
  TM_ASSIGN_OR_RETURN(const auto samplers, ask.parts.books.SamplersOf(ask.id));
  WireJson runs = WireJson::array(), ids = WireJson::array();
  for (const ModelRow& model : models) runs.push_back(model.id);
  for (const SamplerRow& sampler : samplers) ids.push_back(sampler.id);
  return WireJson{{"training_run_ids", std::move(runs)},
                  {"sampler_ids", std::move(ids)},
                  {"user_metadata", WireJson::parse(session->metadata)}};
}

}  // namespace tidemill

// What is kept: training runs and their checkpoints.
#include <ctime>
#include <nlohmann/json.hpp>

#include "tinker/op_ask.h"
#include "tinker/routes.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kLifetimeMaxS = int64_t{100} * 365 * 86400;

// "2026-11-19T15:20:45.123Z"
std::string TimeText(int64_t ms) {
  const time_t seconds = ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40], whole[48];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(whole, sizeof whole, "%s.%03dZ", text, static_cast<int>(ms % 1000));
  return whole;
}

WireJson CheckpointJson(const CheckpointRow& row) {
  const CheckpointPath path{.model = row.model, .training = row.training, .name = row.name};
  WireJson json = {{"checkpoint_id", path.Id()},
                   {"checkpoint_type", row.training ? "training" : "sampler"},
                   {"time", TimeText(row.time_ms)},
                   {"tinker_path", row.path},
                   {"size_bytes", row.bytes},
                   {"public", row.open},
                   {"user_metadata", WireJson::parse(row.metadata)}};
  if (row.expires_ms) json["expires_at"] = TimeText(*row.expires_ms);
  return json;
}

Answered RunJson(const TinkerAsk& ask, const ModelRow& row) {
  WireJson json = {{"training_run_id", row.id},
                   {"base_model", row.base},
                   {"model_owner", row.tenant},
                   {"is_lora", true},
                   {"lora_rank", row.rank},
                   {"corrupted", !row.broken.empty()},
                   {"last_request_time", TimeText(row.last_ms)},
                   {"user_metadata", WireJson::parse(row.metadata)}};
  TM_ASSIGN_OR_RETURN(const auto checkpoints, ask.parts.books.Checkpoints(row.tenant, row.id));
  for (const CheckpointRow& checkpoint : checkpoints) {  // the newest is the last
    json[checkpoint.training ? "last_checkpoint" : "last_sampler_checkpoint"] =
        CheckpointJson(checkpoint);
  }
  return json;
}

// Rows [offset, offset + limit) of `all` as JSON, and where they stand among all.
struct Page {
  size_t offset = 0;
  size_t limit = 100;
};

Result<Page> PageOf(const HttpRequest& request) {
  Page page;
  TM_ASSIGN_OR_RETURN(const auto offset, UintParameter(request, "offset"));
  TM_ASSIGN_OR_RETURN(const auto limit, UintParameter(request, "limit"));
  page.offset = offset.value_or(0);
  page.limit = std::min<uint64_t>(limit.value_or(page.limit), 1000);
  return page;
}

WireJson Cursor(const Page& page, size_t total) {
  return {{"offset", page.offset}, {"limit", page.limit}, {"total_count", total}};
}

// The tenant's own, by the model and the part of the path.
Result<CheckpointRow> NamedCheckpoint(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const CheckpointPath path, ParseCheckpointId(ask.id, ask.part));
  TM_ASSIGN_OR_RETURN(auto row, ask.parts.books.Checkpoint(path.Text()));
  if (!row || row->tenant != ask.tenant.name) {
    return NotFound("there is no checkpoint " + path.Text());
  }
  return std::move(*row);
}

Answered SetOpen(const TinkerAsk& ask, bool open) {
  TM_ASSIGN_OR_RETURN(CheckpointRow row, NamedCheckpoint(ask));
  row.open = open;
  TM_RETURN_IF_ERROR(ask.parts.books.PutCheckpoint(row));
  return WireJson::object();
}

}  // namespace

Answered ListRuns(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const Page page, PageOf(ask.http));
  TM_ASSIGN_OR_RETURN(const auto models, ask.parts.books.Models(ask.tenant.name));
  WireJson runs = WireJson::array();
  for (size_t i = page.offset; i < models.size() && i - page.offset < page.limit; ++i) {
    TM_ASSIGN_OR_RETURN(WireJson run, RunJson(ask, models[i]));
    runs.push_back(std::move(run));
  }
  return WireJson{{"training_runs", std::move(runs)}, {"cursor", Cursor(page, models.size())}};
}

Answered ShowRun(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const ModelRow row, OwnModel(ask.parts, ask.tenant, ask.id));
  return RunJson(ask, row);
}

Answered ListCheckpoints(const TinkerAsk& ask) {
  if (!ask.id.empty()) TM_RETURN_IF_ERROR(OwnModel(ask.parts, ask.tenant, ask.id).status());
  TM_ASSIGN_OR_RETURN(const Page page, PageOf(ask.http));
  TM_ASSIGN_OR_RETURN(const auto rows, ask.parts.books.Checkpoints(ask.tenant.name, ask.id));
  WireJson checkpoints = WireJson::array();
  for (size_t i = page.offset; i < rows.size() && i - page.offset < page.limit; ++i) {
    checkpoints.push_back(CheckpointJson(rows[i]));
  }
  return WireJson{{"checkpoints", std::move(checkpoints)}, {"cursor", Cursor(page, rows.size())}};
}

Answered WeightsInfo(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(const std::string text, TextField(json, "tinker_path"));
  TM_ASSIGN_OR_RETURN(const CheckpointPath path, ParseCheckpointPath(text));
  TM_ASSIGN_OR_RETURN(const CheckpointRow row,
                      ReadableCheckpoint(ask.parts, ask.tenant, path.Text()));
  TM_ASSIGN_OR_RETURN(const auto model, ask.parts.books.Model(row.model));
  if (!model) return NotFound("nothing is known of the model of " + text);
  return WireJson{{"base_model", model->base}, {"is_lora", true},
                  {"lora_rank", model->rank},  {"train_unembed", false},
                  {"train_mlp", model->mlp},   {"train_attn", model->attention}};
}

Answered DeleteCheckpoint(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const CheckpointRow row, NamedCheckpoint(ask));
  TM_RETURN_IF_ERROR(RemoveCheckpoint(ask.parts, row));
  return WireJson::object();
}

Answered SetLifetime(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(CheckpointRow row, NamedCheckpoint(ask));
  row.expires_ms.reset();
  if (FieldOf(json, "ttl_seconds") != nullptr) {
    TM_ASSIGN_OR_RETURN(const int64_t seconds, WholeField(json, "ttl_seconds", 1, kLifetimeMaxS));
    row.expires_ms = ask.parts.clock.WallMs() + seconds * 1000;
  }
  TM_RETURN_IF_ERROR(ask.parts.books.PutCheckpoint(row));
  return WireJson::object();
}

Answered Publish(const TinkerAsk& ask) {
  return SetOpen(ask, true);
}

Answered Unpublish(const TinkerAsk& ask) {
  return SetOpen(ask, false);
}

}  // namespace tidemill

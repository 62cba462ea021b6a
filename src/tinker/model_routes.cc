// Models and the operations on them. Each is written down before it is answered, under the number
// the client gave it; a repeated number gets the first one's promise.
#include <nlohmann/json.hpp>

#include "core/random.h"
#include "core/text.h"
#include "tinker/op_ask.h"
#include "tinker/routes.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

constexpr std::string_view kProtobuf = "application/x-protobuf";

WireJson Promised(const std::string& model, uint64_t seq) {
  return {{"request_id", PromiseOfOp(model, seq)}, {"model_id", model}};
}

Status CheckOptimizer(const WireJson& json) {
  const WireJson* const config = FieldOf(json, "optimizer_config");
  if (config == nullptr) return Ok();
  TM_ASSIGN_OR_RETURN(const auto type, OptionalText(*config, "type"));
  if (!type || *type == "adamw" || *type == "adam") return Ok();
  return Invalid("the optimizer \"" + Beginning(*type, 40) + "\" is not supported; there is adamw");
}

// What both ways of making a model have in common.
Result<ModelRow> NewRow(const TinkerAsk& ask, const WireJson& json) {
  ModelRow row;
  TM_ASSIGN_OR_RETURN(row.session, TextField(json, "session_id"));
  TM_ASSIGN_OR_RETURN(const int64_t number, WholeField(json, "model_seq_id", 0, INT32_MAX));
  TM_RETURN_IF_ERROR(CheckOptimizer(json));
  TM_RETURN_IF_ERROR(LivingSession(ask.parts, ask.tenant, row.session).status());
  row.id = row.session + ":train:" + std::to_string(number);
  row.tenant = ask.tenant.name;
  row.created_ms = row.last_ms = ask.parts.clock.WallMs();
  TM_ASSIGN_OR_RETURN(row.metadata, ReadMetadata(json));
  return row;
}

Answered AddModel(const TinkerAsk& ask, const ModelRow& row) {
  const TinkerParts& parts = ask.parts;
  TM_ASSIGN_OR_RETURN(const auto there, parts.books.Model(row.id));
  if (!there) {
    TM_ASSIGN_OR_RETURN(const auto living, parts.books.LivingModels());
    const auto own = std::count_if(living.begin(), living.end(), [&](const ModelRow& model) {
      return model.tenant == ask.tenant.name;
    });
    if (static_cast<size_t>(own) >= parts.limits.living_models_max) {
      return Full("this key has " + std::to_string(own) + " models; sessions that end free theirs");
    }
    TM_RETURN_IF_ERROR(parts.books.AddModel(row, "").status());
  }
  parts.queue.AddModel(row.id, 0);
  parts.queue.Add(row.id, 0);
  return Promised(row.id, 0);
}

// Writes the operation down and puts it into the model's line.
Answered AddOp(const TinkerAsk& ask, const OpPlace& place, OpKind kind, std::string body) {
  const TinkerParts& parts = ask.parts;
  TM_ASSIGN_OR_RETURN(const ModelRow row, OwnModel(parts, ask.tenant, place.model));
  TM_RETURN_IF_ERROR(LivingSession(parts, ask.tenant, row.session).status());
  TM_RETURN_IF_ERROR(parts.queue.Room(place.model, place.seq));
  TM_ASSIGN_OR_RETURN(const uint64_t waiting, parts.books.WaitingBytes(place.model));
  if (waiting > parts.limits.waiting_bytes_max) {
    return Full("operations of " + place.model + " with " + std::to_string(waiting) +
                " bytes wait");
  }
  TM_RETURN_IF_ERROR(
      parts.books
          .AddOp({.model = place.model, .seq = place.seq, .kind = kind, .body = std::move(body)})
          .status());
  parts.queue.Add(place.model, place.seq);
  return Promised(place.model, place.seq);
}

// The number is taken all the same, or those behind it would wait for ever.
Answered Refuse(const TinkerAsk& ask, const OpPlace& place, OpKind kind, const Status& why) {
  if (why.code() == Code::kInvalid) {
    TM_RETURN_IF_ERROR(AddOp(ask, place, kind, why.message()).status());
  }
  return why;
}

Status CheckRows(const TinkerAsk& ask, const ModelRow& row, const TrainAsk& train) {
  const auto base = ask.parts.bases.find(row.base);
  if (base == ask.parts.bases.end()) {
    return NotFound("this server was started without the base " + row.base);
  }
  for (size_t i = 0; i < train.rows.size(); ++i) {
    TM_RETURN_IF_ERROR(
        CheckTokenRow(train.rows[i], train.loss.kind, base->second.vocabulary, base->second.context)
            .WithContext("datum " + std::to_string(i)));
  }
  return Ok();
}

Answered AddTrain(const TinkerAsk& ask, const tinker::ForwardBackwardRequest& request) {
  if (request.seq_id() < 1) return Invalid("\"seq_id\" must be 1 or more");
  const OpPlace place{.model = request.model_id(), .seq = static_cast<uint64_t>(request.seq_id())};
  TM_ASSIGN_OR_RETURN(const ModelRow row, OwnModel(ask.parts, ask.tenant, place.model));
  const Result<TrainAsk> train = ReadTrainAsk(request);
  const Status good = train.ok() ? CheckRows(ask, row, *train) : train.status();
  if (!good.ok()) {
    return Refuse(ask, place, request.forward_only() ? OpKind::kRefused : OpKind::kRefusedTrain,
                  good);
  }
  return AddOp(ask, place, OpKind::kTrain, request.SerializeAsString());
}

Answered TakeTrain(const TinkerAsk& ask, bool forward_only) {
  if (!ask.http.Header("content-encoding").empty()) {
    return Invalid("Content-Encoding is not supported (client/config says so)");
  }
  if (ask.http.Header("content-type").starts_with(kProtobuf)) {
    TM_ASSIGN_OR_RETURN(auto request, ParseTrainProto(ask.http.body));
    if (forward_only) request.set_forward_only(true);
    return AddTrain(ask, request);
  }
  TM_ASSIGN_OR_RETURN(const auto request, ParseTrainJson(ask.http.body, forward_only));
  return AddTrain(ask, request);
}

// Operations whose body is JSON that `check` reads.
template <typename Check>
Answered AddChecked(const TinkerAsk& ask, OpKind kind, Check check) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(const OpPlace place, ReadOpPlace(json));
  const Status good = check(json);
  if (!good.ok()) return Refuse(ask, place, OpKind::kRefused, good);
  return AddOp(ask, place, kind, ask.http.body);
}

}  // namespace

Answered CreateModel(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(ModelRow row, NewRow(ask, json));
  TM_ASSIGN_OR_RETURN(const std::string name, TextField(json, "base_model"));
  const BaseModel* const base = ask.parts.BaseOf(name);
  if (base == nullptr) {
    return Invalid("this server has no base \"" + Beginning(name, 200) +
                   "\"; get_server_capabilities lists what it has");
  }
  row.base = base->name;
  const WireJson* const lora = FieldOf(json, "lora_config");
  if (lora == nullptr) return Invalid("\"lora_config\" is missing: models are LoRA adapters");
  TM_ASSIGN_OR_RETURN(row.rank, WholeField(*lora, "rank", 1, ask.parts.limits.rank_max));
  TM_ASSIGN_OR_RETURN(row.attention, BoolField(*lora, "train_attn", true));
  TM_ASSIGN_OR_RETURN(row.mlp, BoolField(*lora, "train_mlp", true));
  if (!row.attention && !row.mlp) {
    return Invalid("train_attn or train_mlp must be true: the unembedding has no adapter here");
  }
  TM_ASSIGN_OR_RETURN(const int64_t seed, WholeField(*lora, "seed", INT64_MIN, INT64_MAX,
                                                     static_cast<int64_t>(StableHash(row.id))));
  row.seed = static_cast<uint64_t>(seed);
  return AddModel(ask, row);
}

Answered LoadWeights(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  if (FieldOf(json, "weights_access_token") != nullptr) {
    return Invalid("\"weights_access_token\" is not supported; publish the checkpoint instead");
  }
  const auto readable = [&](const WireJson& body) -> Status {
    TM_ASSIGN_OR_RETURN(const std::string path, TextField(body, "path"));
    TM_RETURN_IF_ERROR(ParseCheckpointPath(path).status());
    return ReadableCheckpoint(ask.parts, ask.tenant, path).status();
  };
  if (FieldOf(json, "session_id") == nullptr) {
    return AddChecked(ask, OpKind::kLoad, [&](const WireJson& body) -> Status {
      TM_RETURN_IF_ERROR(BoolField(body, "optimizer", false).status());
      const Status good = readable(body);
      return good.code() == Code::kNotFound ? Invalid(good.message()) : good;
    });
  }
  TM_ASSIGN_OR_RETURN(ModelRow row, NewRow(ask, json));
  TM_RETURN_IF_ERROR(readable(json));
  TM_ASSIGN_OR_RETURN(row.from, TextField(json, "path"));
  TM_ASSIGN_OR_RETURN(row.from_optimizer, BoolField(json, "optimizer", false));
  TM_ASSIGN_OR_RETURN(const CheckpointPath path, ParseCheckpointPath(row.from));
  TM_ASSIGN_OR_RETURN(const auto source, ask.parts.books.Model(path.model));
  if (!source) return NotFound("nothing is known of the model of " + row.from);
  if (row.from_optimizer && !path.training) {
    return Invalid(row.from + " was saved for samplers and has no optimizer state");
  }
  row.base = source->base;
  row.rank = source->rank;
  row.attention = source->attention;
  row.mlp = source->mlp;
  return AddModel(ask, row);
}

Answered GetInfo(const TinkerAsk& ask) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(ask.http.body));
  TM_ASSIGN_OR_RETURN(const std::string id, TextField(json, "model_id"));
  TM_ASSIGN_OR_RETURN(const ModelRow row, OwnModel(ask.parts, ask.tenant, id));
  const auto base = ask.parts.bases.find(row.base);
  const bool known = base != ask.parts.bases.end();
  return WireJson{{"type", "get_info"},
                  {"model_id", row.id},
                  {"is_lora", true},
                  {"lora_rank", row.rank},
                  {"model_name", row.base},
                  {"model_data",
                   {{"arch", known ? base->second.family : ""},
                    {"model_name", row.base},
                    {"tokenizer_id", known ? base->second.tokenizer : row.base}}}};
}

Answered ForwardBackward(const TinkerAsk& ask) {
  return TakeTrain(ask, false);
}

Answered Forward(const TinkerAsk& ask) {
  return TakeTrain(ask, true);
}

Answered OptimStep(const TinkerAsk& ask) {
  return AddChecked(ask, OpKind::kStep,
                    [](const WireJson& json) { return ReadStepAsk(json).status(); });
}

Answered SaveWeights(const TinkerAsk& ask) {
  return AddChecked(ask, OpKind::kSave,
                    [](const WireJson& json) { return ReadSaveAsk(json, false).status(); });
}

Answered SaveForSampler(const TinkerAsk& ask) {
  return AddChecked(ask, OpKind::kSampler,
                    [](const WireJson& json) { return ReadSaveAsk(json, true).status(); });
}

}  // namespace tidemill

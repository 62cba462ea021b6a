#include "tinker/model_worker.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files.h"
#include "core/log.h"
#include "core/threads.h"
#include "tinker/op_ask.h"
#include "tinker/wire_json_fields.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOpPrefix = "t.";

void RemoveFolder(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

uint64_t BytesIn(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    bytes += file.is_regular_file(error) ? file.file_size(error) : 0;
  }
  return bytes;
}

// Whether the gradient lacks what this operation, which failed, was to add.
bool LeavesHalf(const OpRow& op) {
  if (op.kind == OpKind::kRefusedTrain) return true;
  if (op.kind != OpKind::kTrain) return false;
  const auto request = ParseTrainProto(op.body);
  return !request.ok() || !request->forward_only();
}

OpResult JsonResult(const WireJson& json) {
  return {.done = true, .failed = false, .binary = false, .body = DumpWire(json)};
}

}  // namespace

std::string PromiseOfOp(const std::string& model, uint64_t seq) {
  return std::string(kOpPrefix) + model + "." + std::to_string(seq);
}

std::optional<OpQueue::Turn> OpOfPromise(std::string_view promise) {
  const size_t dot = promise.rfind('.');
  if (!promise.starts_with(kOpPrefix) || dot <= kOpPrefix.size()) return std::nullopt;
  OpQueue::Turn turn{.model = std::string(promise.substr(2, dot - 2)), .seq = 0};
  const std::string_view number = promise.substr(dot + 1);
  const auto [stop, error] =
      std::from_chars(number.data(), number.data() + number.size(), turn.seq);
  if (error != std::errc() || stop != number.data() + number.size()) return std::nullopt;
  return turn;
}

OpResult FailedOp(const Status& status) {
  const Code code = status.code();
  const bool users = code == Code::kInvalid || code == Code::kNotFound || code == Code::kExists;
  return {.done = true,
          .failed = true,
          .binary = false,
          .body = DumpWire({{"error", status.message()}, {"category", users ? "user" : "server"}})};
}

ModelWorker::ModelWorker(Books& books, OpQueue& queue, ModelsPort& models, const Clock& clock,
                         WorkerOptions options)
    : books_(books),
      queue_(queue),
      models_(models),
      clock_(clock),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

ModelWorker::~ModelWorker() {
  queue_.Stop();
  thread_.join();
}

void ModelWorker::Forget(const std::vector<std::string>& models) {
  MutexLock lock(mutex_);
  forget_.insert(forget_.end(), models.begin(), models.end());
}

void ModelWorker::LetGo() {
  std::vector<std::string> models;
  {
    MutexLock lock(mutex_);
    models = std::exchange(forget_, {});
  }
  for (const std::string& model : models) {
    models_.Drop(model);
    kept_.erase(model);
  }
}

void ModelWorker::Run() {
  NameThisThread("tinker-models");
  models_.Begin();
  while (const auto turn = queue_.Take()) {
    LetGo();
    const Status status = Do(*turn);
    if (!status.ok()) {
      LogError("an operation could not be written down; it is done again after a restart",
               {{"model", turn->model}, {"seq", turn->seq}, {"error", status.message()}});
    }
    queue_.Done(turn->model);
    options_.on_done(turn->model, turn->seq);
  }
}

const BaseModel& ModelWorker::BaseOf(const ModelRow& row) const {
  const auto it = options_.bases.find(row.base);
  TM_CHECK(it != options_.bases.end(), row.base);
  return it->second;
}

// Fails only where the books do.
Status ModelWorker::Do(const OpQueue::Turn& turn) {
  TM_ASSIGN_OR_RETURN(const auto op, books_.Op(turn.model, turn.seq));
  TM_ASSIGN_OR_RETURN(const auto row, books_.Model(turn.model));
  if (!op || !row) return Ok();  // the session ended
  std::string broken = row->broken;
  Result<OpResult> result = Invalid("");
  if (!broken.empty()) {
    result = Invalid(broken);
    // The step that was to end what is broken ends it without a change.
    if (op->kind == OpKind::kStep) {
      broken.clear();
      if (models_.Has(row->id)) models_.ClearGradient(row->id);
    }
  } else if (!options_.bases.contains(row->base)) {
    result = NotFound("this server was started without the base " + row->base);
  } else {
    result = Carry(*row, *op);
    if (!result.ok() && LeavesHalf(*op)) {
      broken = "operation " + std::to_string(op->seq) + " failed (" + result.status().message() +
               "), so nothing of this step was applied; the next optim_step clears its gradient";
    }
  }
  const OpResult stored = result.ok() ? std::move(*result) : FailedOp(result.status());
  TM_RETURN_IF_ERROR(books_.FinishOp(row->id, op->seq, stored, broken, clock_.WallMs()));
  if (op->kind == OpKind::kStep && !stored.failed) return SaveIfDue(*row);
  return Ok();
}

Result<OpResult> ModelWorker::Carry(const ModelRow& row, const OpRow& op) {
  if (op.kind == OpKind::kCreate) return Create(row);
  if (op.kind == OpKind::kRefusedTrain || op.kind == OpKind::kRefused) return Invalid(op.body);
  TM_RETURN_IF_ERROR(Bring(row));
  kept_[row.id].used = clock_.Now();
  switch (op.kind) {
    case OpKind::kCreate:
    case OpKind::kRefusedTrain:
    case OpKind::kRefused:
      break;
    case OpKind::kTrain:
      return Train(row, op);
    case OpKind::kStep:
      return Step(row, op);
    case OpKind::kSave:
      return SaveNamed(row, op, true);
    case OpKind::kSampler:
      return SaveSampler(row, op);
    case OpKind::kLoad:
      return LoadInto(row, op);
  }
  return Internal("an operation of an unknown kind");
}

Result<OpResult> ModelWorker::Create(const ModelRow& row) {
  TM_RETURN_IF_ERROR(MakeRoom(row.id));
  if (row.from.empty()) {
    TM_RETURN_IF_ERROR(models_.Make(
        row.id, BaseOf(row),
        {.rank = row.rank, .seed = row.seed, .attention = row.attention, .mlp = row.mlp}));
  } else {
    TM_RETURN_IF_ERROR(LoadCheckpoint(row, row.from, row.from_optimizer));
    TM_RETURN_IF_ERROR(SaveState(row.id, 0));  // the checkpoint may be deleted
  }
  kept_[row.id] = {.saved = clock_.Now(), .used = clock_.Now(), .last_step = 0};
  WireJson json = {{"type", row.from.empty() ? "create_model" : "load_weights"},
                   {"model_id", row.id}};
  if (!row.from.empty()) json["path"] = row.from;
  return JsonResult(json);
}

Status ModelWorker::LoadCheckpoint(const ModelRow& row, const std::string& path, bool optimizer) {
  TM_ASSIGN_OR_RETURN(const auto checkpoint, books_.Checkpoint(path));
  const bool readable = checkpoint && (checkpoint->tenant == row.tenant || checkpoint->open);
  if (!readable) return NotFound("there is no checkpoint " + path);
  if (optimizer && !checkpoint->training) {
    return Invalid(path + " was saved for samplers and has no optimizer state");
  }
  return models_.Load(row.id, BaseOf(row), checkpoint->folder, optimizer);
}

Status ModelWorker::Bring(const ModelRow& row) {
  if (models_.Has(row.id)) return Ok();
  TM_ASSIGN_OR_RETURN(const bool unmade, books_.Unmade(row.id));
  if (unmade) return NotFound("the model " + row.id + " could not be made");
  TM_RETURN_IF_ERROR(MakeRoom(row.id));
  if (row.saved_seq >= 0) {
    TM_RETURN_IF_ERROR(
        models_.Load(row.id, BaseOf(row), options_.folders.State(row.id, row.saved_seq), true));
  } else {
    TM_RETURN_IF_ERROR(models_.Make(
        row.id, BaseOf(row),
        {.rank = row.rank, .seed = row.seed, .attention = row.attention, .mlp = row.mlp}));
  }
  const Status again = Repeat(row);
  if (!again.ok()) models_.Drop(row.id);
  return again.WithContext("bringing back " + row.id);
}

// What was done behind the saved state, once more.
Status ModelWorker::Repeat(const ModelRow& row) {
  kept_[row.id] = {.saved = clock_.Now(), .used = clock_.Now(), .last_step = row.saved_seq};
  TM_ASSIGN_OR_RETURN(const std::vector<OpRow> ops, books_.DoneSince(row.id, row.saved_seq));
  for (const OpRow& op : ops) {
    if (op.kind == OpKind::kTrain) {
      TM_ASSIGN_OR_RETURN(const auto request, ParseTrainProto(op.body));
      TM_ASSIGN_OR_RETURN(const TrainAsk ask, ReadTrainAsk(request));
      if (ask.gradients) TM_RETURN_IF_ERROR(models_.Pass(row.id, ask).status());
    } else if (op.kind == OpKind::kStep && op.failed) {
      models_.ClearGradient(row.id);
    } else if (op.kind == OpKind::kStep) {
      TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(op.body));
      TM_ASSIGN_OR_RETURN(const AdamRates rates, ReadStepAsk(json));
      TM_RETURN_IF_ERROR(models_.Step(row.id, rates).status());
      kept_[row.id].last_step = static_cast<int64_t>(op.seq);
    }
  }
  return Ok();
}

// Models that were not used for longest make room; they are brought back when they are asked.
Status ModelWorker::MakeRoom(const std::string& but) {
  while (models_.count() >= options_.models_max) {
    const std::pair<const std::string, Kept>* oldest = nullptr;
    for (const auto& entry : kept_) {
      if (entry.first == but || !models_.Has(entry.first)) continue;
      if (oldest == nullptr || entry.second.used < oldest->second.used) oldest = &entry;
    }
    if (oldest == nullptr) return Ok();
    const std::string model = oldest->first;
    TM_ASSIGN_OR_RETURN(const auto row, books_.Model(model));
    if (row && oldest->second.last_step > row->saved_seq) {
      TM_RETURN_IF_ERROR(SaveState(model, oldest->second.last_step));
    }
    models_.Drop(model);
    kept_.erase(model);
  }
  return Ok();
}

// The weights are those of operation `seq`; the state of before goes.
Status ModelWorker::SaveState(const std::string& model, int64_t seq) {
  TM_ASSIGN_OR_RETURN(const auto row, books_.Model(model));
  TM_RETURN_IF_ERROR(MakeDirectories(options_.folders.States()));
  TM_RETURN_IF_ERROR(models_.Save(model, options_.folders.State(model, seq), true));
  TM_RETURN_IF_ERROR(books_.SetSaved(model, seq));
  if (row && row->saved_seq >= 0 && row->saved_seq != seq) {
    RemoveFolder(options_.folders.State(model, row->saved_seq));
  }
  kept_[model].saved = clock_.Now();
  return Ok();
}

Status ModelWorker::SaveIfDue(const ModelRow& row) {
  const Kept& kept = kept_[row.id];
  if (clock_.Now() - kept.saved < options_.save_every) {
    TM_ASSIGN_OR_RETURN(const uint64_t bytes, books_.BytesSince(row.id, row.saved_seq));
    if (bytes < options_.again_bytes_max) return Ok();
  }
  return SaveState(row.id, kept.last_step);
}

Result<OpResult> ModelWorker::Train(const ModelRow& row, const OpRow& op) {
  TM_ASSIGN_OR_RETURN(const auto request, ParseTrainProto(op.body));
  TM_ASSIGN_OR_RETURN(const TrainAsk ask, ReadTrainAsk(request));
  TM_ASSIGN_OR_RETURN(const TokenLossResult result, models_.Pass(row.id, ask));
  return OpResult{.done = true,
                  .failed = false,
                  .binary = true,
                  .body = TrainOutput(ask, result).SerializeAsString()};
}

Result<OpResult> ModelWorker::Step(const ModelRow& row, const OpRow& op) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(op.body));
  TM_ASSIGN_OR_RETURN(const AdamRates rates, ReadStepAsk(json));
  TM_ASSIGN_OR_RETURN(const double norm, models_.Step(row.id, rates));
  kept_[row.id].last_step = static_cast<int64_t>(op.seq);
  return JsonResult({{"type", "optim_step"}, {"metrics", {{"grad_norm", norm}}}});
}

Result<OpResult> ModelWorker::SaveNamed(const ModelRow& row, const OpRow& op, bool training) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(op.body));
  TM_ASSIGN_OR_RETURN(const SaveAsk ask, ReadSaveAsk(json, !training));
  const CheckpointPath path{.model = row.id, .training = training, .name = ask.name};
  TM_ASSIGN_OR_RETURN(const auto there, books_.Checkpoint(path.Text()));
  if (there && training && !ask.overwrite) {
    return Exists(path.Text() + " is there already; another name, or overwrite");
  }
  CheckpointRow made{.path = path.Text(),
                     .model = row.id,
                     .tenant = row.tenant,
                     .training = training,
                     .name = ask.name,
                     .folder = options_.folders.Checkpoint(row.id, path.Id()),
                     .bytes = 0,
                     .time_ms = clock_.WallMs(),
                     .expires_ms = std::nullopt,
                     .open = false,
                     .metadata = ask.metadata};
  if (ask.ttl_s) made.expires_ms = made.time_ms + *ask.ttl_s * 1000;
  TM_RETURN_IF_ERROR(MakeDirectories(ParentOf(made.folder)));
  TM_RETURN_IF_ERROR(models_.Save(row.id, made.folder, training));
  made.bytes = BytesIn(made.folder);
  TM_RETURN_IF_ERROR(books_.PutCheckpoint(made));
  return JsonResult(
      {{"type", training ? "save_weights" : "save_weights_for_sampler"}, {"path", made.path}});
}

Result<OpResult> ModelWorker::SaveSampler(const ModelRow& row, const OpRow& op) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(op.body));
  TM_ASSIGN_OR_RETURN(const SaveAsk ask, ReadSaveAsk(json, true));
  if (!ask.name.empty()) return SaveNamed(row, op, false);
  SamplerRow sampler{.id = row.session + ":sample:" + std::to_string(ask.sampler),
                     .session = row.session,
                     .tenant = row.tenant,
                     .base = row.base,
                     .kind = ask.inflight ? SamplerKind::kInflight : SamplerKind::kSnapshot,
                     .path = "",
                     .weights = ask.inflight
                                    ? row.id
                                    : options_.folders.Sampler(
                                          row.session + ":sample:" + std::to_string(ask.sampler))};
  TM_RETURN_IF_ERROR(MakeDirectories(options_.folders.Samplers()));
  TM_RETURN_IF_ERROR(models_.Save(
      row.id, ask.inflight ? options_.folders.Inflight(row.id) : sampler.weights, false));
  TM_RETURN_IF_ERROR(books_.AddSampler(sampler).status());
  if (ask.inflight) {
    TM_ASSIGN_OR_RETURN(auto weights, models_.Snapshot(row.id));
    options_.on_inflight(row, std::move(weights));
  } else {
    TM_RETURN_IF_ERROR(DropOldSamplers(row));
  }
  return JsonResult({{"type", "save_weights_for_sampler"}, {"sampling_session_id", sampler.id}});
}

// A loop that takes a sampler for every step keeps the newest of them.
Status ModelWorker::DropOldSamplers(const ModelRow& row) {
  TM_ASSIGN_OR_RETURN(std::vector<SamplerRow> samplers, books_.SamplersOf(row.session));
  std::erase_if(samplers, [](const SamplerRow& sampler) {
    return sampler.kind != SamplerKind::kSnapshot || !sampler.path.empty();
  });
  for (size_t i = 0; i + options_.ephemeral_max < samplers.size(); ++i) {
    TM_RETURN_IF_ERROR(books_.DropSampler(samplers[i].id));
    RemoveFolder(samplers[i].weights);
  }
  return Ok();
}

Result<OpResult> ModelWorker::LoadInto(const ModelRow& row, const OpRow& op) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(op.body));
  TM_ASSIGN_OR_RETURN(const std::string path, TextField(json, "path"));
  TM_ASSIGN_OR_RETURN(const bool optimizer, BoolField(json, "optimizer", false));
  TM_RETURN_IF_ERROR(LoadCheckpoint(row, path, optimizer));
  kept_[row.id].last_step = static_cast<int64_t>(op.seq);
  TM_RETURN_IF_ERROR(SaveState(row.id, static_cast<int64_t>(op.seq)));
  return JsonResult({{"type", "load_weights"}, {"path", path}, {"model_id", row.id}});
}

}  // namespace tidemill

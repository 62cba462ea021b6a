#include "learner/remote/remote_trainer.h"

#include <filesystem>
#include <variant>

#include "core/files.h"
#include "core/log.h"
#include "core/threads.h"
#include "core/work_queue.h"

namespace tidemill {
namespace {

constexpr char kStateFile[] = "/trainer_state.json";
constexpr char kBackend[] = "fsdp2";
constexpr size_t kStateBytesMax = 16 << 20;

struct PublishCommand {
  uint64_t version = 0;
  uint64_t step = 0;
};
using RankCommandOf = std::variant<v1::Batch, PublishCommand, CheckpointRequest>;

nlohmann::json StateOf(const RemoteProgress& progress, const CheckpointRequest& at,
                       double optimizer_steps) {
  nlohmann::json versions = nlohmann::json::array();
  for (const auto& [version, step] : progress.versions.all()) versions.push_back({version, step});
  return {{"backend", kBackend},
          {"step", at.step},
          {"version", at.version},
          {"trainer_steps", progress.steps},
          {"optimizer_steps", static_cast<uint64_t>(optimizer_steps)},
          {"version_steps", versions},
          {"gradient_norms", progress.gradient_norms}};
}

struct SavedState {
  RemoteProgress progress;
  uint64_t step = 0;
  uint64_t optimizer_steps = 0;
};

Result<SavedState> ReadSavedState(const std::string& checkpoint) {
  const std::string file = checkpoint + kStateFile;
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(file, kStateBytesMax));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Corrupt(file + ": is no JSON object");
  if (json.value("backend", nlohmann::json()) != kBackend) {
    return Invalid(checkpoint + ": is of learner.backend = \"own\"; go on with that, or begin a " +
                   "run from it (model.path)");
  }
  SavedState state;
  try {
    json.at("step").get_to(state.step);
    json.at("optimizer_steps").get_to(state.optimizer_steps);
    json.at("trainer_steps").get_to(state.progress.steps);
    json.at("gradient_norms").get_to(state.progress.gradient_norms);
    for (const auto& [version, step] :
         json.at("version_steps").get<std::vector<std::pair<uint64_t, uint64_t>>>()) {
      state.progress.versions.Published(version, step);
    }
  } catch (const nlohmann::json::exception& error) {
    return Corrupt(file + ": " + error.what());
  }
  return state;
}

}  // namespace

class RemoteTrainer::Impl {
 public:
  Impl(std::unique_ptr<RankLink> link, RemoteTrainerOptions options, RemoteProgress progress,
       WeightChannel& channel, const Clock& clock)
      : link_(std::move(link)),
        options_(std::move(options)),
        step_(*link_, options_.step),
        progress_(std::move(progress)),
        channel_(channel),
        clock_(clock),
        events_(options_.max_outstanding),
        queue_(options_.max_outstanding) {
    queue_.Start([this](RankCommandOf command) {
      NameThisThread("trainer");
      busy_.Begin(clock_.Now());
      TrainerEvent done = std::visit([this](auto& c) { return Do(c); }, command);
      busy_.End(clock_.Now());
      events_.Post(std::move(done));
    });
  }

  void Put(RankCommandOf command) { queue_.Put(std::move(command)); }
  Mailbox<TrainerEvent>& events() { return events_; }
  const BusyMeter& busy() const { return busy_; }
  int ranks_lost() const { return link_->lost() ? 1 : 0; }

 private:
  TrainerEvent Do(const v1::Batch& batch) {
    TrainDone done;
    done.step = batch.step();
    std::vector<std::string> warnings;
    auto metrics = step_.Train(batch, progress_, warnings);
    done.status = metrics.status();
    for (const std::string& warning : warnings) LogWarn(warning, {{"step", batch.step()}});
    if (metrics.ok()) done.metrics = std::move(*metrics);
    return done;
  }

  TrainerEvent Do(const PublishCommand& command) {
    const Time began = clock_.Now();
    PublishDone done{command.version, Publish(command), 0};
    if (done.status.ok()) progress_.versions.Published(command.version, command.step);
    done.seconds = Seconds(clock_.Now() - began);
    return done;
  }

  Status Publish(const PublishCommand& command) {
    StoredModel model;
    model.folder = options_.folder + "/version-" + std::to_string(command.version);
    RankMessage ask;
    if (!options_.canary_ids.empty()) ask = RemoteStep::Canary(options_.canary_ids);
    ask.words["verb"] = "publish";
    ask.words["folder"] = model.folder;
    ask.words["dtype"] = options_.publish_dtype;
    ask.words["merged"] = options_.merged;
    TM_ASSIGN_OR_RETURN(RankMessage answer, link_->Ask(ask));
    TM_ASSIGN_OR_RETURN(const double bytes, NumberIn(answer, "bytes"));
    model.bytes = static_cast<uint64_t>(bytes);
    model.checksum = answer.words.value("checksum", "");
    model.canary_ids = options_.canary_ids;
    model.canary_logprobs = answer.floats["logprobs"];
    if (model.canary_logprobs.size() + 1 != std::max<size_t>(1, model.canary_ids.size())) {
      return Unavailable("the ranks did not score the canary");
    }
    const auto stored = std::make_shared<const StoredWeights>(
        std::move(model),
        [folder = options_.folder + "/version-" + std::to_string(command.version)] {
          std::error_code error;
          std::filesystem::remove_all(folder, error);
        });
    TM_ASSIGN_OR_RETURN(auto weights, options_.take(stored));
    return channel_.Publish({command.version, command.step, std::move(weights)});
  }

  TrainerEvent Do(const CheckpointRequest& request) {
    const Time began = clock_.Now();
    CheckpointDone done{request.step, request.version, request.path, Ok(), 0, 0, 0, 0};
    done.status = options_.write_checkpoint(request.path, [&](const std::string& made) -> Status {
      TM_ASSIGN_OR_RETURN(const RankMessage answer,
                          link_->Ask({.words = {{"verb", "checkpoint"}, {"folder", made}}}));
      TM_ASSIGN_OR_RETURN(const double steps, NumberIn(answer, "optimizer_steps"));
      return WriteFileAtomically(made + kStateFile, StateOf(progress_, request, steps).dump(2));
    });
    done.seconds = done.pause_seconds = done.write_seconds = Seconds(clock_.Now() - began);
    return done;
  }

  const std::unique_ptr<RankLink> link_;
  const RemoteTrainerOptions options_;
  RemoteStep step_;          // the thread's
  RemoteProgress progress_;  // the thread's
  WeightChannel& channel_;
  const Clock& clock_;
  BusyMeter busy_;
  Mailbox<TrainerEvent> events_;
  WorkQueue<RankCommandOf> queue_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<RemoteTrainer>> RemoteTrainer::Start(
    std::unique_ptr<RankLink> link, RemoteTrainerOptions options, const std::string& checkpoint,
    uint64_t step, uint64_t version, WeightChannel& channel, const Clock& clock) {
  RemoteProgress progress;
  if (!checkpoint.empty()) {
    TM_ASSIGN_OR_RETURN(SavedState saved, ReadSavedState(checkpoint));
    if (saved.step != step) {
      return Corrupt(checkpoint + ": holds step " + std::to_string(saved.step) + ", not " +
                     std::to_string(step));
    }
    TM_RETURN_IF_ERROR(link->Ask({.words = {{"verb", "restore"},
                                            {"folder", checkpoint},
                                            {"optimizer_steps", saved.optimizer_steps}}})
                           .status());
    progress = std::move(saved.progress);
  }
  progress.versions.Published(version, step);
  return std::unique_ptr<RemoteTrainer>(new RemoteTrainer(std::make_unique<Impl>(
      std::move(link), std::move(options), std::move(progress), channel, clock)));
}

RemoteTrainer::RemoteTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteTrainer::~RemoteTrainer() = default;

void RemoteTrainer::Train(v1::Batch batch) {
  impl_->Put(std::move(batch));
}
void RemoteTrainer::Publish(uint64_t version, uint64_t step) {
  impl_->Put(PublishCommand{version, step});
}
void RemoteTrainer::Checkpoint(CheckpointRequest request) {
  impl_->Put(std::move(request));
}
Mailbox<TrainerEvent>& RemoteTrainer::events() {
  return impl_->events();
}
const BusyMeter& RemoteTrainer::busy() const {
  return impl_->busy();
}
int RemoteTrainer::ranks_lost() const {
  return impl_->ranks_lost();
}

}  // namespace tidemill

#include "learner/torch/trainer_thread.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "core/log.h"
#include "core/memory.h"
#include "core/mutex.h"
#include "core/threads.h"
#include "learner/snapshot_gate.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/rank_follower.h"
#include "model/torch/catch.h"

namespace tidemill {
namespace {

struct PublishRequest {
  uint64_t version = 0;
  uint64_t step = 0;
};
using Command = std::variant<v1::Batch, PublishRequest, CheckpointRequest, SetBackRequest>;

// What a trainer was when it published a version.
struct KeptTrainer {
  NamedTensors parameters;
  NamedTensors value_head;
  NamedTensors optimizer;
  uint64_t optimizer_steps = 0;
};

NamedTensors CloneTensors(const NamedTensors& tensors) {
  NamedTensors clones;
  for (const auto& [name, tensor] : tensors) clones[name] = tensor.detach().clone();
  return clones;
}

// So often the other ranks hear of an idle rank 0.
constexpr std::chrono::seconds kIdlePeriod(60);

}  // namespace

class TrainerThread::Impl {
 public:
  Impl(std::unique_ptr<Trainer> trainer, WeightChannel& channel, const Clock& clock,
       TrainerThreadOptions options, std::unique_ptr<RankGroup> ranks)
      : ranks_(std::move(ranks)),
        trainer_(std::move(trainer)),
        channel_(channel),
        clock_(clock),
        options_(std::move(options)),
        events_(options_.max_outstanding),
        thread_([this] { Run(); }) {}

  ~Impl() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    arrived_.NotifyOne();
    thread_.join();
    AwaitWriter();
  }

  void Submit(Command command) {
    {
      MutexLock lock(mutex_);
      TM_CHECK(commands_.size() < options_.max_outstanding, "the trainer has too many commands");
      commands_.push_back(std::move(command));
    }
    arrived_.NotifyOne();
  }

  void NeedOnly(const std::vector<uint64_t>& versions) {
    MutexLock lock(mutex_);
    needed_ = {versions.begin(), versions.end()};
  }

  Mailbox<TrainerEvent>& events() { return events_; }
  const BusyMeter& busy() const { return busy_; }
  int ranks_lost() const { return ranks_lost_; }

 private:
  std::optional<Command> Next() {
    MutexLock lock(mutex_);
    while (!arrived_.WaitFor(lock, kIdlePeriod,
                             [&]() TM_REQUIRES(mutex_) { return stop_ || !commands_.empty(); })) {
      if (!ranks_) continue;
      lock.Unlock();
      Keep([&] { return ranks_->Send({RankOrder::kIdle, 0, 0, {}}); });
      lock.Lock();
    }
    if (stop_) return std::nullopt;
    Command command = std::move(commands_.front());
    commands_.pop_front();
    return command;
  }

  void Run() {
    NameThisThread("trainer");
    at::set_num_threads(options_.threads);
    if (ranks_) trainer_->Share(ranks_.get());
    if (options_.keep_every_steps > 0) KeepFor(options_.first_version);
    if (trainer_->multiprocessors() > 0) {
      LogInfo("the learner has a share of the GPU",
              {{"multiprocessors", trainer_->multiprocessors()},
               {"reserved", trainer_->options().reserve_multiprocessors}});
    }
    while (std::optional<Command> command = Next()) {
      busy_.Begin(clock_.Now());
      std::optional<TrainerEvent> done =
          std::visit([&](auto& c) -> std::optional<TrainerEvent> { return Do(c); }, *command);
      busy_.End(clock_.Now());
      if (done) events_.Post(std::move(*done));
    }
    Keep([&] { return ranks_->Send({RankOrder::kStop, 0, 0, {}}); });
  }

  // Something with the other ranks, if there are any and all are well; what goes wrong fails every
  // step from here on.
  template <typename Talk>
  void Keep(Talk&& talk) {
    if (ranks_ == nullptr || !ranks_status_.ok()) return;
    ranks_status_ = talk();
    ranks_lost_ = ranks_->lost();
  }

  TrainerEvent Do(const v1::Batch& batch) {
    TrainDone done;
    done.step = batch.step();
    Keep([&] { return OrderStep(*ranks_, batch); });
    if (!ranks_status_.ok()) {
      done.status = ranks_status_;
      return done;
    }
    auto report = trainer_->Train(batch);
    if (!report.ok()) {
      done.status = report.status();
      Keep([&] { return done.status; });
      return done;
    }
    for (const std::string& warning : report->warnings) {
      LogWarn(warning, {{"step", batch.step()}});
    }
    if (options_.checkpoints_follow) TouchCopyMemory();
    done.metrics = std::move(report->metrics);
    return done;
  }

  TrainerEvent Do(const PublishRequest& request) {
    const Time began = clock_.Now();
    PublishDone done{request.version, Ok(), 0};
    auto weights = trainer_->Snapshot();
    done.status = weights.status();
    if (weights.ok()) {
      done.status = channel_.Publish({request.version, request.step, std::move(*weights)});
    }
    if (done.status.ok()) {
      if (options_.keep_every_steps > 0 && request.step % options_.keep_every_steps == 0) {
        KeepFor(request.version);
      }
      trainer_->NotePublished(request.version, request.step);
      Keep([&] { return OrderPublished(*ranks_, request.version, request.step); });
    }
    done.seconds = Seconds(clock_.Now() - began);
    return done;
  }

  void KeepFor(uint64_t version) {
    {
      MutexLock lock(mutex_);
      std::erase_if(kept_, [&](const auto& one) TM_REQUIRES(mutex_) {
        return one.first != newest_kept_ && !needed_.contains(one.first);
      });
    }
    KeptTrainer kept;
    kept.parameters = CloneTensors(trainer_->Leaves());
    kept.value_head = CloneTensors(trainer_->ValueHead());
    for (const auto& [name, tensor] : kept.value_head) kept.parameters.erase(name);
    kept.optimizer = CloneTensors(trainer_->OptimizerState());
    kept.optimizer_steps = trainer_->optimizer_steps();
    kept_[version] = std::move(kept);
    newest_kept_ = version;
  }

  TrainerEvent Do(const SetBackRequest& request) {
    SetBackDone done{request.to, request.version, request.step, Ok()};
    const auto it = kept_.find(request.to);
    if (ranks_ != nullptr || it == kept_.end()) {
      done.status =
          ranks_ != nullptr
              ? Unavailable("several ranks train")
              : NotFound("version " + std::to_string(request.to) + " is not kept by the trainer");
      return done;
    }
    const KeptTrainer& kept = it->second;
    done.status = trainer_->Restore(kept.parameters, kept.value_head, kept.optimizer,
                                    kept.optimizer_steps, trainer_->progress());
    if (!done.status.ok()) return done;
    const TrainerEvent published = Do(PublishRequest{request.version, request.step});
    done.status = std::get<PublishDone>(published).status;
    // The same weights under another number.
    if (done.status.ok() && kept_.contains(request.to)) kept_[request.version] = kept_[request.to];
    return done;
  }

  // Has the checkpoint copied and written while training goes on. Where the host has no room for a
  // copy it is written here. Nothing: the writer answers.
  std::optional<TrainerEvent> Do(const CheckpointRequest& request) {
    const Time began = clock_.Now();
    CheckpointDone done{request.step, request.version, request.path, Ok(), 0, 0, 0, 0};
    Keep([&] { return OrderVerify(*ranks_, *trainer_); });
    // A rank that is gone does not spoil the weights; one that holds others does.
    if (ranks_status_.code() == Code::kCorrupt) {
      done.status = ranks_status_;
      return done;
    }
    AwaitWriter();  // one copy at a time
    const CheckpointContent content = ContentOf(*trainer_, {request.step, request.version});
    Result<CheckpointCopy> copy = Full("the host has no memory for a copy");
    if (RoomForCopy(content)) copy = CheckpointCopy::Begin(content, copy_memory_);
    if (!copy.ok()) {
      LogInfo("the trainer waits while a checkpoint is written",
              {{"step", request.step}, {"why", copy.status().message()}});
      done = Write(content, done, request.keep_step, began);
      done.pause_seconds = done.seconds;
      return done;
    }
    trainer_->gate().Begin(clock_);
    done.pause_seconds = Seconds(clock_.Now() - began);
    writer_ = std::thread([this, copy = std::move(*copy), gate = &trainer_->gate(), done,
                           keep = request.keep_step, began]() mutable {
      NameThisThread("checkpoint");
      events_.Post(CopyAndWrite(std::move(copy), *gate, done, keep, began));
    });
    return std::nullopt;
  }

  // In the writer's thread. The trainer's next change waits at the gate for the copy.
  CheckpointDone CopyAndWrite(CheckpointCopy copy, SnapshotGate& gate, CheckpointDone done,
                              std::optional<uint64_t> keep, Time began) {
    const Time copying = clock_.Now();
    Result<CheckpointContent> content = Take(std::move(copy));
    done.pause_seconds += Seconds(gate.Complete());
    done.copy_seconds = Seconds(clock_.Now() - copying);
    if (content.ok()) {
      done = Write(*content, done, keep, began);
    } else {
      done.status = content.status();
      done.seconds = Seconds(clock_.Now() - began);
    }
    content = Invalid("the copy is written");  // before its memory is given back
    if (!KeepsCopyMemory(copy_memory_.bytes(), 0)) copy_memory_.Release();
    return done;
  }

  Result<CheckpointContent> Take(CheckpointCopy copy) const {
    if (options_.on_copy) TM_RETURN_IF_ERROR(options_.on_copy());
    return copy.Take();
  }

  // Of the host; 0: nobody knows.
  uint64_t Available() const {
    return options_.host_memory_bytes > 0 ? options_.host_memory_bytes : AvailableMemoryBytes();
  }

  bool RoomForCopy(const CheckpointContent& content) const {
    const uint64_t available = Available();
    // A tenth is left to everybody else.
    return available == 0 || content.bytes() < (available + copy_memory_.bytes()) / 10 * 9;
  }

  // Whether memory of copies is kept between them: as much is left to everybody else. `more` of it
  // is still to be taken.
  bool KeepsCopyMemory(uint64_t bytes, uint64_t more) const { return Available() >= bytes + more; }

  // Once, when it is known how large a checkpoint is: beside the steps before the first.
  void TouchCopyMemory() {
    if (std::exchange(touched_, true)) return;
    AwaitWriter();
    const uint64_t bytes = ContentOf(*trainer_, {}).bytes();
    if (!KeepsCopyMemory(bytes, bytes)) return;
    writer_ = std::thread([this, bytes] {
      NameThisThread("checkpoint");
      const Status status = CatchTorchStatus("memory for checkpoints", [&] {
        copy_memory_.Reserve(bytes);
        copy_memory_.Touch();
        return Ok();
      });
      // A checkpoint asks for it again.
      if (!status.ok()) LogInfo(status.message());
    });
  }

  // In the writer's thread, or in thread_ while there is no writer.
  CheckpointDone Write(const CheckpointContent& content, CheckpointDone done,
                       std::optional<uint64_t> keep, Time began) {
    const Time writing = clock_.Now();
    done.status = WriteCheckpoint(content, done.path, options_.files_from);
    if (done.status.ok() && options_.keep_last > 0) Prune(done.path, keep);
    done.write_seconds = Seconds(clock_.Now() - writing);
    done.seconds = Seconds(clock_.Now() - began);
    return done;
  }

  void AwaitWriter() {
    if (writer_.joinable()) writer_.join();
  }

  void Prune(const std::string& newest, std::optional<uint64_t> keep_step) {
    const std::string folder = std::filesystem::absolute(newest).parent_path().string();
    // The database does not know the newest yet: a process that ends now resumes from the one
    // before.
    const auto pruned =
        PruneCheckpoints(folder, std::max<uint64_t>(options_.keep_last, 2), keep_step);
    // Old checkpoints that stay cost space, no more.
    if (!pruned.ok())
      LogWarn("could not delete old checkpoints", {{"why", pruned.status().message()}});
  }

  std::unique_ptr<RankGroup> ranks_;  // used by thread_ only; null: alone
  Status ranks_status_;               // used by thread_ only
  std::atomic<int> ranks_lost_{0};
  std::unique_ptr<Trainer> trainer_;  // used by thread_ only, but for its gate
  WeightChannel& channel_;
  const Clock& clock_;
  const TrainerThreadOptions options_;
  Mailbox<TrainerEvent> events_;
  BusyMeter busy_;
  std::map<uint64_t, KeptTrainer> kept_;  // by version; used by thread_ only
  uint64_t newest_kept_ = 0;              // the same
  Mutex mutex_;
  CondVar arrived_;
  std::set<uint64_t> needed_ TM_GUARDED_BY(mutex_);  // of kept_
  std::deque<Command> commands_ TM_GUARDED_BY(mutex_);
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  CopyMemory copy_memory_;  // writer_'s while there is one, else thread_'s
  bool touched_ = false;    // copy_memory_, before the first checkpoint; used by thread_ only
  std::thread writer_;      // of the newest checkpoint; used by thread_, and when that has ended
  std::thread thread_;      // last: it uses everything above
};

TrainerThread::TrainerThread(std::unique_ptr<Trainer> trainer, WeightChannel& channel,
                             const Clock& clock, TrainerThreadOptions options,
                             std::unique_ptr<RankGroup> ranks)
    : impl_(std::make_unique<Impl>(std::move(trainer), channel, clock, std::move(options),
                                   std::move(ranks))) {}
TrainerThread::~TrainerThread() = default;

void TrainerThread::Train(v1::Batch batch) {
  impl_->Submit(std::move(batch));
}
void TrainerThread::Publish(uint64_t version, uint64_t step) {
  impl_->Submit(PublishRequest{version, step});
}
void TrainerThread::Checkpoint(CheckpointRequest request) {
  impl_->Submit(std::move(request));
}
void TrainerThread::SetBack(const SetBackRequest& request) {
  impl_->Submit(request);
}
void TrainerThread::NeedOnly(const std::vector<uint64_t>& versions) {
  impl_->NeedOnly(versions);
}
Mailbox<TrainerEvent>& TrainerThread::events() {
  return impl_->events();
}
const BusyMeter& TrainerThread::busy() const {
  return impl_->busy();
}
int TrainerThread::ranks_lost() const {
  return impl_->ranks_lost();
}

}  // namespace tidemill

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "core/log.h"
#include "core/mutex.h"
#include "core/threads.h"
#include "engine/engine_port.h"
#include "engine/weight_preparer.h"

namespace tidemill {
namespace {

// While there is nothing to generate, new weights are still looked for this often.
constexpr milliseconds kIdlePoll{20};
// After the channel or the engine refused what was published: how long to keep what there is.
constexpr std::chrono::seconds kRefusedPause{1};

struct StartCommand {
  SequenceStart start;
};
struct ContinueCommand {
  SequenceId id;
  std::vector<TokenId> append;
  TurnParams turn;
};
struct ReleaseCommand {
  SequenceId id;
};
struct InterruptCommand {
  SequenceId id;
};
struct ForgetCommand {
  uint64_t tenant;
};
struct HoldCommand {
  uint64_t version;
  uint64_t as;
};
struct UnholdCommand {
  uint64_t as;
};
// Says how a command ended, also where the thread stopped before it came to it.
class Answer {
 public:
  explicit Answer(std::function<void(Status)> done) : done_(std::move(done)) {}
  ~Answer() { Say(Closed("the engine stopped")); }
  Answer(const Answer&) = delete;
  void Say(const Status& status) {
    if (done_) std::exchange(done_, nullptr)(status);
  }

 private:
  std::function<void(Status)> done_;
};
// Commands are copied by the queue they wait in, with one answer between the copies.
struct PublishCommand {
  PolicyVersion version;
  Result<std::shared_ptr<ReadyWeights>> ready;
  std::shared_ptr<Answer> answer;
};
struct DropCommand {
  PolicyId policy;
  std::shared_ptr<Answer> answer;
};
using Command =
    std::variant<StartCommand, ContinueCommand, ReleaseCommand, InterruptCommand, ForgetCommand,
                 HoldCommand, UnholdCommand, PublishCommand, DropCommand>;

}  // namespace

class EngineThread::Impl {
 public:
  Impl(std::unique_ptr<Engine> engine, WeightChannel& channel, const Clock& clock,
       EngineThreadOptions options)
      : engine_(std::move(engine)),
        channel_(channel),
        clock_(clock),
        options_(options),
        events_(options.max_outstanding),
        version_(engine_->Stats().version),
        stats_(engine_->Stats()),
        preparer_(*engine_, channel),
        thread_([this] { Run(); }) {}

  ~Impl() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    arrived_.NotifyOne();
    thread_.join();
  }

  void Post(Command command) {
    {
      MutexLock lock(mutex_);
      // A Start, a Continue, an Interrupt or a Release for every answer owed: more is a broken
      // contract.
      TM_CHECK(commands_.size() < 4 * options_.max_outstanding, "too many commands for the engine");
      commands_.push_back(std::move(command));
    }
    arrived_.NotifyOne();
  }

  void Publish(PolicyVersion version, std::shared_ptr<const Weights> weights,
               std::function<void(Status)> done) {
    preparer_.Prepare(std::move(weights),
                      [this, version, answer = std::make_shared<Answer>(std::move(done))](
                          Result<std::shared_ptr<ReadyWeights>> ready) {
                        Post(PublishCommand{version, std::move(ready), answer});
                      });
  }

  Mailbox<EngineEvent>& events() { return events_; }
  TurnFeed& feed(TurnReaders readers) { return feeds_[static_cast<size_t>(readers)]; }
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  const BusyMeter& busy() const { return busy_; }
  EngineStats Stats() const {
    MutexLock lock(stats_mutex_);
    return stats_;
  }

 private:
  void Run() {
    NameThisThread("engine");
    while (true) {
      std::deque<Command> commands;
      {
        MutexLock lock(mutex_);
        if (!engine_->Work()) {
          arrived_.WaitFor(lock, kIdlePoll,
                           [this]() TM_REQUIRES(mutex_) { return stop_ || !commands_.empty(); });
        }
        if (stop_) return;
        commands.swap(commands_);
      }
      busy_.Begin(clock_.Now());
      for (Command& command : commands) {
        std::visit([this](auto& c) { Carry(c); }, command);
      }
      TakeNewWeights();
      if (engine_->Work()) Step();
      TellDeltas();
      busy_.End(clock_.Now());
      MutexLock lock(stats_mutex_);
      stats_ = engine_->Stats();
    }
  }

  void Carry(StartCommand& command) {
    const SequenceId id = command.start.id;
    const Readers readers = command.start.stream ? Readers(command.start.readers) : std::nullopt;
    const Status status = engine_->Add(std::move(command.start));
    if (!status.ok()) {
      // One that is there already under this id goes on.
      return Fail(id, readers, status);
    }
    generating_.insert(id);
    if (readers) streamed_.emplace(id, *readers);
  }

  void Carry(ContinueCommand& command) {
    const Status status =
        engine_->Continue(command.id, std::move(command.append), std::move(command.turn));
    if (status.ok()) {
      generating_.insert(command.id);
      return;
    }
    const Readers readers = ReadersOf(command.id);
    Forget(command.id);
    Fail(command.id, readers, status);
  }

  void Carry(ReleaseCommand& command) { Forget(command.id); }
  void Carry(InterruptCommand& command) { engine_->Interrupt(command.id); }
  void Carry(HoldCommand& command) {
    const Status held = engine_->Hold(command.version, command.as);
    if (!held.ok()) LogWarn("a version could not be kept", {{"reason", held.message()}});
  }
  void Carry(UnholdCommand& command) { engine_->Unhold(command.as); }
  void Carry(PublishCommand& command) {
    if (!command.ready.ok()) return command.answer->Say(command.ready.status());
    if (command.version.policy == PolicyId::kMain) {
      return command.answer->Say(Invalid("the main policy's weights come by its channel"));
    }
    const Status published =
        engine_->SwapReady(**command.ready, command.version, options_.cache_on_swap);
    preparer_.Discard(*std::move(command.ready));
    command.answer->Say(published);
  }
  void Carry(DropCommand& command) { command.answer->Say(engine_->DropPolicy(command.policy)); }
  void Carry(ForgetCommand& command) { engine_->ForgetTenant(command.tenant); }

  void Forget(SequenceId id) {
    generating_.erase(id);
    streamed_.erase(id);
    // It may be gone already: a failure forgets a sequence before its owner does.
    const Status gone = engine_->Release(id);
    TM_CHECK(gone.ok() || gone.code() == Code::kNotFound, gone.message());
  }

  // Of a sequence that is streamed.
  using Readers = std::optional<TurnReaders>;
  Readers ReadersOf(SequenceId id) const {
    const auto found = streamed_.find(id);
    return found == streamed_.end() ? Readers() : Readers(found->second);
  }

  void Fail(SequenceId id, Readers readers, const Status& status) {
    if (readers) {
      TurnDelta delta;
      delta.part.id = id;
      delta.status = status;
      std::vector<TurnDelta> deltas;
      deltas.push_back(std::move(delta));
      return feed(*readers).Post(std::move(deltas));
    }
    EngineEvent event;
    event.status = status;
    event.turn.id = id;
    events_.Post(std::move(event));
  }

  void Step() {
    Result<std::vector<TurnOutput>> finished = engine_->Step();
    if (!finished.ok()) return FailAll(finished.status());
    for (TurnOutput& turn : *finished) {
      generating_.erase(turn.id);
      events_.Post({.status = Ok(), .turn = std::move(turn)});
    }
  }

  void TellDeltas() {
    std::array<std::vector<TurnDelta>, 2> told;
    for (TurnDelta& delta : engine_->TakeDeltas()) {
      const SequenceId id = delta.part.id;
      if (delta.done) generating_.erase(id);
      told[static_cast<size_t>(streamed_.at(id))].push_back(std::move(delta));
    }
    for (size_t i = 0; i < told.size(); ++i) feeds_[i].Post(std::move(told[i]));
  }

  // What a failed step leaves behind is not known; those that wait for a turn are told.
  void FailAll(const Status& status) {
    Log(LogLevel::kError, "an engine step failed",
        {{"reason", status.ToString()}, {"sequences", generating_.size()}});
    TellDeltas();  // those of turns that ended before
    for (const SequenceId id : std::exchange(generating_, {})) {
      const Readers readers = ReadersOf(id);
      Forget(id);
      Fail(id, readers, status);
    }
  }

  void TakeNewWeights() {
    if (clock_.Now() < refused_until_) return;
    Result<WeightPreparer::Prepared> ready =
        options_.wait_for_weights ? PrepareNow() : preparer_.Take(version());
    if (!ready.ok()) return Refuse(ready.status());
    if (ready->weights == nullptr) return;
    const Status swapped =
        engine_->SwapReady(*ready->weights, {.policy = PolicyId::kMain, .version = ready->version},
                           options_.cache_on_swap);
    preparer_.Discard(std::move(ready->weights));
    if (!swapped.ok()) return Refuse(swapped);
    version_.store(ready->version, std::memory_order_release);
    channel_.Taken(ready->version);
  }

  Result<WeightPreparer::Prepared> PrepareNow() {
    TM_ASSIGN_OR_RETURN(PublishedWeights newer, channel_.NewerThan(version()));
    if (newer.weights == nullptr) return WeightPreparer::Prepared();
    TM_ASSIGN_OR_RETURN(auto ready, engine_->Prepare(std::move(newer.weights)));
    return WeightPreparer::Prepared{newer.version, std::move(ready)};
  }

  void Refuse(const Status& status) {
    Log(LogLevel::kWarn, "rejected new weights; still using the old ones",
        {{"version", version()}, {"reason", status.ToString()}});
    refused_until_ = clock_.Now() + kRefusedPause;
  }

  const std::unique_ptr<Engine> engine_;  // the thread's alone once it runs
  WeightChannel& channel_;
  const Clock& clock_;
  const EngineThreadOptions options_;
  Mailbox<EngineEvent> events_;
  std::array<TurnFeed, 2> feeds_;  // by TurnReaders
  std::atomic<uint64_t> version_;
  BusyMeter busy_;
  std::unordered_set<SequenceId> generating_;  // the thread's; those that wait for a turn
  std::unordered_map<SequenceId, TurnReaders> streamed_;  // the thread's; not yet released
  Time refused_until_{};                                  // the thread's

  Mutex mutex_;
  CondVar arrived_;
  std::deque<Command> commands_ TM_GUARDED_BY(mutex_);
  bool stop_ TM_GUARDED_BY(mutex_) = false;

  mutable Mutex stats_mutex_;
  EngineStats stats_ TM_GUARDED_BY(stats_mutex_);

  WeightPreparer preparer_;
  std::thread thread_;  // last: it uses all of the above
};

EngineThread::EngineThread(std::unique_ptr<Engine> engine, WeightChannel& channel,
                           const Clock& clock, EngineThreadOptions options)
    : impl_(std::make_unique<Impl>(std::move(engine), channel, clock, options)) {}

EngineThread::~EngineThread() = default;

void EngineThread::Start(SequenceStart start) {
  impl_->Post(StartCommand{std::move(start)});
}

void EngineThread::Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) {
  impl_->Post(ContinueCommand{id, std::move(append), std::move(turn)});
}

void EngineThread::Release(SequenceId id) {
  impl_->Post(ReleaseCommand{id});
}

void EngineThread::Interrupt(SequenceId id) {
  impl_->Post(InterruptCommand{id});
}

void EngineThread::Hold(uint64_t version, uint64_t as) {
  impl_->Post(HoldCommand{version, as});
}

void EngineThread::Unhold(uint64_t as) {
  impl_->Post(UnholdCommand{as});
}

void EngineThread::Publish(PolicyVersion version, std::shared_ptr<const Weights> weights,
                           std::function<void(Status)> done) {
  impl_->Publish(version, std::move(weights), std::move(done));
}

void EngineThread::DropPolicy(PolicyId policy, std::function<void(Status)> done) {
  impl_->Post(DropCommand{policy, std::make_shared<Answer>(std::move(done))});
}

void EngineThread::ForgetTenant(uint64_t tenant) {
  impl_->Post(ForgetCommand{tenant});
}

Mailbox<EngineEvent>& EngineThread::events() {
  return impl_->events();
}

TurnFeed& EngineThread::feed() {
  return impl_->feed(TurnReaders::kClients);
}

TurnFeed* EngineThread::episode_feed() {
  return &impl_->feed(TurnReaders::kEpisodes);
}

uint64_t EngineThread::version() const {
  return impl_->version();
}

EngineStats EngineThread::Stats() const {
  return impl_->Stats();
}

const BusyMeter& EngineThread::busy() const {
  return impl_->busy();
}

}  // namespace tidemill

#include "engine/remote/remote_engine.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "core/log.h"
#include "core/mutex.h"
#include "core/threads.h"
#include "http/http_pool.h"

namespace tidemill {
namespace {

constexpr milliseconds kWeightsPoll{20};
constexpr std::chrono::seconds kPrepareAgain{5};
constexpr Duration kWatchEvery = milliseconds(500);

}  // namespace

class RemoteEngine::Impl {
 public:
  Impl(Servers servers, RemoteOptions options, VersionPointer first, Prepare prepare,
       WeightChannel& channel, const Clock& clock)
      : dialect_(std::move(servers.dialect)),
        processes_(std::move(servers.processes)),
        channel_(channel),
        clock_(clock),
        prepare_(std::move(prepare)),
        turns_(processes_ ? processes_->urls() : std::move(servers.urls), *dialect_, pool_,
               std::move(options), [this](size_t server) { Replace(server); }),
        newest_(std::move(first)),
        wire_([this] { RunWire(); }),
        weights_([this] { RunWeights(); }) {}

  ~Impl() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    weights_.join();
    pool_.Stop();
    wire_.join();
  }

  void Post(std::function<void(RemoteTurns&)> command) {
    {
      MutexLock lock(mutex_);
      commands_.push_back(std::move(command));
      if (std::exchange(woken_, true)) return;
    }
    pool_.Wake();
  }

  // Until a server serves, or none can.
  Status WaitForFirst(Duration patience) {
    MutexLock lock(mutex_);
    const bool there = changed_.WaitFor(lock, patience, [this]() TM_REQUIRES(mutex_) {
      return stats_.versions_held > 0 || !refusal_.ok();
    });
    if (!refusal_.ok()) return refusal_;
    if (there) return Ok();
    return Unavailable("no inference server serves in time: " +
                       (last_failure_.ok() ? "none answers" : last_failure_.message()));
  }

  RemoteTurns& turns() { return turns_; }
  const BusyMeter& busy() const { return busy_; }
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  int32_t max_context() const { return max_context_; }
  EngineStats Stats() const {
    MutexLock lock(mutex_);
    return stats_;
  }
  Duration cpu() {
    clockid_t clock;
    struct timespec used = {};
    if (pthread_getcpuclockid(wire_.native_handle(), &clock) == 0) clock_gettime(clock, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

 private:
  void RunWire() {
    NameThisThread("engine");
    pool_.Run([this] { return StepWire(); });
  }

  Time StepWire() {
    const Time now = clock_.Now();
    busy_.Begin(now);
    VersionPointer newest;
    std::vector<std::function<void(RemoteTurns&)>> commands;
    {
      MutexLock lock(mutex_);
      woken_ = false;
      commands.swap(commands_);
      newest = newest_;
    }
    for (const auto& command : commands) command(turns_);
    if (processes_ && now >= watch_at_) {
      watch_at_ = now + kWatchEvery;
      for (const size_t server : processes_->Watch(now)) turns_.server(server).Forget();
    }
    const Time next = turns_.Step(now, newest, Published());
    version_.store(turns_.version(), std::memory_order_release);
    max_context_ = turns_.max_context();
    Tell();
    busy_.End(clock_.Now());
    return processes_ ? std::min(next, watch_at_) : next;
  }

  // Also of what is not ready for servers yet.
  uint64_t Published() {
    const Result<PublishedWeights> newer = channel_.NewerThan(published_);
    if (newer.ok() && newer->version > published_) published_ = newer->version;
    return published_;
  }

  void Tell() {
    const bool served = stats_now_.versions_held > 0;
    stats_now_ = turns_.Stats();
    MutexLock lock(mutex_);
    stats_ = stats_now_;
    if (waited_for_ || served) return;
    for (size_t i = 0; i < turns_.size(); ++i) {
      if (!turns_.server(i).refusal().ok()) refusal_ = turns_.server(i).refusal();
      if (!turns_.server(i).last_failure().ok()) last_failure_ = turns_.server(i).last_failure();
    }
    if (stats_.versions_held == 0 && refusal_.ok()) return;
    waited_for_ = true;
    changed_.NotifyAll();
  }

  void RunWeights() {
    NameThisThread("weights");
    uint64_t have = newest_version();
    while (true) {
      {
        MutexLock lock(mutex_);
        changed_.WaitFor(lock, wait_, [this]() TM_REQUIRES(mutex_) { return stop_; });
        if (stop_) return;
      }
      wait_ = kWeightsPoll;
      Result<PublishedWeights> published = channel_.NewerThan(have);
      if (!published.ok()) {
        Refuse(published.status());
        continue;
      }
      if (published->weights == nullptr) continue;
      Result<VersionPointer> made = prepare_(*published);
      if (!made.ok()) {
        Refuse(made.status());
        continue;
      }
      have = published->version;
      channel_.Taken(have);
      {
        MutexLock lock(mutex_);
        newest_ = std::move(*made);
      }
      pool_.Wake();
    }
  }

  void Refuse(const Status& status) {
    Log(LogLevel::kWarn, "rejected new weights; the servers keep the old ones",
        {{"version", version()}, {"reason", status.ToString()}});
    wait_ = kPrepareAgain;
  }

  void Replace(size_t server) {
    if (!processes_) return;
    LogWarn("an inference server is replaced", {{"server", turns_.server(server).name()}});
    processes_->Kill(server);
  }

  uint64_t newest_version() {
    MutexLock lock(mutex_);
    return newest_->version();
  }

  const std::unique_ptr<ServerDialect> dialect_;
  std::optional<ServerProcesses> processes_;  // the wire thread's once it runs
  WeightChannel& channel_;
  const Clock& clock_;
  const Prepare prepare_;
  HttpPool pool_;
  RemoteTurns turns_;  // the wire thread's, but for events and feed
  BusyMeter busy_;
  std::atomic<uint64_t> version_{0};
  std::atomic<int32_t> max_context_{0};
  uint64_t published_ = 0;           // the wire thread's
  EngineStats stats_now_;            // the wire thread's
  bool waited_for_ = false;          // the wire thread's: WaitForFirst knows what to say
  Time watch_at_ = Time::min();      // the wire thread's
  milliseconds wait_{kWeightsPoll};  // the weights thread's

  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  bool woken_ TM_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void(RemoteTurns&)>> commands_ TM_GUARDED_BY(mutex_);
  VersionPointer newest_ TM_GUARDED_BY(mutex_);
  EngineStats stats_ TM_GUARDED_BY(mutex_);
  Status refusal_ TM_GUARDED_BY(mutex_), last_failure_ TM_GUARDED_BY(mutex_);

  std::thread wire_;  // last: they use all of the above
  std::thread weights_;
};

Result<std::unique_ptr<RemoteEngine>> RemoteEngine::Start(Servers servers, RemoteOptions options,
                                                          PublishedWeights first, Prepare prepare,
                                                          WeightChannel& channel,
                                                          const Clock& clock) {
  TM_RETURN_IF_ERROR(servers.dialect->Check(options.cache_on_swap));
  const Duration patience = servers.start_patience;
  TM_ASSIGN_OR_RETURN(VersionPointer made, prepare(first));
  channel.Taken(first.version);
  std::unique_ptr<RemoteEngine> engine(new RemoteEngine(
      std::make_unique<Impl>(std::move(servers), std::move(options), std::move(made),
                             std::move(prepare), channel, clock)));
  TM_RETURN_IF_ERROR(engine->impl_->WaitForFirst(patience));
  return engine;
}

RemoteEngine::RemoteEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteEngine::~RemoteEngine() = default;

void RemoteEngine::Start(SequenceStart start) {
  impl_->Post(
      [start = std::move(start)](RemoteTurns& turns) mutable { turns.Start(std::move(start)); });
}

void RemoteEngine::Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) {
  impl_->Post([id, append = std::move(append), turn = std::move(turn)](RemoteTurns& turns) mutable {
    turns.Continue(id, std::move(append), std::move(turn));
  });
}

void RemoteEngine::Release(SequenceId id) {
  impl_->Post([id](RemoteTurns& turns) { turns.Release(id); });
}

void RemoteEngine::ForgetTenant(uint64_t tenant) {
  impl_->Post([tenant](RemoteTurns& turns) { turns.ForgetTenant(tenant); });
}

Mailbox<EngineEvent>& RemoteEngine::events() {
  return impl_->turns().events();
}

TurnFeed& RemoteEngine::feed() {
  return impl_->turns().feed();
}

uint64_t RemoteEngine::version() const {
  return impl_->version();
}

EngineStats RemoteEngine::Stats() const {
  return impl_->Stats();
}

int32_t RemoteEngine::max_context() const {
  return impl_->max_context();
}

const BusyMeter& RemoteEngine::busy() const {
  return impl_->busy();
}

Duration RemoteEngine::cpu() const {
  return impl_->cpu();
}

}  // namespace tidemill

#include "store/store_thread.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/log.h"

namespace tidemill {
namespace {

size_t RoughBytes(const StoreOp& op) {
  if (const auto* put = std::get_if<PutTrajectory>(&op)) return put->trajectory.ByteSizeLong();
  if (const auto* put = std::get_if<PutStep>(&op)) {
    return put->metrics_json.size() + put->used.size() * 64;
  }
  if (const auto* put = std::get_if<PutSessionTurn>(&op)) return put->turn.ByteSizeLong();
  return 256;
}

}  // namespace

// Where a client's answers go while the client exists.
struct StoreThread::Inbox {
  explicit Inbox(size_t capacity) : capacity(capacity), events(capacity) {}
  const size_t capacity;
  std::atomic<size_t> in_flight{0};
  Mailbox<StoreDone> events;
  Mutex mutex;
  bool open TM_GUARDED_BY(mutex) = true;
};

class StoreThread::Client final : public StorePort {
 public:
  Client(StoreThread& store, size_t capacity)
      : store_(store), inbox_(std::make_shared<Inbox>(capacity)) {}
  ~Client() override {
    MutexLock lock(inbox_->mutex);
    inbox_->open = false;
  }

  void Submit(StoreOp op, uint64_t tag) override {
    TM_CHECK(inbox_->in_flight.fetch_add(1) < inbox_->capacity,
             "a client of the store submitted more than its capacity");
    const size_t bytes = RoughBytes(op);
    store_.Submit({std::move(op), tag, bytes, inbox_});
  }
  Mailbox<StoreDone>& events() override { return inbox_->events; }

 private:
  StoreThread& store_;
  const std::shared_ptr<Inbox> inbox_;
};

StoreThread::StoreThread(std::unique_ptr<RunDb> db, const Clock& clock)
    : StoreThread(std::move(db), clock, Options()) {}

StoreThread::StoreThread(std::unique_ptr<RunDb> db, const Clock& clock, const Options& options)
    : db_(std::move(db)), clock_(clock), options_(options), thread_([this] { Run(); }) {}

StoreThread::~StoreThread() {
  Stop();
}

void StoreThread::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  arrived_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<StorePort> StoreThread::NewClient(size_t capacity) {
  return std::make_unique<Client>(*this, capacity);
}

void StoreThread::Submit(Pending pending) {
  {
    MutexLock lock(mutex_);
    TM_CHECK(!stopping_, "nothing may be submitted to a store that was stopped");
    queue_.push_back(std::move(pending));
  }
  arrived_.NotifyOne();
}

StoreThread::Stats StoreThread::stats() const {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.queued = queue_.size();
  return stats;
}

Status StoreThread::health() const {
  MutexLock lock(mutex_);
  return health_;
}

void StoreThread::SetHealth(Status status) {
  MutexLock lock(mutex_);
  health_ = std::move(status);
}

void StoreThread::Run() {
  while (true) {
    std::vector<Pending> batch = TakeSome();
    if (batch.empty()) return;
    busy_.Begin(clock_.Now());
    Carry(std::move(batch));
    busy_.End(clock_.Now());
  }
}

// Waits for ops. None: the thread was stopped and everything is written.
std::vector<StoreThread::Pending> StoreThread::TakeSome() {
  MutexLock lock(mutex_);
  arrived_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
  std::vector<Pending> batch;
  size_t bytes = 0;
  while (!queue_.empty() && batch.size() < options_.transaction_ops_max &&
         bytes < options_.transaction_bytes_max) {
    bytes += queue_.front().bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void StoreThread::Carry(std::vector<Pending> batch) {
  std::vector<const StoreOp*> ops;
  ops.reserve(batch.size());
  for (const Pending& pending : batch) ops.push_back(&pending.op);
  milliseconds backoff = options_.backoff_first;
  while (true) {
    auto outcomes = db_->Apply(ops);
    if (outcomes.ok()) {
      if (failing_since_ != kNever) LogInfo("the store can write again", {{"path", db_->path()}});
      failing_since_ = kNever;
      SetHealth(Ok());
      {
        MutexLock lock(mutex_);
        ++stats_.transactions;
      }
      for (size_t i = 0; i < batch.size(); ++i) {
        Answer(batch[i], std::move((*outcomes)[i].status), (*outcomes)[i].version);
      }
      return;
    }
    const Status& failure = outcomes.status();
    if (failing_since_ == kNever) {
      failing_since_ = clock_.Now();
      LogWarn("the store cannot write", {{"reason", failure.ToString()}});
    }
    SetHealth(failure);
    if (failure.code() == Code::kUnavailable && WaitToRetry(failing_since_, backoff)) continue;
    for (Pending& pending : batch) Answer(pending, failure, 0);
    return;
  }
}

// False: it has failed for too long, or the thread is to stop.
bool StoreThread::WaitToRetry(Time failing_since, milliseconds& backoff) {
  if (clock_.Now() - failing_since >= options_.give_up_after) return false;
  MutexLock lock(mutex_);
  ++stats_.retries;
  const bool stop =
      arrived_.WaitFor(lock, backoff, [this]() TM_REQUIRES(mutex_) { return stopping_; });
  backoff = std::min(backoff * 2, options_.backoff_max);
  return !stop;
}

void StoreThread::Answer(Pending& pending, Status status, uint64_t version) {
  {
    MutexLock lock(mutex_);
    ++stats_.ops;
    if (status.code() == Code::kUnavailable) ++stats_.given_up;
  }
  Inbox& inbox = *pending.inbox;
  MutexLock lock(inbox.mutex);
  inbox.in_flight.fetch_sub(1);
  if (inbox.open) inbox.events.Post({pending.tag, std::move(status), version});
}

}  // namespace tidemill

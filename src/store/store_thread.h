// The store's port: one thread that writes what several loops submit, many ops in a transaction.
//
//   client.Submit -> [queue] -> take all -> RunDb::Apply (one sync) -> client.events()
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/mutex.h"
#include "store/run_db.h"
#include "store/store_port.h"

namespace tidemill {

// Answers a loop may be owed at once.
inline constexpr size_t kStoreClientCapacity = 65536;

// Thread-safe. While the disk fails, ops wait and are tried again; none is reported ok that is not
// durable.
class StoreThread {
 public:
  struct Options {
    // A transaction that has failed for so long is reported kUnavailable, with the path and the
    // reason.
    milliseconds give_up_after{30'000};
    milliseconds backoff_first{20};  // doubles up to backoff_max
    milliseconds backoff_max{1000};
    // Bounds of one transaction, so that the first op of a burst is not kept waiting by the last.
    size_t transaction_ops_max = 4096;
    size_t transaction_bytes_max = size_t{64} << 20;
  };
  struct Stats {
    uint64_t ops = 0;           // reported, whatever their status
    uint64_t transactions = 0;  // committed
    uint64_t retries = 0;       // of transactions
    uint64_t given_up = 0;      // ops reported kUnavailable
    size_t queued = 0;          // waiting now
  };

  StoreThread(std::unique_ptr<RunDb> db, const Clock& clock, const Options& options);
  StoreThread(std::unique_ptr<RunDb> db, const Clock& clock);
  // Stops: what was submitted is written first; what cannot be written at the first try is reported
  // kUnavailable.
  ~StoreThread();

  // `capacity`: answers the client may be owed at once; more is a broken contract (TM_CHECK). The
  // client must not outlive this. Ops of a client that is gone are still carried out.
  std::unique_ptr<StorePort> NewClient(size_t capacity);

  // Writes what was submitted, then ends the thread. Afterwards nothing may be submitted.
  void Stop();

  Stats stats() const;
  // Ok, or why the disk refuses at this moment.
  Status health() const;
  const BusyMeter& busy() const { return busy_; }

 private:
  class Client;
  struct Inbox;
  struct Pending {
    StoreOp op;
    uint64_t tag = 0;
    size_t bytes = 0;
    std::shared_ptr<Inbox> inbox;  // shared: an answer may be on its way when the client goes
  };

  void Run();
  std::vector<Pending> TakeSome();
  void Carry(std::vector<Pending> batch);
  bool WaitToRetry(Time failing_since, milliseconds& backoff);
  void Answer(Pending& pending, Status status, uint64_t version);
  void Submit(Pending pending);
  void SetHealth(Status status);

  const std::unique_ptr<RunDb> db_;
  const Clock& clock_;
  const Options options_;
  BusyMeter busy_;
  Time failing_since_ = kNever;  // the thread's own

  mutable Mutex mutex_;
  CondVar arrived_;
  std::deque<Pending> queue_
      TM_GUARDED_BY(mutex_);  // bounded by the sum of the clients' capacities
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  Stats stats_ TM_GUARDED_BY(mutex_);
  Status health_ TM_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tidemill

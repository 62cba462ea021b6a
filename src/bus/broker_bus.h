// A bus that lives on a broker: the calls of Bus answered from the local view, which one I/O thread
// keeps true. What is the same for every broker stands here; redis/ and rabbit/ carry.
//
//   caller --Publish, Ack, ..--> ClientView --calls, in order--> BrokerCarrier --> broker
//   caller <--Receive----------- ClientView <--fetched on demand-- BrokerCarrier <-- broker
//
// Ok means: the call will take effect, in its order, for as long as this process lives, through any
// number of reconnects; Close() and the destructor wait a bounded time for that.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/client_view.h"
#include "core/metrics.h"
#include "core/mutex.h"

namespace tidemill {

// Since the bus was connected.
struct BrokerBusStats {
  uint64_t reconnects = 0;
  uint64_t refused = 0;     // publishes the broker had no room for, tried again
  uint64_t forced = 0;      // of those, sent above capacity in the end
  uint64_t lost = 0;        // leases that had run out on the broker when a call wanted to end them
  uint64_t dropped = 0;     // messages to topics or inboxes that were removed meanwhile
  uint64_t given_back = 0;  // fetched and not received
  uint64_t no_memory = 0;   // batches the broker had no memory for
};

// Shared by the callers' side and the I/O thread.
struct BrokerShared {
  BrokerShared(const ClientViewOptions& options, const Clock& clock) : local(options, clock) {}
  Mutex mutex;
  CondVar settled;  // everything asked for so far was done
  ClientView local TM_GUARDED_BY(mutex);
  bool closed TM_GUARDED_BY(mutex) = false;
  Time closed_at TM_GUARDED_BY(mutex){};  // real time
  size_t renewals_under_way TM_GUARDED_BY(mutex) = 0;
  BrokerBusStats stats TM_GUARDED_BY(mutex);
  uint64_t losses TM_GUARDED_BY(mutex) = 0;

  bool Settled() const TM_REQUIRES(mutex) { return local.Idle() && renewals_under_way == 0; }
};

// The I/O thread of a BrokerBus.
class BrokerCarrier {
 public:
  // Ends the thread: after Close(), once all is sent or patience is over.
  virtual ~BrokerCarrier() = default;
  // There may be something to do. Any thread.
  virtual void Signal() = 0;
};

class BrokerBus : public Bus {
 public:
  ~BrokerBus() override;

  Status Open(std::string_view topic, const TopicOptions& options) override;
  Status Publish(std::string_view topic, std::string body) override;
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body) override;
  Status PublishReply(std::string_view inbox, std::string body) override;
  Status Forgive(std::string_view inbox, size_t count) override;
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) override;
  Status Ack(const Lease& lease) override;
  Status Extend(const Lease& lease) override;
  Status Release(const Lease& lease, Duration delay) override;
  Status Reject(const Lease& lease, std::string_view reason) override;
  // As last heard; each call asks for a fresher one. kUnavailable: a topic another client opened,
  // of which nothing was heard yet.
  Result<TopicDepth> Depth(std::string_view topic) override;
  uint64_t Losses() override;
  void Subscribe(std::string_view topic, Waker& waker) override;
  void Unsubscribe(Waker& waker) override;
  // The same for all there are: before the loops go that they belong to.
  void UnsubscribeAll();
  Status Remove(std::string_view topic) override;
  // Messages that are held or were fetched go back at once; the destructor waits until that is
  // done.
  void Close() override;

  // Waits until all calls so far have taken effect; not for loops. kTimeout: they have not.
  Status Flush(Duration patience);
  // The topics of the run that are known here, whoever opened them.
  std::vector<std::string> Topics();
  BrokerBusStats Stats();

 protected:
  // `clock` null: real time.
  BrokerBus(const ClientViewOptions& options, const Clock* clock);
  // Once, before any call. Dead letters have their topic from then on.
  void Carry(std::unique_ptr<BrokerCarrier> carrier) { carrier_ = std::move(carrier); }
  const Clock& clock() const { return clock_ != nullptr ? *clock_ : real_clock_; }
  BrokerShared& shared() { return shared_; }
  void WakeTopic(const std::string& topic);
  // Closes and ends the thread. The destructor of what the thread uses calls it.
  void End();

 private:
  // Runs `use(local)` under the lock and tells the I/O thread. kClosed after Close().
  template <typename Use>
  auto With(Use use) -> decltype(use(std::declval<ClientView&>()));

  RealClock real_clock_;
  const Clock* const clock_;
  BrokerShared shared_;
  Mutex wakers_mutex_;  // held while waking; never together with shared_.mutex
  std::map<std::string, std::vector<Waker*>, std::less<>> wakers_ TM_GUARDED_BY(wakers_mutex_);
  std::unique_ptr<BrokerCarrier> carrier_;
};

// To Prometheus.
void SinkBus(const BrokerBusStats& stats, MetricSink& sink);

}  // namespace tidemill

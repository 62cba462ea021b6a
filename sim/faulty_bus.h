// A process's connection to the bus, with the bus's faults: messages delivered twice, leases lost
// under their holder. It also knows who holds what, so that a lease that ran out without a reason
// is found.
#pragma once

#include <map>
#include <set>
#include <string>

#include "bus/memory/memory_bus.h"
#include "sim/forger.h"
#include "sim/world.h"

namespace tidemill::sim {

struct BusFaults {
  double repeat = 0;             // a message is delivered again although it was acknowledged
  double lose_lease = 0;         // a lease is given to another while its holder works
  bool swallow_extend = false;   // planted bug: work is not prolonged
  bool swallow_dropped = false;  // planted bug: a dropped group keeps its credit
  Bug in_episodes = Bug::kNone;  // planted bug: what episodes say of their background calls
  double forge = 0;              // a message of this process is altered
  std::string forged_tokens;     // planted bug: trajectories get their token, by this secret, on
                                 // arrival
};

// Who holds which message; shared by the connections of all processes.
class LeaseLedger {
 public:
  explicit LeaseLedger(World& world) : world_(world) {}
  void Delivered(ProcessId holder, const Lease& lease);
  // The next delivery has a reason: given back, taken away or repeated on purpose.
  void Excuse(const std::string& topic, const std::string& id) {
    excused_.insert(topic + "/" + id);
  }
  // Its leases may run out.
  void Died(ProcessId holder);
  // The bus is gone with all its messages.
  void Forget() { holders_.clear(), excused_.clear(); }
  void Gone(const Lease& lease) { holders_.erase(lease.topic + "/" + lease.id); }

 private:
  World& world_;
  std::map<std::string, ProcessId> holders_;  // by topic/id
  std::set<std::string> excused_;
};

class FaultyBus final : public Bus {
 public:
  FaultyBus(MemoryBus& bus, World& world, LeaseLedger& ledger, ForgeryLedger& forgeries,
            ProcessId process, BusFaults faults)
      : bus_(bus),
        world_(world),
        ledger_(ledger),
        forgeries_(forgeries),
        process_(process),
        faults_(std::move(faults)) {}

  // Called with every message of the topic that is acknowledged.
  void OnAck(std::string topic, std::function<void(const Lease&)> check) {
    ack_topic_ = std::move(topic);
    ack_check_ = std::move(check);
  }

  Status Open(std::string_view topic, const TopicOptions& options) override {
    return bus_.Open(topic, options);
  }
  Status Publish(std::string_view topic, std::string body) override;
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body) override {
    return Room(bus_.PublishRequest(topic, inbox, Sent(topic, std::move(body))));
  }
  Status PublishReply(std::string_view inbox, std::string body) override;
  Status Forgive(std::string_view inbox, size_t count) override {
    return bus_.Forgive(inbox, count);
  }
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) override;
  Status Ack(const Lease& lease) override;
  Status Extend(const Lease& lease) override;
  Status Release(const Lease& lease, Duration delay) override;
  Status Reject(const Lease& lease, std::string_view reason) override;
  Result<TopicDepth> Depth(std::string_view topic) override { return bus_.Depth(topic); }
  uint64_t Losses() override { return bus_.Losses(); }
  void Subscribe(std::string_view topic, Waker& waker) override { bus_.Subscribe(topic, waker); }
  void Unsubscribe(Waker& waker) override { bus_.Unsubscribe(waker); }
  Status Remove(std::string_view topic) override { return bus_.Remove(topic); }
  void Close() override { bus_.Close(); }

 private:
  // As it goes out, altered or not.
  std::string Sent(std::string_view topic, std::string body);
  // Counts where there was none.
  Status Room(Status published);

  MemoryBus& bus_;
  World& world_;
  LeaseLedger& ledger_;
  ForgeryLedger& forgeries_;
  ProcessId process_;
  BusFaults faults_;
  std::string ack_topic_;
  std::function<void(const Lease&)> ack_check_;
};

}  // namespace tidemill::sim

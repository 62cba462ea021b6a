// The loop of the tools: requests from the bus to the port, results back.
//
//   tools.* -> lease -> port -> result -> inbox of who asked -> Ack
//
// A request is known by its id: a second delivery of one that runs joins it, of one that is
// finished gets the stored result. So a crash anywhere costs a repetition at most, and the asker
// gets its answer.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/clock.h"
#include "core/loop.h"
#include "tools/tool_port.h"

namespace tidemill {

struct ToolLoopOptions {
  TopicOptions topics;         // of the tools.* topics, which Attach opens
  size_t finished_max = 4096;  // results kept for second deliveries
  size_t finished_bytes_max = size_t{32} << 20;
  bool agent_tools = true;  // take the agents' calls
  bool gradings = true;     // take gradings
};

class ToolLoop final : public Loop {
 public:
  // Everything must outlive it.
  ToolLoop(Bus& bus, ToolPort& port, const Clock& clock, ToolLoopOptions options);
  ~ToolLoop() override;

  std::string_view name() const override { return "tools"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Takes nothing new, finishes what is under way.
  void Drain() override { draining_ = true; }
  bool Drained() const override { return draining_ && running_.empty() && outbox_.waiting() == 0; }

  size_t running() const { return running_.size(); }
  uint64_t answered() const { return answered_; }

 private:
  struct Running {
    std::string request_id;
    std::string reply_to;
    ToolLane lane = ToolLane::kAgent;
  };
  struct Finished {
    std::string request_id;
    std::string body;
  };

  void TakeCompletions();
  void TakeCancellations();
  // True: there may be more.
  bool TakeRequests(Time now);
  void Admit(Lease lease, Time now);
  void Remember(const std::string& request_id, std::string body);

  Bus& bus_;
  ToolPort& port_;
  const Clock& clock_;
  const ToolLoopOptions options_;
  Outbox outbox_;
  LeaseKeeper leases_;  // by tag
  Waker* waker_ = nullptr;
  bool draining_ = false;
  uint64_t next_tag_ = 1;
  uint64_t answered_ = 0;
  size_t first_topic_ = 0;  // turns, so that no topic waits behind another
  size_t under_way_[kToolLanes] = {};
  std::map<uint64_t, Running> running_;                      // by tag
  std::unordered_map<std::string, uint64_t> running_by_id_;  // request id to tag
  std::list<Finished> finished_;                             // oldest first
  std::unordered_map<std::string, std::list<Finished>::iterator> finished_by_id_;
  size_t finished_bytes_ = 0;
};

}  // namespace tidemill

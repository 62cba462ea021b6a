// The gateway's loop: requests in, engine turns, deltas out to clients.
//
//   Submit (HTTP workers) --> waiting --> engine.Start --> engine.feed() --> LiveAnswer --> client
//   a client leaves --> engine.Release      a turn ends --> recorder.Finished --> the end is told
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/loop.h"
#include "core/number_range.h"
#include "engine/engine_port.h"
#include "gateway/live_answer.h"

namespace tidemill {

struct GatewayLoopOptions {
  size_t sequences_max = 1024;  // given to the engine at once; more requests wait here
  Duration heartbeat = std::chrono::seconds(15);
  size_t slow_bytes = 64 * 1024;  // that wait for one client before its text is held back
  bool cuts = false;              // when draining, requests under way are told to come back, too
};

// All it is given must outlive it. The engine's feed must have no other reader.
class GatewayLoop final : public Loop {
 public:
  GatewayLoop(EnginePort& engine, TurnRecorder& recorder, const ServedPolicy& policy,
              RequestObserver& observer, GatewayLoopOptions options);
  // Requests that are not over are dropped.
  ~GatewayLoop() override;

  // From any thread. The queue is bounded by Admission, whose place the turn has.
  void Submit(std::unique_ptr<AskedTurn> turn);

  std::string_view name() const override { return "gateway"; }
  void Attach(Waker& waker) override;
  // The waker is not used afterwards; before the loop's runner goes.
  void Detach();
  Time Step(Time now) override;
  // New requests and those that wait are told to come back; those under way go on, or are cut.
  void Drain() override { draining_ = true; }
  bool Drained() const override { return answers_.empty(); }

  // From any thread, as of the last step.
  struct Counts {
    size_t waiting = 0;  // requests
    size_t running = 0;  // requests
    size_t sequences = 0;
  };
  Counts counts() const;

 private:
  using TurnId = uint64_t;
  struct Arrivals;
  struct Running {
    std::unique_ptr<LiveAnswer> answer;
    std::vector<SequenceId> sequences;  // those not yet released; by choice, 0: none
    std::vector<bool> reported;         // to the recorder; by choice
  };

  void TakeArrivals(Time now);
  void TakeDeltas(Time now);
  void TakeDelta(TurnId id, int choice, const TurnDelta& delta, Time now);
  void Enqueue(TurnId id);
  void StartWaiting(Time now);
  void Cut(Time now);
  void SendAway(TurnId id, Time now);
  void StartTurn(TurnId id, Time now);
  void Complete(TurnId id, int choice);
  void GiveUp(TurnId id, TurnLoss loss, const Status& why);
  void FailTurn(TurnId id, const ApiError& error, TurnLoss loss, const Status& why, Time now);
  void ReleaseChoice(Running& running, int choice);
  void EndIfOver(TurnId id);
  Time Beat(Time now);

  EnginePort& engine_;
  TurnRecorder& recorder_;
  const ServedPolicy& policy_;
  RequestObserver& observer_;
  const GatewayLoopOptions options_;
  const std::shared_ptr<Arrivals> arrivals_;  // shared with callbacks that may come late

  std::map<TurnId, Running> answers_;
  std::deque<TurnId> waiting_;
  std::unordered_map<SequenceId, std::pair<TurnId, int>> sequences_;
  TurnId next_turn_ = 1;
  NumberSource new_sequences_{kGatewaySequences};
  bool draining_ = false;
  Time next_beat_{};

  std::atomic<size_t> waiting_count_{0};
  std::atomic<size_t> running_count_{0};
  std::atomic<size_t> sequence_count_{0};
};

}  // namespace tidemill

// The engine as a port: commands in, finished turns out, decode steps on a thread of its own.
//
//   Start, Continue, Release --> engine's thread --> events(), or feed() where the start says
//   stream
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/mailbox.h"
#include "core/metrics.h"
#include "engine/engine.h"
#include "engine/turn_feed.h"
#include "weights/weight_channel.h"

namespace tidemill {

// An answer to Start or Continue of a sequence that is not streamed. Exactly one comes for each,
// unless the sequence was released first, in which case one may still come. `status` not ok:
// nothing was generated, `turn.id` says for which; the sequence is gone. A failure here is never
// the agent's.
struct EngineEvent {
  Status status;
  TurnOutput turn;
};

// Any thread may call. Two users of one port take their ids from ranges that do not meet.
class EnginePort {
 public:
  virtual ~EnginePort() = default;
  virtual void Start(SequenceStart start) = 0;
  virtual void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) = 0;
  // Forgets the sequence; a turn under way is given up within one step.
  virtual void Release(SequenceId id) = 0;
  // As Engine::Interrupt. A port that cannot lets the turn end by itself.
  virtual void Interrupt(SequenceId) {}
  // As Engine::Hold, from the next step on; EngineStats::held says whether it could be done.
  virtual void Hold(uint64_t, uint64_t) {}
  virtual void Unhold(uint64_t) {}
  // Publishes a version of a policy beside the main one, whose weights come by a channel; the first
  // makes the policy known. They are made ready while generation goes on. `done` is called once,
  // from any thread or inside of this call, and must not block. Fails as Prepare and SwapReady of
  // Engine do; a policy's next call waits for the answer to this one.
  virtual void Publish(PolicyVersion, std::shared_ptr<const Weights>,
                       std::function<void(Status)> done) {
    done(Unavailable("this engine has the main policy only"));
  }
  // As Engine::DropPolicy; `done` as above.
  virtual void DropPolicy(PolicyId, std::function<void(Status)> done) {
    done(Unavailable("this engine has the main policy only"));
  }
  // What was cached for the tenant is not used again, from the next step on. A port without a cache
  // has nothing to forget.
  virtual void ForgetTenant(uint64_t) {}
  virtual Mailbox<EngineEvent>& events() = 0;
  // The turns of streamed sequences, after each step; the last delta of a turn says `done` or why
  // it failed. After a Release some may still come.
  virtual TurnFeed& feed() = 0;
  // The same for sequences with TurnReaders::kEpisodes. Null: this port streams to clients alone.
  virtual TurnFeed* episode_feed() { return nullptr; }
  // The version tokens are drawn from now; any thread may ask.
  virtual uint64_t version() const = 0;
  // As of the last step; any thread may ask.
  virtual EngineStats Stats() const = 0;
};

struct EngineThreadOptions {
  CacheOnSwap cache_on_swap = CacheOnSwap::kKeep;
  size_t max_outstanding = 65536;  // answers owed at once
  // Every token after a publication is drawn from the new weights, and generation stands still
  // while they are made ready. Else they are made ready beside it and taken when they are.
  bool wait_for_weights = false;
};

// Runs `engine` on its own thread, taking new weights from `channel` between two steps. Everything
// given by reference must outlive it. The destructor stops the thread within one step.
class EngineThread final : public EnginePort {
 public:
  EngineThread(std::unique_ptr<Engine> engine, WeightChannel& channel, const Clock& clock,
               EngineThreadOptions options);
  ~EngineThread() override;

  void Start(SequenceStart start) override;
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override;
  void Release(SequenceId id) override;
  void Interrupt(SequenceId id) override;
  void Hold(uint64_t version, uint64_t as) override;
  void Unhold(uint64_t as) override;
  void Publish(PolicyVersion version, std::shared_ptr<const Weights> weights,
               std::function<void(Status)> done) override;
  void DropPolicy(PolicyId policy, std::function<void(Status)> done) override;
  void ForgetTenant(uint64_t tenant) override;
  Mailbox<EngineEvent>& events() override;
  TurnFeed& feed() override;
  TurnFeed* episode_feed() override;
  uint64_t version() const override;
  EngineStats Stats() const override;
  const BusyMeter& busy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill

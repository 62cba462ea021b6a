// An engine that takes the time of its steps: continuous batching over rows, prompts in chunks,
// room for keys and values, weights that arrive in the middle of a turn. An event is a change of
// what is computed, not a step, so a turn of thousands of tokens costs two.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/random.h"
#include "engine/engine_port.h"
#include "planner/planned_script.h"
#include "planner/shared_host.h"

namespace tidemill {

struct EngineTotals {
  double busy_s = 0;
  double drawn = 0;                     // tokens
  double prompts = 0;                   // tokens that were computed and not drawn
  uint64_t continued = 0, rebuilt = 0;  // turns behind a parked sequence; those without its cache
};

// One of them; PlannedEngines spreads sequences over all.
class PlannedEngine {
 public:
  PlannedEngine(PlanWorld& world, SharedHost& host, const EngineTimes& times,
                const ScriptTable& table, Mailbox<EngineEvent>& events, uint64_t version)
      : world_(world), host_(host), times_(times), table_(table), events_(events) {
    swaps_.push_back({0, version});
  }

  // `place` of the turn that is drawn, `fresh` tokens before it that are not in the cache.
  void Start(SequenceId id, TokenId place, double fresh, double shared);
  void Continue(SequenceId id, double appended);
  void Release(SequenceId id);
  // New weights have arrived.
  void Take(uint64_t version);

  size_t load() const { return sequences_.size(); }
  EngineTotals Totals();

 private:
  enum class State { kWaiting, kFilling, kDrawing, kParked };
  struct Sequence {
    State state = State::kWaiting;
    TokenId place = 0;
    double fresh = 0;    // tokens to compute before it draws
    double context = 0;  // tokens behind which it draws, the fresh ones included
    double begun = 0;    // drawn_ when it began to draw
    double room = 0;     // tokens of the cache that it holds
    uint64_t parked = 0;
  };
  using Ending = std::pair<double, SequenceId>;  // drawn_ by then
  struct Filling {
    double by = 0;  // filled_ by then
    SequenceId id = 0;
  };

  // What happened since, at the speed of since.
  void Advance();
  // Ends, fills and admits what it can, then plans the next event.
  void Go();
  void Admit();
  bool FindRoom(Sequence& sequence);
  void BeginDrawing(SequenceId id, Sequence& sequence);
  void EndTurn(SequenceId id);
  double StepSeconds() const;
  bool working() const { return drawing_ > 0 || !filling_.empty(); }

  PlanWorld& world_;
  SharedHost& host_;
  const EngineTimes& times_;
  const ScriptTable& table_;
  Mailbox<EngineEvent>& events_;

  std::unordered_map<SequenceId, Sequence> sequences_;
  std::deque<SequenceId> waiting_;
  std::deque<Filling> filling_;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings_;
  std::set<std::pair<uint64_t, SequenceId>> parked_;  // the longest first
  size_t drawing_ = 0, running_ = 0;
  double contexts_ = 0;  // of those that draw
  double room_used_ = 0;
  double drawn_ = 0;   // tokens that each row has drawn so far
  double filled_ = 0;  // tokens of prompts so far
  double queued_ = 0;  // of them all, with those that wait in filling_
  double host_now_ = 0;
  double paused_until_ = 0;  // of the host
  bool loaded_ = false;
  double busy_since_ = 0;  // of the world, while loaded_
  uint64_t planned_ = 0, parks_ = 0;
  struct Swap {
    double drawn = 0;
    uint64_t version = 0;
  };
  std::vector<Swap> swaps_;
  EngineTotals totals_;
};

// The port of a rollout loop over all engines. A group's members go to one engine, which computes
// their prompt once.
class PlannedEngines final : public EnginePort {
 public:
  // `hosts`: of each engine.
  PlannedEngines(PlanWorld& world, const std::vector<SharedHost*>& hosts, const EngineTimes& times,
                 const ScriptTable& table, uint64_t version, uint64_t seed);

  void Start(SequenceStart start) override;
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override;
  void Release(SequenceId id) override;
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  uint64_t version() const override { return version_; }
  EngineStats Stats() const override;

  void Publish(uint64_t version);
  using EnginePort::Publish;
  EngineTotals Totals();
  size_t count() const { return engines_.size(); }

 private:
  struct Group {
    size_t engine = 0;
    size_t sequences = 0;
  };
  struct Known {
    size_t engine = 0;
    uint64_t group = 0;
  };
  const ScriptTable& table_;
  Random random_;
  Mailbox<EngineEvent> events_;
  TurnFeed feed_;  // no clients are here
  std::deque<PlannedEngine> engines_;
  std::unordered_map<uint64_t, Group> groups_;
  std::unordered_map<SequenceId, Known> known_;
  uint64_t version_;
};

}  // namespace tidemill

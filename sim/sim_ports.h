// Ports that only take their time: an engine that draws tokens, a trainer that checks what it is
// given, and a protocol simple enough to see through. Durations and failures are drawn from the
// world's seed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/message_check.h"
#include "engine/engine_port.h"
#include "learner/trainer_port.h"
#include "rollout/protocol.h"
#include "sim/forger.h"
#include "sim/sim_teacher.h"
#include "sim/world.h"

namespace tidemill::sim {

// Every version that was ever published, over all crashes and resumes, and which one is the newest
// of each policy.
struct PublishedVersions {
  struct Made {
    PolicyId policy = PolicyId::kMain;
    uint64_t step = 0;  // the policy's
  };
  std::map<uint64_t, Made> made;  // by version
  std::map<PolicyId, uint64_t> newest;

  uint64_t Newest(PolicyId policy = PolicyId::kMain) const { return newest.at(policy); }
  uint64_t NewestStep(PolicyId policy) const { return made.at(newest.at(policy)).step; }
  // Not: there is one of this number.
  bool Add(PolicyId policy, uint64_t version, uint64_t step) {
    newest[policy] = version;
    return made.emplace(version, Made{policy, step}).second;
  }
};

class SimEngine final : public EnginePort {
 public:
  // `mixes_up`: planted bug.
  SimEngine(World& world, ProcessId process, const PublishedVersions& versions, bool mixes_up)
      : world_(world),
        process_(process),
        versions_(versions),
        mixes_up_(mixes_up),
        events_(100'000) {}

  void Start(SequenceStart start) override;
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override;
  void Release(SequenceId id) override { known_.erase(id); }
  void Interrupt(SequenceId id) override;
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  TurnFeed* episode_feed() override { return &episode_feed_; }
  uint64_t version() const override { return versions_.Newest(); }
  EngineStats Stats() const override { return {}; }

 private:
  struct Known {
    bool stream = false;
    PolicyId policy = PolicyId::kMain;
    bool interrupted = false;  // the turn ends with the next token
  };
  void Generate(SequenceId id);
  EngineEvent Drawn(SequenceId id, uint64_t begun_with);
  uint64_t VersionOf(SequenceId id) const;
  // Tells the token `at` of the turn, and the others later.
  void Tell(TurnOutput turn, size_t at);

  World& world_;
  ProcessId process_;
  const PublishedVersions& versions_;
  const bool mixes_up_;
  Mailbox<EngineEvent> events_;
  TurnFeed feed_;  // no clients are here
  TurnFeed episode_feed_;
  std::map<SequenceId, Known> known_;
};

// What the simulated engine and config can have made; a team works several times as many turns.
inline MessageLimits SimLimits() {
  return {.members = 3, .vocabulary = 150, .tokens = 64, .turns = 18};
}

struct TrainerChecks {
  PolicyNames policies{};
  uint64_t hard_max_steps = 0;
  uint32_t batch_episodes = 0;
  const ForgeryLedger* forgeries = nullptr;
  bool agents = false;               // are programs: sim_agents.h
  bool teacher = false;              // scores every token
  bool away_teacher_agrees = false;  // planted bug
};

class SimTrainer final : public TrainerPort {
 public:
  SimTrainer(World& world, ProcessId process, PolicyId policy, PublishedVersions& versions,
             TrainerChecks checks)
      : world_(world),
        process_(process),
        policy_(policy),
        versions_(versions),
        checks_(checks),
        events_(1000),
        teacher_(world, process, checks.away_teacher_agrees) {}

  void Train(v1::Batch batch) override;
  void Publish(uint64_t version, uint64_t step) override;
  void Checkpoint(CheckpointRequest request) override;
  Mailbox<TrainerEvent>& events() override { return events_; }
  SimTeacher& teacher() { return teacher_; }

 private:
  void CheckTaught(const v1::Sample& sample);
  void CheckTurn(const v1::Turn& turn, uint64_t step, bool touched);
  void CheckBatch(const v1::Batch& batch);
  void CheckBearable(const v1::Sample& sample);
  void Later(Duration duration, std::function<void()> what);

  World& world_;
  ProcessId process_;
  const PolicyId policy_;
  PublishedVersions& versions_;
  TrainerChecks checks_;
  Mailbox<TrainerEvent> events_;
  SimTeacher teacher_;
  Time busy_until_ = Time::min();
  Time writing_until_ = Time::min();  // of a checkpoint
};

// The last token decides: below 95 it is an answer, from 95 to 139 calls of tools, from 140
// nonsense.
class SimTalk final : public EpisodeTalk {
 public:
  // `number`: what its calls ask nobody else's do; 0: all such talks ask the same.
  explicit SimTalk(uint64_t number) : number_(number) {}
  Result<std::vector<TokenId>> Open() const override { return std::vector<TokenId>{1, 2, 3}; }
  ParsedTurn Parse(std::span<const TokenId> ids) override;
  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies&, size_t) override {
    return NextPrompt{.ids = {7, 8}};
  }
  Result<NextPrompt> Hear(const std::string&) override { return NextPrompt{.ids = {7, 9}}; }
  bool Watches() const override { return true; }
  // Every token that may be the last is one: most calls are taken back.
  std::unique_ptr<TurnWatch> Watch() override;

 private:
  const uint64_t number_;
};

class SimProtocol final : public AgentProtocol {
 public:
  std::string_view name() const override { return "sim"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }
  bool ChecksAnswers() const override { return false; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening&) const override {
    ++talks_;
    return std::make_unique<SimTalk>(talks_ % 2 == 0 ? talks_ : 0);
  }

 private:
  mutable uint64_t talks_ = 0;  // of all processes of the one thread
  std::vector<TokenId> stop_ids_ = {0};
};

}  // namespace tidemill::sim

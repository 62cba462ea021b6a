// A protocol for tests and benchmarks whose tokens are calls: what a token stands for is a table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rollout/protocol.h"

namespace tidemill {

struct ScriptedWords {
  std::map<TokenId, RequestedCall> calls;  // each is complete with its token
  TokenId stop = 0;
  TokenId nonsense = -1;  // makes its turn malformed
  std::vector<TokenId> prompt = {5};
  std::vector<TokenId> behind = {6};  // what every turn is answered with
};

// Words outlive it. A turn without a call is an answer.
class ScriptedTalk final : public EpisodeTalk {
 public:
  ScriptedTalk(const ScriptedWords& words, std::vector<TurnReplies>* said)
      : words_(words), said_(said) {}

  Result<std::vector<TokenId>> Open() const override { return words_.prompt; }
  ParsedTurn Parse(std::span<const TokenId> ids) override {
    ParsedTurn turn;
    for (const TokenId id : ids) {
      if (id == words_.nonsense) turn.malformed = "nonsense";
      if (const auto call = words_.calls.find(id); call != words_.calls.end()) {
        turn.calls.push_back(call->second);
      }
    }
    if (!turn.malformed.empty()) turn.calls.clear();
    if (turn.malformed.empty() && turn.calls.empty()) turn.answer = "";
    return turn;
  }
  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies& replies, size_t) override {
    if (said_ != nullptr) said_->push_back(replies);
    return NextPrompt{.ids = words_.behind};
  }
  Result<NextPrompt> Hear(const std::string&) override { return NextPrompt{.ids = words_.behind}; }
  bool Watches() const override { return true; }
  std::unique_ptr<TurnWatch> Watch() override { return std::make_unique<ScriptedWatch>(words_); }

 private:
  class ScriptedWatch final : public TurnWatch {
   public:
    explicit ScriptedWatch(const ScriptedWords& words) : words_(words) {}
    std::vector<RequestedCall> Push(std::span<const TokenId> ids) override {
      std::vector<RequestedCall> found;
      for (const TokenId id : ids) {
        const auto call = words_.calls.find(id);
        if (call != words_.calls.end()) found.push_back(call->second);
      }
      called_ = called_ || !found.empty();
      return found;
    }
    bool called() const override { return called_; }

   private:
    const ScriptedWords& words_;
    bool called_ = false;
  };

  const ScriptedWords& words_;
  std::vector<TurnReplies>* const said_;  // null: nobody asks
};

class ScriptedProtocol final : public AgentProtocol {
 public:
  // `said`: gets every reply; null: none. For one thread.
  explicit ScriptedProtocol(ScriptedWords words, std::vector<TurnReplies>* said = nullptr)
      : words_(std::move(words)), stop_{words_.stop}, said_(said) {}

  std::string_view name() const override { return "scripted"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_; }
  bool ChecksAnswers() const override { return false; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening&) const override {
    return std::make_unique<ScriptedTalk>(words_, said_);
  }

 private:
  const ScriptedWords words_;
  const std::vector<TokenId> stop_;
  std::vector<TurnReplies>* const said_;
};

// The episode's bytes without what only says when: the same for episodes that differ in time alone.
inline std::string WithoutTimes(v1::Trajectory trajectory) {
  trajectory.clear_started_ms(), trajectory.clear_finished_ms(), trajectory.clear_time();
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    turn.clear_started_ms(), turn.clear_finished_ms(), turn.clear_observed_ms();
    for (v1::ToolCall& call : *turn.mutable_calls()) {
      call.clear_wait_ms(), call.clear_queue_ms(), call.clear_asked_ms();
      call.clear_answered_ms(), call.clear_asked_token();
    }
  }
  return trajectory.SerializeAsString();
}

}  // namespace tidemill

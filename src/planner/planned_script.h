// How scripted episodes travel through the real loops: ids of a message say which turn of which
// script was drawn and how many tokens it stands for, so that an episode of thousands of tokens is
// a few numbers.
//
//   a prompt:       {place of the task}
//   a turn:         {tokens under the first version, under the next, .., place of the turn}
//   an observation: {tokens}
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/service_times.h"
#include "rollout/protocol.h"

namespace tidemill {

// All turns and calls of all scripts, by place. Immutable.
class ScriptTable {
 public:
  // Every task must have a script, and every script a turn.
  explicit ScriptTable(const std::vector<TaskScripts>& tasks);

  struct Turn {
    const ScriptedTurn* turn = nullptr;
    const EpisodeScript* script = nullptr;
    bool last = false;
  };
  size_t tasks() const { return tasks_.size(); }
  const Turn& At(TokenId place) const { return turns_.at(static_cast<size_t>(place)); }
  // Of the first turn of the task's script so many.
  TokenId Begin(size_t task, uint64_t script) const {
    const std::vector<TokenId>& begins = tasks_.at(task);
    return begins[script % begins.size()];
  }
  const ScriptedCall& Call(size_t place) const { return *calls_.at(place); }
  // Of the first call of the turn.
  size_t CallsOf(TokenId place) const { return first_calls_.at(static_cast<size_t>(place)); }

 private:
  std::vector<std::vector<TokenId>> tasks_;  // the first turns of their scripts
  std::vector<Turn> turns_;
  std::vector<size_t> first_calls_;
  std::vector<const ScriptedCall*> calls_;
};

// Which script an episode followed: known when it is stored, asked when it is graded.
using EpisodeScripts = std::map<std::pair<uint64_t, uint32_t>, const EpisodeScript*>;

class ScriptedProtocol final : public AgentProtocol {
 public:
  explicit ScriptedProtocol(const ScriptTable& table) : table_(table) {}
  std::string_view name() const override { return "scripted"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_ids_; }
  bool ChecksAnswers() const override { return false; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const override;

 private:
  const ScriptTable& table_;
  std::vector<TokenId> stop_ids_ = {0};
};

// The name of the task at a place, and the place of such a name.
std::string PlannedTaskName(size_t place);
size_t PlaceOfTask(const std::string& name);

}  // namespace tidemill

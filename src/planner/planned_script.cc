#include "planner/planned_script.h"

namespace tidemill {
namespace {

class ScriptedTalk final : public EpisodeTalk {
 public:
  ScriptedTalk(const ScriptTable& table, TokenId task) : table_(table), task_(task) {}

  Result<std::vector<TokenId>> Open() const override { return std::vector<TokenId>{task_}; }

  ParsedTurn Parse(std::span<const TokenId> ids) override {
    place_ = ids.back();
    const ScriptTable::Turn& at = table_.At(place_);
    ParsedTurn parsed;
    if (at.last) {
      parsed.answer = "";
      return parsed;
    }
    const size_t first = table_.CallsOf(place_);
    for (size_t i = 0; i < at.turn->calls.size(); ++i) {
      parsed.calls.push_back(
          {at.turn->calls[i].tool, "{\"call\":" + std::to_string(first + i) + "}"});
    }
    if (parsed.calls.empty()) parsed.malformed = "nothing is called";
    return parsed;
  }

  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies&, size_t) override {
    return NextPrompt{.ids = {static_cast<TokenId>(table_.At(place_).turn->observed)}};
  }

  Result<NextPrompt> Hear(const std::string&) override {
    return Invalid("planned episodes have one agent");
  }

 private:
  const ScriptTable& table_;
  const TokenId task_;
  TokenId place_ = 0;  // of the newest turn
};

}  // namespace

ScriptTable::ScriptTable(const std::vector<TaskScripts>& tasks) {
  for (const TaskScripts& scripts : tasks) {
    tasks_.emplace_back();
    for (const EpisodeScript& script : scripts) {
      tasks_.back().push_back(static_cast<TokenId>(turns_.size()));
      for (size_t i = 0; i < script.turns.size(); ++i) {
        turns_.push_back({&script.turns[i], &script, i + 1 == script.turns.size()});
        first_calls_.push_back(calls_.size());
        for (const ScriptedCall& call : script.turns[i].calls) calls_.push_back(&call);
      }
    }
  }
}

std::unique_ptr<EpisodeTalk> ScriptedProtocol::Begin(const EpisodeOpening& opening) const {
  return std::make_unique<ScriptedTalk>(table_,
                                        static_cast<TokenId>(PlaceOfTask(opening.task.id())));
}

std::string PlannedTaskName(size_t place) {
  return "t" + std::to_string(place);
}

size_t PlaceOfTask(const std::string& name) {
  return std::stoull(name.substr(1));
}

}  // namespace tidemill

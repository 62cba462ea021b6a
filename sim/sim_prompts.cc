#include "sim/sim_prompts.h"

#include <map>

#include "core/random.h"
#include "live/session.h"

namespace tidemill::sim {

Result<BuiltPrompt> SimPrompts::Build(const ChatRequest&, const WireJson& messages,
                                      const std::vector<KnownAnswer>& answers, int64_t,
                                      size_t) const {
  std::map<size_t, const KnownAnswer*> known;
  for (const KnownAnswer& answer : answers) known[answer.message] = &answer;
  BuiltPrompt prompt;
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool model = messages[i]["role"] == "assistant";
    prompt.ids.push_back(model ? kAnswer : kBegin);
    if (const auto it = known.find(i); it != known.end()) {
      prompt.ids.insert(prompt.ids.end(), it->second->ids.begin(), it->second->ids.end());
      continue;
    }
    uint64_t text = StableHash(messages[i]["content"].get<std::string>());
    for (int n = 0; n < 3; ++n, text >>= 16) {
      prompt.ids.push_back(static_cast<TokenId>(1000 + (text & 0xffff)));
    }
    prompt.ids.push_back(kEnd);
  }
  prompt.ids.push_back(kAnswer);
  return prompt;
}

Result<TurnPrompt> SimPrompts::Encode(const ChatRequest&, size_t) const {
  return Invalid("simulated clients send no raw prompts");
}

namespace {

class NaivePort final : public StorePort {
 public:
  NaivePort(std::unique_ptr<StorePort> port, const SimStore& store)
      : port_(std::move(port)), store_(store) {}

  void Submit(StoreOp op, uint64_t tag) override {
    if (auto* put = std::get_if<PutSession>(&op); put != nullptr && !put->trajectories.empty()) {
      put->trajectories = Branches(put->session);
    }
    port_->Submit(std::move(op), tag);
  }
  Mailbox<StoreDone>& events() override { return port_->events(); }

 private:
  static size_t SizeOf(const LiveTurn& turn) {
    return turn.prompt_tokens + static_cast<size_t>(turn.record.answer().ids_size());
  }

  std::vector<v1::Trajectory> Branches(const v1::Session& record) const {
    Session session(record);
    for (const v1::SessionTurn& turn : store_.durable().sessions.at(record.number()).turns) {
      TM_CHECK(session.Add(turn).ok());
    }
    std::vector<v1::Trajectory> branches;
    for (const auto& [number, leaf] : session.turns()) {
      const std::vector<TokenId> all = session.TokensOf(number, true);
      v1::Trajectory& branch = branches.emplace_back();
      branch.mutable_id()->set_task("session-" + std::to_string(record.number()));
      branch.mutable_id()->set_group(record.number());
      branch.mutable_id()->set_member(static_cast<uint32_t>(branches.size() - 1));
      branch.mutable_id()->set_attempt(std::max(1u, record.closes()));
      branch.set_purpose(v1::PURPOSE_LIVE);
      size_t end = 0;
      bool last = true;
      for (const auto& [other, turn] : session.turns()) {
        const std::vector<TokenId> tokens = session.TokensOf(other, true);
        const bool in =
            tokens.size() <= all.size() && std::equal(tokens.begin(), tokens.end(), all.begin());
        last = last &&
               (tokens.size() <= all.size() || !std::equal(all.begin(), all.end(), tokens.begin()));
        if (!in || tokens.size() <= end || turn.record.cut()) continue;
        auto& context = end == 0 ? *branch.mutable_prompt_ids()
                                 : *branch.mutable_turns()->rbegin()->mutable_observation_ids();
        context.Add(all.begin() + static_cast<long>(end), all.begin() + turn.prompt_tokens);
        *branch.add_turns() = turn.record.answer();
        end = SizeOf(turn);
      }
      if (!last || branch.turns_size() == 0) branches.pop_back();
    }
    return branches;
  }

  std::unique_ptr<StorePort> port_;
  const SimStore& store_;
};

}  // namespace

std::unique_ptr<StorePort> NaiveBranches(std::unique_ptr<StorePort> port, const SimStore& store) {
  return std::make_unique<NaivePort>(std::move(port), store);
}

}  // namespace tidemill::sim

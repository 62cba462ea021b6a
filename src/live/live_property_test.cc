// Conversations drawn at random, edited, branched, retried, abandoned and restarted: every sampled
// token is trained exactly once or has a reason, on exactly the tokens it was drawn behind.
#include <gtest/gtest.h>

#include <set>

#include "testing/live_fixture.h"

namespace tidemill {
namespace {

// What the engine was given and what it drew, kept apart from the code under test.
struct Drawn {
  std::vector<TokenId> prompt;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
};

class RandomClient {
 public:
  RandomClient(const ServedPolicy& policy, uint64_t seed)
      : world_(policy), random_(seed), policy_(policy) {
    world_.random = Random(seed + 1);
    histories_.push_back(WireJson::array({UserMessage(Words())}));
  }

  void Turn() {
    if (random_.Chance(0.05)) world_.Restart();
    if (random_.Chance(0.03)) world_.CloseAll();
    WireJson& history = histories_[random_.Below(histories_.size())];
    if (random_.Chance(0.2)) {
      histories_.push_back(Edited(history));
      return;
    }
    const std::map<std::string, std::string> headers = {{"x-session-id", "one"}};
    const Asked asked = world_.Ask(RequestOf(history, true), headers);
    ASSERT_TRUE(asked.status.ok()) << asked.status.message();
    const std::string text = Text();
    const WireJson message = ReadMessage(policy_, text);
    std::vector<TokenId> ids = DrawIds(policy_, text, random_, random_.Chance(0.8));
    RecordedTurn turn = LiveWorld::Turn(asked, ids, message, {}, 0);
    for (float& logprob : turn.output.logprobs) logprob = -static_cast<float>(++unique_) / 1e6f;
    if (random_.Chance(0.1)) {
      world_.recorder->Abandoned(std::move(turn), TurnLoss::kClientLeft, Closed("left"));
      world_.Step();
      return;
    }
    drawn_.push_back({asked.prompt.prompts[0], std::move(ids), turn.output.logprobs});
    world_.recorder->Finished(std::move(turn),
                              [](const Status& status) { ASSERT_TRUE(status.ok()); });
    world_.Step();
    history.push_back(Rewritten(message));
    history.push_back(
        random_.Chance(0.5)
            ? UserMessage(Words())
            : WireJson{{"role", "tool"}, {"content", Words()}, {"tool_call_id", "c"}});
  }

  // Every token of every finished turn, by its log-probability, which no two share.
  void Check() {
    world_.CloseAll();
    std::map<float, int> trained;
    std::map<float, std::vector<TokenId>> before;  // of the first token of a turn
    for (const Drawn& one : drawn_) before[one.logprobs.at(0)] = one.prompt;
    for (const v1::Trajectory& trajectory : world_.store.trajectories) {
      std::vector<TokenId> so_far(trajectory.prompt_ids().begin(), trajectory.prompt_ids().end());
      for (const v1::Turn& turn : trajectory.turns()) {
        ASSERT_EQ(turn.ids_size(), turn.logprobs_size());
        ASSERT_TRUE(before.contains(turn.logprobs(0)));
        EXPECT_EQ(before[turn.logprobs(0)], so_far) << "not what it was drawn behind";
        for (const float logprob : turn.logprobs()) ++trained[logprob];
        so_far.insert(so_far.end(), turn.ids().begin(), turn.ids().end());
        so_far.insert(so_far.end(), turn.observation_ids().begin(), turn.observation_ids().end());
      }
    }
    uint64_t all = 0;
    for (const Drawn& one : drawn_) {
      all += one.ids.size();
      for (size_t i = 0; i < one.ids.size(); ++i) {
        const auto it = trained.find(one.logprobs[i]);
        // Asked again after a restart, an answer that nothing continues may have been replaced.
        if (it != trained.end()) {
          EXPECT_EQ(it->second, 1);
        }
      }
    }
    EXPECT_LE(trained.size(), all);
    EXPECT_GE(trained.size() + replaced(), all);
  }

  uint64_t replaced() const {
    uint64_t tokens = 0;
    std::map<std::string, int> attempts;
    for (const auto& [number, turns] : world_.store.turns) {
      for (const v1::SessionTurn& turn : turns) {
        if (!turn.cut()) ++attempts[std::to_string(number) + "/" + std::to_string(turn.question())];
      }
      for (const v1::SessionTurn& turn : turns) {
        const std::string question = std::to_string(number) + "/" + std::to_string(turn.question());
        if (!turn.cut() && attempts[question] > 1) tokens += turn.answer().ids_size();
      }
    }
    return tokens;
  }

 private:
  std::string Words() {
    static const char* const words[] = {"sum",        "the",      "List\n", "größe", "<|im_end|>",
                                        "{\"a\": 1}", " x",       "tool",   "😀",     "\n\n",
                                        "tmk0c1kmt",  "</think>", "3.14"};
    std::string text;
    for (uint64_t n = 1 + random_.Below(5); n > 0; --n) text += words[random_.Below(13)];
    return text + std::to_string(random_.Below(1000));
  }

  std::string Text() {
    WireJson message = {{"role", "assistant"}, {"content", "say " + Words()}};
    if (random_.Chance(0.5))
      message["reasoning_content"] = "think " + std::to_string(random_.Below(99));
    if (random_.Chance(0.5)) {
      message["tool_calls"] = WireJson::array();
      message["tool_calls"].push_back(
          {{"function", {{"name", "bash"}, {"arguments", {{"b", Words()}, {"a", 1}}}}}});
    }
    return WrittenText(message);
  }

  // What comes back of an answer.
  WireJson Rewritten(WireJson message) {
    if (random_.Chance(0.5)) message.erase("reasoning_content");
    if (random_.Chance(0.3))
      message["content"] = "\n" + message["content"].get<std::string>() + "\n";
    if (message.contains("tool_calls") && random_.Chance(0.5))
      message["tool_calls"][0]["id"] = "other";
    if (random_.Chance(0.1)) message["content"] = "rewritten " + Words();
    return message;
  }

  WireJson Edited(const WireJson& history) {
    WireJson edited = WireJson::array();
    // Cut back, one message altered or left out: a branch, a compaction.
    const size_t length = 1 + random_.Below(history.size());
    const size_t victim = random_.Below(2 * history.size());
    for (size_t i = 0; i < length; ++i) {
      if (i == victim && random_.Chance(0.5) && i > 0) continue;
      edited.push_back(history[i]);
      if (i == victim) edited.back()["content"] = Words();
    }
    if (edited.empty() || edited.back()["role"] == "assistant")
      edited.push_back(UserMessage(Words()));
    return edited;
  }

  LiveWorld world_;
  Random random_;
  const ServedPolicy& policy_;
  std::vector<WireJson> histories_;
  std::vector<Drawn> drawn_;
  uint64_t unique_ = 0;
};

TEST(LiveProperty, EverySampledTokenIsTrainedOnceOnWhatItWasDrawnBehind) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomClient client(policy, seed);
    for (int turn = 0; turn < 30; ++turn) client.Turn();
    client.Check();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tidemill

// For tests: an engine and tools on a virtual clock whose every answer a seed decides.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "engine/engine_port.h"
#include "tools/tool_cache.h"
#include "tools/tool_port.h"

namespace tidemill {

struct SeededDraws {
  std::map<TokenId, double> shares;  // how often these are drawn; else one from 50 to 99, text
  TokenId stop = 0;
  size_t most = 80;  // tokens in a turn
};

// Draws by the seed and the tokens before, as the engine does; a token in each tick.
class SeededEngine final : public EnginePort {
 public:
  explicit SeededEngine(SeededDraws draws) : draws_(std::move(draws)) {}
  void Start(SequenceStart start) override {
    Running& running = running_[start.id];
    running.tokens = std::move(start.prompt);
    running.stream = start.stream;
    Begin(running, start.turn);
  }
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override {
    Running& running = running_.at(id);
    running.tokens.insert(running.tokens.end(), append.begin(), append.end());
    Begin(running, turn);
  }
  void Release(SequenceId id) override { running_.erase(id); }
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  TurnFeed* episode_feed() override { return &episode_feed_; }
  EngineStats Stats() const override { return {}; }
  uint64_t version() const override { return 1; }

  void Tick() {
    std::vector<TurnDelta> deltas;
    for (auto& [id, running] : running_) {
      if (!running.drawing) continue;
      TurnDelta delta = Draw(id, running);
      running.drawing = !delta.done;
      AppendPart(running.whole, delta.part);
      if (running.stream) {
        deltas.push_back(std::move(delta));
      } else if (delta.done) {
        events_.Post({Ok(), std::move(running.whole)});
      }
    }
    episode_feed_.Post(std::move(deltas));
  }

 private:
  struct Running {
    std::vector<TokenId> tokens;
    TurnOutput whole;
    uint64_t seed = 0;
    bool stream = false, drawing = false;
  };
  static void Begin(Running& running, const TurnParams& turn) {
    running.seed = turn.seed;
    running.whole = {};
    running.drawing = true;
  }
  TurnDelta Draw(SequenceId id, Running& running) {
    Random random(MixHash(running.seed, running.tokens.size()));
    const double chance = random.Uniform();
    auto token = static_cast<TokenId>(50 + random.Below(50));
    double below = 0;
    for (const auto& [id, share] : draws_.shares) {
      if (chance >= below && chance < below + share) token = id;
      below += share;
    }
    running.tokens.push_back(token);
    TurnDelta delta;
    delta.part.id = id;
    delta.part.ids = {token};
    delta.part.logprobs = {-static_cast<float>(chance)};
    delta.part.versions = {{1, 1}};
    delta.done = token == draws_.stop || running.whole.ids.size() + 1 >= draws_.most;
    delta.part.finish = token == draws_.stop ? TurnFinish::kStop : TurnFinish::kLength;
    return delta;
  }

  const SeededDraws draws_;
  std::map<SequenceId, Running> running_;
  TurnFeed feed_, episode_feed_;
  Mailbox<EngineEvent> events_{10'000};
};

// What a tool says is decided by what it was asked; it takes its time.
class SlowPort final : public ToolPort {
 public:
  SlowPort(const VirtualClock& clock, Duration takes) : clock_(clock), takes_(takes) {}
  size_t capacity(ToolLane) const override { return 5000; }
  void Submit(v1::ToolRequest request, uint64_t tag) override {
    ToolCompletion done;
    done.tag = tag;
    const uint64_t drawn = StableHash(ToolRequestHash(request) + request.request_id());
    done.result.set_outcome(drawn % 7 == 0 ? v1::OUTCOME_FAILED : v1::OUTCOME_OK);
    done.result.set_text("said to " + request.request_id());
    done.result.set_tests_total(4);
    done.result.set_tests_passed(static_cast<uint32_t>(drawn % 5));
    *done.result.mutable_tree() = request.tree();
    if (request.tool() == "write_file") {
      v1::File& file = *done.result.mutable_tree()->add_files();
      file.set_path(request.request_id() + ".c"), file.set_content(done.result.text());
      file.set_has_content(true), file.set_hash(Sha256Hex(file.content()));
    }
    waiting_.emplace_back(clock_.Now() + takes_, std::move(done));
  }
  void Cancel(const v1::TrajectoryId&) override {}
  void CancelOne(uint64_t) override { ++cancelled; }
  Mailbox<ToolCompletion>& completions() override { return completions_; }
  void Tick() {
    while (!waiting_.empty() && waiting_.front().first <= clock_.Now()) {
      completions_.Post(std::move(waiting_.front().second));
      waiting_.pop_front();
    }
  }
  size_t cancelled = 0;

 private:
  const VirtualClock& clock_;
  const Duration takes_;
  std::deque<std::pair<Time, ToolCompletion>> waiting_;
  Mailbox<ToolCompletion> completions_{10'000};
};

}  // namespace tidemill

// Calls that begin early give what calls that begin late give: the same episodes, bit for bit, in
// less time.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/topics.h"
#include "rollout/rollout_loop.h"
#include "testing/bus_test_kit.h"
#include "testing/scripted_talk.h"
#include "testing/test_kit.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

constexpr uint32_t kMembers = 8, kGroups = 250;  // 2,000 episodes
constexpr auto kTokenTime = milliseconds(4);
constexpr auto kToolTime = milliseconds(200);
constexpr TokenId kStop = 0, kAskCompile = 20, kAskLint = 21, kAskWrite = 22, kNoSense = 9;

// Draws by the seed and the tokens before, as the engine does; a token in each tick.
class SeededEngine final : public EnginePort {
 public:
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
  static TurnDelta Draw(SequenceId id, Running& running) {
    Random random(MixHash(running.seed, running.tokens.size()));
    const double chance = random.Uniform();
    TokenId token = static_cast<TokenId>(50 + random.Below(50));
    if (chance < 0.03)
      token = kStop;
    else if (chance < 0.08)
      token = kAskCompile;
    else if (chance < 0.11)
      token = kAskLint;
    else if (chance < 0.12)
      token = kAskWrite;
    else if (chance < 0.125)
      token = kNoSense;
    running.tokens.push_back(token);
    TurnDelta delta;
    delta.part.id = id;
    delta.part.ids = {token};
    delta.part.logprobs = {-static_cast<float>(chance)};
    delta.part.versions = {{1, 1}};
    delta.done = token == kStop || running.whole.ids.size() >= 79;
    delta.part.finish = token == kStop ? TurnFinish::kStop : TurnFinish::kLength;
    return delta;
  }

  std::map<SequenceId, Running> running_;
  TurnFeed feed_, episode_feed_;
  Mailbox<EngineEvent> events_{10'000};
};

// What a tool says is decided by what it was asked; it takes its time.
class SlowPort final : public ToolPort {
 public:
  explicit SlowPort(const VirtualClock& clock) : clock_(clock) {}
  size_t capacity(ToolLane) const override { return 5000; }
  void Submit(v1::ToolRequest request, uint64_t tag) override {
    ToolCompletion done;
    done.tag = tag;
    const uint64_t drawn = StableHash(ToolRequestHash(request) + request.request_id());
    done.result.set_outcome(drawn % 7 == 0 ? v1::OUTCOME_FAILED : v1::OUTCOME_OK);
    done.result.set_text("said " + std::to_string(drawn));
    done.result.set_tests_total(4);
    done.result.set_tests_passed(static_cast<uint32_t>(drawn % 5));
    *done.result.mutable_tree() = request.tree();
    if (request.tool() == "write_file") {
      v1::File& file = *done.result.mutable_tree()->add_files();
      file.set_path(request.request_id() + ".c"), file.set_content(done.result.text());
      file.set_has_content(true), file.set_hash(Sha256Hex(file.content()));
    }
    waiting_.emplace_back(clock_.Now() + kToolTime, std::move(done));
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
  std::deque<std::pair<Time, ToolCompletion>> waiting_;
  Mailbox<ToolCompletion> completions_{10'000};
};

struct Finished {
  std::map<std::pair<uint64_t, uint32_t>, std::string> episodes;  // bytes without times
  std::vector<int64_t> lengths_ms;
  uint64_t early = 0, cancelled = 0;
};

Finished RunEpisodes(bool eager) {
  QuietWaker waker;
  VirtualClock clock;
  MemoryBus bus(clock);
  EXPECT_TRUE(OpenStandardTopics(bus, {.capacity = 10'000}).ok());
  SeededEngine engine;
  SlowPort port(clock);
  const ScriptedProtocol protocol({.calls = {{kAskCompile, {"compile", "{}"}},
                                             {kAskLint, {"lint", "{}"}},
                                             {kAskWrite, {"write_file", "{}"}}},
                                   .stop = kStop,
                                   .nonsense = kNoSense});
  RolloutOptions options;
  options.max_episodes = 4000;
  options.limits.eager = eager;
  RolloutLoop rollout(bus, engine, protocol, clock, options);
  ToolLoopOptions tool_options;
  tool_options.cache_results = 0;
  ToolLoop tools(bus, port, tool_options);
  rollout.Attach(waker), tools.Attach(waker);
  bus.Subscribe(kTrajectoriesTopic, waker);
  for (uint64_t group = 1; group <= kGroups; ++group) {
    v1::GroupLease lease;
    lease.set_group(group), lease.set_members(kMembers), lease.set_max_turns(4);
    lease.set_seed(MixHash(99, group));
    lease.mutable_task()->set_id("t" + std::to_string(group % 9));
    lease.set_purpose(v1::PURPOSE_TRAIN);
    lease.mutable_sampling()->set_temperature(1);
    lease.mutable_sampling()->set_max_turn_tokens(80);
    EXPECT_TRUE(bus.Publish(kGroupsTopic, lease.SerializeAsString()).ok());
  }
  Finished finished;
  for (int tick = 0; tick < 20'000 && finished.episodes.size() < kGroups * kMembers; ++tick) {
    engine.Tick(), port.Tick();
    // What one of them sends the other takes in the same tick.
    for (int i = 0; i < 2; ++i) {
      (void)rollout.Step(clock.Now());
      (void)tools.Step(clock.Now());
    }
    for (Lease& lease : bus.Receive(kTrajectoriesTopic, 1000).value()) {
      v1::Trajectory trajectory;
      EXPECT_TRUE(trajectory.ParseFromString(lease.body));
      (void)bus.Ack(lease);
      finished.lengths_ms.push_back(trajectory.finished_ms() - trajectory.started_ms());
      const std::pair id(trajectory.id().group(), trajectory.id().member());
      finished.episodes[id] = WithoutTimes(std::move(trajectory));
    }
    clock.Advance(kTokenTime);
  }
  finished.early = rollout.counters().early_calls;
  finished.cancelled = rollout.counters().cancelled_calls;
  return finished;
}

TEST(EagerCalls, TwoThousandEpisodesAreTheSameBitForBitAndShorter) {
  const Finished late = RunEpisodes(false), early = RunEpisodes(true);
  ASSERT_EQ(late.episodes.size(), size_t{kGroups} * kMembers);
  ASSERT_EQ(early.episodes.size(), late.episodes.size());
  for (const auto& [id, bytes] : late.episodes) {
    ASSERT_EQ(early.episodes.at(id), bytes) << "group " << id.first << " member " << id.second;
  }
  EXPECT_EQ(late.early, 0u);
  EXPECT_GT(early.early, 1000u);
  EXPECT_GT(early.cancelled, 50u) << "turns that ended malformed or too long took calls back";
  const auto total = [](const Finished& of) {
    int64_t sum = 0;
    for (const int64_t ms : of.lengths_ms) sum += ms;
    return sum;
  };
  EXPECT_LT(total(early), total(late));
}

}  // namespace
}  // namespace tidemill

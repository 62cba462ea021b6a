// examples/agent.py in boxes against the protocol "compact": the same tasks, seeds and engine, so
// the same ids. TIDEMILL_AGENT_TASKS says how many tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "agents/agent_fixture.h"
#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "rollout/rollout_loop.h"
#include "tasks/cfunc.h"
#include "tasks/cfunc_task.h"
#include "tasks/cfunc_vocab.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

// Draws depend on the last token, the seed and the position, as a model's would; answers are short
// expressions, some of which compile.
class ExpressionBackend final : public DecodeBackend {
 public:
  struct Ready final : ReadyWeights {};

  ExpressionBackend(const Tokenizer& tokenizer, int32_t pages) : pages_(static_cast<size_t>(pages)) {
    for (const char* text : {"a", "b", "+", "1", "-"}) {
      ids_.push_back(tokenizer.Encode(text, SpecialTokens::kAsText).at(0));
    }
    ids_.push_back(tokenizer.AddedTokenId(kCfuncEnd).value());
  }

  Result<std::shared_ptr<ReadyWeights>> Prepare(std::shared_ptr<const Weights>) const override {
    return std::shared_ptr<ReadyWeights>(std::make_shared<Ready>());
  }
  Status Take(ReadyWeights&, int32_t) override { return Ok(); }
  void CopyPage(PageId from, PageId to) override { At(to) = At(from); }
  bool Foresees(const SamplingParams&) const override { return false; }
  Status Start(std::span<const StepSegment> segments) override {
    std::vector<Drawn> drawn(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      const StepSegment& s = segments[i];
      int32_t position = s.first;
      for (const TokenId token : s.tokens) {
        At(s.pages[static_cast<size_t>(position / kPageSlots)])[position % kPageSlots] = token;
        ++position;
      }
      if (!s.draw) continue;
      const int32_t last = position - 1;
      const auto before = static_cast<uint64_t>(
          At(s.pages[static_cast<size_t>(last / kPageSlots)])[last % kPageSlots]);
      const uint64_t hash = MixHash(MixHash(before, s.seed), static_cast<uint64_t>(position));
      drawn[i].id = ids_[hash % ids_.size()];
      drawn[i].logprob = drawn[i].full_logprob = drawn[i].model_logprob = -1.5f;
    }
    done_.push_back(std::move(drawn));
    return Ok();
  }
  Status Finish(std::span<Drawn> drawn) override {
    std::move(done_.front().begin(), done_.front().end(), drawn.begin());
    done_.pop_front();
    return Ok();
  }

 private:
  using Page = std::array<TokenId, kPageSlots>;
  Page& At(PageId page) { return pages_.at(static_cast<size_t>(page)); }

  std::vector<TokenId> ids_;
  std::vector<Page> pages_;
  std::deque<std::vector<Drawn>> done_;
};

using Ids = std::vector<uint32_t>;

class AgentEqualityTest : public testing::Test {
 protected:
  static constexpr uint32_t kMembers = 2;
  static constexpr int32_t kContext = 128;

  void SetUp() override {
    ASSERT_TRUE(WriteCfuncModelFiles(dir_.path(), CfuncModelShape()).ok());
    policy_ = std::make_unique<ServedPolicy>(ReadServedPolicy(dir_.path()).value());
    ASSERT_TRUE(policy_->chat) << policy_->no_chat_reason;
    const char* count = getenv("TIDEMILL_AGENT_TASKS");
    CfuncOptions options;
    options.count = count != nullptr ? std::stoull(count) : 12;
    options.seed = 5;
    for (const v1::Task& task : CfuncTasks(GenerateCfunc(options).value(), options)) {
      v1::GroupLease& lease = leases_.emplace_back();
      *lease.mutable_task() = task;
      lease.mutable_task()->clear_grading();
      lease.set_group(leases_.size());
      lease.set_members(kMembers);
      lease.set_seed(MixHash(3, leases_.size()));
      lease.set_purpose(v1::PURPOSE_TRAIN);
      lease.set_max_turns(3);
      lease.mutable_sampling()->set_temperature(1);
      lease.mutable_sampling()->set_max_turn_tokens(24);
    }
  }

  std::unique_ptr<EngineThread> NewEngineThread() {
    auto backend = std::make_unique<ExpressionBackend>(policy_->tokenizer, 4096);
    auto engine = NewBatchEngine(
        {.scheduling = {.pages = 4096,
                        .max_context = kContext,
                        .max_running = 64,
                        .prefill_chunk = 512,
                        .live_share = 0.5,
                        .cache_seed = 7},
         .vocabulary = policy_->tokenizer.vocab_size(),
         .version = 1,
         .versions = 1,
         .token_bytes =
             [this](TokenId id) { return std::string(policy_->tokenizer.TokenBytes(id)); }},
        std::move(backend));
    return std::make_unique<EngineThread>(std::move(engine), *channel_, clock_,
                                          EngineThreadOptions{});
  }

  // All leases through a rollout loop of its own: trajectories by task and member.
  std::map<std::string, v1::Trajectory> Roll(EngineThread& engine, AgentPort* agents,
                                             ToolPort* tools) {
    MemoryBus bus(clock_);
    EXPECT_TRUE(OpenStandardTopics(bus, {}).ok());
    const auto protocol = NewCompactProtocol(policy_->tokenizer).value();
    RolloutOptions options;
    options.max_context = kContext;
    options.secret = "secret";
    RolloutLoop rollout(bus, engine, *protocol, clock_, options, agents);
    std::unique_ptr<ToolLoop> tool_loop;
    LoopRunner runner;
    runner.Add(rollout);
    if (tools != nullptr) {
      tool_loop = std::make_unique<ToolLoop>(bus, *tools, clock_, ToolLoopOptions{});
      runner.Add(*tool_loop);
    }
    for (const v1::GroupLease& lease : leases_) {
      EXPECT_TRUE(bus.Publish(kGroupsTopic, lease.SerializeAsString()).ok());
    }
    EXPECT_TRUE(runner.Start().ok());
    std::map<std::string, v1::Trajectory> trajectories;
    EXPECT_TRUE(Eventually(
        [&] {
          for (const Lease& lease : bus.Receive(kTrajectoriesTopic, 64).value()) {
            v1::Trajectory one;
            EXPECT_TRUE(one.ParseFromString(lease.body));
            (void)bus.Ack(lease);
            trajectories[one.id().task() + "/" + std::to_string(one.id().member())] = one;
          }
          return trajectories.size() == leases_.size() * kMembers;
        },
        std::chrono::seconds(60 + static_cast<int>(leases_.size()) * 2)));
    EXPECT_TRUE(runner.Drain(std::chrono::seconds(10)).ok());
    return trajectories;
  }

  static std::vector<Ids> Drawn(const v1::Trajectory& trajectory) {
    std::vector<Ids> drawn;
    for (const v1::Turn& turn : trajectory.turns()) {
      drawn.emplace_back(turn.ids().begin(), turn.ids().end());
    }
    return drawn;
  }

  TemporaryDirectory dir_;
  RealClock clock_;
  std::unique_ptr<ServedPolicy> policy_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  std::vector<v1::GroupLease> leases_;
};

TEST_F(AgentEqualityTest, TheExampleAgentDrawsWhatTheCompactProtocolDraws) {
  auto tools = ToolExecutor::Create({}, nullptr, clock_);
  ASSERT_TRUE(tools.ok()) << tools.status().ToString();
  const auto own_engine = NewEngineThread();
  const auto compact = Roll(*own_engine, nullptr, tools->get());

  const auto engine = NewEngineThread();
  auto recorder = EpisodeRecorder::Make(*policy_, clock_, 16,
                                        std::make_unique<PlainRecorder>(*policy_));
  ASSERT_TRUE(recorder.ok());
  GatewayOptions gateway_options;
  gateway_options.plan.context_tokens = kContext;
  Metrics metrics;
  auto gateway =
      Gateway::Start(gateway_options, *policy_, *engine, **recorder, clock_, metrics);
  ASSERT_TRUE(gateway.ok()) << gateway.status().ToString();
  AgentRunnerOptions options;
  options.program.command = {"/usr/bin/python3", "/agent/agent.py"};
  options.program.mounts = {{TIDEMILL_SOURCE_DIR "/examples/agent.py", "/agent/agent.py"}};
  options.program.limits.wall = options.program.limits.cpu = std::chrono::seconds(60);
  options.program.model = "policy";
  options.slots = 4;
  auto agents = AgentRunner::Create(options, **gateway, **recorder, nullptr, clock_);
  ASSERT_TRUE(agents.ok()) << agents.status().ToString();
  const auto programs = Roll(*engine, agents->get(), nullptr);

  size_t turns = 0;
  for (const auto& [name, theirs] : compact) {
    ASSERT_EQ(programs.count(name), 1u) << name;
    const v1::Trajectory& ours = programs.at(name);
    EXPECT_EQ(Drawn(ours), Drawn(theirs)) << name;
    EXPECT_EQ(Ids(ours.prompt_ids().begin(), ours.prompt_ids().end()),
              Ids(theirs.prompt_ids().begin(), theirs.prompt_ids().end()))
        << name;
    for (int t = 0; t + 1 < std::min(ours.turns_size(), theirs.turns_size()); ++t) {
      const auto& mine = ours.turns(t).observation_ids();
      const auto& other = theirs.turns(t).observation_ids();
      EXPECT_EQ(Ids(mine.begin(), mine.end()), Ids(other.begin(), other.end())) << name;
    }
    turns += static_cast<size_t>(ours.turns_size());
  }
  EXPECT_GT(turns, compact.size());  // some went on after a failure
  EXPECT_EQ(compact.size(), leases_.size() * kMembers);
}

}  // namespace
}  // namespace tidemill

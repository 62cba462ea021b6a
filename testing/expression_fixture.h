// For tests and benches: an engine that writes short C expressions without computing anything, and
// groups of the demo's tasks rolled out over it, by the protocol "compact" or by programs.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/loop_runner.h"
#include "core/random.h"
#include "core/topics.h"
#include "engine/batch_engine.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/engine_port.h"
#include "gateway/served_policy.h"
#include "rollout/agent_port.h"
#include "rollout/rollout_loop.h"
#include "testbeds/cfunc.h"
#include "testbeds/cfunc_task.h"
#include "testbeds/cfunc_vocab.h"
#include "tools/tool_loop.h"
#include "tools/tool_port.h"
#include "weights/weight_channel.h"

namespace tidemill {

// Draws depend on the last token, the seed and the position, as a model's would; answers are short
// expressions, some of which compile.
class ExpressionBackend final : public DecodeBackend {
 public:
  struct Ready final : ReadyWeights {};

  ExpressionBackend(const Tokenizer& tokenizer, int32_t pages)
      : pages_(static_cast<size_t>(pages)) {
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

inline constexpr int32_t kExpressionContext = 128;  // of the demo's model

inline std::unique_ptr<EngineThread> NewExpressionEngine(const ServedPolicy& policy,
                                                         WeightChannel& channel,
                                                         const Clock& clock) {
  constexpr int32_t kPages = 4096;
  auto engine = NewBatchEngine(
      {.scheduling = {.pages = kPages,
                      .max_context = kExpressionContext,
                      .max_running = 64,
                      .prefill_chunk = 512,
                      .live_share = 0.5,
                      .cache_seed = 7},
       .vocabulary = policy.tokenizer.vocab_size(),
       .version = 1,
       .versions = 1,
       .token_bytes =
           [&policy](TokenId id) { return std::string(policy.tokenizer.TokenBytes(id)); }},
      std::make_unique<ExpressionBackend>(policy.tokenizer, kPages));
  return std::make_unique<EngineThread>(std::move(engine), channel, clock, EngineThreadOptions{});
}

// Groups of two, three turns at most.
inline std::vector<v1::GroupLease> ExpressionLeases(uint64_t tasks) {
  CfuncOptions options;
  options.count = tasks;
  options.seed = 5;
  std::vector<v1::GroupLease> leases;
  for (const v1::Task& task : CfuncTasks(GenerateCfunc(options).value(), options)) {
    v1::GroupLease& lease = leases.emplace_back();
    *lease.mutable_task() = task;
    lease.mutable_task()->clear_grading();
    lease.set_group(leases.size());
    lease.set_members(2);
    lease.set_seed(MixHash(3, leases.size()));
    lease.set_purpose(v1::PURPOSE_TRAIN);
    lease.set_max_turns(3);
    lease.mutable_sampling()->set_temperature(1);
    lease.mutable_sampling()->set_max_turn_tokens(24);
  }
  return leases;
}

// All leases through a rollout loop of its own: trajectories by task and member. Of `agents` and
// `tools` one is null. Those that did not come in `limit` are missing.
inline std::map<std::string, v1::Trajectory> RollOut(const std::vector<v1::GroupLease>& leases,
                                                     const AgentProtocol& protocol,
                                                     EnginePort& engine, AgentPort* agents,
                                                     ToolPort* tools, const Clock& clock,
                                                     Duration limit) {
  MemoryBus bus(clock);
  Status status = OpenStandardTopics(bus, {});
  RolloutOptions options;
  options.max_context = kExpressionContext;
  options.secret = "secret";
  RolloutLoop rollout(bus, engine, protocol, clock, options, agents);
  std::unique_ptr<ToolLoop> tool_loop;
  LoopRunner runner;
  runner.Add(rollout);
  if (tools != nullptr) {
    tool_loop = std::make_unique<ToolLoop>(bus, *tools, ToolLoopOptions{});
    runner.Add(*tool_loop);
  }
  size_t wanted = 0;
  for (const v1::GroupLease& lease : leases) {
    wanted += lease.members();
    if (status.ok()) status = bus.Publish(kGroupsTopic, lease.SerializeAsString());
  }
  if (status.ok()) status = runner.Start();
  TM_CHECK(status.ok(), status.message());
  std::map<std::string, v1::Trajectory> trajectories;
  const Time end = clock.Now() + limit;
  while (trajectories.size() < wanted && clock.Now() < end) {
    for (const Lease& lease : bus.Receive(kTrajectoriesTopic, 64).value()) {
      v1::Trajectory one;
      TM_CHECK(one.ParseFromString(lease.body), "what the loop sent can be read");
      (void)bus.Ack(lease);
      trajectories[one.id().task() + "/" + std::to_string(one.id().member())] = one;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  (void)runner.Drain(std::chrono::seconds(10));
  return trajectories;
}

}  // namespace tidemill

// The keys of [rollout] and [eval]: how episodes go, and which are evaluations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct RolloutConfig {
  TM_SECTION("rollout");
  TM_KEY(uint32_t, group_size, 8,
         {.doc = "Episodes per group (G): attempts at one task that are compared with each other",
          .min = 1,
          .max = 1024});
  TM_KEY(uint32_t, groups_per_step, 8,
         {.doc = "Groups per batch; batch size B = groups_per_step * group_size",
          .min = 1,
          .max = 65536});
  TM_KEY(uint32_t, max_in_flight, 256,
         {.doc = "Maximum number of episodes in flight", .min = 1, .max = 65536});
  TM_KEY(uint32_t, max_turns, 4,
         {.doc = "Maximum number of turns per episode", .min = 1, .max = 1000});
  TM_KEY(uint32_t, max_turn_tokens, 512,
         {.doc = "Maximum number of tokens the model writes per turn", .min = 1, .max = 1 << 20});
  TM_KEY(uint32_t, max_context, 0,
         {.doc = "Maximum number of tokens per episode; 0: the model's context length"});
  TM_KEY(double, temperature, 1.0,
         {.doc = "Sampling temperature in training; the learner applies it too",
          .min = 0.01,
          .max = 10});
  TM_KEY(double, top_p, 1.0,
         {.doc = "Training samples from the fewest tokens that together have this probability; the "
                 "learner normalises over them; 1: from all",
          .min = 0.01,
          .max = 1});
  TM_KEY(uint32_t, top_k, 0,
         {.doc = "Training samples from so many of the most likely tokens; 0: from all",
          .max = 1 << 20});
  TM_KEY(double, min_p, 0.0,
         {.doc = "Training samples from tokens at least so likely as this share of the most likely "
                 "one; 0: from all",
          .min = 0,
          .max = 1});
  TM_KEY(
      std::string, constrain, "none",
      {.doc = "tools: turns are drawn so that their tool calls are well formed and satisfy their "
              "schemas; the learner normalises over what each token was drawn from",
       .choices = {"none", "tools"}});
  TM_KEY(uint32_t, observation_tokens, 512,
         {.doc = "Maximum number of tokens of tool results appended after a turn",
          .min = 1,
          .max = 1 << 20});
  TM_KEY(uint32_t, calls_per_turn, 8,
         {.doc = "Maximum number of tool calls per turn", .min = 1, .max = 64});
  TM_KEY(uint32_t, tool_retries, 3,
         {.doc = "Retries of a tool call after a system failure", .min = 0, .max = 20});
  TM_KEY(std::string, on_unavailable, "stale",
         {.doc = "After the last retry: stale keeps the episode out of training; skip tells the "
                 "agent that the tool is unavailable",
          .choices = {"stale", "skip"}});
  TM_KEY(
      bool, eager, true,
      {.doc = "Start calls of tools that change nothing when their last token is drawn, not when "
              "their turn ends; see tools.md#while-tools-run"});
  TM_KEY(std::string, deliver, "turn",
         {.doc = "Results of background calls: turn: in front of the next turn; now: they end the "
                 "turn that is being drawn",
          .choices = {"turn", "now"}});
  TM_KEY(std::string, on_submit, "cancel",
         {.doc = "Background calls that run when the episode ends: cancel them, or wait for them",
          .choices = {"cancel", "wait"}});
  TM_KEY(std::string, cache_on_swap, "keep",
         {.doc = "Key-value cache on a weight update: keep it, or rebuild it under the new weights",
          .choices = {"keep", "rebuild"}});
  TM_KEY(
      uint32_t, cache_mb, 0,
      {.doc =
           "Memory of the key-value cache; 0: 512 on a CPU, a quarter of the free memory on a GPU",
       .max = 1 << 24});
  TM_KEY(uint32_t, prefill_chunk, 512,
         {.doc = "Maximum number of prompt tokens per engine step, so that prefill does not stall "
                 "decoding",
          .min = 1,
          .max = 65536});

  bool constrains_calls() const { return constrain == "tools"; }
  bool delivers_now() const { return deliver == "now"; }
  bool awaits_at_end() const { return on_submit == "wait"; }
  // A call given up makes the episode stale; false: the agent is told.
  bool stale_on_unavailable() const { return on_unavailable == "stale"; }
};

// Which built-in tools run while their agent goes on, and what bounds it.
struct BackgroundConfig {
  TM_SECTION("background");
  TM_KEY(std::vector<std::string>, allowed, {},
         {.doc = "Built-in tools whose calls go on in the background where the agent asks for it",
          .choices = {"compile", "lint", "run_tests", "read_file"}});
  TM_KEY(std::vector<std::string>, always, {},
         {.doc = "Built-in tools whose calls always go on in the background",
          .choices = {"compile", "lint", "run_tests", "read_file"}});
  TM_KEY(uint32_t, jobs, 8,
         {.doc = "Maximum number of background calls of an episode that run at once",
          .min = 1,
          .max = 64});
  TM_KEY(uint32_t, held_kb, 64,
         {.doc = "Maximum size of an episode's results that wait for delivery",
          .min = 1,
          .max = 1 << 16});
  TM_KEY(milliseconds, total, milliseconds(600'000),
         {.doc = "Maximum time that all background calls of an episode may run, added up",
          .min = 1,
          .max = 8.64e7});
};

struct EvalConfig {
  TM_SECTION("eval");
  TM_KEY(uint32_t, samples, 4, {.doc = "Episodes per held-out task", .min = 1, .max = 1024});
  TM_KEY(uint32_t, max_turns, 0,
         {.doc = "Maximum number of turns in evaluation; 0: as in training", .max = 1000});
  TM_KEY(double, temperature, 1.0,
         {.doc = "Sampling temperature in evaluation; 0: greedy", .min = 0, .max = 10});
  TM_KEY(uint64_t, every_steps, 0,
         {.doc = "Steps between evaluations during training; 0: none", .max = 1e9});
  TM_KEY(bool, before, true, {.doc = "Evaluate before the first step"});
  TM_KEY(bool, after, true, {.doc = "Evaluate after the last step"});
  TM_KEY(bool, greedy, false, {.doc = "Also evaluate with greedy decoding"});
  TM_KEY(uint32_t, also_max_turns, 0,
         {.doc = "Also evaluate with this many turns; 0: no", .max = 1000});
};

}  // namespace tidemill

// How much memory a run takes, before anything is loaded: one set of formulas, which follow what
// the engine and the learner allocate.
//
//   config.json, settings of a run, memory of a device -> PlanMemory -> rows, what fits
//
// Formulas of the GPU stand in plan_gpu.cc, those of the CPU in plan_cpu.cc; what each follows is
// named beside it. Whoever changes what is allocated changes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace tidemill {

// A policy of a run of several.
struct PlanPolicy {
  std::string name;
  int64_t lora_rank = 0;  // 0: the base alone
  bool trained = false;
};

struct PlanInput {
  ModelConfig model;
  bool gpu = true;
  uint64_t memory_bytes = 0;  // of the device; 0: unknown, everything fits
  bool trains = true;         // the learner is in this process
  bool generates = true;      // the engine is

  int64_t lora_rank = 0;      // 0: all weights are trained
  bool lora_experts = false;  // the adapter is on experts too
  // Adapters on one base; empty: there is one policy, of lora_rank.
  std::vector<PlanPolicy> policies{};
  bool reference = false;    // a KL term compares with the weights of the start
  uint64_t updates = 1;      // of a step; more than one keeps what undoes it
  int64_t token_budget = 0;  // 0: chosen
  bool recompute = false;    // chosen as well, where the budget is
  // Moments in a byte each, on a GPU also narrow weights and gradients. Nothing: chosen.
  std::optional<bool> block_moments{};
  // The optimizer's state on the host, of narrow weights on a GPU. Nothing: chosen.
  std::optional<bool> state_on_host{};
  uint64_t host_memory_bytes = 0;  // of the host beside a GPU; 0: unknown, everything fits
  uint64_t teacher_bytes = 0;      // of a teacher's weights in this process
  bool policy_teaches = false;     // a teacher that is the policy keeps a published version
  bool keys = false;               // memory reads prompts with the weights of the start

  uint64_t cache_bytes = 0;  // 0: chosen
  int64_t max_context = 0;   // 0: the model's
  int64_t max_running = 1024;
  int64_t prefill_chunk = 512;
  int64_t versions = 1;
  bool int8_weights = false;  // of the engine on a CPU
};

// A part of the memory: "learner", "engine", "program"; what it is for.
struct PlanRow {
  std::string part;
  std::string what;
  uint64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<PlanRow> rows;
  uint64_t total_bytes = 0;
  uint64_t memory_bytes = 0;       // as given
  uint64_t host_bytes = 0;         // of the host, for the optimizer's state; no part of the total
  uint64_t host_memory_bytes = 0;  // as given
  // As given, or chosen where that was left open.
  int64_t token_budget = 0;
  bool recompute = false;
  bool block_moments = false;
  bool state_on_host = false;
  uint64_t cache_bytes = 0;
  // Where it does not fit: settings that would, each with what they need together, such as
  // "learner.recompute = true, learner.token_budget = 4096". Empty: nothing does.
  struct Choice {
    std::string settings;
    uint64_t total_bytes = 0;
  };
  std::vector<Choice> would_fit;

  bool fits_host() const { return host_memory_bytes == 0 || host_bytes <= host_memory_bytes; }
  bool fits() const { return (memory_bytes == 0 || total_bytes <= memory_bytes) && fits_host(); }
};

MemoryPlan PlanMemory(const PlanInput& input);

// Rows for settings without open choices; PlanMemory makes them.
std::vector<PlanRow> PlanOnGpu(const PlanInput& input);
std::vector<PlanRow> PlanOnCpu(const PlanInput& input);
// The optimizer's share of the memory of a GPU's host.
uint64_t PlanOnHost(const PlanInput& input);

// Numbers in an adapter on all projections, and on experts where that is wanted.
int64_t AdapterParameters(const ModelConfig& model, int64_t rank, bool experts = false);
// On experts alone.
int64_t ExpertAdapterParameters(const ModelConfig& model, int64_t rank);
// Of keys and values of one token.
uint64_t CacheTokenBytes(const ModelConfig& model, bool gpu);

// "12.3 GiB", "512 MiB".
std::string BytesText(uint64_t bytes);

}  // namespace tidemill

#include "model/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tidemill {
namespace {

constexpr int64_t kBudgetMost = 16384;
constexpr int64_t kBudgetGood = 4096;
constexpr int64_t kBudgetLeast = 1024;
constexpr int64_t kPageTokens = 16;
constexpr uint64_t kCpuCache = uint64_t{512} << 20;

uint64_t Sum(const std::vector<PlanRow>& rows) {
  uint64_t sum = 0;
  for (const PlanRow& row : rows) sum += row.bytes;
  return sum;
}

uint64_t Total(const PlanInput& input) {
  return Sum(input.gpu ? PlanOnGpu(input) : PlanOnCpu(input));
}

bool Fits(const PlanInput& input) {
  if (input.host_memory_bytes != 0 && PlanOnHost(input) > input.host_memory_bytes) return false;
  return input.memory_bytes == 0 || Total(input) <= input.memory_bytes;
}

// A cache that generation gets anywhere with: one whole context, and 16 sequences of 1,024 tokens.
uint64_t LeastCache(const PlanInput& input) {
  const int64_t given = input.max_context > 0 ? input.max_context : 0;
  const int64_t tokens = std::max<int64_t>(given + 2 * kPageTokens, 16 * 1024);
  return static_cast<uint64_t>(tokens) * CacheTokenBytes(input.model, input.gpu);
}

// As DefaultCacheBytes (model/torch/device.h), but never more than what the others leave.
uint64_t ChooseCache(PlanInput input) {
  if (!input.generates) return 0;
  if (!input.gpu) return kCpuCache;
  const uint64_t least = LeastCache(input);
  if (input.memory_bytes == 0) return least;
  input.cache_bytes = 0;
  const uint64_t others = Total(input);
  const auto start = static_cast<uint64_t>(4 * input.model.ParameterCount());
  const uint64_t free = input.memory_bytes > start ? input.memory_bytes - start : 0;
  // A fiftieth stays: some rows are assumed.
  const uint64_t usable = input.memory_bytes - input.memory_bytes / 50;
  const uint64_t left = usable > others ? usable - others : 0;
  return std::max(least, std::min(free / 4, left));
}

PlanInput WithCache(PlanInput input) {
  if (input.cache_bytes == 0) input.cache_bytes = ChooseCache(input);
  return input;
}

// The largest budget from `most` down to `least` that fits. False: none.
bool TakeBudget(int64_t most, int64_t least, PlanInput& input) {
  for (int64_t budget = most; budget >= least; budget /= 2) {
    input.token_budget = budget;
    if (Fits(WithCache(input))) return true;
  }
  return false;
}

// Small products waste more of a GPU than recomputation, which costs a third, so that comes before
// small budgets. False: nothing from `least` tokens on fits.
bool TakeBudgetOrRecompute(int64_t least, PlanInput& input) {
  if (TakeBudget(kBudgetMost, kBudgetGood, input)) return true;
  const bool given = std::exchange(input.recompute, true);
  if (input.gpu && TakeBudget(kBudgetMost, least, input)) return true;
  input.recompute = given;
  if (TakeBudget(kBudgetGood / 2, least, input)) return true;
  input.token_budget = 0;
  return false;
}

// Whether it fits, with the budget it takes where that is open.
bool TakeOpen(int64_t least, PlanInput& input) {
  if (input.trains && input.token_budget == 0) return TakeBudgetOrRecompute(least, input);
  return Fits(WithCache(input));
}

// Float32 first, with budgets that do not slow it down; then moments in bytes; at last the
// optimizer's state on the host, which every update waits for. An adapter's state is small anyway.
PlanInput WithBudget(PlanInput input) {
  const bool all_weights = input.trains && input.lora_rank == 0;
  const bool host_open = !input.state_on_host.has_value();
  if (host_open || !input.gpu) input.state_on_host = false;
  if (!input.block_moments.has_value()) {
    PlanInput wide = input;
    wide.block_moments = false;
    if (!*input.state_on_host && TakeOpen(kBudgetGood, wide)) return wide;
    input.block_moments = all_weights;
  }
  if (TakeOpen(kBudgetLeast, input)) return input;
  if (host_open && input.gpu && all_weights && *input.block_moments) {
    PlanInput host = input;
    host.state_on_host = true;
    if (TakeOpen(kBudgetLeast, host)) return host;
  }
  if (input.trains && input.token_budget == 0) input.token_budget = kBudgetMost;
  return input;
}

std::string Joined(const std::vector<std::string>& settings) {
  std::string text;
  for (const std::string& setting : settings) text += (text.empty() ? "" : ", ") + setting;
  return text;
}

// Ways to make it smaller, from what costs least; each keeps what the user asked for but what it
// names. Those with fewer tokens at once try all budgets and take the largest.
struct Way {
  bool smaller_cache = false, smaller_budget = false, recompute = false, moments = false,
       host = false, adapter = false;
};
constexpr Way kWays[] = {
    {.smaller_cache = true},
    {.smaller_budget = true},
    {.smaller_cache = true, .smaller_budget = true},
    {.recompute = true},
    {.smaller_cache = true, .smaller_budget = true, .recompute = true},
    {.moments = true},
    {.smaller_cache = true, .smaller_budget = true, .recompute = true, .moments = true},
    {.moments = true, .host = true},
    {.recompute = true, .moments = true, .host = true},
    {.smaller_cache = true,
     .smaller_budget = true,
     .recompute = true,
     .moments = true,
     .host = true},
    {.smaller_cache = true, .smaller_budget = true, .recompute = true, .adapter = true}};

void TryWay(const PlanInput& given, const Way& way, std::vector<MemoryPlan::Choice>& out) {
  if (!given.trains && (way.smaller_budget || way.recompute || way.moments || way.adapter)) return;
  // Where there is no state to be moved, the way is that without it.
  if (way.host && (!given.gpu || given.lora_rank > 0 || *given.state_on_host)) return;
  PlanInput input = given;
  std::vector<std::string> settings;
  if (way.adapter && given.lora_rank == 0) {
    input.lora_rank = 16;
    settings.push_back("learner.lora_rank = 16");
  }
  if (way.moments && given.lora_rank == 0 && !*given.block_moments) {
    input.block_moments = true;
    settings.push_back("learner.moments = \"int8\"");
  }
  if (way.host) {
    input.state_on_host = true;
    settings.push_back("learner.optimizer_state = \"host\"");
  }
  if (way.recompute && given.gpu && !given.recompute) {
    input.recompute = true;
    settings.push_back("learner.recompute = true");
  }
  if (const uint64_t least = LeastCache(given);
      way.smaller_cache && given.generates && given.cache_bytes > least) {
    input.cache_bytes = least;
    settings.push_back("rollout.cache_mb = " + std::to_string((least + (1 << 20) - 1) >> 20));
  }
  const size_t before = settings.size();
  while (way.smaller_budget && !Fits(input) && input.token_budget > kBudgetLeast) {
    input.token_budget /= 2;
    settings.resize(before);
    settings.push_back("learner.token_budget = " + std::to_string(input.token_budget));
  }
  if (settings.empty() || !Fits(input)) return;
  const std::string text = Joined(settings);
  for (const MemoryPlan::Choice& other : out) {
    if (other.settings == text) return;
  }
  out.push_back({text, Total(input)});
}

}  // namespace

int64_t AdapterParameters(const ModelConfig& c, int64_t rank, bool experts) {
  const int64_t attention = (c.hidden_size + c.q_size()) * 2 + 2 * (c.hidden_size + c.kv_size());
  const int64_t dense = 3 * (c.hidden_size + c.intermediate_size);
  return rank * (c.num_layers * attention + c.DenseLayers() * dense) +
         (experts ? ExpertAdapterParameters(c, rank) : 0);
}

int64_t ExpertAdapterParameters(const ModelConfig& c, int64_t rank) {
  // Gate and up have one A.
  const int64_t expert = (c.hidden_size + 2 * c.experts.width) + (c.experts.width + c.hidden_size);
  return (c.num_layers - c.DenseLayers()) * c.experts.count * rank * expert;
}

uint64_t CacheTokenBytes(const ModelConfig& c, bool gpu) {
  // On a CPU values of a head are padded to whole pages (engine/torch/cpu_backend.cc).
  const int64_t padded = (c.head_dim + kPageTokens - 1) / kPageTokens * kPageTokens;
  const int64_t numbers = gpu ? 2 * c.kv_size() : c.kv_size() + c.num_kv_heads * padded;
  return static_cast<uint64_t>(c.num_layers * numbers) * (gpu ? 2 : 4);
}

MemoryPlan PlanMemory(const PlanInput& input) {
  const PlanInput chosen = WithCache(WithBudget(input));
  MemoryPlan plan;
  plan.rows = chosen.gpu ? PlanOnGpu(chosen) : PlanOnCpu(chosen);
  plan.total_bytes = Sum(plan.rows);
  plan.memory_bytes = chosen.memory_bytes;
  plan.token_budget = chosen.token_budget;
  plan.recompute = chosen.recompute;
  plan.host_bytes = PlanOnHost(chosen);
  plan.host_memory_bytes = chosen.host_memory_bytes;
  plan.block_moments = *chosen.block_moments;
  plan.state_on_host = plan.host_bytes > 0;
  plan.cache_bytes = chosen.cache_bytes;
  if (plan.fits()) return plan;
  for (const Way& way : kWays) TryWay(chosen, way, plan.would_fit);
  return plan;
}

std::string BytesText(uint64_t bytes) {
  char text[32];
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib < 1024) {
    std::snprintf(text, sizeof(text), "%.0f MiB", mib);
  } else {
    std::snprintf(text, sizeof(text), "%.1f GiB", mib / 1024);
  }
  return text;
}

}  // namespace tidemill

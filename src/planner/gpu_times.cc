#include "planner/gpu_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/random.h"
#include "model/memory_plan.h"

namespace tidemill {
namespace {

// As their makers say.
struct GpuRow {
  const char* name;
  double memory_gib;
  double bytes_s;
  double flops;         // bfloat16, dense
  double link_bytes_s;  // to another GPU of the host, one way
};
constexpr GpuRow kGpus[] = {{"A100", 80, 2.039e12, 312e12, 300e9},
                            {"H100", 80, 3.35e12, 989e12, 450e9},
                            {"H200", 141, 4.8e12, 989e12, 450e9},
                            {"L40S", 48, 0.864e12, 362e12, 32e9}};

// Of docs/gpu.md: what of the maker's numbers is reached by copies and by products alone.
constexpr double kBytesReached = 4.3 / 4.8, kFlopsReached = 790.0 / 989;
// The four rates of generation there (64 to 1,024 rows of 0.5B) are these within 5 %: so much for
// each layer, and so many times what bytes and arithmetic take.
constexpr double kLayerSeconds = 26e-6, kDecodeTimes = 1.28;
constexpr double kTrainShare = 0.53;    // of the reached arithmetic
constexpr double kSwapBytes = 1.54e12;  // 0.64 ms for 1 GB
constexpr double kLinkReached = 0.7, kNetworkBytes = 50e9, kHostBytes = 25e9;  // assumed

Result<GpuRow> FindGpu(const std::string& name) {
  std::string known;
  for (const GpuRow& row : kGpus) {
    if (name == row.name) return row;
    known += std::string(known.empty() ? "" : ", ") + row.name;
  }
  return Invalid("no figures of a GPU \"" + name + "\"; there are " + known);
}

}  // namespace

Result<uint64_t> GpuMemoryBytes(const std::string& gpu) {
  TM_ASSIGN_OR_RETURN(const GpuRow row, FindGpu(gpu));
  return static_cast<uint64_t>(row.memory_gib * 0.99 * (1 << 30));
}

namespace {

double CacheTokens(const GpuRow& gpu, const ModelConfig& model, const RunConfig& config,
                   bool trains) {
  PlanInput input;
  input.model = model;
  input.trains = trains;
  input.memory_bytes = GpuMemoryBytes(gpu.name).value();
  input.lora_rank = config.learner.lora_rank;
  input.max_context = config.rollout.max_context;
  input.cache_bytes = uint64_t{config.rollout.cache_mb} << 20;
  const MemoryPlan plan = PlanMemory(input);
  return static_cast<double>(plan.cache_bytes) /
         static_cast<double>(CacheTokenBytes(model, /*gpu=*/true));
}

}  // namespace

Result<EpisodeGuess> ParseEpisodeGuess(const std::string& text) {
  EpisodeGuess guess;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t sign = word.find('=');
    const std::string key = word.substr(0, sign);
    double value = -1;
    if (sign != std::string::npos) {
      (void)std::from_chars(word.data() + sign + 1, word.data() + word.size(), value);
    }
    const auto whole = static_cast<uint32_t>(std::clamp(value, 0.0, 1e6));
    constexpr double kMost = 1e6;
    if (value < 0 || value > kMost) return Invalid("--episode " + word + ": write " + key + "=8");
    if (key == "turns")
      guess.turns = std::max(1u, whole);
    else if (key == "prompt_tokens")
      guess.prompt_tokens = std::max(1u, whole);
    else if (key == "turn_tokens")
      guess.turn_tokens = std::max(1u, whole);
    else if (key == "observation_tokens")
      guess.observation_tokens = whole;
    else if (key == "tool_s")
      guess.tool_s = value;
    else if (key == "grade_s")
      guess.grade_s = value;
    else if (key == "spread")
      guess.spread = std::min(value, 3.0);
    else if (key == "pass_rate")
      guess.pass_rate = std::min(value, 1.0);
    else
      return Invalid("--episode: no word \"" + key +
                     "\"; there are turns, prompt_tokens, turn_tokens, observation_tokens, tool_s, "
                     "grade_s, spread and pass_rate");
  }
  return guess;
}

void GuessEpisodes(const EpisodeGuess& guess, uint64_t seed, ServiceTimes& times) {
  constexpr int kTasks = 64, kEpisodes = 16;
  Random random(seed);
  const auto tokens = [&](double median) {
    return static_cast<uint32_t>(std::clamp(random.LogNormal(median, guess.spread), 1.0, 1e6));
  };
  times.tasks.clear();
  for (int task = 0; task < kTasks; ++task) {
    TaskScripts& scripts = times.tasks.emplace_back();
    const uint32_t prompt = tokens(guess.prompt_tokens);
    for (int i = 0; i < kEpisodes; ++i) {
      EpisodeScript script;
      script.prompt = prompt;
      script.reward = random.Chance(guess.pass_rate) ? 1 : 0;
      script.grade_s = random.LogNormal(std::max(1e-6, guess.grade_s), guess.spread);
      for (uint32_t turn = 0; turn < guess.turns; ++turn) {
        ScriptedTurn scripted{.tokens = tokens(guess.turn_tokens)};
        if (turn + 1 < guess.turns) {
          scripted.observed = guess.observation_tokens == 0 ? 0 : tokens(guess.observation_tokens);
          scripted.calls = {
              {"compile", random.LogNormal(std::max(1e-6, guess.tool_s), guess.spread)}};
        }
        script.turns.push_back(std::move(scripted));
      }
      scripts.push_back(std::move(script));
    }
  }
  times.Tell("episodes",
             fmt::format("{} turns of {} tokens, prompt {}, observations {}, a call {} s, grading "
                         "{} s (medians, log-normal, sigma {})",
                         guess.turns, guess.turn_tokens, guess.prompt_tokens,
                         guess.observation_tokens, guess.tool_s, guess.grade_s, guess.spread),
             "assumed (--episode, or --like RUN)");
}

Status SetGpuTimes(const PlanFleet& fleet, const RunConfig& config, const ModelConfig& model,
                   ServiceTimes& times) {
  TM_ASSIGN_OR_RETURN(const GpuRow gpu, FindGpu(fleet.gpu));
  const auto parameters = static_cast<double>(model.ParameterCount());
  const auto active = static_cast<double>(model.ActiveParameterCount());
  const double bytes_s = gpu.bytes_s * kBytesReached, flops = gpu.flops * kFlopsReached;
  const bool lora = config.learner.lora_rank > 0;
  const double trained =
      lora ? static_cast<double>(AdapterParameters(model, config.learner.lora_rank)) : parameters;

  EngineTimes& engine = times.engine;
  engine = EngineTimes();
  engine.step_s = kLayerSeconds * static_cast<double>(model.num_layers) +
                  kDecodeTimes * 2 * parameters / bytes_s;
  engine.row_s = kDecodeTimes * 2 * active / flops;
  engine.context_s =
      kDecodeTimes * static_cast<double>(CacheTokenBytes(model, /*gpu=*/true)) / bytes_s;
  engine.prompt_s = 2 * active / (kTrainShare * flops);
  engine.chunk = config.rollout.prefill_chunk;
  engine.cache_tokens = CacheTokens(gpu, model, config, fleet.gpus == 1);
  engine.swap_s = 2 * trained / kSwapBytes;

  TrainerTimes& trainer = times.trainer;
  trainer = TrainerTimes();
  trainer.token_s = (lora ? 4 : 6) * active / (kTrainShare * flops);
  const double link =
      fleet.hosts > 1 ? std::min(gpu.link_bytes_s, kNetworkBytes) : gpu.link_bytes_s;
  trainer.sum_s = 2 * 4 * trained / (kLinkReached * link);
  trainer.publish_s = 2 * trained / kSwapBytes;
  if (fleet.gpus > 1) {
    trainer.arrive_s = 2 * trained / (kLinkReached * std::min(kHostBytes, kNetworkBytes));
  }

  const std::string measured = "docs/gpu.md, measured on an H200 with 0.5B, scaled by " +
                               std::string(gpu.name) + "'s data sheet";
  times.Tell("engine, a step",
             fmt::format("{:.2f} ms, {:.2f} us a row, {:.3f} ns a token of context",
                         1e3 * engine.step_s, 1e6 * engine.row_s, 1e9 * engine.context_s),
             measured + ": 26 us a layer, 1.28 times bytes and arithmetic");
  times.Tell("engine, a prompt's token", fmt::format("{:.2f} us", 1e6 * engine.prompt_s),
             "arithmetic at the learner's efficiency; attention over long prompts is left out");
  times.Tell("engine, room for keys and values", fmt::format("{:.0f} tokens", engine.cache_tokens),
             "the memory plan");
  times.Tell(
      "trainer, a token", fmt::format("{:.2f} us on a GPU", 1e6 * trainer.token_s),
      measured + fmt::format(": 53 % of the arithmetic, {} operations a parameter", lora ? 4 : 6));
  times.Tell("trainer, sum of gradients",
             fmt::format("{:.1f} ms between many ranks", 1e3 * trainer.sum_s),
             "assumed: 70 % of the data sheet's link, 50 GB/s between hosts; nothing overlaps");
  times.Tell("weights, to the engines",
             fmt::format("{:.1f} ms, pause {:.2f} ms", 1e3 * trainer.arrive_s, 1e3 * engine.swap_s),
             fleet.gpus > 1 ? "assumed: 70 % of 25 GB/s; the pause by docs/gpu.md"
                            : "docs/gpu.md: 0.64 ms for 1 GB");
  times.Tell("store", fmt::format("{:.1f} ms a transaction", 1e3 * times.store.sync_s), "assumed");
  return Ok();
}

}  // namespace tidemill

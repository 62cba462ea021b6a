#include "bench/int8_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/cpu/cpu_kernels.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

// As SmolLM2-135M.
ModelConfig Config135M() {
  ModelConfig config;
  config.family = ModelFamily::kLlama;
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_layers = 30;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.max_position_embeddings = 2048;
  config.tie_word_embeddings = true;
  return config;
}

Result<double> DecodeRate(Engine& engine, int sequences, int tokens) {
  for (int i = 0; i < sequences; ++i) {
    SequenceStart start{.id = static_cast<SequenceId>(i + 1), .prompt = {1, 2, 3, 4}};
    start.turn.max_new_tokens = tokens;
    start.turn.seed = static_cast<uint64_t>(i);
    TM_RETURN_IF_ERROR(engine.Add(std::move(start)));
  }
  const uint64_t before = engine.Stats().generated_tokens;
  while (engine.Stats().generated_tokens < before + static_cast<uint64_t>(sequences)) {
    TM_ASSIGN_OR_RETURN(const auto finished, engine.Step());
  }
  const uint64_t filled = engine.Stats().generated_tokens;
  const auto begin = std::chrono::steady_clock::now();
  while (engine.Work()) {
    TM_ASSIGN_OR_RETURN(const auto finished, engine.Step());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  for (int i = 0; i < sequences; ++i) {
    TM_RETURN_IF_ERROR(engine.Release(static_cast<SequenceId>(i + 1)));
  }
  return static_cast<double>(engine.Stats().generated_tokens - filled) / took.count();
}

}  // namespace

Result<Int8BenchReport> RunInt8Bench(const Int8BenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::NewRandom(Config135M(), options.seed));
  Int8BenchReport report;
  report.parameters = weights->config().ParameterCount();
  report.kernels = BestCpuKernels().name;
  EngineOptions plain{.threads = options.threads}, bytes{.threads = options.threads};
  bytes.int8_weights = true;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> wide, NewEngine(weights, 1, plain));
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> narrow, NewEngine(weights, 1, bytes));
  for (const int sequences : options.sequences) {
    Int8BenchRow& row = report.rows.emplace_back();
    row.sequences = sequences;
    for (int round = 0; round < options.rounds; ++round) {
      TM_ASSIGN_OR_RETURN(const double f, DecodeRate(*wide, sequences, options.tokens));
      TM_ASSIGN_OR_RETURN(const double b, DecodeRate(*narrow, sequences, options.tokens));
      row.float_tokens_per_s = std::max(row.float_tokens_per_s, f);
      row.int8_tokens_per_s = std::max(row.int8_tokens_per_s, b);
    }
  }
  return report;
}

std::string Int8BenchReport::ToText() const {
  std::string text = fmt::format("{} parameters, {} kernels", parameters, kernels);
  for (const Int8BenchRow& row : rows) {
    text += fmt::format("\n{:3} sequences: float32 {:.1f} tokens/s, int8 {:.1f}; ratio {:.2f}",
                        row.sequences, row.float_tokens_per_s, row.int8_tokens_per_s, row.Ratio());
  }
  return text;
}

std::string Int8BenchReport::ToJson() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Int8BenchRow& row : rows) {
    list.push_back({{"sequences", row.sequences},
                    {"float_tokens_per_s", row.float_tokens_per_s},
                    {"int8_tokens_per_s", row.int8_tokens_per_s},
                    {"ratio", row.Ratio()}});
  }
  return nlohmann::ordered_json{{"parameters", parameters}, {"kernels", kernels}, {"rows", list}}
      .dump();
}

}  // namespace tidemill

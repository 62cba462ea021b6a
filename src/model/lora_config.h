// adapter_config.json of a LoRA adapter in PEFT's layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool rslora = false;  // scale by alpha / sqrt(rank) instead of alpha / rank
  // Last parts of the module names that get an adapter ("q_proj"); or, when `target_pattern` is
  // given, a regular expression for the whole name; "all-linear" is every projection of the
  // decoder.
  std::vector<std::string> target_modules;
  std::string target_pattern;
  bool experts = false;                         // "target_parameters" names the experts' matrices
  std::map<std::string, int64_t> rank_pattern;  // by regular expression for the end of the name
  std::map<std::string, double> alpha_pattern;
  std::string base_model;

  // `module` is a full name, "model.layers.0.self_attn.q_proj".
  bool Targets(std::string_view module) const;
  int64_t RankOf(std::string_view module) const;
  double AlphaOf(std::string_view module) const;
  // The factor of B·A·x.
  double ScalingOf(std::string_view module) const;
};

// `name` is what errors call the input. kInvalid names the field; whatever would change the numbers
// and is not done here (DoRA, saved modules, biases, ..) is refused.
Result<LoraConfig> ParseLoraConfig(std::string_view json, std::string_view name);
// DIR/adapter_config.json. kNotFound: no such file.
Result<LoraConfig> ReadLoraConfig(const std::string& dir);
std::string LoraConfigJson(const LoraConfig& config);
Status WriteLoraConfig(const LoraConfig& config, const std::string& dir);

}  // namespace tidemill

// Rotary position embedding: what config.json says of it, and the numbers that follow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tidemill {

enum class RopeType : uint8_t { kDefault, kLinear, kLlama3, kYarn };

// Fields a type does not use keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                           // linear, llama3, yarn
  int64_t original_max_position_embeddings = 0;  // llama3, yarn; 0: not given (and not used)
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  std::optional<double> attention_factor = {};   // yarn
  std::optional<double> mscale = {};             // yarn
  std::optional<double> mscale_all_dim = {};     // yarn
  bool truncate = true;  // yarn: round the correction range to whole dimensions
};

// The rotation of each pair of dimensions per position, head_dim / 2 of them, and what cosines and
// sines are multiplied with (1 but for yarn).
struct RopeFrequencies {
  std::vector<float> inverse;
  float attention_scaling = 1.0f;
};
RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int64_t head_dim);

// Cosines and sines, [positions, head_dim / 2].
struct RopeTable {
  std::vector<float> cos, sin;
};
RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_dim, int64_t positions);

}  // namespace tidemill

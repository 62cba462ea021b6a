// A family of decoders: how its layers are made, and what its config.json and its GGUF
// files say in words of their own. Everything else reads the plan that follows from it
// (model/layer_plan.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "model/families/families.h"
#include "model/layer_plan.h"
#include "model/model_config.h"

namespace tidemill {

class JsonFields;

// Where biases can be.
enum class BiasRule : uint8_t {
  kNone,
  kQueriesKeysValues,  // always, and on nothing else in attention
  kAsTold,             // on all four projections of attention where "attention_bias" is true
};

// How config.json names the experts of a family that has them.
struct ExpertForm {
  bool has = false;
  const char* width_key = nullptr;  // null: "intermediate_size" is theirs
  int64_t count = 8, chosen = 2;    // where config.json is silent
  bool normalized = true;           // always, unless `told`
  bool told = false;                // "norm_topk_prob" says it
  bool some = false;                // "mlp_only_layers" and "decoder_sparse_step" leave some out
};

// How GGUF files have it.
struct GgufForm {
  std::string_view architecture = {};  // general.architecture; empty: there is none of its own
  std::string_view refused = {};       // why files of it are not read; empty: they are
  bool neighbours = false;             // pairs of the rotation lie side by side, not in halves
};

struct FamilySpec {
  std::string_view model_type;
  std::string_view architecture;
  LayerPlan layer{};  // windows and rotation, which config.json decides, aside
  double norm_offset = 0;
  bool scales_embeddings = false;  // by the root of the width
  BiasRule biases = BiasRule::kNone;
  bool mlp_bias = false;  // "mlp_bias" says whether there are any

  // The defaults of transformers where config.json is silent.
  int64_t max_position_embeddings = 2048;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  double rope_theta = 10000.0;
  double local_rope_theta = 0;  // of layers with a window; 0: they have no rotation of their own
  double rms_norm_eps = 1e-6;
  bool tied = false;
  const char* activation_key = "hidden_act";
  Activation activation = Activation::kSilu;

  ExpertForm experts{};
  GgufForm gguf{};

  // The fields that only this family's config.json has, in both directions, after everything else.
  // Null: nothing.
  void (*read)(JsonFields& fields, ModelConfig& config) = nullptr;
  void (*write)(const ModelConfig& config, nlohmann::ordered_json& json) = nullptr;
};

#define TM_FAMILY_SPEC(name) extern const FamilySpec k##name##Family;
TM_MODEL_FAMILIES(TM_FAMILY_SPEC)
#undef TM_FAMILY_SPEC

}  // namespace tidemill

// Low-rank adapters in PEFT's layout (adapter_config.json, adapter_model.safetensors): W stays as
// it is, what is learned is B·A, scaled by alpha / r.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "model/lora_config.h"
#include "model/model_config.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// Immutable once it is shared.
struct LoraAdapter {
  LoraConfig config;
  // "model.layers.0.mlp.down_proj.lora_A.weight" [r, in], ".lora_B.weight" [out, r]; on experts,
  // of ExpertGateUpModule and ExpertDownModule, those of ExpertTensors.
  NamedTensors tensors;
};

// The experts of a layer as PEFT names them, whatever the model's files call them: the stacked gate
// and up, and down.
std::string ExpertGateUpModule(int64_t layer);
std::string ExpertDownModule(int64_t layer);

// kInvalid names the tensor that has no place in such a model, another shape, or no counterpart.
Status CheckAdapter(const LoraAdapter& adapter, const ModelConfig& model);

// A PEFT directory, float32. kInvalid or kCorrupt name the file or the tensor.
Result<std::shared_ptr<const LoraAdapter>> LoadAdapter(const std::string& dir,
                                                       const ModelConfig& model,
                                                       const std::string& device = "cpu");
// As PEFT begins: A uniform as a linear layer's (Kaiming, a = √5), B zero. kInvalid: a target no
// layer has.
Result<std::shared_ptr<const LoraAdapter>> NewAdapter(const LoraConfig& config,
                                                      const ModelConfig& model, uint64_t seed,
                                                      const std::string& device = "cpu");
// Writes what PEFT reads, into `dir`, which is made.
Status SaveAdapter(const LoraAdapter& adapter, const std::string& dir);

}  // namespace tidemill

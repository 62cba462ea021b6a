#include "model/families/expert_fields.h"

#include <algorithm>

#include "model/families/family_spec.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

// Choices are recorded in two bytes each, of which one value says that nothing is known.
constexpr int64_t kExpertsMax = 65535;
constexpr int64_t kExpertWidthMax = int64_t{1} << 20;
constexpr double kBalanceCoefficient = 0.001;

int64_t ReadCount(JsonFields& fields, const ExpertForm& form) {
  const auto older = fields.MaybeInt("num_experts", 1, kExpertsMax);
  const auto newer = fields.MaybeInt("num_local_experts", 1, kExpertsMax);
  if (older && newer && *older != *newer) {
    fields.Fail("num_experts", "(" + std::to_string(*older) + ") and \"num_local_experts\" (" +
                                   std::to_string(*newer) + ") contradict each other");
  }
  return older.value_or(newer.value_or(form.count));
}

std::vector<bool> ReadSparseLayers(JsonFields& fields, int64_t layers) {
  const int64_t step = fields.MaybeInt("decoder_sparse_step", 1, 1 << 20).value_or(1);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < layers; ++i) sparse.push_back((i + 1) % step == 0);
  const nlohmann::json* dense = fields.Find("mlp_only_layers");
  if (dense == nullptr) return sparse;
  if (!dense->is_array()) {
    fields.Fail("mlp_only_layers", "must be a list of layers, got " + DescribeJson(*dense));
    return sparse;
  }
  for (const nlohmann::json& layer : *dense) {
    if (!layer.is_number_integer() || layer.get<int64_t>() < 0 || layer.get<int64_t>() >= layers) {
      fields.Fail("mlp_only_layers", "must name layers from 0 to " + std::to_string(layers - 1) +
                                         ", got " + DescribeJson(layer));
      return sparse;
    }
    sparse[static_cast<size_t>(layer.get<int64_t>())] = false;
  }
  return sparse;
}

}  // namespace

void ReadExperts(JsonFields& fields, ModelConfig& config) {
  const ExpertForm& form = SpecOf(config.family).experts;
  ExpertsConfig& experts = config.experts;
  experts.count = ReadCount(fields, form);
  experts.chosen = fields.MaybeInt("num_experts_per_tok", 1, kExpertsMax).value_or(form.chosen);
  experts.width = form.width_key == nullptr ? config.intermediate_size
                                            : fields.Int(form.width_key, 1, kExpertWidthMax);
  experts.normalized = form.normalized;
  if (form.told) experts.normalized = fields.MaybeBool("norm_topk_prob").value_or(form.normalized);
  experts.biased = fields.MaybeBool("router_bias").value_or(false);
  experts.balance =
      fields.MaybeNumber("router_aux_loss_coef", 0.0, 1e6).value_or(kBalanceCoefficient);
  experts.layers.assign(static_cast<size_t>(config.num_layers), true);
  if (form.some) experts.layers = ReadSparseLayers(fields, config.num_layers);
  if (fields.MaybeNumber("router_jitter_noise", 0.0, 1e6).value_or(0.0) != 0.0) {
    fields.Fail("router_jitter_noise", "other than 0 is not supported");
  }
}

void WriteExperts(const ModelConfig& config, nlohmann::ordered_json& json) {
  const ExpertForm& form = SpecOf(config.family).experts;
  const ExpertsConfig& experts = config.experts;
  json["num_experts"] = experts.count;
  json["num_local_experts"] = experts.count;
  json["num_experts_per_tok"] = experts.chosen;
  json["output_router_logits"] = false;
  json["router_aux_loss_coef"] = experts.balance;
  if (form.width_key != nullptr) json[form.width_key] = experts.width;
  if (form.told) json["norm_topk_prob"] = experts.normalized;
  if (experts.biased) json["router_bias"] = true;
  if (!form.some) return;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (!experts.In(i)) json["mlp_only_layers"].push_back(i);
  }
}

Status CheckExperts(const ModelConfig& config, const std::string& where) {
  const FamilySpec& spec = SpecOf(config.family);
  const ExpertsConfig& experts = config.experts;
  const std::string model = std::string(spec.model_type) + " model";
  if (!spec.experts.has) {
    if (experts.count == 0) return Ok();
    return Invalid(where + "\"num_experts\" is not for a " + model);
  }
  if (experts.count < 1 || experts.width < 1 ||
      experts.layers.size() != static_cast<size_t>(config.num_layers)) {
    return Invalid(where + "a " + model + " needs experts, their width and the layers with them");
  }
  if (spec.experts.width_key == nullptr && experts.width != config.intermediate_size) {
    return Invalid(where + "the experts of a " + model + " are as wide as \"intermediate_size\"");
  }
  if (experts.chosen < 1 || experts.chosen > experts.count) {
    return Invalid(where + "\"num_experts_per_tok\" (" + std::to_string(experts.chosen) +
                   ") must be from 1 to the number of experts (" + std::to_string(experts.count) +
                   ")");
  }
  return Ok();
}

}  // namespace tidemill

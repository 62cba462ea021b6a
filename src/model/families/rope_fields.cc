#include "model/families/rope_fields.h"

#include "model/families/family_spec.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

RopeType ReadRopeType(JsonFields& fields) {
  std::optional<std::string> type = fields.MaybeString("rope_type");
  if (!type) type = fields.MaybeString("type");
  if (!type || *type == "default") return RopeType::kDefault;
  if (*type == "linear") return RopeType::kLinear;
  if (*type == "llama3") return RopeType::kLlama3;
  if (*type == "yarn") return RopeType::kYarn;
  fields.Fail("rope_type", "is " + DescribeJson(*type) +
                               ", which is not supported; default, linear, llama3 and yarn are");
  return RopeType::kDefault;
}

void CheckWholeHeads(JsonFields& fields) {
  if (fields.MaybeNumber("partial_rotary_factor", 0.0, 1e9).value_or(1.0) != 1.0) {
    fields.Fail("partial_rotary_factor", "other than 1 is not supported");
  }
}

// The object at `key`; null: there is none. Anything else is a failure.
const nlohmann::json* ObjectOf(JsonFields& fields, const char* key) {
  const nlohmann::json* object = fields.Find(key);
  if (object == nullptr || object->is_object()) return object;
  fields.Fail(key, "must be an object, got " + DescribeJson(*object));
  return nullptr;
}

// The parameters of one rope object; `theta_outside` where it names none.
RopeConfig ReadRopeObject(JsonFields& fields, double theta_outside,
                          int64_t max_position_embeddings) {
  RopeConfig rope;
  rope.type = ReadRopeType(fields);
  rope.theta = fields.MaybeNumber("rope_theta", 1.0, 1e15).value_or(theta_outside);
  CheckWholeHeads(fields);
  if (rope.type == RopeType::kDefault) return rope;
  const std::optional<int64_t> original =
      fields.MaybeInt("original_max_position_embeddings", 1, kPositionsMax);
  const std::optional<double> factor = fields.MaybeNumber("factor", 1.0, 1e6);
  if (!factor && !(rope.type == RopeType::kYarn && original)) fields.Fail("factor", "is missing");
  if (rope.type == RopeType::kLinear) {
    rope.factor = factor.value_or(1.0);
    return rope;
  }
  rope.original_max_position_embeddings = original.value_or(max_position_embeddings);
  rope.factor = factor.value_or(static_cast<double>(max_position_embeddings) /
                                static_cast<double>(rope.original_max_position_embeddings));
  if (rope.type == RopeType::kLlama3) {
    for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
      if (!fields.Has(key)) fields.Fail(key, "is missing");
    }
    if (!original) fields.Fail("original_max_position_embeddings", "is missing");
    rope.low_freq_factor = fields.MaybeNumber("low_freq_factor", 1e-6, 1e6).value_or(1.0);
    rope.high_freq_factor = fields.MaybeNumber("high_freq_factor", 1e-6, 1e6).value_or(4.0);
    return rope;
  }
  rope.beta_fast = fields.MaybeNumber("beta_fast", 1e-6, 1e6).value_or(32.0);
  rope.beta_slow = fields.MaybeNumber("beta_slow", 1e-6, 1e6).value_or(1.0);
  rope.attention_factor = fields.MaybeNumber("attention_factor", 1e-6, 1e6);
  rope.mscale = fields.MaybeNumber("mscale", 0.0, 1e6);
  rope.mscale_all_dim = fields.MaybeNumber("mscale_all_dim", 0.0, 1e6);
  rope.truncate = fields.MaybeBool("truncate").value_or(true);
  return rope;
}

// One rotation, in `object` (which may be null) and beside it.
RopeConfig ReadOne(JsonFields& fields, const nlohmann::json* object, const std::string& where,
                   double theta, int64_t max_position_embeddings) {
  RopeConfig plain;
  plain.theta = theta;
  if (object == nullptr) return plain;
  JsonFields rope_fields(*object, where);
  for (const auto& [name, value] : object->items()) {
    if (value.is_object()) rope_fields.Fail(name, "gives a layer its own rope: not supported");
  }
  const RopeConfig rope = ReadRopeObject(rope_fields, theta, max_position_embeddings);
  fields.Keep(rope_fields.status());
  return rope;
}

// Those of layers that see everything and of layers with a window, each in an object of its own.
bool ReadByLayerType(JsonFields& fields, const nlohmann::json& object, const std::string& where,
                     double theta, double local_theta, ModelConfig& config) {
  if (!object.contains("full_attention") && !object.contains("sliding_attention")) return false;
  JsonFields kinds(object, where);
  for (const auto& [name, value] : object.items()) {
    if (name != "full_attention" && name != "sliding_attention") {
      kinds.Fail(name, "stands beside ropes by the kind of layer: not supported");
    }
  }
  const nlohmann::json* full = ObjectOf(kinds, "full_attention");
  const nlohmann::json* sliding = ObjectOf(kinds, "sliding_attention");
  fields.Keep(kinds.status());
  const int64_t positions = config.max_position_embeddings;
  config.rope = ReadOne(fields, full, where + "full_attention: ", theta, positions);
  config.local_rope =
      ReadOne(fields, sliding, where + "sliding_attention: ", local_theta, positions);
  return true;
}

const char* RopeTypeName(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kYarn:
      return "yarn";
  }
  return "default";
}

// Without rope_theta, which stands beside it in the older spelling.
nlohmann::ordered_json RopeScalingJson(const RopeConfig& rope) {
  nlohmann::ordered_json json = {{"rope_type", RopeTypeName(rope.type)}};
  if (rope.type == RopeType::kDefault) return json;
  json["factor"] = rope.factor;
  if (rope.type == RopeType::kLinear) return json;
  json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  if (rope.type == RopeType::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  if (rope.attention_factor) json["attention_factor"] = *rope.attention_factor;
  if (rope.mscale) json["mscale"] = *rope.mscale;
  if (rope.mscale_all_dim) json["mscale_all_dim"] = *rope.mscale_all_dim;
  json["truncate"] = rope.truncate;
  return json;
}

nlohmann::ordered_json RopeParametersJson(const RopeConfig& rope) {
  nlohmann::ordered_json json = RopeScalingJson(rope);
  json["rope_theta"] = rope.theta;
  return json;
}

}  // namespace

void ReadRopes(JsonFields& fields, const std::string& where, ModelConfig& config) {
  const FamilySpec& spec = SpecOf(config.family);
  const bool two = spec.local_rope_theta > 0;
  const auto theta_at = [&](const char* key, double otherwise) {
    return fields.MaybeNumber(key, 1.0, 1e15).value_or(otherwise);
  };
  const double theta = theta_at("rope_theta", spec.rope_theta);
  CheckWholeHeads(fields);
  if (two) {
    config.local_rope = RopeConfig{};
    config.local_rope->theta = theta_at("rope_local_base_freq", spec.local_rope_theta);
  }
  const char* key = fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const nlohmann::json* object = ObjectOf(fields, key);
  const std::string inside = where + key + ": ";
  if (two && object != nullptr &&
      ReadByLayerType(fields, *object, inside, theta, config.local_rope->theta, config)) {
    return;
  }
  config.rope = ReadOne(fields, object, inside, theta, config.max_position_embeddings);
}

void WriteRopes(const ModelConfig& config, nlohmann::ordered_json& json) {
  if (config.local_rope) {
    json["rope_local_base_freq"] = config.local_rope->theta;
    json["rope_parameters"] = {{"full_attention", RopeParametersJson(config.rope)},
                               {"sliding_attention", RopeParametersJson(*config.local_rope)}};
  } else {
    json["rope_parameters"] = RopeParametersJson(config.rope);
  }
  json["rope_scaling"] = config.rope.type == RopeType::kDefault ? nlohmann::ordered_json(nullptr)
                                                                : RopeScalingJson(config.rope);
  json["rope_theta"] = config.rope.theta;
}

}  // namespace tidemill

// Rotary frequencies, in the single precision and the order of operations of the reference.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/rope_config.h"

namespace tidemill {
namespace {

// Slow rotations are slowed down by `factor`, fast ones are left, those between are blended.
void ScaleLlama3(const RopeConfig& rope, std::vector<float>& inverse) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  const double low_wavelength = context / rope.low_freq_factor;
  const double high_wavelength = context / rope.high_freq_factor;
  const float factor = static_cast<float>(rope.factor);
  for (float& f : inverse) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > low_wavelength) {
      f = f / factor;
    } else if (wavelength >= high_wavelength) {
      const float smooth =
          (static_cast<float>(context) / wavelength - static_cast<float>(rope.low_freq_factor)) /
          static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
}

// The dimension whose rotation turns `rotations` times over the original context.
double CorrectionDim(double rotations, const RopeConfig& rope, int64_t head_dim) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

void ScaleYarn(const RopeConfig& rope, int64_t head_dim, std::vector<float>& inverse) {
  double low = CorrectionDim(rope.beta_fast, rope, head_dim);
  double high = CorrectionDim(rope.beta_slow, rope, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float keep = 1.0f - ramp;
    const float interpolated = inverse[i] / static_cast<float>(rope.factor);
    inverse[i] = interpolated * (1.0f - keep) + inverse[i] * keep;
  }
}

double YarnScaling(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const auto scale = [&](double mscale) {
    return rope.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  const double mscale = rope.mscale.value_or(0.0);
  const double all_dim = rope.mscale_all_dim.value_or(0.0);
  return mscale != 0.0 && all_dim != 0.0 ? scale(mscale) / scale(all_dim) : scale(1.0);
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int64_t head_dim) {
  RopeFrequencies out;
  out.inverse.resize(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < out.inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    out.inverse[i] = 1.0f / std::pow(static_cast<float>(rope.theta), exponent);
  }
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      for (float& f : out.inverse) f /= static_cast<float>(rope.factor);
      break;
    case RopeType::kLlama3:
      ScaleLlama3(rope, out.inverse);
      break;
    case RopeType::kYarn:
      ScaleYarn(rope, head_dim, out.inverse);
      out.attention_scaling = static_cast<float>(YarnScaling(rope));
      break;
  }
  return out;
}

RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_dim, int64_t positions) {
  const RopeFrequencies frequencies = ComputeRopeFrequencies(rope, head_dim);
  const size_t half = frequencies.inverse.size(), count = static_cast<size_t>(positions);
  RopeTable table;
  table.cos.resize(count * half);
  table.sin.resize(count * half);
  for (size_t p = 0; p < count; ++p) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * frequencies.inverse[i];
      table.cos[p * half + i] = std::cos(angle) * frequencies.attention_scaling;
      table.sin[p * half + i] = std::sin(angle) * frequencies.attention_scaling;
    }
  }
  return table;
}

}  // namespace tidemill

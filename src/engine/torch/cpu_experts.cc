#include "engine/torch/cpu_experts.h"

#include <algorithm>
#include <limits>

namespace tidemill {
namespace {

// The `count` largest of scores[0..n), the largest first and of equal ones the first; they are
// taken out.
void TakeLargest(float* scores, long n, long count, uint16_t* chosen) {
  for (long c = 0; c < count; ++c) {
    const long best = std::max_element(scores, scores + n) - scores;
    chosen[c] = static_cast<uint16_t>(best);
    scores[best] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace

void ExpertMixer::Route(const CpuKernels& kernels, const ExpertBlock& block) {
  const ExpertPlan& plan = block.plan;
  const long ld = PaddedRow(plan.count);
  const auto places = static_cast<size_t>(block.rows * plan.chosen);
  chosen_.resize(places);
  weights_.resize(places);
  logits_.Reserve(static_cast<size_t>((block.rows + 2) * ld));
  MultiplyRows(kernels, block.h, block.width, block.layer.router, block.rows, logits_.data(), ld,
               MatmulMode::kStore, nullptr);
  float* e = logits_.data() + block.rows * ld;
  float* scores = e + ld;
  const float* bias = block.layer.router_bias.data();
  for (long r = 0; r < block.rows; ++r) {
    float most = 0;
    const float sum = kernels.exp_row(logits_.data() + r * ld, plan.count, 1.0f, e, &most);
    for (long i = 0; i < plan.count; ++i) e[i] /= sum;
    for (long i = 0; i < plan.count; ++i) scores[i] = bias != nullptr ? e[i] + bias[i] : e[i];
    uint16_t* chosen = chosen_.data() + r * plan.chosen;
    TakeLargest(scores, plan.count, plan.chosen, chosen);
    float* weights = weights_.data() + r * plan.chosen;
    for (long c = 0; c < plan.chosen; ++c) weights[c] = e[chosen[c]];
    if (!plan.normalized) continue;
    float whole = 0;
    for (long c = 0; c < plan.chosen; ++c) whole += weights[c];
    for (long c = 0; c < plan.chosen; ++c) weights[c] /= whole;
  }
}

void ExpertMixer::AddExpert(const CpuKernels& kernels, const ExpertBlock& block, long expert,
                            AdapterSums& adapters) {
  const PackedExpert& packed = block.layer.experts[static_cast<size_t>(expert)];
  rows_.clear();
  step_rows_.clear();
  row_weights_.clear();
  for (size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i] != expert) continue;
    rows_.push_back(static_cast<long>(i) / block.plan.chosen);
    step_rows_.push_back(block.first + rows_.back());
    row_weights_.push_back(weights_[i]);
  }
  const auto count = static_cast<long>(rows_.size());
  if (count == 0) return;
  const long width = block.width, inner = PaddedRow(block.plan.width);
  picked_.Reserve(static_cast<size_t>(count * width));
  act_.Reserve(static_cast<size_t>(count * inner));
  out_.Reserve(static_cast<size_t>(count * width));
  for (long i = 0; i < count; ++i) {
    std::copy_n(block.h + rows_[static_cast<size_t>(i)] * width, width, picked_.data() + i * width);
  }
  const auto added = [&](bool down, const float* x, long ldx, const PackedMatrix& base) {
    return adapters.AddedOfExpert(kernels, {down, block.index, expert, step_rows_, x, ldx}, base);
  };
  MultiplyRows(kernels, picked_.data(), width, packed.gate_up, count, act_.data(), inner,
               block.gate, added(false, picked_.data(), width, packed.gate_up));
  MultiplyRows(kernels, act_.data(), inner, packed.down, count, out_.data(), width,
               MatmulMode::kStore, added(true, act_.data(), inner, packed.down));
  for (long i = 0; i < count; ++i) {
    const float weight = row_weights_[static_cast<size_t>(i)];
    const float* from = out_.data() + i * width;
    float* to = sum_.data() + rows_[static_cast<size_t>(i)] * width;
    for (long c = 0; c < width; ++c) to[c] += weight * from[c];
  }
}

const float* ExpertMixer::Mix(const CpuKernels& kernels, const ExpertBlock& block,
                              AdapterSums& adapters,
                              const std::function<void(long, const uint16_t*)>& told) {
  Route(kernels, block);
  for (long r = 0; r < block.rows; ++r) told(r, chosen_.data() + r * block.plan.chosen);
  const auto numbers = static_cast<size_t>(block.rows * block.width);
  sum_.Reserve(numbers);
  std::fill_n(sum_.data(), numbers, 0.0f);
  for (long e = 0; e < block.plan.count; ++e) AddExpert(kernels, block, e, adapters);
  return sum_.data();
}

}  // namespace tidemill

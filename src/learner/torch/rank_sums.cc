#include "learner/torch/rank_sums.h"

#include "model/torch/aten.h"

namespace tidemill {
namespace {

// Every number of the sums but the ratios, in a fixed order.
std::vector<double*> NumbersOf(MinibatchSums& sums) {
  ObjectiveSums& o = sums.objective;
  return {&sums.loss,       &sums.computed_tokens,
          &o.tokens,        &o.ratio,
          &o.clipped,       &o.weight,
          &o.weight_zero,   &o.policy_kl,
          &o.reference_kl,  &o.entropy,
          &o.value_error,   &o.balance,
          &o.experts_given, &o.experts_differing};
}

// Each leaf and its place in a flat tensor.
template <typename Visit>
void EachGradient(NamedTensors& leaves, const at::Tensor& flat, Visit&& visit) {
  int64_t from = 0, index = 0;
  for (auto& [name, leaf] : leaves) {
    visit(leaf, flat.narrow(0, from, leaf.numel()).view(leaf.sizes()), index++);
    from += leaf.numel();
  }
}

}  // namespace

Status RankSums::Combine(RankGroup& ranks, NamedTensors& leaves, MinibatchSums& sums) {
  const at::NoGradGuard no_grad;
  int64_t size = 0;
  for (const auto& [name, leaf] : leaves) size += leaf.numel();
  if (!flat_.defined()) {
    flat_ =
        at::zeros({size}, leaves.begin()->second.options().dtype(at::kFloat).requires_grad(false));
  }
  const std::vector<double*> numbers = NumbersOf(sums);
  const auto leaf_count = static_cast<int64_t>(leaves.size());
  const auto number_count = static_cast<int64_t>(numbers.size());
  // The numbers, whether each leaf has a gradient, the ratios.
  const at::Tensor small = at::zeros(
      {number_count + leaf_count + static_cast<int64_t>(sums.log_ratios.size())}, at::kDouble);
  double* first = small.data_ptr<double>();
  double* has = first + number_count;
  double* ratios = has + leaf_count;
  for (int64_t i = 0; i < number_count; ++i) first[i] = *numbers[static_cast<size_t>(i)];
  std::copy(sums.log_ratios.begin(), sums.log_ratios.end(), ratios);
  EachGradient(leaves, flat_, [&](at::Tensor& leaf, const at::Tensor& place, int64_t index) {
    has[index] = leaf.grad().defined() ? 1 : 0;
    if (leaf.grad().defined()) {
      place.copy_(leaf.grad());
    } else {
      place.zero_();
    }
  });
  TM_RETURN_IF_ERROR(ranks.Sum({small, flat_}));
  for (int64_t i = 0; i < number_count; ++i) *numbers[static_cast<size_t>(i)] = first[i];
  std::copy(ratios, ratios + sums.log_ratios.size(), sums.log_ratios.begin());
  EachGradient(leaves, flat_, [&](at::Tensor& leaf, const at::Tensor& place, int64_t index) {
    if (has[index] == 0) return;
    if (leaf.grad().defined()) {
      leaf.mutable_grad().copy_(place);
    } else {
      leaf.mutable_grad() = place.clone();
    }
  });
  return Ok();
}

}  // namespace tidemill

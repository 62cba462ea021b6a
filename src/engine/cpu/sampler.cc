#include "engine/cpu/sampler.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

bool MoreLikely(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

// Which tokens remain, the most likely first, and their weight together. In this order: the k most
// likely; of those the fewest that reach top_p of what is left; of those the ones at least min_p
// times as likely as the first.
double Truncate(const SamplingParams& sampling, std::vector<std::pair<float, int32_t>>& order) {
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < order.size()) {
    std::partial_sort(order.begin(), order.begin() + sampling.top_k, order.end(), MoreLikely);
    order.resize(static_cast<size_t>(sampling.top_k));
  } else {
    std::sort(order.begin(), order.end(), MoreLikely);
  }
  double total = 0;
  for (const auto& [weight, token] : order) total += weight;
  double kept = 0;
  size_t count = 0;
  while (count < order.size()) {
    if (count > 0 && sampling.top_p < 1.0f && kept >= sampling.top_p * total) break;
    if (count > 0 && order[count].first < sampling.min_p * order[0].first) break;
    kept += order[count++].first;
  }
  order.resize(count);
  return kept;
}

}  // namespace

void ReportModel(const CpuKernels& kernels, std::span<const float> logits, int32_t top,
                 SamplerScratch& scratch, Drawn& drawn) {
  float best = 0;
  scratch.exps.resize((logits.size() + 63) / 64 * 64);
  const float sum = kernels.exp_row(logits.data(), static_cast<long>(logits.size()), 1.0f,
                                    scratch.exps.data(), &best);
  const double log_sum = std::log(static_cast<double>(sum)) + best;
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  drawn.model_logprob = logprob(logits[static_cast<size_t>(drawn.id)]);
  const size_t count = std::min(static_cast<size_t>(top), logits.size());
  if (count == 0) return;
  scratch.order.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    scratch.order.emplace_back(logits[i], static_cast<int32_t>(i));
  }
  std::partial_sort(scratch.order.begin(), scratch.order.begin() + static_cast<long>(count),
                    scratch.order.end(), MoreLikely);
  drawn.top.clear();
  for (size_t i = 0; i < count; ++i) {
    drawn.top.push_back({scratch.order[i].second, logprob(scratch.order[i].first)});
  }
}

double UniformAt(uint64_t seed, uint64_t position) {
  return static_cast<double>(Mix(Mix(seed) ^ Mix(~position)) >> 11) * 0x1.0p-53;
}

void DrawToken(const CpuKernels& kernels, std::span<const float> logits,
               const SamplingParams& sampling, uint64_t seed, uint64_t position,
               SamplerScratch& scratch, Drawn& drawn) {
  const long n = static_cast<long>(logits.size());
  scratch.exps.resize((logits.size() + 63) / 64 * 64);
  const float scale = sampling.temperature > 0 ? 1.0f / sampling.temperature : 1.0f;
  float top = 0;
  const float sum = kernels.exp_row(logits.data(), n, scale, scratch.exps.data(), &top);
  if (!(sum > 0) || !std::isfinite(sum) || !std::isfinite(top)) {
    drawn = {.id = -1};
    return;
  }
  const double log_sum = std::log(static_cast<double>(sum));
  const auto logprob = [&](long token) {
    return (static_cast<double>(logits[static_cast<size_t>(token)]) - top) * scale - log_sum;
  };
  long token = 0;
  double kept_share = 1.0;
  if (sampling.temperature <= 0) {
    token = std::find(logits.begin(), logits.end(), top) - logits.begin();
  } else if (!sampling.Truncates()) {
    const double target = UniformAt(seed, position) * sum;
    token = kernels.pick(scratch.exps.data(), n, static_cast<float>(target));
  } else {
    scratch.order.clear();
    for (long i = 0; i < n; ++i) {
      scratch.order.emplace_back(scratch.exps[static_cast<size_t>(i)], static_cast<int32_t>(i));
    }
    const double kept = Truncate(sampling, scratch.order);
    kept_share = kept / sum;
    double left = UniformAt(seed, position) * kept;
    token = scratch.order.back().second;
    for (const auto& [weight, candidate] : scratch.order) {
      left -= weight;
      if (left < 0) {
        token = candidate;
        break;
      }
    }
  }
  drawn.id = static_cast<TokenId>(token);
  drawn.full_logprob = static_cast<float>(logprob(token));
  drawn.logprob = static_cast<float>(logprob(token) - std::log(kept_share));
  if (sampling.top_logprobs >= 0) {
    ReportModel(kernels, logits, sampling.top_logprobs, scratch, drawn);
  }
}

}  // namespace tidemill

#include "engine/cpu/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/token_support.h"

namespace tidemill {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

using Weighed = std::pair<float, int32_t>;  // a token behind its weight

bool MoreLikely(const Weighed& a, const Weighed& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

// The `count` with the largest weights, the largest first.
void MostLikely(std::span<const float> weights, size_t count, std::vector<Weighed>& order) {
  order.clear();
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weighed one{weights[i], static_cast<int32_t>(i)};
    if (order.size() < count) {
      order.push_back(one);
      std::push_heap(order.begin(), order.end(), MoreLikely);
    } else if (one.first > order.front().first) {  // of equals the first stays
      std::pop_heap(order.begin(), order.end(), MoreLikely);
      order.back() = one;
      std::push_heap(order.begin(), order.end(), MoreLikely);
    }
  }
  std::sort_heap(order.begin(), order.end(), MoreLikely);
}

// Which tokens remain, the most likely first, and their weight together. In this order: the k most
// likely; of those the fewest that reach top_p of what is left; of those the ones at least min_p
// times as likely as the first. A vocabulary is large and what remains is little, so no more of it
// is put in order than that.
double Truncate(const SamplingParams& sampling, std::span<const float> weights, double sum,
                std::vector<Weighed>& order, std::vector<Weighed>& heap) {
  const bool limited = sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < weights.size();
  double total = sum;
  heap.clear();
  if (limited) {
    MostLikely(weights, static_cast<size_t>(sampling.top_k), heap);
    total = 0;
    for (const auto& [weight, token] : heap) total += weight;
  } else {
    // All that are lighter than this together have less than 1 - top_p of the weight.
    const double least =
        std::max(0.0, 1.0 - sampling.top_p) * total / static_cast<double>(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] >= least) heap.emplace_back(weights[i], static_cast<int32_t>(i));
    }
  }
  const auto less_likely = [](const Weighed& a, const Weighed& b) { return MoreLikely(b, a); };
  std::make_heap(heap.begin(), heap.end(), less_likely);
  double kept = 0;
  order.clear();
  while (!heap.empty()) {
    const Weighed next = heap.front();
    if (!order.empty() && ((sampling.top_p < 1.0f && kept >= sampling.top_p * total) ||
                           next.first < sampling.min_p * order[0].first)) {
      break;
    }
    std::pop_heap(heap.begin(), heap.end(), less_likely);
    heap.pop_back();
    order.push_back(next);
    kept += next.first;
  }
  return kept;
}

// The tokens of `order`.
std::string SupportOf(const std::vector<Weighed>& order, std::vector<int32_t>& ids) {
  ids.clear();
  for (const auto& [weight, token] : order) ids.push_back(token);
  std::sort(ids.begin(), ids.end());
  return EncodeSupport(ids);
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
  MostLikely(logits, count, scratch.order);
  drawn.top.clear();
  for (const auto& [logit, token] : scratch.order) drawn.top.push_back({token, logprob(logit)});
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
    const double kept = Truncate(sampling, std::span(scratch.exps).first(logits.size()), sum,
                                 scratch.order, scratch.heap);
    kept_share = kept / sum;
    double left = UniformAt(seed, position) * kept;
    drawn.support = SupportOf(scratch.order, scratch.kept);
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

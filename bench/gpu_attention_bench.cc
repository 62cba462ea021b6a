#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/gpu_bench.h"
#include "model/torch/catch.h"

namespace tidemill {
namespace {

using at::Tensor;
using Json = nlohmann::ordered_json;

constexpr int64_t kLength = 1024;
constexpr int64_t kClass = 256;  // lengths of padded sequences are multiples of it
constexpr int kRounds = 20;
constexpr double kTolerance = 2e-2;  // of bfloat16, relative norm

// Sequences laid end to end.
struct AttentionPack {
  Tensor q, k, v, starts, dout;  // [tokens, heads, head_dim]; int32
  int64_t longest = 0;
  // The same padded at their ends, [sequences, padded]: the row of each token.
  int64_t sequences = 0, padded = 0;
  Tensor rows;
};

// Lengths from half of `longest` up, as answers have.
std::vector<int64_t> MixedLengths(int64_t sequences, int64_t longest) {
  std::vector<int64_t> lengths(static_cast<size_t>(sequences), longest);
  for (int64_t i = 1; i < sequences; ++i) {
    lengths[static_cast<size_t>(i)] = longest - i * 7919 % (longest / 2);
  }
  return lengths;
}

AttentionPack RandomPack(const ModelConfig& config, const std::vector<int64_t>& lengths) {
  AttentionPack pack;
  pack.longest = *std::max_element(lengths.begin(), lengths.end());
  pack.sequences = static_cast<int64_t>(lengths.size());
  pack.padded = (pack.longest + kClass - 1) / kClass * kClass;
  std::vector<int32_t> starts(1, 0);
  std::vector<int64_t> rows;
  for (size_t s = 0; s < lengths.size(); ++s) {
    starts.push_back(starts.back() + static_cast<int32_t>(lengths[s]));
    for (int64_t i = 0; i < lengths[s]; ++i) {
      rows.push_back(static_cast<int64_t>(s) * pack.padded + i);
    }
  }
  pack.starts = at::tensor(starts, at::kInt).to(at::kCUDA);
  pack.rows = at::tensor(rows, at::kLong).to(at::kCUDA);
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const auto random = [&](int64_t heads) {
    return at::randn({starts.back(), heads, config.head_dim}, options);
  };
  pack.q = random(config.num_heads);
  pack.k = random(config.num_kv_heads);
  pack.v = random(config.num_kv_heads);
  pack.dout = random(config.num_heads);
  return pack;
}

// The forward pass's tensors for the backward pass, as the operation wants them.
struct Passed {
  Tensor q, k, v, out, log_sums, seed, offset;
  Tensor packed_out;
};
struct Gradients {
  Tensor q, k, v;
};

struct Operation {
  const char* name;
  Passed (*forward)(const AttentionPack&);
  Gradients (*backward)(const AttentionPack&, const Passed&);
};

Passed FlashForward(const AttentionPack& p) {
  const auto [out, log_sums, seed, offset, debug] = at::_flash_attention_forward(
      p.q, p.k, p.v, p.starts, p.starts, p.longest, p.longest, 0.0, /*is_causal=*/true, false);
  return {p.q, p.k, p.v, out, log_sums, seed, offset, out};
}
Gradients FlashBackward(const AttentionPack& p, const Passed& f) {
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      p.dout, f.q, f.k, f.v, f.out, f.log_sums, p.starts, p.starts, p.longest, p.longest, 0.0,
      /*is_causal=*/true, f.seed, f.offset);
  return {dq, dk, dv};
}

// cuDNN's mask begins at the first key and query of a sequence alike, so neither form serves
// sequences that continue a shared prompt.
Passed CudnnForward(const AttentionPack& p) {
  const auto made = at::_cudnn_attention_forward(p.q, p.k, p.v, std::nullopt, p.starts, p.starts,
                                                 p.longest, p.longest, /*compute_log_sumexp=*/true,
                                                 0.0, /*is_causal=*/true, false);
  const Tensor& out = std::get<0>(made);
  return {p.q, p.k, p.v, out, std::get<1>(made), std::get<6>(made), std::get<7>(made), out};
}
Gradients CudnnBackward(const AttentionPack& p, const Passed& f) {
  const auto [dq, dk, dv] = at::_cudnn_attention_backward(
      p.dout, f.q, f.k, f.v, f.out, f.log_sums, f.seed, f.offset, Tensor(), p.starts, p.starts,
      p.longest, p.longest, 0.0, /*is_causal=*/true);
  return {dq, dk, dv};
}

// [sequences, heads, padded, head_dim], in memory as the rows are; zeros behind each sequence.
Tensor Padded(const AttentionPack& p, const Tensor& packed) {
  const int64_t heads = packed.size(1), d = packed.size(2);
  Tensor padded = at::zeros({p.sequences * p.padded, heads, d}, packed.options());
  padded.index_copy_(0, p.rows, packed);
  return padded.view({p.sequences, p.padded, heads, d}).transpose(1, 2);
}
Tensor Packed(const AttentionPack& p, const Tensor& padded) {
  const int64_t heads = padded.size(1), d = padded.size(3);
  return padded.transpose(1, 2).reshape({p.sequences * p.padded, heads, d}).index_select(0, p.rows);
}
Passed PaddedForward(const AttentionPack& p) {
  Passed f{Padded(p, p.q), Padded(p, p.k), Padded(p, p.v), {}, {}, {}, {}, {}};
  const auto made = at::_cudnn_attention_forward(f.q, f.k, f.v, std::nullopt, std::nullopt,
                                                 std::nullopt, p.padded, p.padded,
                                                 /*compute_log_sumexp=*/true, 0.0,
                                                 /*is_causal=*/true, false);
  f.out = std::get<0>(made);
  f.log_sums = std::get<1>(made);
  f.seed = std::get<6>(made);
  f.offset = std::get<7>(made);
  f.packed_out = Packed(p, f.out);
  return f;
}
Gradients PaddedBackward(const AttentionPack& p, const Passed& f) {
  const auto [dq, dk, dv] = at::_cudnn_attention_backward(
      Padded(p, p.dout), f.q, f.k, f.v, f.out, f.log_sums, f.seed, f.offset, Tensor(), Tensor(),
      Tensor(), p.padded, p.padded, 0.0, /*is_causal=*/true);
  return {Packed(p, dq), Packed(p, dk), Packed(p, dv)};
}

constexpr Operation kOperations[] = {{"flash", FlashForward, FlashBackward},
                                     {"cudnn", CudnnForward, CudnnBackward},
                                     {"cudnn_padded", PaddedForward, PaddedBackward}};

// Microseconds of one call: of the GPU, and of the host until it has been launched.
template <typename Call>
Json Timed(Call&& call) {
  for (int i = 0; i < 3; ++i) call();
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  at::zeros({1}, at::kCUDA).item<float>();  // the host does not wait for what came before
  begin.record();
  const double began = Now();
  for (int i = 0; i < kRounds; ++i) call();
  const double launched = Now();
  end.record();
  end.synchronize();
  return {{"gpu_us", begin.elapsed_time(end) * 1e3 / kRounds},
          {"host_us", (launched - began) * 1e6 / kRounds}};
}

// Real packs have another size each: what is prepared for one size alone shows here.
double NewSizeMicroseconds(const Operation& operation, const ModelConfig& config,
                           int64_t sequences) {
  std::vector<AttentionPack> others;
  for (int i = 1; i <= 4; ++i) {
    others.push_back(RandomPack(config, MixedLengths(sequences, kLength - 8 * i)));
  }
  at::zeros({1}, at::kCUDA).item<float>();  // waits for the GPU
  const double began = Now();
  for (const AttentionPack& other : others) operation.backward(other, operation.forward(other));
  return (Now() - began) * 1e6 / static_cast<double>(others.size());
}

double Error(const Tensor& a, const Tensor& b) {
  const Tensor wide = b.to(at::kFloat);
  return ((a.to(at::kFloat) - wide).norm() / wide.norm()).item<double>();
}

struct Reference {
  Tensor out;
  Gradients gradients;
};

// Adds how far it is from the reference, the first operation that worked.
void Compare(const Passed& passed, const Gradients& gradients, Reference& reference, Json& result) {
  if (!reference.out.defined()) reference = {passed.packed_out, gradients};
  result["error"] = {{"out", Error(passed.packed_out, reference.out)},
                     {"dq", Error(gradients.q, reference.gradients.q)},
                     {"dk", Error(gradients.k, reference.gradients.k)},
                     {"dv", Error(gradients.v, reference.gradients.v)}};
  bool right = true;  // a number that is none is not below the tolerance
  for (const auto& [name, error] : result["error"].items()) {
    right = right && error.get<double>() <= kTolerance;
  }
  result["right"] = right;
  // A layer takes the longer of the GPU's and the host's time: 24 of them follow each other.
  double sum = 0;
  for (const char* pass : {"forward", "backward"}) {
    sum += std::max(result[pass]["gpu_us"].get<double>(), result[pass]["host_us"].get<double>());
  }
  result["us"] = sum;
}

Json MeasurePack(const ModelConfig& config, const std::vector<int64_t>& lengths) {
  const AttentionPack pack = RandomPack(config, lengths);
  Json results;
  Reference reference;
  std::string fastest;
  for (const Operation& operation : kOperations) {
    Json& result = results[operation.name];
    // An operation that this GPU or library does not have is reported, not fatal.
    const Status status = CatchTorchStatus(operation.name, [&] {
      const Passed passed = operation.forward(pack);
      const Gradients gradients = operation.backward(pack, passed);
      result = {{"forward", Timed([&] { operation.forward(pack); })},
                {"backward", Timed([&] { operation.backward(pack, passed); })}};
      Compare(passed, gradients, reference, result);
      result["new_size_host_us"] = NewSizeMicroseconds(operation, config, pack.sequences);
      return Ok();
    });
    if (!status.ok()) {
      result = {{"error", status.message()}};
      continue;
    }
    if (!result["right"].get<bool>()) continue;
    if (fastest.empty() || result["us"] < results[fastest]["us"]) fastest = operation.name;
  }
  results["tokens"] = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  results["fastest"] = fastest;
  return results;
}

}  // namespace

Result<std::string> RunGpuAttentionBench(const GpuPolicy& policy, int sequences) {
  const at::NoGradGuard no_grad;
  return CatchTorch<std::string>("attention", [&]() -> Result<std::string> {
    const std::vector<int64_t> equal(static_cast<size_t>(sequences), kLength);
    return Json{{"bench", "attention"},
                {"shape", policy.shape},
                {"sequences", sequences},
                {"length", kLength},
                {"equal", MeasurePack(policy.config, equal)},
                {"mixed", MeasurePack(policy.config, MixedLengths(sequences, kLength))}}
        .dump();
  });
}

}  // namespace tidemill

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>

#include <nlohmann/json.hpp>

#include "bench/gpu_bench.h"
#include "model/torch/catch.h"

namespace tidemill {
namespace {

using at::Tensor;
using Json = nlohmann::ordered_json;

constexpr int64_t kLength = 1024;
constexpr int kRounds = 20;

// Sequences laid end to end.
struct AttentionPack {
  Tensor q, k, v, starts, dout;  // [tokens, heads, head_dim]; int32
  int64_t longest = kLength;
};

AttentionPack RandomPack(const ModelConfig& config, int64_t sequences, int64_t length) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const auto rows = [&](int64_t heads) {
    return at::randn({sequences * length, heads, config.head_dim}, options);
  };
  const Tensor starts =
      at::arange(sequences + 1, at::TensorOptions().dtype(at::kInt).device(at::kCUDA)) * length;
  return {rows(config.num_heads), rows(config.num_kv_heads), rows(config.num_kv_heads),
          starts.to(at::kInt),    rows(config.num_heads),    length};
}

// What a forward pass leaves for the backward pass.
struct Passed {
  Tensor out, log_sums, seed, offset;
};

struct Operation {
  const char* name;
  Passed (*forward)(const AttentionPack&);
  Tensor (*backward)(const AttentionPack&, const Passed&);  // the gradient of q
};

Passed FlashForward(const AttentionPack& p) {
  const auto [out, log_sums, seed, offset, debug] = at::_flash_attention_forward(
      p.q, p.k, p.v, p.starts, p.starts, p.longest, p.longest, 0.0, /*is_causal=*/true, false);
  return {out, log_sums, seed, offset};
}
Tensor FlashBackward(const AttentionPack& p, const Passed& f) {
  return std::get<0>(at::_flash_attention_backward(p.dout, p.q, p.k, p.v, f.out, f.log_sums,
                                                   p.starts, p.starts, p.longest, p.longest, 0.0,
                                                   /*is_causal=*/true, f.seed, f.offset));
}

// Its mask begins at the first key and query of a sequence alike, so it does not serve sequences
// that continue a shared prompt.
Passed CudnnForward(const AttentionPack& p) {
  const auto made = at::_cudnn_attention_forward(p.q, p.k, p.v, std::nullopt, p.starts, p.starts,
                                                 p.longest, p.longest, /*compute_log_sumexp=*/true,
                                                 0.0, /*is_causal=*/true, false);
  return {std::get<0>(made), std::get<1>(made), std::get<6>(made), std::get<7>(made)};
}
Tensor CudnnBackward(const AttentionPack& p, const Passed& f) {
  return std::get<0>(at::_cudnn_attention_backward(p.dout, p.q, p.k, p.v, f.out, f.log_sums, f.seed,
                                                   f.offset, Tensor(), p.starts, p.starts,
                                                   p.longest, p.longest, 0.0, /*is_causal=*/true));
}

constexpr Operation kOperations[] = {{"flash", FlashForward, FlashBackward},
                                     {"cudnn", CudnnForward, CudnnBackward}};

// Microseconds of one call: of the GPU, and of the host until it has been launched.
template <typename Call>
Json Timed(Call&& call) {
  for (int i = 0; i < 3; ++i) call();
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record();
  const double began = Now();
  for (int i = 0; i < kRounds; ++i) call();
  const double launched = Now();
  end.record();
  end.synchronize();
  return {{"gpu_us", begin.elapsed_time(end) * 1e3 / kRounds},
          {"host_us", (launched - began) * 1e6 / kRounds}};
}

double Difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
}

Json Measure(const Operation& operation, const AttentionPack& pack, const ModelConfig& config,
             int64_t sequences, Passed& passed, Tensor& dq) {
  passed = operation.forward(pack);
  dq = operation.backward(pack, passed);
  Json result{{"forward", Timed([&] { operation.forward(pack); })},
              {"backward", Timed([&] { operation.backward(pack, passed); })}};
  // Real packs have another size each: what is prepared for one size alone shows here.
  std::vector<AttentionPack> others;
  for (int i = 1; i <= 4; ++i) others.push_back(RandomPack(config, sequences, kLength - 8 * i));
  at::zeros({1}, pack.q.options()).item<float>();  // waits for the GPU
  const double began = Now();
  for (const AttentionPack& other : others) operation.backward(other, operation.forward(other));
  result["new_size_host_us"] = (Now() - began) * 1e6 / static_cast<double>(others.size());
  return result;
}

}  // namespace

Result<std::string> RunGpuAttentionBench(const GpuPolicy& policy, int sequences) {
  const at::NoGradGuard no_grad;
  return CatchTorch<std::string>("attention", [&]() -> Result<std::string> {
    const AttentionPack pack = RandomPack(policy.config, sequences, kLength);
    Json result{{"bench", "attention"},
                {"shape", policy.shape},
                {"sequences", sequences},
                {"length", kLength}};
    Passed reference;
    Tensor reference_dq;
    for (const Operation& operation : kOperations) {
      Passed passed;
      Tensor dq;
      // An operation that this GPU or library does not have is reported, not fatal.
      const Status status = CatchTorchStatus(operation.name, [&] {
        result[operation.name] = Measure(operation, pack, policy.config, sequences, passed, dq);
        return Ok();
      });
      if (!status.ok()) {
        result[operation.name] = {{"error", status.message()}};
        continue;
      }
      if (!reference.out.defined()) {
        reference = passed;
        reference_dq = dq;
        continue;
      }
      result[operation.name]["difference"] = Difference(passed.out, reference.out);
      result[operation.name]["difference_of_gradient"] = Difference(dq, reference_dq);
    }
    return result.dump();
  });
}

}  // namespace tidemill

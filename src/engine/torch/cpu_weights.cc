#include "engine/torch/cpu_weights.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "model/layer_plan.h"
#include "model/torch/adapter_block.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

at::Tensor Plain(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kFloat).contiguous();
}

FloatBuffer Gains(const at::Tensor& weight, const DecoderPlan& plan) {
  if (!weight.defined()) return {};
  const at::Tensor plain = Plain(weight) + plan.norm_offset;
  FloatBuffer row(static_cast<size_t>(PaddedRow(plain.numel())));
  std::copy_n(plain.data_ptr<float>(), plain.numel(), row.data());
  return row;
}

PackedMatrix PackPlain(const at::Tensor& whole, const CpuKernels& kernels) {
  PackedMatrix packed;
  packed.k = whole.size(1);
  packed.panels = (whole.size(0) + kernels.panel - 1) / kernels.panel;
  packed.values = FloatBuffer(static_cast<size_t>(packed.panels * packed.k * kernels.panel));
  kernels.pack(whole.data_ptr<float>(), whole.size(0), packed.k, packed.values.data());
  return packed;
}

PackedMatrix PackHalves(const at::Tensor& gate, const at::Tensor& up, const CpuKernels& kernels) {
  const long half = kernels.panel / 2;
  PackedMatrix packed;
  packed.k = gate.size(1);
  packed.panels = (gate.size(0) + half - 1) / half;
  packed.values = FloatBuffer(static_cast<size_t>(packed.panels * packed.k * kernels.panel));
  kernels.pack_gated(gate.data_ptr<float>(), up.data_ptr<float>(), gate.size(0), packed.k,
                     packed.values.data());
  return packed;
}

// Layers that read the same input become one matrix: q, k and v.
PackedMatrix PackRows(const std::vector<const LinearTensors*>& parts, const CpuKernels& kernels) {
  std::vector<at::Tensor> weights, biases;
  for (const LinearTensors* part : parts) {
    weights.push_back(Plain(part->weight));
    if (part->bias.defined()) biases.push_back(Plain(part->bias));
  }
  PackedMatrix packed = PackPlain(at::cat(weights), kernels);
  if (!biases.empty()) {
    const at::Tensor bias = at::cat(biases);
    packed.bias = FloatBuffer(static_cast<size_t>(packed.panels * kernels.panel));
    std::copy_n(bias.data_ptr<float>(), bias.numel(), packed.bias.data());
  }
  return packed;
}

PackedMatrix PackGateUp(const LinearTensors& gate, const LinearTensors& up,
                        const CpuKernels& kernels) {
  PackedMatrix packed = PackHalves(Plain(gate.weight), Plain(up.weight), kernels);
  if (gate.bias.defined()) {
    const at::Tensor gb = Plain(gate.bias), ub = Plain(up.bias);
    packed.bias = FloatBuffer(static_cast<size_t>(packed.panels * kernels.panel));
    kernels.pack_gated(gb.data_ptr<float>(), ub.data_ptr<float>(), gb.numel(), 1,
                       packed.bias.data());
  }
  return packed;
}

}  // namespace

PackedWeights PackWeights(const PolicyWeights& weights, const CpuKernels& kernels) {
  const at::NoGradGuard no_grad;
  const ModelTensorsView& view = weights.view();
  const DecoderPlan plan = PlanDecoder(weights.config());
  PackedWeights packed;
  at::Tensor embed = Plain(view.embed);
  if (plan.embedding_scale != 1) embed = embed * plan.embedding_scale;
  const long width = embed.size(1), ld = PaddedRow(width);
  packed.embed = FloatBuffer(static_cast<size_t>(embed.size(0) * ld));
  for (long i = 0; i < embed.size(0); ++i) {
    std::copy_n(embed.data_ptr<float>() + i * width, width, packed.embed.data() + i * ld);
  }
  packed.norm = Gains(view.norm, plan);
  const LinearTensors head{.weight = view.head, .bias = {}, .lora_a = {}, .lora_b = {}};
  packed.head = PackRows({&head}, kernels);
  for (const LayerTensors& layer : view.layers) {
    PackedLayer out;
    out.attention_in = Gains(layer.attention_in, plan);
    out.attention_out = Gains(layer.attention_out, plan);
    out.mlp_in = Gains(layer.mlp_in, plan);
    out.mlp_out = Gains(layer.mlp_out, plan);
    out.q_norm = Gains(layer.q_norm, plan);
    out.k_norm = Gains(layer.k_norm, plan);
    out.qkv = PackRows({&layer.q, &layer.k, &layer.v}, kernels);
    out.o = PackRows({&layer.o}, kernels);
    out.gate_up = PackGateUp(layer.gate, layer.up, kernels);
    out.down = PackRows({&layer.down}, kernels);
    packed.layers.push_back(std::move(out));
  }
  return packed;
}

PackedAdapter PackAdapter(const LoraAdapter& adapter, const ModelConfig& config,
                          const CpuKernels& kernels) {
  const at::NoGradGuard no_grad;
  const AdapterLayout layout = MakeAdapterLayout(config, RanksOf(adapter, config));
  const auto block = AdapterBlock(&adapter, config, layout, at::kCPU, at::kFloat);
  TM_CHECK(block.ok(), block.status().message());  // the layout was made for it
  PackedAdapter packed;
  packed.layers.resize(static_cast<size_t>(config.num_layers));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (size_t i = 0; i < kLayerProducts; ++i) {
      const auto product = static_cast<LayerProduct>(i);
      if (layout.Of(product).rank == 0) continue;
      const AdapterMatrices matrices = AdapterMatricesOf(*block, layout, layer, product);
      PackedLowRank& out = packed.layers[static_cast<size_t>(layer)][i];
      out.a = PackPlain(matrices.a, kernels);
      if (product == LayerProduct::kGateUp) {
        const int64_t width = config.intermediate_size;
        out.b =
            PackHalves(matrices.b.narrow(0, 0, width), matrices.b.narrow(0, width, width), kernels);
      } else {
        out.b = PackPlain(matrices.b, kernels);
      }
    }
  }
  return packed;
}

}  // namespace tidemill

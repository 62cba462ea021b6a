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

PackedLowRank PackLowRank(const ExpertTensors::LowRank& adapter, int64_t expert, int64_t experts,
                          bool gated, const CpuKernels& kernels) {
  PackedLowRank packed;
  if (!adapter.a.defined()) return packed;
  const LinearTensors one = adapter.Of(expert, experts);
  packed.a = PackPlain(Plain(one.lora_a), kernels);
  const at::Tensor b = Plain(one.lora_b) * one.lora_scale;
  const int64_t half = b.size(0) / 2;
  packed.b = gated ? PackHalves(b.narrow(0, 0, half), b.narrow(0, half, half), kernels)
                   : PackPlain(b, kernels);
  return packed;
}

std::vector<PackedAdapter::Expert> PackExpertAdapters(const LoraAdapter& adapter, int64_t layer,
                                                      int64_t experts, const CpuKernels& kernels) {
  const auto gate_up = ExpertLowRank(adapter, ExpertGateUpModule(layer));
  const auto down = ExpertLowRank(adapter, ExpertDownModule(layer));
  std::vector<PackedAdapter::Expert> packed;
  if (!gate_up.a.defined() && !down.a.defined()) return packed;
  for (int64_t e = 0; e < experts; ++e) {
    packed.push_back({PackLowRank(gate_up, e, experts, true, kernels),
                      PackLowRank(down, e, experts, false, kernels)});
  }
  return packed;
}

}  // namespace

MatmulArgs PackedMatrix::Args() const {
  return {.a = nullptr,
          .packed = values.data(),
          .bias = bias.data(),
          .c = nullptr,
          .rows = 0,
          .k = k,
          .panels = panels,
          .lda = 0,
          .ldc = 0,
          .mode = MatmulMode::kStore,
          .start = nullptr,
          .bytes = bytes.empty() ? nullptr : bytes.data(),
          .scales = scales.data()};
}

void PackedMatrix::Quantize(const CpuKernels& kernels) {
  bytes.resize(static_cast<size_t>((k + 3) / 4 * 4 * panels * kernels.panel));
  scales = FloatBuffer(static_cast<size_t>(panels * kernels.panel));
  kernels.quantize(values.data(), k, panels, bytes.data(), scales.data());
  values = {};
}

PackedWeights PackWeights(const PolicyWeights& weights, const CpuKernels& kernels) {
  return PackView(weights.view(), weights.config(), kernels);
}

namespace {

// `finish` is called with each product's matrix as soon as it is packed.
template <typename Finish>
PackedWeights PackAll(const ModelTensorsView& view, const ModelConfig& config,
                      const CpuKernels& kernels, const Finish& finish) {
  const at::NoGradGuard no_grad;
  const DecoderPlan plan = PlanDecoder(config);
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
  finish(packed.head);
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
    if (layer.experts.router.defined()) {
      out.router = PackPlain(Plain(layer.experts.router), kernels);
      if (layer.experts.bias.defined()) {
        const at::Tensor bias = Plain(layer.experts.bias);
        out.router_bias = FloatBuffer(static_cast<size_t>(bias.numel()));
        std::copy_n(bias.data_ptr<float>(), bias.numel(), out.router_bias.data());
      }
      for (const ExpertTensors::Expert& expert : layer.experts.experts) {
        out.experts.push_back({PackHalves(Plain(expert.gate), Plain(expert.up), kernels),
                               PackPlain(Plain(expert.down), kernels)});
        finish(out.experts.back().gate_up);
        finish(out.experts.back().down);
      }
    } else {
      out.gate_up = PackGateUp(layer.gate, layer.up, kernels);
      out.down = PackRows({&layer.down}, kernels);
    }
    for (PackedMatrix* matrix : {&out.qkv, &out.o, &out.gate_up, &out.down}) finish(*matrix);
    packed.layers.push_back(std::move(out));
  }
  return packed;
}

}  // namespace

PackedWeights PackView(const ModelTensorsView& view, const ModelConfig& config,
                       const CpuKernels& kernels) {
  return PackAll(view, config, kernels, [](PackedMatrix&) {});
}

PackedWeights PackWeightsInBytes(const PolicyWeights& weights, const CpuKernels& kernels) {
  return PackAll(weights.view(), weights.config(), kernels, [&](PackedMatrix& matrix) {
    if (matrix.panels > 0) matrix.Quantize(kernels);
  });
}

PackedAdapter PackAdapter(const LoraAdapter& adapter, const ModelConfig& config,
                          const CpuKernels& kernels) {
  const at::NoGradGuard no_grad;
  const AdapterLayout layout = MakeAdapterLayout(config, RanksOf(adapter, config));
  const auto block = AdapterBlock(&adapter, config, layout, at::kCPU, at::kFloat);
  TM_CHECK(block.ok(), block.status().message());  // the layout was made for it
  PackedAdapter packed;
  packed.layers.resize(static_cast<size_t>(config.num_layers));
  const DecoderPlan plan = PlanDecoder(config);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    packed.experts.push_back(PackExpertAdapters(adapter, static_cast<int64_t>(i),
                                                plan.layers[i].experts.count, kernels));
  }
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

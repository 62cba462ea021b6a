#include "learner/torch/adamw.h"

#include "model/torch/aten.h"

#include <cmath>

#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_train.h"
#endif
#include "model/torch/device.h"

namespace tidemill {
namespace {

void UpdateOnCpu(const AdamWUpdate& u, const float* __restrict grad, float* __restrict p,
                 float* __restrict m, float* __restrict v, int64_t n) {
  const float inverse_root = 1.0f / u.root;
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * u.grad_scale;
    m[i] = u.beta1 * m[i] + (1.0f - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (1.0f - u.beta2) * g * g;
    p[i] = u.decay * p[i] - u.rate * m[i] / (std::sqrt(v[i]) * inverse_root + u.eps);
  }
}

void UpdateAnywhere(const AdamWUpdate& u, const at::Tensor& grad, at::Tensor& p, at::Tensor& m,
                    at::Tensor& v) {
#ifdef TIDEMILL_CUDA
  if (OnGpu(p) && p.is_contiguous() && grad.is_contiguous() && grad.scalar_type() == at::kFloat) {
    const CudaAdamW update{u.beta1, u.beta2, u.eps, u.decay, u.rate, u.root, u.grad_scale};
    return CudaAdamWStep(update, grad, p, m, v);
  }
#endif
  const at::Tensor g = grad * u.grad_scale;
  m.mul_(u.beta1).add_(g, 1.0f - u.beta1);
  v.mul_(u.beta2).addcmul_(g, g, 1.0f - u.beta2);
  p.mul_(u.decay).addcdiv_(m, (v.sqrt() / u.root).add_(u.eps), -u.rate);
}

bool Plain(const at::Tensor& tensor) {
  return !OnGpu(tensor) && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

}  // namespace

double GradNorm(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
#ifdef TIDEMILL_CUDA
  if (!parameters.empty() && OnGpu(parameters.begin()->second)) {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : parameters) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
    return CudaGradNorm(gradients);
  }
#endif
  double sum = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.grad().defined()) continue;
    const double norm = parameter.grad().norm().item<double>();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

void ZeroGrad(NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (auto& [name, parameter] : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.mutable_grad());
  }
  if (!gradients.empty()) at::_foreach_zero_(gradients);  // on a GPU a few kernels for all
}

// Before anything is changed: memory may run out.
void AdamW::MakeMoments(const NamedTensors& parameters) {
  for (const auto& [name, p] : parameters) {
    if (!p.grad().defined() || v_.contains(name)) continue;
    at::Tensor m, v, m_scale, v_scale;
    if (InBlocks(p)) {
      const int64_t blocks = (p.numel() + kMomentBlock - 1) / kMomentBlock;
      m = at::zeros(p.sizes(), at::TensorOptions().dtype(at::kByte));
      m_scale = at::zeros({blocks}, at::TensorOptions().dtype(at::kFloat));
      v_scale = at::zeros_like(m_scale);
    } else {
      m = at::zeros_like(p);
    }
    v = at::zeros_like(m);
    m_[name] = m;
    v_[name] = v;
    if (m_scale.defined()) m_scales_[name] = m_scale;
    if (v_scale.defined()) v_scales_[name] = v_scale;
  }
}

void AdamW::Step(NamedTensors& parameters, double lr, double grad_scale) {
  const at::NoGradGuard no_grad;
  MakeMoments(parameters);
  ++steps_;
  const double count = static_cast<double>(steps_);
  const double correction1 = 1.0 - std::pow(options_.beta1, count);
  const double correction2 = 1.0 - std::pow(options_.beta2, count);
  AdamWUpdate update{.beta1 = static_cast<float>(options_.beta1),
                     .beta2 = static_cast<float>(options_.beta2),
                     .eps = static_cast<float>(options_.eps),
                     .decay = 1,
                     .rate = static_cast<float>(lr / correction1),
                     .root = static_cast<float>(std::sqrt(correction2)),
                     .grad_scale = static_cast<float>(grad_scale)};
  for (auto& [name, p] : parameters) {
    const at::Tensor grad = p.grad();
    if (!grad.defined()) continue;
    const bool spared = options_.decay_matrices_only && p.dim() < 2;
    update.decay = spared ? 1 : static_cast<float>(1.0 - lr * options_.weight_decay);
    if (InBlocks(p)) {
      UpdateInBlocks(update, name, grad.contiguous(), p);
      continue;
    }
    at::Tensor& m = m_[name];
    at::Tensor& v = v_[name];
    if (Plain(p) && Plain(grad) && Plain(m) && Plain(v)) {
      UpdateOnCpu(update, grad.data_ptr<float>(), p.data_ptr<float>(), m.data_ptr<float>(),
                  v.data_ptr<float>(), p.numel());
    } else {
      UpdateAnywhere(update, grad, p, m, v);
    }
  }
}

bool AdamW::InBlocks(const at::Tensor& parameter) const {
  return options_.moments_in_blocks && Plain(parameter) && parameter.numel() >= kSmallestInBlocks;
}

void AdamW::UpdateInBlocks(const AdamWUpdate& update, const std::string& name,
                           const at::Tensor& grad, at::Tensor& p) {
  at::Tensor &m = m_[name], &v = v_[name], &m_scale = m_scales_[name], &v_scale = v_scales_[name];
  UpdateBlocks(update, steps_, grad.data_ptr<float>(), p.data_ptr<float>(),
               {m.data_ptr<uint8_t>(), m_scale.data_ptr<float>(), v.data_ptr<uint8_t>(),
                v_scale.data_ptr<float>()},
               p.numel());
}

NamedTensors AdamW::State() const {
  return Clones(SharedState());
}

NamedTensors AdamW::SharedState() const {
  NamedTensors state;
  for (const auto& [name, m] : m_) state.emplace("m." + name, m);
  for (const auto& [name, v] : v_) state.emplace("v." + name, v);
  for (const auto& [name, scale] : m_scales_) state.emplace("m_scale." + name, scale);
  for (const auto& [name, scale] : v_scales_) state.emplace("v_scale." + name, scale);
  return state;
}

Status AdamW::Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps) {
  const at::NoGradGuard no_grad;
  std::map<std::string, NamedTensors> kinds;  // "m", "v", "m_scale", "v_scale"
  for (const auto& [key, tensor] : state) {
    const size_t dot = std::min(key.find('.'), key.size());
    const std::string kind = key.substr(0, dot);
    const auto parameter = parameters.find(key.substr(std::min(dot + 1, key.size())));
    const bool scale = kind == "m_scale" || kind == "v_scale";
    if ((kind != "m" && kind != "v" && !scale) || parameter == parameters.end()) {
      return Invalid("optimizer state \"" + key + "\" matches no parameter");
    }
    const at::Tensor& p = parameter->second;
    const bool blocks = InBlocks(p);
    if (scale ? tensor.numel() != (p.numel() + kMomentBlock - 1) / kMomentBlock
              : tensor.sizes() != p.sizes()) {
      return Invalid("optimizer state \"" + key + "\" has a different shape than its parameter");
    }
    if ((scale && !blocks) || (!scale && (tensor.scalar_type() == at::kByte) != blocks)) {
      return Invalid("optimizer state \"" + key + "\" is " +
                     (blocks ? "float32, and learner.moments is int8"
                             : "in bytes, and learner.moments is float32"));
    }
    const at::ScalarType type = blocks && !scale ? at::kByte : at::kFloat;
    kinds[kind].emplace(parameter->first, tensor.to(p.device(), type, false, true).contiguous());
  }
  if (kinds["m"].size() != kinds["v"].size() ||
      kinds["m_scale"].size() != kinds["v_scale"].size()) {
    return Invalid("optimizer state lacks a moment of some parameter");
  }
  for (const auto& [name, codes] : kinds["m"]) {
    if (codes.scalar_type() == at::kByte && !kinds["m_scale"].contains(name)) {
      return Invalid("optimizer state lacks the scales of \"" + name + "\"");
    }
  }
  m_ = std::move(kinds["m"]);
  v_ = std::move(kinds["v"]);
  m_scales_ = std::move(kinds["m_scale"]);
  v_scales_ = std::move(kinds["v_scale"]);
  steps_ = steps;
  return Ok();
}

}  // namespace tidemill

#include "learner/torch/adamw.h"

#include "model/torch/aten.h"

#include <cmath>

#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_train.h"
#endif

namespace tidemill {
namespace {

// One parameter's update in one number each: p ← decay·p − rate·m / (√v / root + eps).
struct Update {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};

void UpdateOnCpu(const Update& u, const float* __restrict grad, float* __restrict p,
                 float* __restrict m, float* __restrict v, int64_t n) {
  const float inverse_root = 1.0f / u.root;
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * u.grad_scale;
    m[i] = u.beta1 * m[i] + (1.0f - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (1.0f - u.beta2) * g * g;
    p[i] = u.decay * p[i] - u.rate * m[i] / (std::sqrt(v[i]) * inverse_root + u.eps);
  }
}

void UpdateAnywhere(const Update& u, const at::Tensor& grad, at::Tensor& p, at::Tensor& m,
                    at::Tensor& v) {
#ifdef TIDEMILL_CUDA
  if (p.is_cuda() && p.is_contiguous() && grad.is_contiguous() &&
      grad.scalar_type() == at::kFloat) {
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
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

}  // namespace

double GradNorm(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
#ifdef TIDEMILL_CUDA
  if (!parameters.empty() && parameters.begin()->second.is_cuda()) {
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

void AdamW::Step(NamedTensors& parameters, double lr, double grad_scale) {
  const at::NoGradGuard no_grad;
  ++steps_;
  const double count = static_cast<double>(steps_);
  const double correction1 = 1.0 - std::pow(options_.beta1, count);
  const double correction2 = 1.0 - std::pow(options_.beta2, count);
  Update update{.beta1 = static_cast<float>(options_.beta1),
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
    at::Tensor& m = m_[name];
    at::Tensor& v = v_[name];
    if (!m.defined()) m = at::zeros_like(p);
    if (!v.defined()) v = at::zeros_like(p);
    if (Plain(p) && Plain(grad) && Plain(m) && Plain(v)) {
      UpdateOnCpu(update, grad.data_ptr<float>(), p.data_ptr<float>(), m.data_ptr<float>(),
                  v.data_ptr<float>(), p.numel());
    } else {
      UpdateAnywhere(update, grad, p, m, v);
    }
  }
}

NamedTensors AdamW::State() const {
  const at::NoGradGuard no_grad;
  NamedTensors state;
  for (const auto& [name, m] : m_) state.emplace("m." + name, m);
  for (const auto& [name, v] : v_) state.emplace("v." + name, v);
  return Clones(state);
}

Status AdamW::Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps) {
  const at::NoGradGuard no_grad;
  NamedTensors m, v;
  for (const auto& [key, tensor] : state) {
    const bool first = key.starts_with("m.");
    const auto parameter = parameters.find(key.substr(std::min<size_t>(2, key.size())));
    if ((!first && !key.starts_with("v.")) || parameter == parameters.end()) {
      return Invalid("optimizer state \"" + key + "\" matches no parameter");
    }
    if (tensor.sizes() != parameter->second.sizes()) {
      return Invalid("optimizer state \"" + key + "\" has a different shape than its parameter");
    }
    (first ? m : v)
        .emplace(parameter->first,
                 tensor.to(parameter->second.device(), at::kFloat, false, true).contiguous());
  }
  if (m.size() != v.size()) return Invalid("optimizer state lacks a moment of some parameter");
  m_ = std::move(m);
  v_ = std::move(v);
  steps_ = steps;
  return Ok();
}

}  // namespace tidemill

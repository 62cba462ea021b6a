#include "learner/torch/adamw.h"

#include "model/torch/aten.h"

#include <cmath>

#include "learner/torch/split_tensors.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_train.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/host_state.h"
#endif
#include "model/torch/device.h"

namespace tidemill {

#ifndef TIDEMILL_CUDA
class HostState {};  // there is none
#endif

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

// In two halves, of which the optimizer keeps one.
bool IsSplit(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kBFloat16;
}

// "m.NAME" of a checkpoint.
struct StateKey {
  std::string kind, name;
};
StateKey ParseStateKey(const std::string& key) {
  const size_t dot = std::min(key.find('.'), key.size());
  return {key.substr(0, dot), key.substr(std::min(dot + 1, key.size()))};
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
    const double norm = parameter.grad().to(at::kFloat).norm().item<double>();
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

AdamW::AdamW(AdamWOptions options) : options_(options) {}
AdamW::~AdamW() = default;

Status AdamW::TakeHostMemory(const NamedTensors& parameters) {
  if (!options_.state_on_host) return Ok();
#ifdef TIDEMILL_CUDA
  if (options_.moments_in_blocks && !parameters.empty() && OnGpu(parameters.begin()->second)) {
    const int64_t piece = options_.host_piece_numbers;
    TM_ASSIGN_OR_RETURN(host_,
                        HostState::New(parameters, piece > 0 ? piece : HostState::kPieceNumbers));
    return Ok();
  }
#endif
  static_cast<void>(parameters);
  return Invalid(
      "learner.optimizer_state = host is for training all weights on a GPU with "
      "learner.moments = int8");
}

AdamW::Kept AdamW::HostPlaces(const std::string& name) const {
#ifdef TIDEMILL_CUDA
  const CudaSplitMoments* places = host_ != nullptr ? host_->Of(name) : nullptr;
  if (places != nullptr) {
    return {places->first, places->second, places->first_scales, places->second_scales,
            places->rest};
  }
#endif
  static_cast<void>(name);
  return {};
}

// A GPU that fails here fails whatever is asked of it next: nobody takes the state for complete.
void AdamW::WaitForHost() const {
#ifdef TIDEMILL_CUDA
  if (host_ != nullptr) static_cast<void>(host_->Wait());
#endif
}

// Before anything is changed: memory may run out.
void AdamW::MakeMoments(const NamedTensors& parameters) {
  for (const auto& [name, p] : parameters) {
    if (!p.grad().defined() || v_.contains(name)) continue;
    Kept kept = HostPlaces(name);
    const auto options = p.options().requires_grad(false);
    if (kept.m.defined()) {
      // The leftovers of a step that was undone.
      WaitForHost();
      for (at::Tensor* tensor : {&kept.m, &kept.v, &kept.m_scale, &kept.v_scale}) tensor->zero_();
    } else if (InBlocks(p)) {
      kept.m = at::zeros(p.sizes(), options.dtype(at::kByte));
      kept.v = at::zeros_like(kept.m);
      kept.m_scale = at::zeros({MomentBlocks(p.numel())}, options.dtype(at::kFloat));
      kept.v_scale = at::zeros_like(kept.m_scale);
    } else {
      kept.m = at::zeros_like(p);
      kept.v = at::zeros_like(p);
    }
    if (IsSplit(p) && !rests_.contains(name)) {
      if (!kept.rest.defined()) kept.rest = at::empty(p.sizes(), options.dtype(at::kShort));
      rests_[name] = kept.rest.zero_();
    }
    m_[name] = kept.m;
    v_[name] = kept.v;
    if (kept.m_scale.defined()) m_scales_[name] = kept.m_scale;
    if (kept.v_scale.defined()) v_scales_[name] = kept.v_scale;
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
    if (IsSplit(p)) {
      UpdateSplit(update, name, grad.contiguous(), p);
      continue;
    }
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
#ifdef TIDEMILL_CUDA
  if (host_ == nullptr) return;
  const Status ran = host_->Run(steps_, CurrentStream());
  TORCH_CHECK(ran.ok(), ran.message());
#endif
}

bool AdamW::InBlocks(const at::Tensor& parameter) const {
  if (!options_.moments_in_blocks) return false;
  return IsSplit(parameter) || (Plain(parameter) && parameter.numel() >= kSmallestInBlocks);
}

void AdamW::UpdateSplit(const AdamWUpdate& update, const std::string& name, const at::Tensor& grad,
                        at::Tensor& p) {
  TM_CHECK(InBlocks(p) && p.is_contiguous() && grad.scalar_type() == at::kBFloat16,
           "weights in bfloat16 have gradients in bfloat16 and moments in blocks");
  at::Tensor &m = m_[name], &v = v_[name], &m_scale = m_scales_[name], &v_scale = v_scales_[name];
  at::Tensor& rest = rests_[name];
#ifdef TIDEMILL_CUDA
  if (host_ != nullptr) return host_->Add(name, update, grad, p);
  if (OnGpu(p)) {
    return CudaSplitAdamWStep(update, steps_, grad, p, {rest, m, m_scale, v, v_scale});
  }
#endif
  UpdateSplitBlocks(update, steps_, static_cast<const uint16_t*>(grad.data_ptr()),
                    {static_cast<uint16_t*>(p.data_ptr()), rest.data_ptr<int16_t>()},
                    {m.data_ptr<uint8_t>(), m_scale.data_ptr<float>(), v.data_ptr<uint8_t>(),
                     v_scale.data_ptr<float>()},
                    p.numel());
}

void AdamW::TakeExact(NamedTensors& parameters, const NamedTensors& values) {
  const at::NoGradGuard no_grad;
  WaitForHost();
  for (auto& [name, p] : parameters) {
    const auto value = values.find(name);
    if (!IsSplit(p) || value == values.end() || value->second.scalar_type() == at::kBFloat16) {
      continue;
    }
    at::Tensor rest = HostPlaces(name).rest;
    if (!rest.defined()) {
      rest = at::empty(p.sizes(), p.options().dtype(at::kShort).requires_grad(false));
    }
    SplitInto(value->second, p, rest);
    rests_[name] = rest;
  }
}

NamedTensors AdamW::Exact(const NamedTensors& parameters) const {
  const at::NoGradGuard no_grad;
  WaitForHost();
  NamedTensors exact;
  for (const auto& [name, p] : parameters) {
    const auto rest = rests_.find(name);
    exact.emplace(name, rest != rests_.end() ? Joined(p, rest->second) : p.detach().to(at::kFloat));
  }
  return exact;
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
  WaitForHost();
  NamedTensors state;
  for (const auto& [name, m] : m_) state.emplace("m." + name, m);
  for (const auto& [name, v] : v_) state.emplace("v." + name, v);
  for (const auto& [name, scale] : m_scales_) state.emplace("m_scale." + name, scale);
  for (const auto& [name, scale] : v_scales_) state.emplace("v_scale." + name, scale);
  for (const auto& [name, rest] : rests_) state.emplace("rest." + name, rest);
  return state;
}

// Whether `tensor` can be what `kind` says of `parameter` here.
Status AdamW::CheckState(const std::string& key, const at::Tensor& tensor, const std::string& kind,
                         const at::Tensor& parameter) const {
  const bool blocks = InBlocks(parameter), codes = tensor.scalar_type() == at::kByte;
  const bool scale = kind == "m_scale" || kind == "v_scale";
  if (scale ? tensor.numel() != MomentBlocks(parameter.numel())
            : tensor.sizes() != parameter.sizes()) {
    return Invalid("optimizer state \"" + key + "\" has a different shape than its parameter");
  }
  if (kind == "rest") {
    if (tensor.scalar_type() == at::kShort) return Ok();
    return Corrupt("optimizer state \"" + key + "\" does not hold 16-bit integers");
  }
  if ((scale && !blocks) || (!scale && codes != blocks)) {
    return Invalid("optimizer state \"" + key + "\" is " +
                   (blocks ? "float32, and learner.moments is int8"
                           : "in bytes, and learner.moments is float32"));
  }
  return Ok();
}

Status AdamW::CheckRestore(const NamedTensors& parameters, const NamedTensors& state) const {
  for (const auto& [key, tensor] : state) {
    const auto [kind, name] = ParseStateKey(key);
    const auto parameter = parameters.find(name);
    const bool known =
        kind == "m" || kind == "v" || kind == "m_scale" || kind == "v_scale" || kind == "rest";
    if (!known || parameter == parameters.end()) {
      return Invalid("optimizer state \"" + key + "\" matches no parameter");
    }
    const at::Tensor& p = parameter->second;
    // Before the moments, which do not fit then either.
    if (IsSplit(p) != state.contains("rest." + name)) {
      const std::string narrow = "bfloat16 with low halves (learner.moments = int8 on a GPU)";
      return Invalid("optimizer state \"" + key + "\" belongs to weights in " +
                     (IsSplit(p) ? "float32, and the weights here are " + narrow
                                 : narrow + ", and the weights here are float32"));
    }
    TM_RETURN_IF_ERROR(CheckState(key, tensor, kind, p));
    for (const auto& [one, other] : {std::pair{"m", "v"}, {"m_scale", "v_scale"}}) {
      if ((kind == one && !state.contains(other + ("." + name))) ||
          (kind == other && !state.contains(one + ("." + name)))) {
        return Invalid("optimizer state lacks a moment of some parameter");
      }
    }
    if (kind == "m" && tensor.scalar_type() == at::kByte && !state.contains("m_scale." + name)) {
      return Invalid("optimizer state lacks the scales of \"" + name + "\"");
    }
  }
  return Ok();
}

Status AdamW::Restore(const NamedTensors& parameters, const NamedTensors& state, uint64_t steps) {
  const at::NoGradGuard no_grad;
  TM_RETURN_IF_ERROR(CheckRestore(parameters, state));
  WaitForHost();
  std::map<std::string, NamedTensors> kinds;
  for (const auto& [key, tensor] : state) {
    const auto [kind, name] = ParseStateKey(key);
    const Kept places = HostPlaces(name);
    at::Tensor to = kind == "m"         ? places.m
                    : kind == "v"       ? places.v
                    : kind == "m_scale" ? places.m_scale
                    : kind == "v_scale" ? places.v_scale
                                        : places.rest;
    if (to.defined()) {
      to.copy_(tensor.view(to.sizes()));
    } else {
      const at::ScalarType type = kind == "rest"                      ? at::kShort
                                  : tensor.scalar_type() == at::kByte ? at::kByte
                                                                      : at::kFloat;
      to = tensor.to(parameters.at(name).device(), type, false, true).contiguous();
    }
    kinds[kind].emplace(name, to);
  }
  m_ = std::move(kinds["m"]);
  v_ = std::move(kinds["v"]);
  m_scales_ = std::move(kinds["m_scale"]);
  v_scales_ = std::move(kinds["v_scale"]);
  rests_ = std::move(kinds["rest"]);
  steps_ = steps;
  return Ok();
}

}  // namespace tidemill

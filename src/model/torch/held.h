// Something shared that a function of autograd keeps for its backward pass.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <string>
#include <utility>

namespace tidemill {

template <typename T>
struct Held : torch::CustomClassHolder {
  explicit Held(std::shared_ptr<const T> kept) : value(std::move(kept)) {}
  const std::shared_ptr<const T> value;
};

template <typename T>
void Hold(torch::autograd::AutogradContext* ctx, const std::string& name,
          std::shared_ptr<const T> value) {
  ctx->saved_data[name] = c10::IValue::make_capsule(c10::make_intrusive<Held<T>>(std::move(value)));
}

template <typename T>
std::shared_ptr<const T> TakeHeld(torch::autograd::AutogradContext* ctx, const std::string& name) {
  const auto capsule = ctx->saved_data[name].toCapsule();
  return c10::static_intrusive_pointer_cast<Held<T>>(capsule)->value;
}

}  // namespace tidemill

// A set of weights, as those hold it who only pass it on.
#pragma once

namespace tidemill {

// Never changed after it was made, so threads share it by pointer. The real one is PolicyWeights
// (model/torch/model.h).
class Weights {
 public:
  virtual ~Weights() = default;

 protected:
  Weights() = default;
  Weights(const Weights&) = default;
  Weights& operator=(const Weights&) = default;
};

}  // namespace tidemill

// Matrix products through cuBLASLt, each with the algorithm that was fastest when it was tried.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <span>

#include "core/status.h"
#include "model/cuda/kernels.h"

namespace tidemill {

// out[rows, n] = x[rows, k] · w[n, k]ᵀ (+ bias) or, accumulating, out += that. `out` is float32
// where `wide`, else of the type of x and w.
struct GemmShape {
  CudaType type = CudaType::kBF16;
  bool wide = false;
  bool accumulate = false;
  bool bias = false;
  int rows = 0;
  int n = 0;
  int k = 0;
  int stride = 0;  // of out's rows
  auto operator<=>(const GemmShape&) const = default;
};

// Not thread-safe; works on one stream.
class CudaGemm {
 public:
  static Result<std::unique_ptr<CudaGemm>> New(CudaStream stream);
  ~CudaGemm();

  // Tries what cuBLASLt proposes for the shape, going through `weights` (so that they come from
  // memory as in a step), and keeps the fastest. Writes to `out`. Waits for the device.
  Status Tune(const GemmShape& shape, const void* x, std::span<const void* const> weights,
              const void* bias, void* out);
  // A shape that was not tuned takes the first proposal.
  Status Run(const GemmShape& shape, const void* x, const void* w, const void* bias, void* out);

 private:
  struct Plan;
  CudaGemm();
  Result<Plan*> PlanOf(const GemmShape& shape);
  Status Launch(Plan& plan, size_t choice, const void* x, const void* w, const void* bias,
                void* out);

  struct State;
  std::unique_ptr<State> state_;
  std::map<GemmShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace tidemill

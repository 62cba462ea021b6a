#include "learner/torch/split_tensors.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/threads.h"
#include "model/split_float.h"
#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

constexpr int64_t kPieceNumbers = int64_t{1} << 24;
constexpr int64_t kSliceNumbers = int64_t{1} << 20;  // of a thread

// Calls work(first, end) on parts of [0, count), by several threads.
template <typename Work>
void InSlices(int64_t count, Work&& work) {
  const auto slices = static_cast<size_t>((count + kSliceNumbers - 1) / kSliceNumbers);
  const Status done = InParallel(slices, AvailableCores(), [&](size_t i) {
    const int64_t first = static_cast<int64_t>(i) * kSliceNumbers;
    work(first, std::min(count, first + kSliceNumbers));
    return Ok();
  });
  TM_CHECK(done.ok(), done.message());
}

uint16_t* Bits(const at::Tensor& bfloat16) {
  return static_cast<uint16_t*>(bfloat16.data_ptr());
}

}  // namespace

void SplitInto(const at::Tensor& value, at::Tensor high, at::Tensor rest) {
  const at::NoGradGuard no_grad;
  const at::Tensor from = value.detach().contiguous().view(-1);
  at::Tensor high_to = high.detach().view(-1), rest_to = rest.view(-1);
  for (int64_t first = 0; first < from.numel(); first += kPieceNumbers) {
    const int64_t count = std::min(kPieceNumbers, from.numel() - first);
    const at::Tensor piece = HostCopy(from.narrow(0, first, count), at::kFloat);
    const at::Tensor highs = HostVector(count, at::kBFloat16, high.device());
    const at::Tensor rests = HostVector(count, at::kShort, high.device());
    InSlices(count, [&, in = piece.data_ptr<float>(), h = Bits(highs),
                     r = rests.data_ptr<int16_t>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const SplitFloat split = SplitOf(in[i]);
        h[i] = split.high;
        r[i] = split.rest;
      }
    });
    high_to.narrow(0, first, count).copy_(highs);
    rest_to.narrow(0, first, count).copy_(rests);
  }
}

at::Tensor Joined(const at::Tensor& high, const at::Tensor& rest) {
  const at::NoGradGuard no_grad;
  const at::Tensor highs = HostCopy(high), rests = HostCopy(rest);
  at::Tensor value = at::empty(high.sizes(), at::TensorOptions().dtype(at::kFloat));
  InSlices(value.numel(), [h = Bits(highs), r = rests.data_ptr<int16_t>(),
                           to = value.data_ptr<float>()](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = JoinFloat(h[i], r[i]);
  });
  return value.to(high.device());
}

}  // namespace tidemill

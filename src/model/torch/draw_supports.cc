#include "model/torch/draw_supports.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "core/status.h"

namespace tidemill {
namespace {

// Below a target whose weight is at most 1: e^-100 is nothing, however many there are of it.
constexpr double kFarBelow = 100;
constexpr int64_t kByteBits = 8;

void SetBits(const TokenRun& run, uint8_t* bits) {
  for (int64_t id = run.first, end = run.first + run.count; id < end;) {
    if (id % kByteBits == 0 && end - id >= kByteBits) {
      bits[id / kByteBits] = 0xFF;
      id += kByteBits;
      continue;
    }
    bits[id / kByteBits] = static_cast<uint8_t>(bits[id / kByteBits] | 1u << (id % kByteBits));
    ++id;
  }
}

// A bit for each token of each of the rows, the lowest of a byte first.
at::Tensor BitsOf(const DrawSupports& supports, int64_t first, int64_t rows, int64_t vocabulary) {
  const int64_t bytes = (vocabulary + kByteBits - 1) / kByteBits;
  at::Tensor bits = at::zeros({rows, bytes}, at::TensorOptions().dtype(at::kByte));
  auto* data = bits.data_ptr<uint8_t>();
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t set = supports.set_of.at(static_cast<size_t>(first + r));
    if (set < 0) {
      std::fill_n(data + r * bytes, bytes, uint8_t{0xFF});
      continue;
    }
    for (const TokenRun& run : supports.sets.at(static_cast<size_t>(set))) {
      TM_CHECK(run.first + run.count <= vocabulary, "a support is within the vocabulary");
      SetBits(run, data + r * bytes);
    }
  }
  return bits;
}

}  // namespace

void LimitLogits(const DrawSupports& supports, int64_t first, const at::Tensor& targets,
                 double temperature, at::Tensor& logits) {
  const at::NoGradGuard no_grad;
  const int64_t rows = logits.size(0), vocabulary = logits.size(1);
  const at::Tensor bits = BitsOf(supports, first, rows, vocabulary).to(logits.device());
  const at::Tensor masks = at::bitwise_left_shift(at::ones({kByteBits}, bits.options()),
                                                  at::arange(kByteBits, bits.options()));
  const at::Tensor left_out =
      bits.unsqueeze(2).bitwise_and(masks).eq(0).reshape({rows, -1}).narrow(1, 0, vocabulary);
  const at::Tensor low = logits.gather(1, targets.unsqueeze(1)) - kFarBelow * temperature;
  logits.copy_(at::where(left_out, low.to(logits.scalar_type()), logits));
}

}  // namespace tidemill

// In place of gpu_runtime.cc, gpu_products.cc and packed_flash.cc of src/model/torch: tensors of
// the CPU count as a GPU's, and what libtorch would do on a GPU is done in float32 and rounded
// once.
#include "model/torch/aten.h"

#include <cmath>

#include "model/torch/device.h"
#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/packed_flash.h"

namespace tidemill {
namespace {

using at::Tensor;

Tensor Wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

// One sequence with heads in front: q [heads, n, d], k and v [heads, m, d], where query heads that
// share a key head have copies of it.
struct Sequence {
  int64_t first, count, first_key, keys;

  Tensor Queries(const Tensor& rows) const {
    return rows.narrow(0, first, count).transpose(0, 1).to(at::kFloat);
  }
  Tensor Keys(const Tensor& rows, int64_t heads) const {
    return rows.narrow(0, first_key, keys)
        .transpose(0, 1)
        .to(at::kFloat)
        .repeat_interleave(heads / rows.size(1), 0);
  }
  // Scaled scores; the last query sees the last key.
  Tensor Scores(const Tensor& q, const Tensor& k, double scale) const {
    const Tensor hidden =
        at::ones({count, keys}, q.options().dtype(at::kBool)).triu(keys - count + 1);
    return (at::bmm(q, k.transpose(1, 2)) * scale).masked_fill(hidden, -INFINITY);
  }
};

std::vector<Sequence> Sequences(const FlashPack& pack) {
  const int32_t* at = pack.starts.data_ptr<int32_t>();
  const int32_t* keys = pack.key_starts.data_ptr<int32_t>();
  std::vector<Sequence> sequences;
  for (int64_t s = 0; s + 1 < pack.starts.size(0); ++s) {
    const Sequence sequence{at[s], at[s + 1] - at[s], keys[s], keys[s + 1] - keys[s]};
    TM_CHECK(sequence.count <= pack.longest && sequence.keys <= pack.longest_keys,
             "the longest is said to be shorter");
    sequences.push_back(sequence);
  }
  return sequences;
}

double Scale(const Tensor& q) {
  return 1.0 / std::sqrt(static_cast<double>(q.size(2)));
}

// Adds what copies of a key head got.
Tensor OfKeys(const Tensor& d, int64_t kv_heads) {
  return d.view({kv_heads, d.size(0) / kv_heads, d.size(1), d.size(2)}).sum(1).transpose(0, 1);
}

}  // namespace

bool OnGpu(const Tensor&) {
  return true;
}
int CountGpus() {
  return 1;
}
CudaStream CurrentStream() {
  return nullptr;
}
void WaitForStream(const Tensor&) {}
void ReleaseSpareGpuMemory() {}

Tensor LinearProduct(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return at::linear(Wide(x), Wide(weight),
                    bias.defined() ? c10::optional<Tensor>(Wide(bias)) : c10::optional<Tensor>())
      .to(x.scalar_type());
}

Tensor LowProduct(const Tensor& a, const Tensor& b) {
  return WideProduct(a, b).to(at::kBFloat16);
}

Tensor WideProduct(const Tensor& a, const Tensor& b) {
  TM_CHECK(a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16,
           "a product of bfloat16 matrices");
  return at::mm(Wide(a), Wide(b));
}

void LowProductInto(const Tensor& a, const Tensor& b, Tensor out) {
  out.copy_(LowProduct(a, b));
}

void AddLowProduct(const Tensor& a, const Tensor& b, Tensor out) {
  out.copy_(Wide(out) + WideProduct(a, b));
}

void AddProduct(const Tensor& a, const Tensor& b, Tensor gradient) {
  gradient.add_(WideProduct(a.t(), b));
}

FlashOutput PackedFlashForward(const FlashInput& in, const FlashPack& pack) {
  const int64_t heads = in.q.size(1);
  Tensor out = at::empty(in.q.sizes(), in.q.options());
  Tensor log_sums = at::empty({heads, in.q.size(0)}, in.q.options().dtype(at::kFloat));
  for (const Sequence& s : Sequences(pack)) {
    const Tensor scores = s.Scores(s.Queries(in.q), s.Keys(in.k, heads), Scale(in.q));
    const Tensor mixed = at::bmm(at::softmax(scores, 2), s.Keys(in.v, heads));
    out.narrow(0, s.first, s.count).copy_(mixed.transpose(0, 1));
    log_sums.narrow(1, s.first, s.count).copy_(at::logsumexp(scores, {2}));
  }
  return {out, log_sums, Tensor(), Tensor()};
}

FlashInput PackedFlashBackward(const Tensor& dout, const FlashInput& in, const FlashOutput& of,
                               const FlashPack& pack) {
  const int64_t heads = in.q.size(1), kv_heads = in.k.size(1);
  const double scale = Scale(in.q);
  FlashInput d{at::empty(in.q.sizes(), in.q.options()), at::empty(in.k.sizes(), in.k.options()),
               at::empty(in.v.sizes(), in.v.options())};
  for (const Sequence& s : Sequences(pack)) {
    const Tensor q = s.Queries(in.q), k = s.Keys(in.k, heads), g = s.Queries(dout);
    const Tensor log_sums = of.log_sums.narrow(1, s.first, s.count).unsqueeze(2);
    const Tensor p = (s.Scores(q, k, scale) - log_sums).exp();
    const Tensor dp = at::bmm(g, s.Keys(in.v, heads).transpose(1, 2));
    const Tensor ds = p * (dp - (g * s.Queries(of.out)).sum(2, true)) * scale;
    d.q.narrow(0, s.first, s.count).copy_(at::bmm(ds, k).transpose(0, 1));
    d.k.narrow(0, s.first_key, s.keys).copy_(OfKeys(at::bmm(ds.transpose(1, 2), q), kv_heads));
    d.v.narrow(0, s.first_key, s.keys).copy_(OfKeys(at::bmm(p.transpose(1, 2), g), kv_heads));
  }
  return d;
}

}  // namespace tidemill

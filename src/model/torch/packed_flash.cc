#ifdef TIDEMILL_CUDA

#include "model/torch/packed_flash.h"

#include "model/torch/aten.h"

namespace tidemill {

FlashOutput PackedFlashForward(const FlashInput& in, const FlashPack& pack) {
  const auto [out, log_sums, seed, unused, debug] = at::_flash_attention_forward(
      in.q, in.k, in.v, pack.starts, pack.key_starts, pack.longest, pack.longest_keys, 0.0,
      /*is_causal=*/true, false);
  return {out, log_sums, seed, unused};
}

FlashInput PackedFlashBackward(const at::Tensor& dout, const FlashInput& in, const FlashOutput& of,
                               const FlashPack& pack) {
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      dout, in.q, in.k, in.v, of.out, of.log_sums, pack.starts, pack.key_starts, pack.longest,
      pack.longest_keys, 0.0, /*is_causal=*/true, of.seed, of.unused);
  return {dq, dk, dv};
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA

// The activation of a feed-forward layer's gate. Plain: kernels of every device read it.
#pragma once

#include <cstdint>

namespace tidemill {

enum class Activation : uint8_t {
  kSilu,      // x sigmoid(x)
  kGeluTanh,  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
};

// The second is x sigmoid(2 sqrt(2 / pi) (x + c x^3)), so one text of a kernel serves both.
inline constexpr float kGeluSlope = 1.5957691216057308f;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

}  // namespace tidemill

// The program a warm interpreter runs; see python_nursery.h.
#pragma once

namespace tidemill {

extern const char kNurseryProgram[];

// Bytes of the head of a job, padded with spaces: code bytes, input bytes, cpu ms, wall ms, memory
// MiB.
inline constexpr int kNurseryHeadBytes = 80;

}  // namespace tidemill

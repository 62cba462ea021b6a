// The machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidemill {

// Bytes this process can still use without swapping: what the kernel counts as available, or less
// where a cgroup leaves less. 0: unknown.
uint64_t AvailableMemoryBytes();

// Asks for large pages under memory that was not written to yet: each page costs a fault at its
// first use. The parts at the ends that no large page fits in stay as they are.
void UseHugePages(void* data, size_t bytes);

}  // namespace tidemill

// What memory of the host may be pinned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_host {

// From here on no piece of pinned memory may be larger than this; a test sets it back.
void BoundPinned(size_t bytes = SIZE_MAX);

}  // namespace cuda_host

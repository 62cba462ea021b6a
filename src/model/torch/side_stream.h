// Work on a GPU that does not wait behind what the learner has queued.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace tidemill {

// Runs `body` with all that libtorch does in it on a stream of its own, and returns when that is
// done. What `body` reads must be complete. On a CPU it is just body().
void OnSideStream(const at::Device& device, const std::function<void()>& body);

}  // namespace tidemill

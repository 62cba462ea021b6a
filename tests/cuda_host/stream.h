// Streams, events and graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace cuda_host {

// What a stream does: at once on the null stream, into the graph while the stream is captured, else
// when somebody waits for it.
void Enqueue(cudaStream_t stream, std::function<void()> work);

// Everything that waits, on every stream.
void DrainAll();

}  // namespace cuda_host

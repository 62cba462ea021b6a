// Runs the blocks of a kernel, one after the other, with a fiber for each thread.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>

namespace cuda_host {

// Returns when all blocks are done. The order of blocks and threads follows the seed and the number
// of launches so far.
void RunKernel(const KernelLaunch& launch, const std::function<void()>& body);

// The kernel's name from the program's symbols, or its address.
std::string NameOfKernel(const void* kernel);

}  // namespace cuda_host

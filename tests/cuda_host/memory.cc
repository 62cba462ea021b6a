// Memory of the device and of the host, all of it the host's.
#include "tests/cuda_host/memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/mutex.h"
#include "tests/cuda_host/stream.h"

namespace {

constexpr size_t kMargin = 256;  // on both sides, also what an allocation is aligned to
constexpr size_t kDeviceBytes = size_t{4} << 30;
constexpr unsigned char kMarginByte = 0xa5;
std::atomic<size_t> pinned_most = SIZE_MAX;

struct Allocations {
  tidemill::Mutex lock;
  std::map<const unsigned char*, size_t> sizes TM_GUARDED_BY(lock);
  size_t bytes TM_GUARDED_BY(lock) = 0;
};
Allocations& TheAllocations() {
  static auto* allocations = new Allocations;
  return *allocations;
}

[[noreturn]] void Broken(const char* what, const void* where, size_t bytes) {
  std::fprintf(stderr, "cuda_host: %s: memory of %zu bytes at %p\n", what, bytes, where);
  std::abort();
}

// A copy that begins in an allocation ends in it.
void CheckRange(const void* where, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(where);
  Allocations& all = TheAllocations();
  const tidemill::MutexLock held(all.lock);
  auto next = all.sizes.upper_bound(at);
  if (next == all.sizes.begin()) return;
  const auto& [first, size] = *--next;
  if (at < first + size && at + bytes > first + size) Broken("a copy ends outside of", first, size);
}

void Copy(void* to, const void* from, size_t bytes) {
  CheckRange(to, bytes);
  CheckRange(from, bytes);
  std::memcpy(to, from, bytes);
}

void Fill(void* to, int value, size_t bytes) {
  CheckRange(to, bytes);
  std::memset(to, value, bytes);
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "an error";
  }
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const tidemill::MutexLock held(TheAllocations().lock);
  *total = kDeviceBytes;
  *free = kDeviceBytes - TheAllocations().bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  Allocations& all = TheAllocations();
  const tidemill::MutexLock held(all.lock);
  *to = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kDeviceBytes - all.bytes) return cudaErrorMemoryAllocation;
  const size_t whole = (bytes + 3 * kMargin - 1) / kMargin * kMargin;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(kMargin, whole));
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(memory, kMarginByte, kMargin);
  std::memset(memory + kMargin, 0xff, bytes);
  std::memset(memory + kMargin + bytes, kMarginByte, whole - kMargin - bytes);
  all.sizes.emplace(memory + kMargin, bytes);
  all.bytes += bytes;
  *to = memory + kMargin;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  cuda_host::DrainAll();  // as a GPU does
  auto* data = static_cast<unsigned char*>(memory);
  Allocations& all = TheAllocations();
  const tidemill::MutexLock held(all.lock);
  const auto found = all.sizes.find(data);
  if (found == all.sizes.end()) return cudaErrorInvalidValue;
  const size_t bytes = found->second;
  const auto spoilt = [](unsigned char byte) { return byte != kMarginByte; };
  if (std::any_of(data - kMargin, data, spoilt)) Broken("a write in front of", memory, bytes);
  if (std::any_of(data + bytes, data + bytes + kMargin, spoilt)) {
    Broken("a write behind", memory, bytes);
  }
  all.bytes -= bytes;
  all.sizes.erase(found);
  std::free(data - kMargin);
  return cudaSuccess;
}

void cuda_host::BoundPinned(size_t bytes) {
  pinned_most = bytes;
}
cudaError_t cudaMallocHost(void** to, size_t bytes) {
  return bytes > pinned_most ? cudaErrorMemoryAllocation : cudaMalloc(to, bytes);
}
cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
  return cudaMallocHost(to, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  Copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  cuda_host::Enqueue(stream, [=] { Copy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  Fill(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  cuda_host::Enqueue(stream, [=] { Fill(to, value, bytes); });
  return cudaSuccess;
}

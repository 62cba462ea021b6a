// Numbers on a cache line's boundary, zero at first.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace tidemill {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(size_t size) { Reserve(size); }

  // At least `size` numbers; what was in it is gone if it had to grow.
  void Reserve(size_t size) {
    if (size <= size_) return;
    data_.reset(new (std::align_val_t{64}) float[size]);
    std::memset(data_.get(), 0, size * sizeof(float));
    size_ = size;
  }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> data_;
  size_t size_ = 0;
};

// Much memory that costs only what is touched of it.
class LazyFloats {
 public:
  explicit LazyFloats(size_t size) : bytes_(size * sizeof(float)) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    madvise(at, bytes_, MADV_HUGEPAGE);  // fewer address translations; without it only slower
    data_ = static_cast<float*>(at);
  }
  ~LazyFloats() { munmap(data_, bytes_); }
  LazyFloats(const LazyFloats&) = delete;
  LazyFloats& operator=(const LazyFloats&) = delete;
  float* data() { return data_; }

 private:
  size_t bytes_;
  float* data_;
};

}  // namespace tidemill

// For tests that call kernels directly: device memory, numbers to fill it with, comparisons.
#pragma once

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <vector>

namespace tidemill {

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) { cudaMalloc(&data_, count * sizeof(T)); }
  OnDevice(std::initializer_list<T> values) : OnDevice(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return count_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Numbers in [-1, 1) that look random and are the same every time.
inline float Number(size_t i, uint32_t seed) {
  uint32_t x = static_cast<uint32_t>(i) * 0x9e3779b9u + seed * 0x85ebca6bu + 1;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return static_cast<float>(x >> 8) * 0x1p-23f - 1.0f;
}

template <typename T>
void Fill(const OnDevice<T>& memory, uint32_t seed, float scale = 1.0f) {
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = Number(i, seed) * scale;
}

template <typename T>
double Value(const T& x) {
  return static_cast<double>(static_cast<float>(x));
}

// Half a unit in the last place of `T`, and what float32 sums may differ by.
template <typename T>
double Tolerance(double expected) {
  return std::abs(expected) * (sizeof(T) == 2 ? 1.0 / 128 : 1e-5) + 1e-5;
}

template <typename T>
void ExpectNear(const T& got, double expected, const char* what, size_t at) {
  ASSERT_NEAR(Value(got), expected, Tolerance<T>(expected)) << what << " at " << at;
}

}  // namespace tidemill

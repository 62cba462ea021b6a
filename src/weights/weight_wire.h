// The weights on their way to another process: a version is the bytes of a safetensors file with a
// checksum.
//
//   PolicyWeights -> parts -> WeightSink [shared memory | files] WeightSource -> WeightBlob ->
//   PolicyWeights
//
// A sink never waits for a source, nor a source for a sink. A source gives the newest complete
// version, checked, or nothing; what it gives is its own and does not change when the sink goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "model/safetensors_parts.h"

namespace tidemill {

// The bytes of one version, on a cache line's boundary.
class WeightBuffer {
 public:
  explicit WeightBuffer(size_t capacity);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t capacity_;
};

// Buffers for one version after the other: memory that was used before is several times as fast to
// write as fresh memory. A buffer goes back by itself when the last pointer outside is gone.
// Belongs to one thread; the pointers it gives may be dropped by any.
class WeightBuffers {
 public:
  // Shared: the tensors made of a version keep its bytes alive.
  std::shared_ptr<WeightBuffer> Get(size_t bytes);

 private:
  std::vector<std::shared_ptr<WeightBuffer>> buffers_;
};

struct WeightBlob {
  uint64_t version = 0;  // 0: nothing newer
  uint64_t step = 0;
  std::shared_ptr<const WeightBuffer> buffer;
  size_t bytes = 0;

  std::string_view view() const { return {reinterpret_cast<const char*>(buffer->data()), bytes}; }
};

// Belongs to one thread.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Versions rise. On failure subscribers keep what was newest.
  virtual Status Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) = 0;
};

// Belongs to one thread.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The newest version above `have`, or one with version 0. kCorrupt names what does not check out;
  // kNotFound: the publisher's place is gone.
  virtual Result<WeightBlob> NewerThan(uint64_t have, WeightBuffers& buffers) = 0;
  // Returns when there may be one above `have`, after `patience` at the latest.
  virtual void WaitForNewer(uint64_t have, Duration patience) = 0;
};

// 64 bits of XXH3, fed piece by piece.
class WeightChecksum {
 public:
  WeightChecksum();
  ~WeightChecksum();
  WeightChecksum(const WeightChecksum&) = delete;
  void Add(const std::byte* data, size_t bytes);
  uint64_t Value() const;

 private:
  void* state_;
};

// Copies `bytes` from `from` to `to` and adds what arrived there to `sum`, in pieces that stay in
// the cache.
void CopyChecked(std::byte* to, const std::byte* from, size_t bytes, WeightChecksum& sum);

}  // namespace tidemill

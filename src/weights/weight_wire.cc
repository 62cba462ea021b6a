#include "weights/weight_wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tidemill {
namespace {

constexpr std::align_val_t kAlignment{64};
// Fits the second-level cache of every machine of the last ten years.
constexpr size_t kChecksumPiece = 128 * 1024;

}  // namespace

WeightBuffer::WeightBuffer(size_t capacity)
    : data_(new (kAlignment) std::byte[capacity]), capacity_(capacity) {}

void WeightBuffer::Free::operator()(std::byte* p) const {
  ::operator delete[](p, kAlignment);
}

std::shared_ptr<WeightBuffer> WeightBuffers::Get(size_t bytes) {
  // A buffer that nobody else holds is free; one that is too small is dropped.
  std::erase_if(buffers_,
                [&](const auto& b) { return b.use_count() == 1 && b->capacity() < bytes; });
  for (const auto& buffer : buffers_) {
    if (buffer.use_count() == 1) return buffer;
  }
  return buffers_.emplace_back(std::make_shared<WeightBuffer>(bytes));
}

WeightChecksum::WeightChecksum() : state_(XXH3_createState()) {
  TM_CHECK(state_ != nullptr, "no memory for a checksum");
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

WeightChecksum::~WeightChecksum() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void WeightChecksum::Add(const std::byte* data, size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data, bytes);
}

uint64_t WeightChecksum::Value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

void CopyChecked(std::byte* to, const std::byte* from, size_t bytes, WeightChecksum& sum) {
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(kChecksumPiece, bytes - done);
    std::memcpy(to + done, from + done, piece);
    sum.Add(to + done, piece);
    done += piece;
  }
}

}  // namespace tidemill

// A safetensors file as the pieces it consists of, for whoever writes it elsewhere than into a
// file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"

namespace tidemill {

// The bytes of a file in their order, without a copy of the tensors, which must outlive it.
struct SafetensorsParts {
  std::string head;                     // length and header
  std::vector<std::string_view> parts;  // head first, then the tensors
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::string_view part : parts) sum += part.size();
    return sum;
  }

  SafetensorsParts() = default;
  SafetensorsParts(const SafetensorsParts&) = delete;  // parts point into head
};
// kInvalid: a name twice, or bytes that do not fit the shape; `name` stands in the message.
Result<std::unique_ptr<const SafetensorsParts>> LayOutSafetensors(
    std::span<const TensorView> tensors, const TensorMetadata& metadata, const std::string& name);

}  // namespace tidemill

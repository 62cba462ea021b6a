// For tests: GGUF files made byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf_file.h"

namespace tidemill {

class GgufBuilder {
 public:
  GgufBuilder& Uint(std::string_view key, uint32_t value) {
    return Pair(key, GgufType::kU32, Raw(value));
  }
  GgufBuilder& Float(std::string_view key, float value) {
    return Pair(key, GgufType::kF32, Raw(value));
  }
  GgufBuilder& Bool(std::string_view key, bool value) {
    return Pair(key, GgufType::kBool, Raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& Text(std::string_view key, std::string_view value) {
    return Pair(key, GgufType::kText, Sized(value));
  }
  GgufBuilder& Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string body = Raw(static_cast<uint32_t>(GgufType::kText)) + Raw(uint64_t{values.size()});
    for (const std::string& value : values) body += Sized(value);
    return Pair(key, GgufType::kArray, body);
  }
  GgufBuilder& Ints(std::string_view key, const std::vector<int32_t>& values) {
    std::string body = Raw(static_cast<uint32_t>(GgufType::kI32)) + Raw(uint64_t{values.size()});
    for (const int32_t value : values) body += Raw(value);
    return Pair(key, GgufType::kArray, body);
  }
  // Any value, for those that are wrong.
  GgufBuilder& Pair(std::string_view key, GgufType type, const std::string& body) {
    pairs_ += Sized(key) + Raw(static_cast<uint32_t>(type)) + body;
    ++pair_count_;
    return *this;
  }
  // `shape` rows first. `offset` -1: behind the one before.
  GgufBuilder& Tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                      const std::string& data, int64_t offset = -1) {
    data_.resize((data_.size() + 31) / 32 * 32);
    const uint64_t at = offset < 0 ? data_.size() : static_cast<uint64_t>(offset);
    entries_ += Sized(name) + Raw(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) entries_ += Raw(shape[i]);
    entries_ += Raw(type) + Raw(at);
    ++tensor_count_;
    data_ += data;
    return *this;
  }
  GgufBuilder& Floats(std::string_view name, const std::vector<uint64_t>& shape,
                      const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Tensor(name, 0, shape, bytes);
  }

  std::string Bytes(uint32_t version = 3) const {
    std::string out =
        "GGUF" + Raw(version) + Raw(tensor_count_) + Raw(pair_count_) + pairs_ + entries_;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

  template <typename T>
  static std::string Raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  static std::string Sized(std::string_view text) {
    return Raw(uint64_t{text.size()}) + std::string(text);
  }

 private:
  std::string pairs_;
  std::string entries_;
  std::string data_;
  uint64_t pair_count_ = 0;
  uint64_t tensor_count_ = 0;
};

}  // namespace tidemill

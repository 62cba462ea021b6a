#include "environments/msgpack.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

class MsgpackReader {
 public:
  MsgpackReader(std::string_view bytes, const MsgpackLimits& limits)
      : bytes_(bytes), limits_(limits) {}

  Result<EnvironmentJson> Read() {
    if (bytes_.size() > limits_.bytes) {
      return Invalid("it has more than " + std::to_string(limits_.bytes) + " bytes");
    }
    TM_ASSIGN_OR_RETURN(EnvironmentJson value, Value(0));
    if (at_ != bytes_.size()) return Invalid("something follows the value");
    return value;
  }

 private:
  size_t left() const { return bytes_.size() - at_; }

  Result<uint64_t> Number(size_t size) {
    if (left() < size) return Invalid("it ends in the middle of a value");
    uint64_t number = 0;
    for (size_t i = 0; i < size; ++i) {
      number = number << 8 | static_cast<uint8_t>(bytes_[at_ + i]);
    }
    at_ += size;
    return number;
  }

  Result<std::string_view> Take(uint64_t size) {
    if (left() < size) return Invalid("it ends in the middle of a value");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  Result<EnvironmentJson> Value(int depth) {
    if (depth > limits_.depth) {
      return Invalid("it is nested more than " + std::to_string(limits_.depth) + " deep");
    }
    if (++values_ > limits_.values) {
      return Invalid("it has more than " + std::to_string(limits_.values) + " values");
    }
    TM_ASSIGN_OR_RETURN(const uint64_t first, Number(1));
    if (first < 0x80) return EnvironmentJson(first);
    if (first < 0x90) return Map(first & 0x0F, depth);
    if (first < 0xA0) return Array(first & 0x0F, depth);
    if (first < 0xC0) return Text(first & 0x1F);
    if (first >= 0xE0) return EnvironmentJson(static_cast<int64_t>(first) - 256);
    return Long(first, depth);
  }

  // Values whose length is in bytes of its own.
  Result<EnvironmentJson> Long(uint64_t first, int depth) {
    switch (first) {
      case 0xC0:
        return EnvironmentJson(nullptr);
      case 0xC2:
      case 0xC3:
        return EnvironmentJson(first == 0xC3);
      case 0xCA:
      case 0xCB:
        return Float(first == 0xCA ? 4 : 8);
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF:
        return Unsigned(size_t{1} << (first - 0xCC));
      case 0xD0:
      case 0xD1:
      case 0xD2:
      case 0xD3:
        return Signed(size_t{1} << (first - 0xD0));
      default:
        return Sized(first, depth);
    }
  }

  Result<EnvironmentJson> Sized(uint64_t first, int depth) {
    const auto length = [&](uint64_t base) { return Number(size_t{1} << (first - base)); };
    if (first >= 0xC4 && first <= 0xC6) {
      TM_ASSIGN_OR_RETURN(const uint64_t size, length(0xC4));
      TM_ASSIGN_OR_RETURN(const std::string_view data, Take(size));
      return EnvironmentJson::binary(std::vector<uint8_t>(data.begin(), data.end()));
    }
    if (first >= 0xD9 && first <= 0xDB) {
      TM_ASSIGN_OR_RETURN(const uint64_t size, length(0xD9));
      return Text(size);
    }
    if (first == 0xDC || first == 0xDD) {
      TM_ASSIGN_OR_RETURN(const uint64_t count, Number(first == 0xDC ? 2 : 4));
      return Array(count, depth);
    }
    if (first == 0xDE || first == 0xDF) {
      TM_ASSIGN_OR_RETURN(const uint64_t count, Number(first == 0xDE ? 2 : 4));
      return Map(count, depth);
    }
    return Invalid("it has an extension type");
  }

  Result<EnvironmentJson> Float(size_t size) {
    TM_ASSIGN_OR_RETURN(const uint64_t bits, Number(size));
    if (size == 4) {
      const auto narrow = static_cast<uint32_t>(bits);
      float value = 0;
      std::memcpy(&value, &narrow, sizeof(value));
      return EnvironmentJson(static_cast<double>(value));
    }
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return EnvironmentJson(value);
  }

  Result<EnvironmentJson> Unsigned(size_t size) {
    TM_ASSIGN_OR_RETURN(const uint64_t value, Number(size));
    return EnvironmentJson(value);
  }

  Result<EnvironmentJson> Signed(size_t size) {
    TM_ASSIGN_OR_RETURN(uint64_t bits, Number(size));
    const uint64_t sign = uint64_t{1} << (8 * size - 1);
    if ((bits & sign) != 0 && size < 8) bits |= ~uint64_t{0} << (8 * size);
    return EnvironmentJson(static_cast<int64_t>(bits));
  }

  Result<EnvironmentJson> Text(uint64_t size) {
    TM_ASSIGN_OR_RETURN(const std::string_view text, Take(size));
    return EnvironmentJson(std::string(text));
  }

  Result<EnvironmentJson> Array(uint64_t count, int depth) {
    if (count > left()) return Invalid("an array is longer than what follows it");
    EnvironmentJson array = EnvironmentJson::array();
    for (uint64_t i = 0; i < count; ++i) {
      TM_ASSIGN_OR_RETURN(EnvironmentJson value, Value(depth + 1));
      array.push_back(std::move(value));
    }
    return array;
  }

  Result<EnvironmentJson> Map(uint64_t count, int depth) {
    if (count > left() / 2) return Invalid("a map is longer than what follows it");
    EnvironmentJson::object_t members;
    // Not looked up before they are added: a map of many keys would take their square.
    auto& added = static_cast<EnvironmentJson::object_t::Container&>(members);
    added.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      TM_ASSIGN_OR_RETURN(const EnvironmentJson key, Value(depth + 1));
      const bool whole = key.is_number_integer();
      if (!key.is_string() && !whole) return Invalid("a key is no text and no whole number");
      TM_ASSIGN_OR_RETURN(EnvironmentJson value, Value(depth + 1));
      added.emplace_back(whole ? key.dump() : key.get<std::string>(), std::move(value));
    }
    return EnvironmentJson(std::move(members));
  }

  const std::string_view bytes_;
  const MsgpackLimits limits_;
  size_t at_ = 0;
  size_t values_ = 0;
};

}  // namespace

Result<EnvironmentJson> ReadMsgpack(std::string_view bytes, const MsgpackLimits& limits) {
  return MsgpackReader(bytes, limits).Read();
}

std::string WriteMsgpack(const EnvironmentJson& value) {
  std::string bytes;
  EnvironmentJson::to_msgpack(value, bytes);
  return bytes;
}

}  // namespace tidemill

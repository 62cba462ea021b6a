#include "model/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tidemill {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian");

constexpr uint64_t kKeysMax = 65'536;
constexpr uint64_t kTensorsMax = 1'000'000;
constexpr size_t kNameBytesMax = 65'535;
constexpr uint32_t kDimensionsMax = 4;
constexpr uint32_t kLastType = static_cast<uint32_t>(GgufType::kF64);

size_t NumberBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    default:
      return 8;
  }
}

template <typename T>
double As(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

double Number(GgufType type, std::string_view bytes) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return As<uint8_t>(bytes);
    case GgufType::kI8:
      return As<int8_t>(bytes);
    case GgufType::kU16:
      return As<uint16_t>(bytes);
    case GgufType::kI16:
      return As<int16_t>(bytes);
    case GgufType::kU32:
      return As<uint32_t>(bytes);
    case GgufType::kI32:
      return As<int32_t>(bytes);
    case GgufType::kF32:
      return As<float>(bytes);
    case GgufType::kU64:
      return As<uint64_t>(bytes);
    case GgufType::kI64:
      return As<int64_t>(bytes);
    default:
      return As<double>(bytes);
  }
}

bool IsWhole(GgufType type) {
  return type != GgufType::kText && type != GgufType::kArray && type != GgufType::kF32 &&
         type != GgufType::kF64 && type != GgufType::kBool;
}

// Takes bytes from the front; every take is checked against what is left.
class GgufReader {
 public:
  GgufReader(std::string_view file, std::string name)
      : file_(file), rest_(file), name_(std::move(name)), out_(name_ + ": ") {}

  Result<GgufFile> Read() {
    TM_RETURN_IF_ERROR(Magic());
    TM_ASSIGN_OR_RETURN(const uint64_t tensors, Count("tensor count", kTensorsMax));
    TM_ASSIGN_OR_RETURN(const uint64_t keys, Count("metadata count", kKeysMax));
    for (uint64_t i = 0; i < keys; ++i) TM_RETURN_IF_ERROR(Pair());
    for (uint64_t i = 0; i < tensors; ++i) TM_RETURN_IF_ERROR(TensorEntry());
    TM_RETURN_IF_ERROR(PlaceTensors());
    return std::move(out_);
  }

 private:
  Status Broken(const std::string& what) const { return Corrupt(name_ + ": " + what); }
  size_t at() const { return file_.size() - rest_.size(); }

  Result<std::string_view> Take(uint64_t bytes, const char* what) {
    if (bytes > rest_.size()) {
      return Broken("the file ends inside of " + std::string(what) + " at byte " +
                    std::to_string(at()) + ": " + std::to_string(bytes) + " bytes needed, " +
                    std::to_string(rest_.size()) + " left");
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <typename T>
  Result<T> TakeNumber(const char* what) {
    TM_ASSIGN_OR_RETURN(const std::string_view bytes, Take(sizeof(T), what));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  Result<std::string_view> TakeText(const char* what) {
    TM_ASSIGN_OR_RETURN(const uint64_t length, TakeNumber<uint64_t>(what));
    return Take(length, what);
  }
  Result<std::string> TakeName(const char* what) {
    TM_ASSIGN_OR_RETURN(const std::string_view text, TakeText(what));
    if (text.empty() || text.size() > kNameBytesMax) {
      return Broken(std::string(what) + " of " + std::to_string(text.size()) + " bytes");
    }
    return std::string(text);
  }
  Result<uint64_t> Count(const char* what, uint64_t max) {
    TM_ASSIGN_OR_RETURN(const uint64_t count, TakeNumber<uint64_t>(what));
    if (count > max) {
      return Broken(std::string(what) + " " + std::to_string(count) + " is more than " +
                    std::to_string(max));
    }
    return count;
  }

  Status Magic() {
    TM_ASSIGN_OR_RETURN(const std::string_view magic, Take(4, "the magic number"));
    if (magic != "GGUF") return Broken("not a GGUF file: it does not start with \"GGUF\"");
    TM_ASSIGN_OR_RETURN(const uint32_t version, TakeNumber<uint32_t>("the version"));
    if (version == 0x02000000 || version == 0x03000000) {
      return Invalid(name_ + ": a big-endian GGUF file is not supported; little-endian is");
    }
    if (version != 2 && version != 3) {
      return Invalid(name_ + ": GGUF version " + std::to_string(version) +
                     " is not supported; 2 and 3 are");
    }
    return Ok();
  }

  Result<GgufType> TakeType(const std::string& key) {
    TM_ASSIGN_OR_RETURN(const uint32_t type, TakeNumber<uint32_t>("a type"));
    if (type > kLastType) {
      return Invalid(name_ + ": " + key + " has a value of unknown type " + std::to_string(type));
    }
    return static_cast<GgufType>(type);
  }

  Status Array(const std::string& key, GgufValue& value) {
    TM_ASSIGN_OR_RETURN(value.element, TakeType(key));
    TM_ASSIGN_OR_RETURN(const uint64_t count, TakeNumber<uint64_t>("an array"));
    if (value.element == GgufType::kArray) {
      return Invalid(name_ + ": " + key + " is an array of arrays, which is not supported");
    }
    // A text takes 8 bytes at least: the count cannot ask for more than the file can hold.
    const size_t least = value.element == GgufType::kText ? 8 : NumberBytes(value.element);
    if (count > rest_.size() / least) {
      return Broken(key + " says it has " + std::to_string(count) +
                    " elements, more than the file has room for");
    }
    value.count = count;
    if (value.element != GgufType::kText) {
      TM_ASSIGN_OR_RETURN(value.raw, Take(count * least, "an array"));
      return Ok();
    }
    value.texts.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      TM_ASSIGN_OR_RETURN(const std::string_view text, TakeText("a text"));
      value.texts.push_back(text);
    }
    return Ok();
  }

  Status Pair() {
    TM_ASSIGN_OR_RETURN(const std::string key, TakeName("a key"));
    GgufValue value;
    TM_ASSIGN_OR_RETURN(value.type, TakeType(key));
    if (value.type == GgufType::kArray) {
      TM_RETURN_IF_ERROR(Array(key, value));
    } else if (value.type == GgufType::kText) {
      TM_ASSIGN_OR_RETURN(value.text, TakeText("a text"));
    } else {
      TM_ASSIGN_OR_RETURN(const std::string_view bytes, Take(NumberBytes(value.type), "a value"));
      value.number = Number(value.type, bytes);
    }
    if (!out_.metadata.Insert(key, std::move(value))) return Broken(key + " comes twice");
    return Ok();
  }

  Status TensorEntry() {
    GgufTensor tensor;
    TM_ASSIGN_OR_RETURN(tensor.name, TakeName("a tensor's name"));
    const std::string what = "tensor \"" + tensor.name + "\" ";
    TM_ASSIGN_OR_RETURN(const uint32_t dimensions, TakeNumber<uint32_t>("a tensor"));
    if (dimensions == 0 || dimensions > kDimensionsMax) {
      return Broken(what + "has " + std::to_string(dimensions) +
                    " dimensions, 1 to 4 are possible");
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
      TM_ASSIGN_OR_RETURN(const uint64_t n, TakeNumber<uint64_t>("a tensor"));
      if (n == 0 || __builtin_mul_overflow(elements, n, &elements) || elements > (1ull << 48)) {
        return Broken(what + "has a shape that cannot be");
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(n));
    }
    TM_ASSIGN_OR_RETURN(const uint32_t type, TakeNumber<uint32_t>("a tensor"));
    const std::optional<GgmlType> known = ReadableGgmlType(type);
    if (!known) {
      const std::string_view type_name = GgmlTypeName(type);
      return Invalid(name_ + ": " + what + "has type " +
                     (type_name.empty() ? std::to_string(type) : std::string(type_name)) +
                     ", which is not supported; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                     "Q4_K, Q5_K and Q6_K are");
    }
    tensor.type = *known;
    const GgmlBlock block = GgmlBlockOf(*known);
    if (static_cast<uint64_t>(tensor.shape.back()) % block.elements != 0) {
      return Broken(what + "has rows of " + std::to_string(tensor.shape.back()) +
                    ", which is no whole number of blocks of " + std::to_string(block.elements));
    }
    TM_ASSIGN_OR_RETURN(const uint64_t offset, TakeNumber<uint64_t>("a tensor"));
    places_.push_back({offset, elements / block.elements * block.bytes, out_.tensors.size()});
    out_.tensors.push_back(std::move(tensor));
    return Ok();
  }

  Status PlaceTensors() {
    const uint64_t alignment =
        static_cast<uint64_t>(out_.metadata.MaybeInt("general.alignment", 1, 1 << 20).value_or(32));
    TM_RETURN_IF_ERROR(out_.metadata.status());
    if (!std::has_single_bit(alignment)) {
      return Broken("general.alignment must be a power of two, got " + std::to_string(alignment));
    }
    const size_t start = (at() + alignment - 1) / alignment * alignment;
    const std::string_view data = start < file_.size() ? file_.substr(start) : std::string_view();
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.offset < b.offset; });
    uint64_t covered = 0;
    for (const Place& place : places_) {
      GgufTensor& tensor = out_.tensors[place.tensor];
      const std::string what = "tensor \"" + tensor.name + "\" ";
      if (place.offset % alignment != 0) return Broken(what + "is not aligned");
      if (place.offset > data.size() || place.bytes > data.size() - place.offset) {
        return Broken(what + "needs " + std::to_string(place.bytes) + " bytes at " +
                      std::to_string(place.offset) + ", the file has " +
                      std::to_string(data.size()) + " bytes of tensors");
      }
      if (place.offset < covered) return Broken(what + "lies inside of another");
      covered = place.offset + place.bytes;
      tensor.data = data.substr(place.offset, place.bytes);
    }
    return UniqueNames();
  }

  Status UniqueNames() const {
    std::vector<std::string_view> names;
    for (const GgufTensor& tensor : out_.tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return Broken("tensor \"" + std::string(*twice) + "\" comes twice");
    return Ok();
  }

  struct Place {
    uint64_t offset;
    uint64_t bytes;
    size_t tensor;
  };

  std::string_view file_;
  std::string_view rest_;
  std::string name_;
  GgufFile out_;
  std::vector<Place> places_;
};

}  // namespace

int64_t GgufTensor::elements() const {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return count;
}

bool GgufMetadata::Insert(std::string key, GgufValue value) {
  return values_.emplace(std::move(key), std::move(value)).second;
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

int64_t GgufMetadata::Int(const std::string& key, int64_t min, int64_t max) {
  const std::optional<int64_t> value = MaybeInt(key, min, max);
  if (!value) Fail(key, "is missing");
  return value.value_or(min);
}

std::optional<int64_t> GgufMetadata::MaybeInt(const std::string& key, int64_t min, int64_t max) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!IsWhole(value->type) || value->number < static_cast<double>(min) ||
      value->number > static_cast<double>(max)) {
    Fail(key, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    return min;
  }
  return static_cast<int64_t>(value->number);
}

std::optional<double> GgufMetadata::MaybeNumber(const std::string& key, double min, double max) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool number =
      IsWhole(value->type) || value->type == GgufType::kF32 || value->type == GgufType::kF64;
  if (!number || !(value->number >= min && value->number <= max)) {
    Fail(key, "must be a number from " + std::to_string(min) + " to " + std::to_string(max));
    return min;
  }
  return value->number;
}

std::optional<bool> GgufMetadata::MaybeBool(const std::string& key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) Fail(key, "must be true or false");
  return value->number != 0;
}

std::optional<std::string> GgufMetadata::MaybeText(const std::string& key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kText) Fail(key, "must be a text");
  return std::string(value->text);
}

std::vector<std::string_view> GgufMetadata::Texts(const std::string& key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::kArray || value->element != GgufType::kText) {
    Fail(key, "must be an array of texts");
  }
  return value->texts;
}

std::vector<int32_t> GgufMetadata::Ints(const std::string& key) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::kArray ||
      (value->element != GgufType::kI32 && value->element != GgufType::kU32)) {
    Fail(key, "must be an array of 32-bit integers");
    return {};
  }
  std::vector<int32_t> out(value->count);
  if (!out.empty()) std::memcpy(out.data(), value->raw.data(), out.size() * sizeof(int32_t));
  return out;
}

void GgufMetadata::Fail(std::string_view key, std::string_view problem) {
  if (!status_.ok()) return;
  status_ = Invalid(where_ + std::string(key) + " " + std::string(problem));
}

Result<GgufFile> ParseGguf(std::string_view file, const std::string& name) {
  return GgufReader(file, name).Read();
}

}  // namespace tidemill

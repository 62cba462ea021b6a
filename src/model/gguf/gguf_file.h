// GGUF, the file format of llama.cpp: metadata by key, then tensors, often quantised.
//
//   bytes -> ParseGguf -> GgufFile (views into the bytes) -> gguf_config, gguf_tokenizer,
//   gguf_import
//
// A file is "GGUF", a version, two counts, the metadata, one entry a tensor, then the tensors'
// bytes, each aligned. Versions 2 and 3 are read, little endian only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/gguf/ggml_type.h"

namespace tidemill {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// One value of the metadata. Texts and arrays point into the bytes that were parsed.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;     // of an array
  double number = 0;                    // a number or a bool; exact up to 2^53
  std::string_view text;                // kText
  std::string_view raw;                 // an array of numbers, as it lies in the file
  std::vector<std::string_view> texts;  // an array of texts
  size_t count = 0;                     // elements of an array
};

// One tensor. Dimensions are in the order of the other formats: rows first, the one that is
// contiguous last.
struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> shape;
  std::string_view data;

  int64_t elements() const;
};

// The keys of a file with typed access. The first failure is kept in status(), getters return a
// default after it. Errors name the file and the key.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string where) : where_(std::move(where)) {}
  // False: the key is there already.
  bool Insert(std::string key, GgufValue value);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Null: absent.
  const GgufValue* Find(std::string_view key) const;
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

  int64_t Int(const std::string& key, int64_t min, int64_t max);  // required
  std::optional<int64_t> MaybeInt(const std::string& key, int64_t min, int64_t max);
  std::optional<double> MaybeNumber(const std::string& key, double min, double max);
  std::optional<bool> MaybeBool(const std::string& key);
  std::optional<std::string> MaybeText(const std::string& key);
  // An array of texts; absent: empty.
  std::vector<std::string_view> Texts(const std::string& key);
  // An array of 32-bit integers; absent: empty.
  std::vector<int32_t> Ints(const std::string& key);

  // Records `key problem`, unless there is a failure already.
  void Fail(std::string_view key, std::string_view problem);
  const Status& status() const { return status_; }

 private:
  std::string where_;
  std::map<std::string, GgufValue, std::less<>> values_;
  Status status_;
};

struct GgufFile {
  explicit GgufFile(std::string where) : metadata(std::move(where)) {}
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the file's order; none overlap, all lie inside the file
};

// `file` is a whole file and must outlive what is returned. kInvalid: a version, a type of value or
// a type of tensor that is not known, by name. kCorrupt: anything that does not fit. Never
// allocates by what a count claims, only by how many bytes there are.
Result<GgufFile> ParseGguf(std::string_view file, const std::string& name);

}  // namespace tidemill

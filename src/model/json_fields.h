// Reading JSON from outside: every field is asked for by name, type and range, and the first that
// is wrong makes an error that names file and field. Include only in .cc files: it brings
// nlohmann-json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

inline constexpr size_t kConfigBytesMax = size_t{16} << 20;

// Any JSON value; kInvalid says where it stops being JSON.
Result<nlohmann::json> ParseJson(std::string_view text, std::string_view name);
// The same, and it must be an object.
Result<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view name);

// A short description of a value for a message: its JSON, cut after 40 characters.
std::string DescribeJson(const nlohmann::json& value);

// A reader of one object's fields. Absent and null are the same. Getters return a default after a
// failure, which status() keeps; only the first is kept. The object must outlive the reader.
class JsonFields {
 public:
  // `where` goes before the field's name: "DIR/config.json: ".
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const { return Find(key) != nullptr; }
  // Null is there too.
  bool Present(const char* key) const { return object_.contains(key); }
  // Null: absent.
  const nlohmann::json* Find(const char* key) const;

  int64_t Int(const char* key, int64_t min, int64_t max);  // required
  std::optional<int64_t> MaybeInt(const char* key, int64_t min, int64_t max);
  std::optional<double> MaybeNumber(const char* key, double min, double max);
  std::optional<bool> MaybeBool(const char* key);
  std::optional<std::string> MaybeString(const char* key);
  // One id, a list of ids, or nothing.
  std::vector<int32_t> TokenIds(const char* key);
  // One id, of a list the first; -1 is how some files say that there is none.
  std::optional<int32_t> MaybeTokenId(const char* key);
  std::vector<std::string> Strings(const char* key);  // a list; absent: empty

  // Records `"key" problem` as the failure, unless there is one already.
  void Fail(std::string_view key, std::string_view problem);
  // Records a failure found by the reader of a part, unless there is one already.
  void Keep(const Status& failure) {
    if (status_.ok()) status_ = failure;
  }
  const Status& status() const { return status_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  Status status_;
};

// Indented as transformers writes its files, with a line end.
std::string DumpJson(const nlohmann::ordered_json& value);

}  // namespace tidemill

// Reads the fields of one JSON object and remembers everything that was wrong with them, in words
// that name the field: `grading.limits.wall_ms: must be a whole number from 1 to 86400000, got
// "ten"`.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

class ObjectReader {
 public:
  // `path` is the object's own name, "" for the outermost. What is wrong is appended to `errors`;
  // both `object` and `errors` are borrowed.
  ObjectReader(const nlohmann::json& object, std::string path, std::vector<std::string>& errors);

  // Whether `value` is an object; says so if it is not.
  bool IsObject();
  bool Has(std::string_view name) const;

  // Each reads an optional field and leaves `out` alone where it is absent or wrong.
  void String(std::string_view name, std::string& out);
  void Unsigned(std::string_view name, uint64_t max, uint32_t& out);  // from 1
  void Number(std::string_view name, double& out);                    // finite
  void Bool(std::string_view name, bool& out);
  void Strings(std::string_view name, const std::function<void(std::string)>& add);
  // The words allowed, and what each stands for.
  void OneOf(std::string_view name, const std::vector<std::pair<std::string, int>>& words,
             int& out);
  // The field's value for the caller to read; nullptr: absent.
  const nlohmann::json* Child(std::string_view name);
  // Says that the field is missing if it is.
  void Require(std::string_view name, std::string_view expected);

  // An error about a field of this object; name "" is the object itself.
  void Fail(std::string_view name, std::string_view what);
  // "grading.limits" for "limits" in "grading".
  std::string PathOf(std::string_view name) const;
  // Refuses every field that was not asked for, with the nearest one that may be.
  void RefuseOthers();

 private:
  const nlohmann::json* Find(std::string_view name);

  const nlohmann::json& object_;
  const std::string path_;
  std::vector<std::string>& errors_;
  std::vector<std::string> known_;  // names asked for so far
};

// A value as it stands in a message: `"ten"`, `3.5`, `an object`; long strings are cut.
std::string Shown(const nlohmann::json& value);

}  // namespace tidemill

// The arguments of a tool call: a JSON object a model wrote, so anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

class Arguments {
 public:
  // Empty text is an empty object. kInvalid: not an object, nested deeper than 32, or over 4 MiB.
  static Result<Arguments> Parse(const std::string& json);

  // Each is kInvalid if the value has another type. A missing one is nothing.
  Result<std::optional<std::string>> Text(std::string_view name) const;
  Result<std::optional<int64_t>> Number(std::string_view name) const;
  // An array of strings, or one string.
  Result<std::optional<std::vector<std::string>>> Texts(std::string_view name) const;
  // As Text, but a missing one is kInvalid too.
  Result<std::string> Need(std::string_view name) const;
  // Strings, numbers and booleans as words.
  const std::map<std::string, std::string>& words() const { return words_; }

 private:
  struct Value {
    enum class Kind { kText, kNumber, kTexts, kOther } kind = Kind::kOther;
    std::string text;
    int64_t number = 0;
    std::vector<std::string> texts;
  };
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string> words_;
};

}  // namespace tidemill

// Reading a request's body: every field is asked for by name and type, every field is checked
// against the API's table (field_rules.h), and the first thing that is wrong makes an ApiError that
// names the field by its path, "messages[2].content[0].text".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/chat_request.h"
#include "gateway/field_rules.h"

namespace tidemill {

// Where a value stands in the body: a chain to the outermost object. The path is written only when
// it is needed. Parents must outlive their children.
struct WirePlace {
  const WirePlace* parent = nullptr;
  std::string_view key{};
  size_t index = 0;  // where `key` is empty: of a list

  std::string Path() const;
};

// One request being read. Keeps the first error; what is read after it does not matter.
class WireParse {
 public:
  WireParse(Api api, const WireLimits& limits) : api_(api), limits_(limits) {}

  Api api() const { return api_; }
  const WireLimits& limits() const { return limits_; }
  bool failed() const { return error_.has_value(); }
  const ApiError& error() const { return *error_; }
  // Rules of the fields that were there and had no effect, "tools[].strict".
  const std::vector<std::string>& ignored() const { return ignored_; }

  // Paths of fields that no rule names.
  const std::vector<std::string>& unknown() const { return unknown_; }

  void Fail(const WirePlace& at, std::string_view problem, std::string_view code = "invalid_value");
  void Fail(ApiError error);
  // By the rule for that field; true: it is honoured.
  bool Allow(std::string_view where, std::string_view name, const WirePlace& at,
             const WireJson& value);

 private:
  void Ignore(const FieldRule& rule);

  const Api api_;
  const WireLimits& limits_;
  std::optional<ApiError> error_;
  std::vector<const FieldRule*> ignored_rules_;
  std::vector<std::string> ignored_;
  std::vector<std::string> unknown_;
};

// One object of the body. Absent, null and "ignored" are the same to the getters.
class WireObject {
 public:
  // Checks every field of `value` against the table's rules for `where`.
  WireObject(WireParse& parse, const WireJson& value, const WirePlace& at, std::string_view where);

  WireParse& parse() const { return parse_; }
  const WirePlace& place() const { return at_; }
  WirePlace PlaceOf(std::string_view key) const { return {&at_, key}; }

  const WireJson* Find(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;
  std::string RequiredString(std::string_view key) const;  // and not empty
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<int64_t> Int(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> Number(std::string_view key, double min, double max) const;
  // Calls `each` for the elements of a list; false: absent. More than `max` is an error.
  bool List(std::string_view key, size_t max,
            const std::function<void(const WireJson&, const WirePlace&)>& each) const;
  std::vector<std::string> Strings(std::string_view key, size_t max) const;
  // An object field as it is; nullptr: absent.
  const WireJson* Object(std::string_view key) const;
  void Require(std::string_view key) const;

  void Fail(std::string_view key, std::string_view problem,
            std::string_view code = "invalid_value") const;

 private:
  void WrongType(std::string_view key, std::string_view expected, const WireJson& value) const;

  WireParse& parse_;
  const WireJson* value_;  // nullptr: no object
  const WirePlace at_;
  const std::string where_;
};

}  // namespace tidemill

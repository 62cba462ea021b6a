#include "config/config_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <type_traits>

#include "core/nearest.h"
#include "core/text.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;
using Numbers = std::map<std::string, double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool InRange(double x, const KeyOptions& options) {
  return x >= options.min && x <= options.max;
}

bool IsChoice(const std::string& text, const KeyOptions& options) {
  return options.choices.empty() ||
         std::find(options.choices.begin(), options.choices.end(), text) != options.choices.end();
}

template <typename T>
struct OptionalOf : std::false_type {
  using Value = T;
};
template <typename T>
struct OptionalOf<std::optional<T>> : std::true_type {
  using Value = T;
};

// The value, or nothing when the node is of another type or does not fit the type.
template <typename T>
std::optional<T> Read(const toml::node& node) {
  if constexpr (std::is_same_v<T, bool>) {
    if (const auto value = node.as_boolean()) return value->get();
  } else if constexpr (std::is_integral_v<T>) {
    if (const auto value = node.as_integer()) {
      if (std::in_range<T>(value->get())) return static_cast<T>(value->get());
    }
    // TOML's whole numbers end at 2^63 - 1; larger ones are written as text.
    if (const auto text = node.as_string(); text != nullptr && std::is_same_v<T, uint64_t>) {
      T number{};
      const char* end = text->get().data() + text->get().size();
      const auto parsed = std::from_chars(text->get().data(), end, number);
      if (parsed.ec == std::errc() && parsed.ptr == end) return number;
    }
  } else if constexpr (std::is_same_v<T, double>) {
    if (const auto value = node.as_floating_point()) return value->get();
    if (const auto value = node.as_integer()) return static_cast<double>(value->get());
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (const auto value = node.as_string()) return value->get();
  } else if constexpr (std::is_same_v<T, milliseconds>) {
    if (const auto value = node.as_integer()) return milliseconds(value->get());
    if (const auto value = node.as_string()) {
      if (auto parsed = ParseDuration(value->get()); parsed.ok()) return *parsed;
    }
  } else if constexpr (std::is_same_v<T, Strings>) {
    if (const auto array = node.as_array()) {
      Strings strings;
      for (const toml::node& element : *array) {
        if (!element.is_string()) return std::nullopt;
        strings.push_back(element.as_string()->get());
      }
      return strings;
    }
  } else if constexpr (std::is_same_v<T, Numbers>) {
    if (const auto table = node.as_table()) {
      Numbers numbers;
      for (const auto& [key, element] : *table) {
        const auto number = Read<double>(element);
        if (!number) return std::nullopt;
        numbers[std::string(key.str())] = *number;
      }
      return numbers;
    }
  }
  return std::nullopt;
}

template <typename T>
bool Fits(const T& value, const KeyOptions& options) {
  if constexpr (OptionalOf<T>()) {
    return !value || Fits(*value, options);
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::isfinite(static_cast<double>(value)) &&
           InRange(static_cast<double>(value), options);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return IsChoice(value, options);
  } else if constexpr (std::is_same_v<T, milliseconds>) {
    return InRange(static_cast<double>(value.count()), options);
  } else if constexpr (std::is_same_v<T, Strings>) {
    return InRange(static_cast<double>(value.size()), options) &&
           std::all_of(value.begin(), value.end(), [&](auto& s) { return IsChoice(s, options); });
  } else {
    return std::all_of(value.begin(), value.end(), [&](auto& entry) {
      return std::isfinite(entry.second) && InRange(entry.second, options);
    });
  }
}

std::string FormatDouble(double x) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, x);
  std::string text(buffer, result.ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

template <typename T>
std::string Format(const T& value) {
  if constexpr (OptionalOf<T>()) {
    return value ? Format(*value) : "";
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, double>) {
    return FormatDouble(value);
  } else if constexpr (std::is_integral_v<T>) {
    const std::string digits = std::to_string(value);
    return std::in_range<int64_t>(value) ? digits : QuoteToml(digits);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return QuoteToml(value);
  } else if constexpr (std::is_same_v<T, milliseconds>) {
    return QuoteToml(FormatDuration(value));
  } else {
    std::string inside;
    for (const auto& element : value) {
      if (!inside.empty()) inside += ", ";
      if constexpr (std::is_same_v<T, Strings>) {
        inside += QuoteToml(element);
      } else {
        inside += QuoteToml(element.first) + " = " + FormatDouble(element.second);
      }
    }
    return std::is_same_v<T, Strings> ? "[" + inside + "]" : "{" + inside + "}";
  }
}

// Whether the field holds T, or may hold it.
template <typename T>
bool Holds(const Binder::Field& field) {
  return std::visit(
      [](auto* value) {
        using Target = std::remove_pointer_t<decltype(value)>;
        return std::is_same_v<typename OptionalOf<Target>::Value, T>;
      },
      field);
}

std::string Limit(const Binder::Field& field, double x) {
  if (std::holds_alternative<milliseconds*>(field)) {
    return FormatDuration(milliseconds(static_cast<int64_t>(x)));
  }
  return fmt::format("{:.15g}", x);
}

std::string GotText(const toml::node& node) {
  constexpr size_t kShownMax = 60;
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Beginning(text, kShownMax);
}

// For a choice that was misspelled.
std::string ChoiceMeant(const toml::node& node, const KeyOptions& options) {
  if (options.choices.empty()) return "";
  if (const auto text = node.as_string()) return DidYouMean(text->get(), options.choices);
  const auto array = node.as_array();
  if (array == nullptr) return "";
  for (const toml::node& element : *array) {
    const auto text = element.as_string();
    if (text != nullptr && !IsChoice(text->get(), options))
      return DidYouMean(text->get(), options.choices);
  }
  return "";
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Nothing: not one TOML value.
std::optional<toml::table> ParseOneValue(std::string_view text) {
  try {
    toml::table table = toml::parse("v = " + std::string(text));
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
  }
  return std::nullopt;
}

// "x,y" as ["x", "y"], "x=1,y=2" as {"x" = 1, "y" = 2}.
std::string SplitToToml(std::string_view text, bool is_map) {
  const std::string_view whole = text;
  std::string inside;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = Trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (!inside.empty()) inside += ", ";
    const size_t equals = part.find('=');
    if (!is_map) {
      inside += QuoteToml(part);
    } else if (equals != std::string_view::npos) {
      inside += QuoteToml(Trim(part.substr(0, equals))) + " = ";
      inside += Trim(part.substr(equals + 1));
    } else {
      return QuoteToml(whole);
    }
  }
  return is_map ? "{" + inside + "}" : "[" + inside + "]";
}

}  // namespace

Status AssignValue(const Binder::Field& field, const toml::node& node, const KeyOptions& options) {
  const bool assigned = std::visit(
      [&](auto* target) {
        using Target = std::remove_pointer_t<decltype(target)>;
        auto value = Read<typename OptionalOf<Target>::Value>(node);
        if (!value || !Fits(*value, options)) return false;
        *target = std::move(*value);
        return true;
      },
      field);
  if (assigned) return Ok();
  return Invalid("got " + GotText(node) + ", expected " + ExpectedText(field, options) + "." +
                 ChoiceMeant(node, options));
}

bool ValueInRange(const Binder::Field& field, const KeyOptions& options) {
  return std::visit([&](auto* value) { return Fits(*value, options); }, field);
}

std::string FormatValue(const Binder::Field& field) {
  return std::visit([](auto* value) { return Format(*value); }, field);
}

std::string TypeName(const Binder::Field& field) {
  static constexpr const char* kNames[] = {
      "true or false", "whole number", "whole number", "whole number",    "whole number",
      "number",        "string",       "duration",     "list of strings", "table of numbers",
      "whole number",  "whole number", "number",       "string",          "list of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<Binder::Field>);
  return kNames[field.index()];
}

std::string LimitsText(const Binder::Field& field, const KeyOptions& options) {
  std::string text;
  for (const std::string& choice : options.choices) {
    text += (text.empty() ? "" : ", ") + QuoteToml(choice);
  }
  double min = options.min;
  // An unsigned field cannot be less, whatever the options say.
  const bool is_unsigned = Holds<uint32_t>(field) || Holds<uint64_t>(field);
  if (is_unsigned) min = std::max(min, 0.0);
  std::string range;
  if (min != -kInfinity && options.max != kInfinity) {
    range = Limit(field, min) + " to " + Limit(field, options.max);
  } else if (min != -kInfinity) {
    range = "at least " + Limit(field, min);
  } else if (options.max != kInfinity) {
    range = "at most " + Limit(field, options.max);
  }
  if (!range.empty() && Holds<Strings>(field)) range += " of them";
  return text.empty() || range.empty() ? text + range : text + "; " + range;
}

std::string ExpectedText(const Binder::Field& field, const KeyOptions& options) {
  std::string text = TypeName(field);
  if (!std::holds_alternative<bool*>(field)) text = "a " + text;
  if (std::holds_alternative<milliseconds*>(field)) text += " (\"250ms\", \"30s\", \"5m\", \"2h\")";
  const std::string limits = LimitsText(field, options);
  if (limits.empty()) return text;
  return text + (options.choices.empty() ? ", " : ", one of ") + limits;
}

Status AssignText(const Binder::Field& field, std::string_view text, const KeyOptions& options) {
  text = Trim(text);
  const char first = text.empty() ? '\0' : text.front();
  std::string toml(text);
  if (Holds<std::string>(field)) {
    const bool quoted = (first == '"' || first == '\'') && ParseOneValue(text).has_value();
    if (!quoted) toml = QuoteToml(text);
  } else if (Holds<Strings>(field)) {
    if (first != '[') toml = SplitToToml(text, false);
  } else if (std::holds_alternative<Numbers*>(field)) {
    if (first != '{') toml = SplitToToml(text, true);
  }
  auto table = ParseOneValue(toml);
  // A duration ("30s"), or not of the type at all, which AssignValue says best.
  if (!table) table = ParseOneValue(QuoteToml(text));
  if (!table) return Invalid("the value is not valid UTF-8.");
  return AssignValue(field, *table->get("v"), options);
}

std::string QuoteToml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

Result<milliseconds> ParseDuration(std::string_view text) {
  int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(parsed.ptr, text.data() + text.size() - parsed.ptr);
  int64_t factor = 0;
  if (unit.empty() || unit == "ms") factor = 1;
  if (unit == "s") factor = 1000;
  if (unit == "m") factor = 60'000;
  if (unit == "h") factor = 3'600'000;
  int64_t product = 0;
  if (parsed.ec != std::errc() || factor == 0 || __builtin_mul_overflow(count, factor, &product)) {
    return Invalid("a duration is written as \"250ms\", \"30s\", \"5m\" or \"2h\", not \"" +
                   std::string(text) + "\"");
  }
  return milliseconds(product);
}

std::string FormatDuration(milliseconds duration) {
  const int64_t ms = duration.count();
  if (ms != 0 && ms % 3'600'000 == 0) return std::to_string(ms / 3'600'000) + "h";
  if (ms != 0 && ms % 60'000 == 0) return std::to_string(ms / 60'000) + "m";
  if (ms != 0 && ms % 1000 == 0) return std::to_string(ms / 1000) + "s";
  return std::to_string(ms) + "ms";
}

}  // namespace tidemill

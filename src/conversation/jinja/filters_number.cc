// Filters of numbers.
#include <charconv>
#include <cmath>
#include <optional>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

// As Python's int() and float() read: white space around it and "_" between digits.
std::string NumberText(const JinjaText& text) {
  const TextSpan span = StripSpan(text.bytes, true, true, nullptr);
  std::string out;
  for (size_t i = span.begin; i < span.end; ++i) {
    const bool joined =
        text.bytes[i] == '_' && i > span.begin && i + 1 < span.end && text.bytes[i - 1] != '_';
    if (!joined) out += text.bytes[i];
  }
  return out;
}

std::optional<JinjaInt> ParseInt(const JinjaText& text, int base) {
  std::string digits = NumberText(text);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const int x = digits[1] | 0x20;
    const int prefix = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      digits.erase(0, 2);
      base = prefix;
    }
  }
  if (base == 0) base = 10;
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || digits[0] == '-' || read.ec != std::errc() || read.ptr != end) {
    return std::nullopt;
  }
  return negative ? -JinjaInt{value} : JinjaInt{value};
}

std::optional<double> ParseFloat(const JinjaText& text) {
  std::string digits = NumberText(text);
  if (digits.starts_with('+')) digits.erase(0, 1);
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (digits.empty() || read.ptr != end || read.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  return value;
}

std::optional<JinjaInt> Truncated(double value) {
  if (!std::isfinite(value) || std::fabs(value) > 1e37) return std::nullopt;
  return static_cast<JinjaInt>(value);
}

JinjaValue FilterInt(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  const auto [otherwise, base] = Bind(args, {"default", "base"});
  if (value.IsUndefined()) FailUndefined(value);
  std::optional<JinjaInt> out;
  if (value.IsText()) {
    const int64_t b = IntOf(base, 10, "base");
    if (b != 0 && (b < 2 || b > 36)) JinjaFail("int() base must be >= 2 and <= 36, or 0");
    out = ParseInt(value.text(), static_cast<int>(b));
    if (!out) {
      if (const auto real = ParseFloat(value.text())) out = Truncated(*real);
    }
  } else if (value.IsFloat()) {
    out = Truncated(value.real());
  } else if (value.IsNumber()) {
    out = value.integer();
  }
  if (out) return JinjaValue::Int(*out);
  return otherwise != nullptr ? *otherwise : JinjaValue::Int(0);
}

JinjaValue FilterFloat(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  const auto [otherwise] = Bind(args, {"default"});
  if (value.IsUndefined()) FailUndefined(value);
  if (value.IsNumber()) return JinjaValue(AsDouble(value));
  if (value.IsText()) {
    if (const auto out = ParseFloat(value.text())) return JinjaValue(*out);
  }
  return otherwise != nullptr ? *otherwise : JinjaValue(0.0);
}

JinjaValue FilterAbs(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  Bind(args, {""});
  if (value.IsFloat()) return JinjaValue(std::fabs(value.real()));
  if (value.IsNumber() && value.integer() >= 0) return JinjaValue::Int(value.integer());
  return JinjaNegate(value);
}

// Python's round(): half to even, on the decimal digits the number really has.
double RoundTo(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return 0;
  if (digits <= 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[800];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed,
                                 static_cast<int>(digits));
  double out = value;
  std::from_chars(buffer, end.ptr, out);
  return out;
}

JinjaValue FilterRound(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  const auto [precision, method_arg] = Bind(args, {"precision", "method"});
  const std::string method =
      method_arg != nullptr ? TextArgument(*method_arg, "method").bytes : "common";
  const int64_t digits = IntOf(precision, 0, "precision");
  if (value.IsUndefined()) FailUndefined(value);
  if (!value.IsNumber()) JinjaFail("round needs a number");
  if (method == "common") {
    if (!value.IsFloat() && digits >= 0) return JinjaValue::Int(value.integer());
    const double rounded = RoundTo(AsDouble(value), digits);
    if (value.IsFloat()) return JinjaValue(rounded);
    return JinjaValue::Int(static_cast<JinjaInt>(rounded));
  }
  if (method != "ceil" && method != "floor") {
    JinjaFail("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = AsDouble(value) * scale;
  return JinjaValue((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

JinjaValue FilterFileSize(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [binary] = Bind(args, {"binary"});
  const JinjaValue number = FilterFloat(in, value, {});
  const double bytes = number.real();
  const double base = TruthOf(binary, false) ? 1024 : 1000;
  if (bytes == 1) return JinjaValue::Own("1 Byte");
  if (bytes < base)
    return JinjaValue::Own(FormatNumber(JinjaValue(std::trunc(bytes)), ".0f") + " Bytes");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit; ++i) unit *= base;
  std::string text = FormatNumber(JinjaValue(base * bytes / unit), ".1f") + " ";
  if (base == 1024) {
    text += i == 0 ? 'K' : kPrefixes[i];
    text += "iB";
  } else {
    text += kPrefixes[i];
    text += 'B';
  }
  return JinjaValue::Own(text);
}

constexpr JinjaFilterEntry kNumberFilters[] = {
    {"int", FilterInt},
    {"float", FilterFloat},
    {"abs", FilterAbs},
    {"round", FilterRound},
    {"filesizeformat", FilterFileSize},
};

}  // namespace

std::span<const JinjaFilterEntry> NumberFilters() {
  return kNumberFilters;
}

}  // namespace tidemill

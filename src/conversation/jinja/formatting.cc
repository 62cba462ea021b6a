// Python's two ways to format: "%s" % value and "{}".format(value).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

constexpr int64_t kWidthMax = 100'000;

// [[fill]align][sign][#][0][width][,][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0: by type
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

int64_t ReadNumber(std::string_view text, size_t& at, int64_t missing) {
  int64_t value = missing;
  const auto read = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (read.ec == std::errc::result_out_of_range || value > kWidthMax) {
    JinjaFail("a width is too large");
  }
  at = static_cast<size_t>(read.ptr - text.data());
  return value;
}

FormatSpec ParseSpec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  size_t first = 0;
  if (!text.empty()) CharacterAt(text, 0, first);
  const auto is_align = [&](size_t i) {
    return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
  };
  const auto is = [&](char c) { return at < text.size() && text[at] == c; };
  if (first > 0 && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (is_align(0)) {
    spec.align = text[at++];
  }
  if (is('+') || is('-') || is(' ')) spec.sign = text[at++];
  if (is('#')) spec.alternate = ++at != 0;
  if (is('0')) {
    ++at;
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  if (at < text.size() && text[at] >= '0' && text[at] <= '9') spec.width = ReadNumber(text, at, 0);
  if (is(',') || is('_')) spec.grouping = text[at++];
  if (is('.')) {
    ++at;
    if (at >= text.size() || text[at] < '0' || text[at] > '9')
      JinjaFail("Format specifier missing precision");
    spec.precision = ReadNumber(text, at, 0);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) JinjaFail("Invalid format specifier");
  return spec;
}

std::string IntInBase(JinjaInt value, int base, bool upper) {
  if (value == 0) return "0";
  std::string out;
  for (; value != 0; value /= base) {
    const auto digit = static_cast<size_t>(value % base);
    out.insert(out.begin(), (upper ? "0123456789ABCDEF" : "0123456789abcdef")[digit]);
  }
  return out;
}

std::string RealDigits(double value, char type, int64_t precision, bool alternate) {
  char format[16];
  std::snprintf(format, sizeof format, "%%%s.*%c", alternate ? "#" : "", type);
  const int digits = static_cast<int>(std::min<int64_t>(precision < 0 ? 6 : precision, 400));
  char buffer[1024];
  const int size = std::snprintf(buffer, sizeof buffer, format, digits, value);
  return std::string(buffer, static_cast<size_t>(std::min<int>(size, sizeof buffer - 1)));
}

void Group(std::string& digits, char with) {
  size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > 3;) {
    at -= 3;
    digits.insert(at, 1, with);
  }
}

// The digits of a number without its sign.
std::string NumberDigits(const JinjaValue& value, const FormatSpec& spec) {
  char type = spec.type;
  if (!value.IsFloat() && (type == 0 || type == 'd' || type == 'n' || type == 'i' || type == 'u')) {
    const std::string text = IntText(value.integer());
    return text.substr(text[0] == '-' ? 1 : 0);
  }
  if (!value.IsFloat() && (type == 'x' || type == 'X' || type == 'o' || type == 'b')) {
    const JinjaInt magnitude = value.integer() < 0 ? -(value.integer() + 1) : value.integer();
    const JinjaInt whole = value.integer() < 0 ? magnitude + 1 : magnitude;
    const int base = type == 'o' ? 8 : type == 'b' ? 2 : 16;
    const std::string prefix = spec.alternate ? std::string("0") + type : "";
    return prefix + IntInBase(whole, base, type == 'X');
  }
  const double real = std::fabs(AsDouble(value));
  if (std::isnan(real)) return "nan";
  if (std::isinf(real)) return "inf";
  if (type == '%') return RealDigits(real * 100, 'f', spec.precision, spec.alternate) + "%";
  if (type == 0 && spec.precision < 0) return FloatText(real);
  if (type == 0) type = 'g';
  if (std::string_view("eEfFgG").find(type) == std::string_view::npos) {
    JinjaFail(std::string("Unknown format code '") + type + "'");
  }
  return RealDigits(real, type, spec.precision, spec.alternate);
}

std::string SignedDigits(const JinjaValue& value, const FormatSpec& spec) {
  std::string digits = NumberDigits(value, spec);
  if (spec.grouping != 0) Group(digits, spec.grouping);
  const bool negative = value.IsFloat() ? std::signbit(value.real()) : value.integer() < 0;
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const auto length = static_cast<int64_t>(sign.size() + digits.size());
  if (spec.align == '=') {
    for (int64_t i = length; i < spec.width; ++i) digits.insert(0, spec.fill);
  }
  return sign + digits;
}

void WritePadded(TextWriter& out, const JinjaText& text, const FormatSpec& spec, char align) {
  const auto length = static_cast<int64_t>(CountCharacters(text.bytes));
  const int64_t room = std::max<int64_t>(spec.width - length, 0);
  const int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  for (int64_t i = 0; i < left; ++i) out.Own(spec.fill);
  out.Append(text);
  for (int64_t i = left; i < room; ++i) out.Own(spec.fill);
}

void WriteFormatted(TextWriter& out, const JinjaValue& value, std::string_view spec_text) {
  if (spec_text.empty()) return WriteStr(out, value);
  const FormatSpec spec = ParseSpec(spec_text);
  RenderBudget& budget = out.budget();
  const bool number = value.IsNumber() && !(value.IsBool() && spec.type == 0);
  if (number) {
    const JinjaValue digits = JinjaValue::Own(SignedDigits(value, spec));
    const bool by_type = spec.align == 0 || spec.align == '=';
    return WritePadded(out, digits.text(), spec, by_type ? '>' : spec.align);
  }
  if (!value.IsText() && !value.IsBool()) {
    JinjaFail("unsupported format string passed to " + std::string(value.TypeName()));
  }
  if (spec.type != 0 && spec.type != 's') {
    JinjaFail(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  }
  JinjaValue text = ToText(budget, value);
  if (spec.precision >= 0) {
    const size_t end = ByteOfCharacter(text.text().bytes, static_cast<size_t>(spec.precision));
    text = TextPart(budget, text, 0, end);
  }
  WritePadded(out, text.text(), spec, spec.align == 0 || spec.align == '=' ? '<' : spec.align);
}

// The values of "%..": taken one by one, or by key.
class PercentValues {
 public:
  explicit PercentValues(const JinjaValue& values) : values_(values) {
    tuple_ = values.IsSequence(JinjaSequence::Kind::kTuple);
  }
  JinjaValue Next() {
    if (tuple_) {
      if (at_ >= values_.sequence()->items.size())
        JinjaFail("not enough arguments for format string");
      return values_.sequence()->items[at_++];
    }
    if (at_++ > 0) JinjaFail("not enough arguments for format string");
    return values_;
  }
  JinjaValue ByKey(std::string_view key) {
    by_key_ = true;
    if (!values_.IsMap()) JinjaFail("format requires a mapping");
    const JinjaValue* found = values_.map().Find(key);
    if (found == nullptr) JinjaFail("no value for '" + std::string(key) + "' in the format string");
    return *found;
  }
  void CheckAllUsed() const {
    const bool left =
        tuple_ ? at_ < values_.sequence()->items.size() : at_ == 0 && !by_key_ && !values_.IsMap();
    if (left) JinjaFail("not all arguments converted during string formatting");
  }

 private:
  const JinjaValue& values_;
  bool tuple_ = false;
  bool by_key_ = false;
  size_t at_ = 0;
};

// "%c": a character, or the code of one.
void WritePercentCharacter(TextWriter& out, const JinjaValue& value, const FormatSpec& spec) {
  JinjaValue text = value;
  if (value.IsInt()) {
    const JinjaInt code = value.integer();
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (code < 0 || code > 0x10FFFF || surrogate) JinjaFail("%c arg not in range(0x110000)");
    std::string bytes;
    AppendCharacter(static_cast<uint32_t>(code), bytes);
    text = JinjaValue::Own(std::move(bytes));
  }
  if (!text.IsText() || CountCharacters(text.text().bytes) != 1) {
    JinjaFail("%c requires int or char");
  }
  WritePadded(out, text.text(), spec, spec.align == '<' ? '<' : '>');
}

// One conversion behind its "%"; moves `at` behind it.
void WritePercent(TextWriter& out, std::string_view format, size_t& at, PercentValues& values) {
  FormatSpec spec;
  JinjaValue value;
  bool keyed = false;
  if (format[at] == '(') {
    const size_t close = format.find(')', at);
    if (close == std::string_view::npos) JinjaFail("incomplete format key");
    value = values.ByKey(format.substr(at + 1, close - at - 1));
    keyed = true;
    at = close + 1;
  }
  for (; at < format.size() && std::string_view("#0- +").find(format[at]) != std::string_view::npos;
       ++at) {
    if (format[at] == '-') spec.align = '<';
    if (format[at] == '+') spec.sign = '+';
    if (format[at] == ' ' && spec.sign != '+') spec.sign = ' ';
    if (format[at] == '#') spec.alternate = true;
    if (format[at] == '0' && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  if (spec.align == '<') spec.fill = " ";
  if (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    spec.width = ReadNumber(format, at, 0);
  }
  if (at < format.size() && format[at] == '.') {
    ++at;
    spec.precision = ReadNumber(format, at, 0);
  }
  if (at >= format.size()) JinjaFail("incomplete format");
  spec.type = format[at++];
  if (spec.type == '%') return out.Own("%");
  if (!keyed) value = values.Next();
  RenderBudget& budget = out.budget();
  if (spec.type == 's' || spec.type == 'r') {
    TextWriter one(budget);
    spec.type == 's' ? WriteStr(one, value) : WriteRepr(one, value);
    JinjaValue text = one.Done();
    if (spec.precision >= 0) {
      const size_t end = ByteOfCharacter(text.text().bytes, static_cast<size_t>(spec.precision));
      text = TextPart(budget, text, 0, end);
    }
    spec.fill = " ";
    return WritePadded(out, text.text(), spec, spec.align == '<' ? '<' : '>');
  }
  if (spec.type == 'c') return WritePercentCharacter(out, value, spec);
  if (!value.IsNumber()) {
    if (value.IsUndefined()) FailUndefined(value);
    JinjaFail(std::string("%") + spec.type + " format: a real number is required, not " +
              std::string(value.TypeName()));
  }
  const bool integral = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (integral && value.IsFloat()) {
    if (!std::isfinite(value.real()) || std::fabs(value.real()) > 1e37)
      JinjaFail("cannot convert float to integer");
    value = JinjaValue::Int(static_cast<JinjaInt>(value.real()));
  }
  const JinjaValue digits = JinjaValue::Own(SignedDigits(value, spec));
  WritePadded(out, digits.text(), spec, spec.align == '<' ? '<' : '>');
}

// The value of a replacement field: "0.name[key]".
JinjaValue FieldValue(JinjaInterpreter& in, std::string_view field, const JinjaArgs& args,
                      size_t& next) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  size_t index = 0;
  const auto read = std::from_chars(first.data(), first.data() + first.size(), index);
  const bool number =
      !first.empty() && read.ec == std::errc() && read.ptr == first.data() + first.size();
  JinjaValue value;
  if (first.empty() || number) {
    if (first.empty()) index = next++;
    if (index >= args.positional.size()) JinjaFail("Replacement index out of range");
    value = args.positional[index];
  } else {
    const auto it = std::find_if(args.named.begin(), args.named.end(),
                                 [&](const auto& named) { return named.first == first; });
    if (it == args.named.end()) JinjaFail("no value for '" + std::string(first) + "'");
    value = it->second;
  }
  for (size_t at = end; at < field.size();) {
    const bool item = field[at] == '[';
    const size_t stop = item ? field.find(']', at) : field.find_first_of(".[", at + 1);
    if (item && stop == std::string_view::npos) JinjaFail("expected ']' in the format string");
    const std::string_view part = field.substr(at + 1, std::min(stop, field.size()) - at - 1);
    value = item ? in.GetPath(value, JinjaValue::Own(std::string(part))) : in.GetAttr(value, part);
    at = stop == std::string_view::npos ? field.size() : item ? stop + 1 : stop;
  }
  return value;
}

// One replacement field between its braces.
void WriteField(JinjaInterpreter& in, TextWriter& out, std::string_view inside,
                const JinjaArgs& args, size_t& next) {
  const size_t colon = inside.find(':');
  std::string_view field = inside.substr(0, colon);
  const std::string_view spec = colon == std::string_view::npos ? "" : inside.substr(colon + 1);
  const size_t bang = field.find('!');
  const std::string_view conversion = bang == std::string_view::npos ? "" : field.substr(bang + 1);
  field = field.substr(0, bang);
  JinjaValue value = FieldValue(in, field, args, next);
  if (conversion == "r" || conversion == "a") {
    TextWriter one(in.budget());
    WriteRepr(one, value);
    value = one.Done();
  } else if (conversion == "s") {
    value = ToText(in.budget(), value);
  } else if (!conversion.empty()) {
    JinjaFail("Unknown conversion specifier");
  }
  WriteFormatted(out, value, spec);
}

}  // namespace

std::string FormatNumber(const JinjaValue& value, std::string_view spec) {
  return SignedDigits(value, ParseSpec(spec));
}

JinjaValue PercentFormat(RenderBudget& budget, const JinjaText& format, const JinjaValue& values) {
  TextWriter out(budget);
  PercentValues taken(values);
  const std::string_view bytes = format.bytes;
  for (size_t at = 0; at < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    out.Append(format, at, percent);
    at = percent + 1;
    if (percent == bytes.size()) break;
    if (at >= bytes.size()) JinjaFail("incomplete format");
    budget.Step();
    WritePercent(out, bytes, at, taken);
  }
  taken.CheckAllUsed();
  return out.Done();
}

JinjaValue BraceFormat(JinjaInterpreter& in, const JinjaText& format, const JinjaArgs& args) {
  TextWriter out(in.budget());
  const std::string_view bytes = format.bytes;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.Append(format, at, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.Append(format, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    if (bytes[brace] == '}') JinjaFail("Single '}' encountered in format string");
    const size_t close = bytes.find('}', brace);
    if (close == std::string_view::npos) JinjaFail("expected '}' before end of string");
    in.budget().Step();
    WriteField(in, out, bytes.substr(brace + 1, close - brace - 1), args, next);
    at = close + 1;
  }
  return out.Done();
}

}  // namespace tidemill

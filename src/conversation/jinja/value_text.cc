#include <charconv>
#include <cmath>

#include "conversation/jinja/text_writer.h"
#include "conversation/jinja/value_ops.h"
#include "utf8proc.h"

namespace tidemill {
namespace {

constexpr int kReprDepthMax = 300;

// Whether Python's repr shows the character as it is.
bool IsPrintable(uint32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string HexEscape(uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  std::string out = code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kDigits[code >> shift & 15];
  return out;
}

void WriteTextRepr(TextWriter& out, const JinjaText& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const bool has_double = text.bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.Own(std::string_view(&quote, 1));
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) {
    if (c.code == static_cast<uint8_t>(quote) || c.code == '\\') {
      const char escaped[] = {'\\', static_cast<char>(c.code)};
      out.Append(std::string_view(escaped, 2), c.outside);
    } else if (c.code == '\n' || c.code == '\r' || c.code == '\t') {
      out.Append(c.code == '\n' ? "\\n" : c.code == '\r' ? "\\r" : "\\t", c.outside);
    } else if (IsPrintable(c.code)) {
      out.Append(std::string_view(text.bytes).substr(c.begin, c.end - c.begin), c.outside);
    } else {
      out.Append(HexEscape(c.code), c.outside);
    }
  }
  out.Own(std::string_view(&quote, 1));
}

void WriteItems(TextWriter& out, const JinjaSequence& sequence, int depth) {
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out.Own(", ");
    WriteRepr(out, sequence.items[i], depth);
  }
}

void WriteSequenceRepr(TextWriter& out, const JinjaSequence& sequence, int depth) {
  switch (sequence.kind) {
    case JinjaSequence::Kind::kList:
      out.Own("[");
      WriteItems(out, sequence, depth);
      return out.Own("]");
    case JinjaSequence::Kind::kTuple:
    case JinjaSequence::Kind::kGroup:
      out.Own("(");
      WriteItems(out, sequence, depth);
      return out.Own(sequence.items.size() == 1 ? ",)" : ")");
    case JinjaSequence::Kind::kRange: {
      const JinjaInt first = sequence.items.empty() ? 0 : sequence.items.front().integer();
      const JinjaInt last = sequence.items.empty() ? -1 : sequence.items.back().integer();
      return out.Own("range(" + IntText(first) + ", " + IntText(last + 1) + ")");
    }
    case JinjaSequence::Kind::kView:
      out.Own("dict_view([");
      WriteItems(out, sequence, depth);
      return out.Own("])");
    case JinjaSequence::Kind::kGenerator:
      return out.Own("<generator object>");
  }
}

void WriteMapRepr(TextWriter& out, const JinjaMap& map, int depth) {
  out.Own("{");
  bool first = true;
  for (const auto& [key, value] : map.entries) {
    if (!first) out.Own(", ");
    first = false;
    WriteRepr(out, key, depth);
    out.Own(": ");
    WriteRepr(out, value, depth);
  }
  out.Own("}");
}

void WriteNamespaceRepr(TextWriter& out, const JinjaNamespace& space, int depth) {
  out.Own("<Namespace {");
  for (size_t i = 0; i < space.fields.size(); ++i) {
    if (i > 0) out.Own(", ");
    out.Append("'" + space.fields[i].first + "': ", true);  // **kwargs may have named it
    WriteRepr(out, space.fields[i].second, depth);
  }
  out.Own("}>");
}

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const std::string_view digits = text.substr(e + 1);
  std::from_chars(digits.data() + (digits[0] == '+' ? 1 : 0), digits.data() + digits.size(),
                  exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, static_cast<size_t>(end - buffer));
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string IntText(JinjaInt value) {
  if (value == 0) return "0";
  std::string out;
  const bool negative = value < 0;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    out.insert(out.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  return negative ? "-" + out : out;
}

void WriteRepr(TextWriter& out, const JinjaValue& value, int depth) {
  if (depth > kReprDepthMax) JinjaFail("a value nests too deep to be printed");
  out.budget().Step();
  if (value.IsText()) return WriteTextRepr(out, value.text());
  if (value.IsUndefined()) return out.Own("Undefined");
  if (value.IsSequence()) return WriteSequenceRepr(out, *value.sequence(), depth + 1);
  if (value.IsMap()) return WriteMapRepr(out, value.map(), depth + 1);
  if (const auto* space = value.name_space()) return WriteNamespaceRepr(out, **space, depth + 1);
  if (value.callable() != nullptr) return out.Own("<function " + (*value.callable())->name + ">");
  if (value.loop() != nullptr) return out.Own("<LoopContext>");
  WriteStr(out, value);
}

void WriteStr(TextWriter& out, const JinjaValue& value) {
  if (value.IsText()) return out.Append(value.text());
  if (value.IsUndefined()) return;
  if (value.IsNone()) return out.Own("None");
  if (value.IsBool()) return out.Own(value.integer() != 0 ? "True" : "False");
  if (value.IsInt()) return out.Own(IntText(value.integer()));
  if (value.IsFloat()) return out.Own(FloatText(value.real()));
  WriteRepr(out, value);
}

JinjaValue ToText(RenderBudget& budget, const JinjaValue& value) {
  if (value.IsText()) return value;
  TextWriter out(budget);
  WriteStr(out, value);
  return out.Done();
}

}  // namespace tidemill

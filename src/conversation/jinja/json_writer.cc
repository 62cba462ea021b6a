// JSON as Python's json.dumps writes it.
#include <algorithm>
#include <cmath>

#include "conversation/jinja/builtins.h"

namespace tidemill {
namespace {

void AppendHex4(uint32_t unit, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 15];
}

// The escape of a character; empty: it stands for itself.
std::string JsonEscape(uint32_t code, bool ascii) {
  constexpr std::string_view kShort = "\"\\\n\r\t\f\b";
  constexpr std::string_view kNames = "\"\\nrtfb";
  std::string out;
  if (code < 0x80) {
    const size_t i = kShort.find(static_cast<char>(code));
    if (i != std::string_view::npos) return {'\\', kNames[i]};
  }
  if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) {
    AppendHex4(code, out);
  } else if (ascii && code >= 0x10000) {
    AppendHex4(0xD800 + ((code - 0x10000) >> 10), out);
    AppendHex4(0xDC00 + ((code - 0x10000) & 0x3FF), out);
  }
  return out;
}

void WriteJsonText(TextWriter& out, const JinjaText& text, bool ascii) {
  out.Own("\"");
  size_t plain = 0;  // begin of what needs no escape
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) {
    if (c.code >= 0x20 && c.code != '"' && c.code != '\\' && (!ascii || c.code < 0x7F)) continue;
    const std::string escape = JsonEscape(c.code, ascii);
    if (escape.empty()) continue;
    out.Append(text, plain, c.begin);
    out.Append(escape, c.outside);
    plain = c.end;
  }
  out.Append(text, plain, text.bytes.size());
  out.Own("\"");
}

void Break(TextWriter& out, const JsonStyle& style, int level) {
  if (!style.pretty) return;
  out.Own("\n");
  for (int i = 0; i < level; ++i) out.Append(style.indent.text());
}

void WriteJsonKey(TextWriter& out, const JinjaValue& key, const JsonStyle& style) {
  if (key.IsText()) return WriteJsonText(out, key.text(), style.ensure_ascii);
  if (!key.IsNumber() && !key.IsNone()) {
    JinjaFail("keys must be str, int, float, bool or None, not " + std::string(key.TypeName()));
  }
  out.Own("\"");
  WriteJson(out, key, style);
  out.Own("\"");
}

void WriteJsonMap(TextWriter& out, const JinjaMap& map, const JsonStyle& style, int level) {
  if (map.entries.empty()) return out.Own("{}");
  std::vector<const std::pair<JinjaValue, JinjaValue>*> entries;
  for (const auto& entry : map.entries) entries.push_back(&entry);
  if (style.sort_keys) {
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      out.budget().Step();
      return JinjaCompare(a->first, b->first) < 0;
    });
  }
  out.Own("{");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out.Append(style.item_separator.text());
    Break(out, style, level + 1);
    WriteJsonKey(out, entries[i]->first, style);
    out.Append(style.key_separator.text());
    WriteJson(out, entries[i]->second, style, level + 1);
  }
  Break(out, style, level);
  out.Own("}");
}

void WriteJsonList(TextWriter& out, const JinjaSequence& list, const JsonStyle& style, int level) {
  if (list.items.empty()) return out.Own("[]");
  out.Own("[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.Append(style.item_separator.text());
    Break(out, style, level + 1);
    WriteJson(out, list.items[i], style, level + 1);
  }
  Break(out, style, level);
  out.Own("]");
}

}  // namespace

void WriteJson(TextWriter& out, const JinjaValue& value, const JsonStyle& style, int level) {
  out.budget().Step();
  if (value.IsText()) return WriteJsonText(out, value.text(), style.ensure_ascii);
  if (value.IsMap()) return WriteJsonMap(out, value.map(), style, level);
  if (value.IsNone()) return out.Own("null");
  if (value.IsBool()) return out.Own(value.integer() != 0 ? "true" : "false");
  if (value.IsInt()) return out.Own(IntText(value.integer()));
  if (value.IsFloat()) {
    const double real = value.real();
    if (std::isnan(real)) return out.Own("NaN");
    if (std::isinf(real)) return out.Own(real < 0 ? "-Infinity" : "Infinity");
    return out.Own(FloatText(real));
  }
  const bool list = value.IsSequence(JinjaSequence::Kind::kList) ||
                    value.IsSequence(JinjaSequence::Kind::kTuple) ||
                    value.IsSequence(JinjaSequence::Kind::kGroup);
  if (list) return WriteJsonList(out, *value.sequence(), style, level);
  if (value.IsUndefined())
    JinjaFail("Object of type Undefined is not JSON serializable: " + value.why());
  JinjaFail("Object of type " + std::string(value.TypeName()) + " is not JSON serializable");
}

}  // namespace tidemill

// Helpers that filters and methods of text share.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "utf8proc.h"

namespace tidemill {

uint32_t UpperOf(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

uint32_t LowerOf(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

namespace {

constexpr uint32_t kSharpS = 0xDF;

void AppendCased(TextWriter& out, const TextCharacter& c, bool upper) {
  std::string bytes;
  if (upper && c.code == kSharpS) {
    bytes = "SS";
  } else {
    AppendCharacter(upper ? UpperOf(c.code) : LowerOf(c.code), bytes);
  }
  out.Append(bytes, c.outside);
}

bool IsLineEnd(uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

}  // namespace

JinjaValue ChangeCase(RenderBudget& budget, const JinjaText& text, bool upper) {
  TextWriter out(budget);
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) AppendCased(out, c, upper);
  return out.Done(text.markup);
}

JinjaValue Capitalize(RenderBudget& budget, const JinjaText& text) {
  TextWriter out(budget);
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) AppendCased(out, c, c.begin == 0);
  return out.Done(text.markup);
}

JinjaValue StripText(RenderBudget& budget, const JinjaValue& text, bool left, bool right,
                     const JinjaValue* chars) {
  std::string_view set;
  const bool given = chars != nullptr && !chars->IsNone();
  if (given) set = TextArgument(*chars, "chars").bytes;
  const TextSpan span = StripSpan(text.text().bytes, left, right, given ? &set : nullptr);
  return TextPart(budget, text, span.begin, span.end);
}

JinjaValue ReplaceText(RenderBudget& budget, const JinjaText& text, const JinjaText& old,
                       const JinjaText& with, int64_t count) {
  TextWriter out(budget);
  if (count < 0) count = INT64_MAX;
  size_t at = 0;
  if (old.bytes.empty()) {
    TextReader reader(text);
    TextCharacter c;
    for (; count > 0 && reader.Next(c); --count) {
      budget.Step();
      out.Append(with);
      out.Append(text, c.begin, c.end);
      at = c.end;
    }
    if (count > 0) out.Append(with);
  } else {
    for (; count > 0; --count) {
      const size_t found = text.bytes.find(old.bytes, at);
      if (found == std::string::npos) break;
      budget.Step();
      out.Append(text, at, found);
      out.Append(with);
      at = found + old.bytes.size();
    }
  }
  out.Append(text, at, text.bytes.size());
  return out.Done();
}

JinjaValue CenterText(RenderBudget& budget, const JinjaText& text, int64_t width,
                      std::string_view fill) {
  const auto length = static_cast<int64_t>(CountCharacters(text.bytes));
  const int64_t room = std::max<int64_t>(width - length, 0);
  const int64_t left = room / 2 + (room & width & 1);  // as CPython does
  TextWriter out(budget);
  for (int64_t i = 0; i < left; ++i) out.Own(fill);
  out.Append(text);
  for (int64_t i = left; i < room; ++i) out.Own(fill);
  return out.Done();
}

JinjaValue JoinTexts(RenderBudget& budget, const JinjaText& separator,
                     std::span<const JinjaValue> items) {
  TextWriter out(budget);
  for (size_t i = 0; i < items.size(); ++i) {
    budget.Step();
    if (i > 0) out.Append(separator);
    WriteStr(out, items[i]);
  }
  return out.Done();
}

std::vector<TextSpan> LineSpans(std::string_view bytes, bool keep_ends) {
  std::vector<TextSpan> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    const uint32_t code = CharacterAt(bytes, at, length);
    size_t next = at + length;
    if (IsLineEnd(code)) {
      if (code == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back({begin, keep_ends ? next : at});
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back({begin, bytes.size()});
  return lines;
}

}  // namespace tidemill

// Methods of str that change or ask about a text; those that cut it are in methods_split.cc.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"
#include "utf8proc.h"

namespace tidemill {
namespace {

JinjaValue StrStrip(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [chars] = Bind(args, {"chars"});
  return StripText(in.budget(), self, true, true, chars);
}
JinjaValue StrLstrip(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [chars] = Bind(args, {"chars"});
  return StripText(in.budget(), self, true, false, chars);
}
JinjaValue StrRstrip(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [chars] = Bind(args, {"chars"});
  return StripText(in.budget(), self, false, true, chars);
}
JinjaValue StrUpper(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  return ChangeCase(in.budget(), self.text(), true);
}
JinjaValue StrLower(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  return ChangeCase(in.budget(), self.text(), false);
}
JinjaValue StrCapitalize(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  return Capitalize(in.budget(), self.text());
}

JinjaValue StrTitle(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  TextWriter out(in.budget());
  TextReader reader(self.text());
  TextCharacter c;
  bool inside = false;
  while (reader.Next(c)) {
    const bool cased = UpperOf(c.code) != c.code || LowerOf(c.code) != c.code;
    std::string bytes;
    AppendCharacter(inside ? LowerOf(c.code) : UpperOf(c.code), bytes);
    out.Append(bytes, c.outside);
    inside = cased;
  }
  return out.Done();
}

JinjaValue StrSwapCase(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  TextWriter out(in.budget());
  TextReader reader(self.text());
  TextCharacter c;
  while (reader.Next(c)) {
    std::string bytes;
    AppendCharacter(LowerOf(c.code) != c.code ? LowerOf(c.code) : UpperOf(c.code), bytes);
    out.Append(bytes, c.outside);
  }
  return out.Done();
}

JinjaValue StrReplace(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [old, with, count] = Bind(args, {"old", "new", "count"}, 2);
  return ReplaceText(in.budget(), self.text(), TextArgument(*old, "the first argument"),
                     TextArgument(*with, "the second argument"), IntOf(count, -1, "count"));
}

// The part of a text that the optional arguments start and end mean, in bytes.
TextSpan SearchedPart(const JinjaText& text, const JinjaValue* start, const JinjaValue* end) {
  const auto length = static_cast<int64_t>(CountCharacters(text.bytes));
  const auto resolve = [&](const JinjaValue* value, int64_t missing) {
    int64_t at = value == nullptr || value->IsNone() ? missing : IntArgument(*value, "an index");
    if (at < 0) at = std::max<int64_t>(at + length, 0);
    return ByteOfCharacter(text.bytes, static_cast<size_t>(std::min(at, length)));
  };
  return {resolve(start, 0), resolve(end, length)};
}

bool MatchesEnd(std::string_view part, const JinjaValue& affix, bool at_start) {
  const std::string& bytes = TextArgument(affix, "the argument").bytes;
  return at_start ? part.starts_with(bytes) : part.ends_with(bytes);
}

JinjaValue Affix(const JinjaValue& self, const JinjaArgs& args, bool at_start) {
  const auto [affix, start, end] = Bind(args, {"affix", "start", "end"}, 1);
  const TextSpan span = SearchedPart(self.text(), start, end);
  if (span.begin > span.end) return JinjaValue::Bool(false);
  const auto part = std::string_view(self.text().bytes).substr(span.begin, span.end - span.begin);
  if (!affix->IsSequence(JinjaSequence::Kind::kTuple)) {
    return JinjaValue::Bool(MatchesEnd(part, *affix, at_start));
  }
  const auto& several = affix->sequence()->items;
  return JinjaValue::Bool(std::any_of(several.begin(), several.end(), [&](const JinjaValue& one) {
    return MatchesEnd(part, one, at_start);
  }));
}

JinjaValue StrStartsWith(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  return Affix(self, args, true);
}
JinjaValue StrEndsWith(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  return Affix(self, args, false);
}

// The character index of the first or last occurrence; -1: there is none.
int64_t Search(const JinjaValue& self, const JinjaArgs& args, bool last) {
  const auto [what, start, end] = Bind(args, {"sub", "start", "end"}, 1);
  const std::string& needle = TextArgument(*what, "the argument").bytes;
  const TextSpan span = SearchedPart(self.text(), start, end);
  if (span.begin > span.end) return -1;
  const std::string_view bytes = self.text().bytes;
  const auto part = bytes.substr(span.begin, span.end - span.begin);
  const size_t found = last ? part.rfind(needle) : part.find(needle);
  if (found == std::string_view::npos) return -1;
  return static_cast<int64_t>(CountCharacters(bytes.substr(0, span.begin + found)));
}

JinjaValue StrFind(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  return JinjaValue::Int(Search(self, args, false));
}
JinjaValue StrRfind(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  return JinjaValue::Int(Search(self, args, true));
}
JinjaValue StrIndex(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  const int64_t at = Search(self, args, false);
  if (at < 0) JinjaFail("substring not found");
  return JinjaValue::Int(at);
}
JinjaValue StrRindex(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs& args) {
  const int64_t at = Search(self, args, true);
  if (at < 0) JinjaFail("substring not found");
  return JinjaValue::Int(at);
}

JinjaValue StrCount(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [what, start, end] = Bind(args, {"sub", "start", "end"}, 1);
  const std::string& needle = TextArgument(*what, "the argument").bytes;
  const TextSpan span = SearchedPart(self.text(), start, end);
  if (span.begin > span.end) return JinjaValue::Int(0);
  const auto part = std::string_view(self.text().bytes).substr(span.begin, span.end - span.begin);
  if (needle.empty()) return JinjaValue::Int(static_cast<int64_t>(CountCharacters(part)) + 1);
  int64_t count = 0;
  for (size_t at = part.find(needle); at != std::string_view::npos;
       at = part.find(needle, at + needle.size())) {
    in.budget().Step();
    ++count;
  }
  return JinjaValue::Int(count);
}

JinjaValue StrJoin(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [items_arg] = Bind(args, {"iterable"}, 1);
  const auto items = JinjaIterate(in.budget(), *items_arg);
  for (const JinjaValue& item : items->items) TextArgument(item, "every item of join()");
  return JoinTexts(in.budget(), self.text(), items->items);
}

JinjaValue StrFormat(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return BraceFormat(in, self.text(), args);
}

JinjaValue Justify(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args, bool left) {
  const auto [width, fill] = Bind(args, {"width", "fillchar"}, 1);
  const std::string pad = fill != nullptr ? TextArgument(*fill, "the fill").bytes : " ";
  const auto length = static_cast<int64_t>(CountCharacters(self.text().bytes));
  const int64_t room = IntArgument(*width, "width") - length;
  TextWriter out(in.budget());
  if (left) out.Append(self.text());
  for (int64_t i = 0; i < room; ++i) out.Own(pad);
  if (!left) out.Append(self.text());
  return out.Done();
}
JinjaValue StrLjust(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return Justify(in, self, args, true);
}
JinjaValue StrRjust(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return Justify(in, self, args, false);
}
JinjaValue StrCenter(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [width, fill] = Bind(args, {"width", "fillchar"}, 1);
  return CenterText(in.budget(), self.text(), IntArgument(*width, "width"),
                    fill != nullptr ? TextArgument(*fill, "the fill").bytes : " ");
}
JinjaValue StrZfill(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [width] = Bind(args, {"width"}, 1);
  const std::string& bytes = self.text().bytes;
  const int64_t room = IntArgument(*width, "width") - static_cast<int64_t>(CountCharacters(bytes));
  const size_t sign = bytes.starts_with('-') || bytes.starts_with('+') ? 1 : 0;
  TextWriter out(in.budget());
  out.Append(self.text(), 0, sign);
  for (int64_t i = 0; i < room; ++i) out.Own("0");
  out.Append(self.text(), sign, bytes.size());
  return out.Done();
}

template <typename F>
JinjaValue AllCharacters(const JinjaValue& self, F&& holds) {
  TextReader reader(self.text());
  TextCharacter c;
  bool some = false;
  while (reader.Next(c)) {
    if (!holds(c.code)) return JinjaValue::Bool(false);
    some = true;
  }
  return JinjaValue::Bool(some);
}

bool IsAlpha(uint32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimal(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_ND;
}
bool IsNumeric(uint32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

JinjaValue StrIsAlpha(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return AllCharacters(self, IsAlpha);
}
JinjaValue StrIsDigit(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return AllCharacters(self, IsDecimal);
}
JinjaValue StrIsNumeric(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return AllCharacters(self, IsNumeric);
}
JinjaValue StrIsAlnum(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return AllCharacters(self, [](uint32_t code) { return IsAlpha(code) || IsNumeric(code); });
}
JinjaValue StrIsSpace(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return AllCharacters(self, IsPythonSpace);
}
JinjaValue StrIsUpper(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return JinjaValue::Bool(in.CallTest("upper", self, args));
}
JinjaValue StrIsLower(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return JinjaValue::Bool(in.CallTest("lower", self, args));
}

constexpr JinjaFilterEntry kTextMethods[] = {
    {"strip", StrStrip},
    {"lstrip", StrLstrip},
    {"rstrip", StrRstrip},
    {"upper", StrUpper},
    {"lower", StrLower},
    {"casefold", StrLower},
    {"capitalize", StrCapitalize},
    {"title", StrTitle},
    {"swapcase", StrSwapCase},
    {"replace", StrReplace},
    {"startswith", StrStartsWith},
    {"endswith", StrEndsWith},
    {"find", StrFind},
    {"rfind", StrRfind},
    {"index", StrIndex},
    {"rindex", StrRindex},
    {"count", StrCount},
    {"join", StrJoin},
    {"format", StrFormat},
    {"ljust", StrLjust},
    {"rjust", StrRjust},
    {"center", StrCenter},
    {"zfill", StrZfill},
    {"isalpha", StrIsAlpha},
    {"isdigit", StrIsDigit},
    {"isdecimal", StrIsDigit},
    {"isnumeric", StrIsNumeric},
    {"isalnum", StrIsAlnum},
    {"isspace", StrIsSpace},
    {"isupper", StrIsUpper},
    {"islower", StrIsLower},
};

}  // namespace

std::span<const JinjaFilterEntry> TextMethods() {
  return kTextMethods;
}

}  // namespace tidemill

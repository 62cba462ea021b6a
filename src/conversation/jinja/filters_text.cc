// Filters of text.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

JinjaValue FilterUpper(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  Bind(args, {""});
  return ChangeCase(in.budget(), ToText(in.budget(), value).text(), true);
}

JinjaValue FilterLower(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  Bind(args, {""});
  return ChangeCase(in.budget(), ToText(in.budget(), value).text(), false);
}

JinjaValue FilterCapitalize(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  return Capitalize(in.budget(), ToText(in.budget(), value).text());
}

JinjaValue FilterTitle(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  const JinjaValue text = ToText(in.budget(), value);
  TextWriter out(in.budget());
  TextReader reader(text.text());
  TextCharacter c;
  bool word_begins = true;
  while (reader.Next(c)) {
    std::string bytes;
    AppendCharacter(word_begins ? UpperOf(c.code) : LowerOf(c.code), bytes);
    out.Append(bytes, c.outside);
    word_begins = IsPythonSpace(c.code) ||
                  (c.code < 0x80 &&
                   std::string_view("-({[<").find(static_cast<char>(c.code)) != std::string::npos);
  }
  return out.Done();
}

JinjaValue FilterTrim(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [chars] = Bind(args, {"chars"});
  return StripText(in.budget(), ToText(in.budget(), value), true, true, chars);
}

JinjaValue FilterString(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  return ToText(in.budget(), value);
}

JinjaValue FilterSafe(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  TextWriter out(in.budget());
  WriteStr(out, value);
  return out.Done(true);
}

JinjaValue FilterEscape(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  TextWriter out(in.budget());
  out.AppendEscaped(ToText(in.budget(), value).text());
  return out.Done(true);
}

JinjaValue FilterForceEscape(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  TextWriter plain(in.budget());
  WriteStr(plain, value);
  TextWriter out(in.budget());
  out.AppendEscaped(plain.Done().text());
  return out.Done(true);
}

JinjaValue FilterReplace(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [old, with, count] = Bind(args, {"old", "new", "count"}, 2);
  const bool all = count == nullptr || count->IsNone();
  return ReplaceText(in.budget(), ToText(in.budget(), value).text(),
                     ToText(in.budget(), *old).text(), ToText(in.budget(), *with).text(),
                     all ? -1 : IntArgument(*count, "count"));
}

JinjaValue FilterCenter(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [width] = Bind(args, {"width"});
  return CenterText(in.budget(), ToText(in.budget(), value).text(), IntOf(width, 80, "width"), " ");
}

JinjaValue FilterIndent(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [width, first, blank] = Bind(args, {"width", "first", "blank"});
  RenderBudget& budget = in.budget();
  const JinjaText& text = TextArgument(value, "the value");
  const JinjaValue indention =
      width != nullptr && width->IsText()
          ? *width
          : JinjaMultiply(budget, JinjaValue::Own(" "), JinjaValue::Int(IntOf(width, 4, "width")));
  const bool blank_too = TruthOf(blank, false);
  TextWriter out(budget);
  const std::string with_end = text.bytes + "\n";
  const std::vector<TextSpan> lines = LineSpans(with_end, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    budget.Step();
    const bool empty = lines[i].begin == lines[i].end;
    if (i > 0) out.Own("\n");
    if (i == 0 ? TruthOf(first, false) : blank_too || !empty) out.Append(indention.text());
    out.Append(text, lines[i].begin, lines[i].end);
  }
  return out.Done(text.markup);
}

JinjaValue FilterTruncate(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [length_arg, kill, end_arg, leeway_arg] =
      Bind(args, {"length", "killwords", "end", "leeway"});
  const int64_t length = IntOf(length_arg, 255, "length");
  const JinjaValue end = end_arg != nullptr ? *end_arg : JinjaValue::Own("...");
  const auto end_length = static_cast<int64_t>(JinjaLength(end));
  const bool given = leeway_arg != nullptr && !leeway_arg->IsNone();
  const int64_t leeway = given ? IntArgument(*leeway_arg, "leeway") : 5;
  if (length < end_length) JinjaFail("truncate: the length is below that of the end");
  if (leeway < 0) JinjaFail("truncate: the leeway must not be negative");
  const JinjaText& text = TextArgument(value, "the value");
  if (static_cast<int64_t>(CountCharacters(text.bytes)) <= length + leeway) return value;
  size_t cut = ByteOfCharacter(text.bytes, static_cast<size_t>(length - end_length));
  if (!TruthOf(kill, false)) {
    const size_t space = std::string_view(text.bytes).substr(0, cut).rfind(' ');
    if (space != std::string::npos) cut = space;
  }
  TextWriter out(in.budget());
  out.Append(text, 0, cut);
  WriteStr(out, end);
  return out.Done();
}

bool IsWordCharacter(uint32_t code) {
  if (code < 0x80) {
    const char c = static_cast<char>(code);
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  return !IsPythonSpace(code) && !(code >= 0x2010 && code <= 0x206F) && code != 0x3001 &&
         code != 0x3002 && code >= 0xAA;
}

JinjaValue FilterWordCount(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  const JinjaValue text = ToText(in.budget(), value);
  TextReader reader(text.text());
  TextCharacter c;
  int64_t words = 0;
  bool inside = false;
  while (reader.Next(c)) {
    const bool word = IsWordCharacter(c.code);
    if (word && !inside) ++words;
    inside = word;
  }
  return JinjaValue::Int(words);
}

JinjaValue FilterFormat(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    JinjaFail("format: positional and keyword arguments cannot be mixed");
  }
  RenderBudget& budget = in.budget();
  const JinjaValue text = ToText(budget, value);
  if (args.named.empty()) {
    return PercentFormat(budget, text.text(),
                         MakeSequence(budget, JinjaSequence::Kind::kTuple, args.positional));
  }
  std::vector<std::pair<JinjaValue, JinjaValue>> entries;
  for (const auto& [name, item] : args.named) {
    entries.emplace_back(KeywordText(budget, name), item);
  }
  return PercentFormat(budget, text.text(), MakeMap(budget, std::move(entries)));
}

void UrlQuote(TextWriter& out, const JinjaText& text, bool query) {
  constexpr char kHex[] = "0123456789ABCDEF";
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) {
    for (const char byte : std::string_view(text.bytes).substr(c.begin, c.end - c.begin)) {
      const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                         (byte >= 'A' && byte <= 'Z') ||
                         std::string_view(query ? "_.-~" : "_.-~/").find(byte) != std::string::npos;
      const auto code = static_cast<uint8_t>(byte);
      const char escaped[] = {'%', kHex[code >> 4], kHex[code & 15]};
      if (query && byte == ' ') {
        out.Append("+", c.outside);
      } else {
        out.Append(plain ? std::string_view(&byte, 1) : std::string_view(escaped, 3), c.outside);
      }
    }
  }
}

JinjaValue FilterUrlEncode(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  RenderBudget& budget = in.budget();
  TextWriter out(budget);
  if (!value.IsMap()) {
    UrlQuote(out, ToText(budget, value).text(), false);
    return out.Done();
  }
  bool first = true;
  for (const auto& [key, item] : value.map().entries) {
    if (!first) out.Own("&");
    first = false;
    UrlQuote(out, ToText(budget, key).text(), true);
    out.Own("=");
    UrlQuote(out, ToText(budget, item).text(), true);
  }
  return out.Done();
}

// The separators argument: a pair of texts.
void ReadSeparators(const JinjaValue& value, JsonStyle& style) {
  if (!value.IsSequence() || value.sequence()->items.size() != 2) {
    JinjaFail("tojson: separators must be a pair of strings");
  }
  style.item_separator = value.sequence()->items[0];
  style.key_separator = value.sequence()->items[1];
  TextArgument(style.item_separator, "a separator");
  TextArgument(style.key_separator, "a separator");
}

JinjaValue FilterToJson(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [ascii, indent, separators, sort] =
      Bind(args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = TruthOf(ascii, false);
  style.sort_keys = TruthOf(sort, false);
  style.pretty = indent != nullptr && !indent->IsNone();
  if (style.pretty) {
    style.indent = indent->IsText()
                       ? *indent
                       : JinjaMultiply(in.budget(), JinjaValue::Own(" "),
                                       JinjaValue::Int(IntArgument(*indent, "indent")));
  }
  if (separators != nullptr && !separators->IsNone()) {
    ReadSeparators(*separators, style);
  } else {
    style.item_separator = JinjaValue::Own(style.pretty ? "," : ", ");
    style.key_separator = JinjaValue::Own(": ");
  }
  TextWriter out(in.budget());
  WriteJson(out, value, style);
  return out.Done();
}

JinjaValue FilterFromJson(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  return ParseJsonValue(in.budget(), TextArgument(value, "the value").bytes);
}

constexpr JinjaFilterEntry kTextFilters[] = {
    {"upper", FilterUpper},
    {"lower", FilterLower},
    {"capitalize", FilterCapitalize},
    {"title", FilterTitle},
    {"trim", FilterTrim},
    {"string", FilterString},
    {"safe", FilterSafe},
    {"escape", FilterEscape},
    {"e", FilterEscape},
    {"forceescape", FilterForceEscape},
    {"replace", FilterReplace},
    {"center", FilterCenter},
    {"indent", FilterIndent},
    {"truncate", FilterTruncate},
    {"wordcount", FilterWordCount},
    {"format", FilterFormat},
    {"urlencode", FilterUrlEncode},
    {"tojson", FilterToJson},
    {"from_json", FilterFromJson},
};

}  // namespace

std::span<const JinjaFilterEntry> TextFilters() {
  return kTextFilters;
}

}  // namespace tidemill

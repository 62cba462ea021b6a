// Everything that templates can use without defining it: filters, tests, methods and global
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "conversation/jinja/text_writer.h"
#include "conversation/jinja/value.h"
#include "conversation/jinja/value_ops.h"

namespace tidemill {

using JinjaFilterFn = JinjaValue (*)(JinjaInterpreter&, const JinjaValue& value,
                                     const JinjaArgs& args);
using JinjaTestFn = bool (*)(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args);
using JinjaGlobalFn = JinjaValue (*)(JinjaInterpreter&, const JinjaArgs& args);

struct JinjaFilterEntry {
  std::string_view name;
  JinjaFilterFn call;
};
struct JinjaTestEntry {
  std::string_view name;
  JinjaTestFn call;
};
struct JinjaGlobalEntry {
  std::string_view name;
  JinjaGlobalFn call;
};

// Null: there is none of that name.
JinjaFilterFn FindFilter(std::string_view name);
JinjaTestFn FindTest(std::string_view name);

// The tables, one a file.
std::span<const JinjaFilterEntry> TextFilters();
std::span<const JinjaFilterEntry> SequenceFilters();
std::span<const JinjaFilterEntry> NumberFilters();
std::span<const JinjaFilterEntry> SelectFilters();
std::span<const JinjaGlobalEntry> GlobalFunctions();

// A method of str, dict, list or tuple. Null: the type has none of that name that a template may
// call (what changes a list or dict is refused, as in jinja2's immutable sandbox).
JinjaFilterFn FindMethod(const JinjaValue& value, std::string_view name);
// Whether Python's type has the method but a template must not call it.
bool IsForbiddenMethod(const JinjaValue& value, std::string_view name);
std::span<const JinjaFilterEntry> TextMethods();
std::span<const JinjaFilterEntry> TextSplitMethods();

// Arguments by position or name. What is not given is null.
template <size_t N>
using BoundArgs = std::array<const JinjaValue*, N>;

// Throws for arguments that do not fit `names`; the first `required` must be given.
void BindArgs(const JinjaArgs& args, std::span<const std::string_view> names, size_t required,
              std::span<const JinjaValue*> out);

template <size_t N>
BoundArgs<N> Bind(const JinjaArgs& args, const std::string_view (&names)[N], size_t required = 0) {
  BoundArgs<N> out{};
  BindArgs(args, names, required, out);
  return out;
}

// The value of an optional argument.
inline bool TruthOf(const JinjaValue* value, bool otherwise) {
  return value != nullptr ? value->Truth() : otherwise;
}
inline int64_t IntOf(const JinjaValue* value, int64_t otherwise, std::string_view what) {
  return value != nullptr ? IntArgument(*value, what) : otherwise;
}
// A text argument; throws where it is another type.
const JinjaText& TextArgument(const JinjaValue& value, std::string_view what);

// A keyword as text. It may have come from a dict of the conversation (**kwargs), so it counts as
// from outside.
JinjaValue KeywordText(RenderBudget& budget, std::string_view name);

// Shared by filters and methods of the same name.
JinjaValue ReplaceText(RenderBudget& budget, const JinjaText& text, const JinjaText& old,
                       const JinjaText& with, int64_t count);
JinjaValue ChangeCase(RenderBudget& budget, const JinjaText& text, bool upper);
JinjaValue Capitalize(RenderBudget& budget, const JinjaText& text);
JinjaValue StripText(RenderBudget& budget, const JinjaValue& text, bool left, bool right,
                     const JinjaValue* chars);
JinjaValue CenterText(RenderBudget& budget, const JinjaText& text, int64_t width,
                      std::string_view fill);
JinjaValue JoinTexts(RenderBudget& budget, const JinjaText& separator,
                     std::span<const JinjaValue> items);
// The lines of a text as byte ranges, as str.splitlines cuts them.
std::vector<TextSpan> LineSpans(std::string_view bytes, bool keep_ends);
uint32_t UpperOf(uint32_t code);
uint32_t LowerOf(uint32_t code);

// "%d of %s" % values: Python's formatting with % and with str.format.
JinjaValue PercentFormat(RenderBudget& budget, const JinjaText& format, const JinjaValue& values);
JinjaValue BraceFormat(JinjaInterpreter& in, const JinjaText& format, const JinjaArgs& args);
// Python's format() of one number with a spec such as ".2f" or ",".
std::string FormatNumber(const JinjaValue& value, std::string_view spec);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;
  JinjaValue indent{};          // text of one level, where pretty
  JinjaValue item_separator{};  // text
  JinjaValue key_separator{};   // text
};
// As Python's json.dumps.
void WriteJson(TextWriter& out, const JinjaValue& value, const JsonStyle& style, int level = 0);

}  // namespace tidemill

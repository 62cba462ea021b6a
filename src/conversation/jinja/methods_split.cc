// Methods of str that cut a text into parts.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

using Spans = std::vector<TextSpan>;

Spans SplitAt(RenderBudget& budget, std::string_view bytes, std::string_view separator,
              int64_t times) {
  Spans parts;
  size_t begin = 0;
  while (times-- != 0) {
    const size_t found = bytes.find(separator, begin);
    if (found == std::string_view::npos) break;
    budget.Step();
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, bytes.size()});
  return parts;
}

Spans SplitFromRight(RenderBudget& budget, std::string_view bytes, std::string_view separator,
                     int64_t times) {
  Spans parts;
  size_t end = bytes.size();
  while (times-- != 0 && end >= separator.size()) {
    const size_t found = bytes.substr(0, end).rfind(separator);
    if (found == std::string_view::npos) break;
    budget.Step();
    parts.push_back({found + separator.size(), end});
    end = found;
  }
  parts.push_back({0, end});
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// At runs of white space; none at the ends makes an empty part.
Spans SplitAtSpace(RenderBudget& budget, std::string_view bytes, int64_t times) {
  Spans parts;
  size_t at = 0;
  while (true) {
    at += StripSpan(bytes.substr(at), true, false, nullptr).begin;
    if (at >= bytes.size()) return parts;
    budget.Step();
    if (times-- == 0) {
      parts.push_back({at, bytes.size()});
      return parts;
    }
    const size_t begin = at;
    size_t length = 0;
    while (at < bytes.size() && !IsPythonSpace(CharacterAt(bytes, at, length))) at += length;
    parts.push_back({begin, at});
  }
}

Spans SplitAtSpaceFromRight(RenderBudget& budget, std::string_view bytes, int64_t times) {
  Spans parts = SplitAtSpace(budget, bytes, -1);
  if (times < 0 || static_cast<int64_t>(parts.size()) <= times + 1) return parts;
  const size_t joined = parts.size() - static_cast<size_t>(times) - 1;
  const size_t begin = StripSpan(bytes, true, false, nullptr).begin;
  parts[joined].begin = begin;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(joined));
  return parts;
}

JinjaValue PartsOf(JinjaInterpreter& in, const JinjaValue& self, const Spans& parts,
                   JinjaSequence::Kind kind) {
  std::vector<JinjaValue> items;
  items.reserve(parts.size());
  for (const TextSpan& part : parts) {
    items.push_back(TextPart(in.budget(), self, part.begin, part.end));
  }
  return MakeSequence(in.budget(), kind, std::move(items));
}

JinjaValue SplitBy(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args,
                   bool right) {
  const auto [separator, times_arg] = Bind(args, {"sep", "maxsplit"});
  const int64_t times = IntOf(times_arg, -1, "maxsplit");
  const std::string_view bytes = self.text().bytes;
  Spans parts;
  if (separator == nullptr || separator->IsNone()) {
    parts = right ? SplitAtSpaceFromRight(in.budget(), bytes, times)
                  : SplitAtSpace(in.budget(), bytes, times);
  } else {
    const std::string& by = TextArgument(*separator, "the separator").bytes;
    if (by.empty()) JinjaFail("empty separator");
    parts = right ? SplitFromRight(in.budget(), bytes, by, times)
                  : SplitAt(in.budget(), bytes, by, times);
  }
  return PartsOf(in, self, parts, JinjaSequence::Kind::kList);
}

JinjaValue StrSplit(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return SplitBy(in, self, args, false);
}
JinjaValue StrRsplit(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return SplitBy(in, self, args, true);
}

JinjaValue StrSplitLines(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [keep] = Bind(args, {"keepends"});
  return PartsOf(in, self, LineSpans(self.text().bytes, TruthOf(keep, false)),
                 JinjaSequence::Kind::kList);
}

JinjaValue PartitionAt(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args,
                       bool right) {
  const auto [separator] = Bind(args, {"sep"}, 1);
  const std::string& by = TextArgument(*separator, "the separator").bytes;
  if (by.empty()) JinjaFail("empty separator");
  const std::string_view bytes = self.text().bytes;
  const size_t size = bytes.size();
  const size_t found = right ? bytes.rfind(by) : bytes.find(by);
  Spans parts;
  if (found != std::string_view::npos) {
    parts = {{0, found}, {found, found + by.size()}, {found + by.size(), size}};
  } else {
    parts = right ? Spans{{0, 0}, {0, 0}, {0, size}} : Spans{{0, size}, {size, size}, {size, size}};
  }
  return PartsOf(in, self, parts, JinjaSequence::Kind::kTuple);
}

JinjaValue StrPartition(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return PartitionAt(in, self, args, false);
}
JinjaValue StrRpartition(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  return PartitionAt(in, self, args, true);
}

JinjaValue StrRemovePrefix(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [prefix] = Bind(args, {"prefix"}, 1);
  const std::string& bytes = TextArgument(*prefix, "the prefix").bytes;
  const std::string& text = self.text().bytes;
  return TextPart(in.budget(), self, text.starts_with(bytes) ? bytes.size() : 0, text.size());
}
JinjaValue StrRemoveSuffix(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [suffix] = Bind(args, {"suffix"}, 1);
  const std::string& bytes = TextArgument(*suffix, "the suffix").bytes;
  const std::string& text = self.text().bytes;
  return TextPart(in.budget(), self, 0, text.size() - (text.ends_with(bytes) ? bytes.size() : 0));
}

constexpr JinjaFilterEntry kSplitMethods[] = {
    {"split", StrSplit},
    {"rsplit", StrRsplit},
    {"splitlines", StrSplitLines},
    {"partition", StrPartition},
    {"rpartition", StrRpartition},
    {"removeprefix", StrRemovePrefix},
    {"removesuffix", StrRemoveSuffix},
};

}  // namespace

std::span<const JinjaFilterEntry> TextSplitMethods() {
  return kSplitMethods;
}

}  // namespace tidemill

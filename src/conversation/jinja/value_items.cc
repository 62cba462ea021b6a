// Iterating, indexing and slicing.
#include <algorithm>

#include "conversation/jinja/text_writer.h"
#include "conversation/jinja/value_ops.h"

namespace tidemill {
namespace {

using ItemsKind = JinjaSequence::Kind;

std::vector<JinjaValue> Characters(RenderBudget& budget, const JinjaValue& text) {
  std::vector<JinjaValue> items;
  TextReader reader(text.text());
  TextCharacter c;
  while (reader.Next(c)) {
    budget.Step();
    TextWriter out(budget);
    out.Append(text.text(), c.begin, c.end);
    items.push_back(out.Done());
  }
  return items;
}

std::vector<JinjaValue> Keys(const JinjaMap& map) {
  std::vector<JinjaValue> items;
  items.reserve(map.entries.size());
  for (const auto& entry : map.entries) items.push_back(entry.first);
  return items;
}

// Python's slice.indices: which of `length` items are meant.
struct SliceRange {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

SliceRange ResolveSlice(const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step,
                        int64_t length) {
  SliceRange out;
  if (!step.IsNone()) out.step = IntArgument(step, "slice indices");
  if (out.step == 0) JinjaFail("slice step cannot be zero");
  const int64_t low = out.step < 0 ? -1 : 0;
  const int64_t high = out.step < 0 ? length - 1 : length;
  const auto resolve = [&](const JinjaValue& value, int64_t missing) {
    if (value.IsNone()) return missing;
    int64_t at = IntArgument(value, "slice indices");
    if (at < 0) at += length;
    return std::clamp(at, low, high);
  };
  out.start = resolve(start, out.step < 0 ? high : low);
  out.stop = resolve(stop, out.step < 0 ? low : high);
  return out;
}

template <typename F>
void ForSlice(const SliceRange& range, F&& f) {
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    f(static_cast<size_t>(i));
    if (range.step > range.stop - i && range.step > 0) break;  // no overflow
    if (range.step < range.stop - i && range.step < 0) break;
  }
}

JinjaValue SliceText(RenderBudget& budget, const JinjaValue& text, const SliceRange& range) {
  const std::string_view bytes = text.text().bytes;
  budget.Step(1 + bytes.size() / 64);
  if (range.step == 1) {
    if (range.start >= range.stop) return JinjaValue::Own("");
    const size_t begin = ByteOfCharacter(bytes, static_cast<size_t>(range.start));
    const size_t count = static_cast<size_t>(range.stop - range.start);
    return TextPart(budget, text, begin, begin + ByteOfCharacter(bytes.substr(begin), count));
  }
  std::vector<TextSpan> characters;
  MemoryLease lease(&budget);
  lease.Add(bytes.size() * sizeof(TextSpan));
  TextReader reader(text.text());
  TextCharacter c;
  while (reader.Next(c)) characters.push_back({c.begin, c.end});
  TextWriter out(budget);
  ForSlice(range, [&](size_t i) {
    budget.Step();
    out.Append(text.text(), characters[i].begin, characters[i].end);
  });
  return out.Done();
}

}  // namespace

JinjaValue::SequenceRef JinjaIterate(RenderBudget& budget, const JinjaValue& value) {
  if (value.IsSequence()) {
    const JinjaSequence& sequence = *value.sequence();
    if (sequence.kind != ItemsKind::kGenerator) return value.sequence();
    std::vector<JinjaValue> rest(
        sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.taken), sequence.items.end());
    sequence.taken = sequence.items.size();
    return MakeSequence(budget, ItemsKind::kList, std::move(rest)).sequence();
  }
  std::vector<JinjaValue> items;
  if (value.IsText()) {
    items = Characters(budget, value);
  } else if (value.IsMap()) {
    items = Keys(value.map());
  } else if (!value.IsUndefined()) {
    JinjaFail("'" + std::string(value.TypeName()) + "' object is not iterable");
  }
  return MakeSequence(budget, ItemsKind::kList, std::move(items)).sequence();
}

JinjaValue JinjaSlice(RenderBudget& budget, const JinjaValue& value, const JinjaValue& start,
                      const JinjaValue& stop, const JinjaValue& step) {
  if (value.IsUndefined()) FailUndefined(value);
  const bool items = value.IsSequence() && value.sequence()->kind != ItemsKind::kGenerator &&
                     value.sequence()->kind != ItemsKind::kView;
  if (!items && !value.IsText()) {
    JinjaFail("'" + std::string(value.TypeName()) + "' object cannot be sliced");
  }
  const SliceRange range =
      ResolveSlice(start, stop, step, static_cast<int64_t>(JinjaLength(value)));
  if (value.IsText()) return SliceText(budget, value, range);
  std::vector<JinjaValue> out;
  ForSlice(range, [&](size_t i) { out.push_back(value.sequence()->items[i]); });
  return MakeSequence(budget, value.sequence()->kind, std::move(out));
}

JinjaValue JinjaIndex(RenderBudget& budget, const JinjaValue& value, const JinjaValue& index,
                      bool& found) {
  found = true;
  if (value.IsMap()) {
    if (!index.IsText()) budget.Step(value.map().entries.size());
    if (const JinjaValue* item = value.map().Find(index)) return *item;
  } else if (index.IsInt() || index.IsBool()) {
    const bool items = value.IsSequence() && value.sequence()->kind != ItemsKind::kGenerator &&
                       value.sequence()->kind != ItemsKind::kView;
    if (items || value.IsText()) {
      const auto length = static_cast<JinjaInt>(JinjaLength(value));
      const JinjaInt at = index.integer() < 0 ? index.integer() + length : index.integer();
      if (at >= 0 && at < length && items) return value.sequence()->items[static_cast<size_t>(at)];
      if (at >= 0 && at < length) {
        const std::string_view bytes = value.text().bytes;
        budget.Step(bytes.size() / 64);
        const size_t begin = ByteOfCharacter(bytes, static_cast<size_t>(at));
        return TextPart(budget, value, begin, begin + ByteOfCharacter(bytes.substr(begin), 1));
      }
    }
  }
  found = false;
  return {};
}

}  // namespace tidemill

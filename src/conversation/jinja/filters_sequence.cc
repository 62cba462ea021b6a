// Filters of lists and dicts.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

using Items = std::vector<JinjaValue>;
using ListKind = JinjaSequence::Kind;

JinjaValue NewList(JinjaInterpreter& in, Items items) {
  return MakeSequence(in.budget(), ListKind::kList, std::move(items));
}
JinjaValue NewGenerator(JinjaInterpreter& in, Items items) {
  return MakeSequence(in.budget(), ListKind::kGenerator, std::move(items));
}

JinjaValue FilterLength(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  Bind(args, {""});
  return JinjaValue::Int(static_cast<int64_t>(JinjaLength(value)));
}

JinjaValue FilterList(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  Bind(args, {""});
  return NewList(in, JinjaIterate(in.budget(), value)->items);
}

JinjaValue FilterFirst(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  if (value.IsSequence(ListKind::kGenerator)) {
    const JinjaSequence& sequence = *value.sequence();
    if (sequence.taken < sequence.items.size()) return sequence.items[sequence.taken++];
    return JinjaValue::Missing("No first item, sequence was empty.");
  }
  if (value.IsText()) {
    bool found = false;
    const JinjaValue first = JinjaIndex(in.budget(), value, JinjaValue::Int(0), found);
    return found ? first : JinjaValue::Missing("No first item, sequence was empty.");
  }
  const auto items = JinjaIterate(in.budget(), value);
  if (!items->items.empty()) return items->items.front();
  return JinjaValue::Missing("No first item, sequence was empty.");
}

JinjaValue FilterLast(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  if (value.IsSequence(ListKind::kGenerator)) {
    JinjaFail("'generator' object is not reversible");
  }
  if (value.IsUndefined()) FailUndefined(value);
  if (value.IsText()) {
    bool found = false;
    const JinjaValue last = JinjaIndex(in.budget(), value, JinjaValue::Int(-1), found);
    return found ? last : JinjaValue::Missing("No last item, sequence was empty.");
  }
  const auto items = JinjaIterate(in.budget(), value);
  if (!items->items.empty()) return items->items.back();
  return JinjaValue::Missing("No last item, sequence was empty.");
}

JinjaValue FilterJoin(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [separator, attribute] = Bind(args, {"d", "attribute"});
  const auto items = JinjaIterate(in.budget(), value);
  const JinjaValue between =
      separator != nullptr ? ToText(in.budget(), *separator) : JinjaValue::Own("");
  if (attribute == nullptr || attribute->IsNone()) {
    return JoinTexts(in.budget(), between.text(), items->items);
  }
  Items picked;
  for (const JinjaValue& item : items->items) picked.push_back(in.GetPath(item, *attribute));
  return JoinTexts(in.budget(), between.text(), picked);
}

JinjaValue FilterReverse(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  if (value.IsText()) {
    return JinjaSlice(in.budget(), value, JinjaValue(), JinjaValue(), JinjaValue::Int(-1));
  }
  Items items = JinjaIterate(in.budget(), value)->items;
  std::reverse(items.begin(), items.end());
  const bool generator = value.IsSequence(ListKind::kGenerator);
  return generator ? NewList(in, std::move(items)) : NewGenerator(in, std::move(items));
}

JinjaValue Pair(JinjaInterpreter& in, const JinjaValue& key, const JinjaValue& value) {
  return MakeSequence(in.budget(), ListKind::kTuple, {key, value});
}

JinjaValue FilterItems(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  Items items;
  if (!value.IsUndefined()) {
    if (!value.IsMap()) JinjaFail("Can only get item pairs from a mapping.");
    for (const auto& [key, item] : value.map().entries) items.push_back(Pair(in, key, item));
  }
  return NewGenerator(in, std::move(items));
}

JinjaValue IgnoreCase(JinjaInterpreter& in, const JinjaValue& value, bool case_sensitive) {
  if (case_sensitive || !value.IsText()) return value;
  return ChangeCase(in.budget(), value.text(), false);
}

struct Keyed {
  JinjaValue key;
  JinjaValue item;
};

void SortKeyed(JinjaInterpreter& in, std::vector<Keyed>& items, bool reverse) {
  // Throwing out of a comparison leaves the vector valid; the sort stays stable when reversed.
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    in.budget().Step();
    return reverse ? JinjaCompare(b.key, a.key) < 0 : JinjaCompare(a.key, b.key) < 0;
  });
}

Items ItemsOf(std::vector<Keyed> keyed) {
  Items items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

// "a,b.c" names several attributes: a list of them is what to sort by.
JinjaValue SortKey(JinjaInterpreter& in, const JinjaValue& item, const JinjaValue* attribute,
                   bool case_sensitive) {
  Items keys;
  if (attribute == nullptr || !attribute->IsText()) {
    keys.push_back(
        IgnoreCase(in, attribute != nullptr ? in.GetPath(item, *attribute) : item, case_sensitive));
  } else {
    std::string_view rest = attribute->text().bytes;
    while (true) {
      const size_t comma = rest.find(',');
      const JinjaValue path = JinjaValue::Own(std::string(rest.substr(0, comma)));
      keys.push_back(IgnoreCase(in, in.GetPath(item, path), case_sensitive));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return NewList(in, std::move(keys));
}

JinjaValue FilterSort(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [reverse, sensitive, attribute] =
      Bind(args, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> items;
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    items.push_back({SortKey(in, item, attribute, TruthOf(sensitive, false)), item});
  }
  SortKeyed(in, items, TruthOf(reverse, false));
  return NewList(in, ItemsOf(std::move(items)));
}

JinjaValue FilterDictSort(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [sensitive, by, reverse] = Bind(args, {"case_sensitive", "by", "reverse"});
  const std::string key = by != nullptr ? TextArgument(*by, "by").bytes : "key";
  if (key != "key" && key != "value") {
    JinjaFail("You can only sort by either \"key\" or \"value\"");
  }
  if (value.IsUndefined()) FailUndefined(value);
  if (!value.IsMap()) JinjaFail("dictsort needs a mapping");
  std::vector<Keyed> items;
  for (const auto& [name, item] : value.map().entries) {
    items.push_back({IgnoreCase(in, key == "key" ? name : item, TruthOf(sensitive, false)),
                     Pair(in, name, item)});
  }
  SortKeyed(in, items, TruthOf(reverse, false));
  return NewList(in, ItemsOf(std::move(items)));
}

JinjaValue FilterUnique(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [sensitive, attribute] = Bind(args, {"case_sensitive", "attribute"});
  Items items;
  Items seen;
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    JinjaValue key = IgnoreCase(in, attribute != nullptr ? in.GetPath(item, *attribute) : item,
                                TruthOf(sensitive, false));
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const JinjaValue& other) {
      return JinjaEquals(other, key, &in.budget());
    });
    if (known) continue;
    seen.push_back(std::move(key));
    items.push_back(item);
  }
  return NewGenerator(in, std::move(items));
}

JinjaValue Extreme(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args, int sign) {
  const auto [sensitive, attribute] = Bind(args, {"case_sensitive", "attribute"});
  const auto items = JinjaIterate(in.budget(), value);
  if (items->items.empty()) {
    return JinjaValue::Missing("No aggregated item, sequence was empty.");
  }
  Keyed best;
  for (size_t i = 0; i < items->items.size(); ++i) {
    const JinjaValue& item = items->items[i];
    JinjaValue key = IgnoreCase(in, attribute != nullptr ? in.GetPath(item, *attribute) : item,
                                TruthOf(sensitive, false));
    if (i == 0 || JinjaCompare(key, best.key) * sign > 0) best = {std::move(key), item};
  }
  return best.item;
}

JinjaValue FilterMin(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Extreme(in, value, args, -1);
}
JinjaValue FilterMax(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Extreme(in, value, args, 1);
}

JinjaValue FilterSum(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [attribute, start] = Bind(args, {"attribute", "start"});
  JinjaValue total = start != nullptr ? *start : JinjaValue::Int(0);
  if (total.IsText()) JinjaFail("sum() can't sum strings");
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    total =
        JinjaAdd(in.budget(), total, attribute != nullptr ? in.GetPath(item, *attribute) : item);
  }
  return total;
}

JinjaValue FilterBatch(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [count, fill] = Bind(args, {"linecount", "fill_with"}, 1);
  const int64_t size = std::max<int64_t>(IntArgument(*count, "linecount"), 1);
  Items batches;
  Items batch;
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(NewList(in, std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (fill != nullptr && !fill->IsNone() && static_cast<int64_t>(batch.size()) < size) {
      in.budget().Step();
      batch.push_back(*fill);
    }
    batches.push_back(NewList(in, std::move(batch)));
  }
  return NewGenerator(in, std::move(batches));
}

JinjaValue FilterSlice(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [count, fill] = Bind(args, {"slices", "fill_with"}, 1);
  const int64_t slices = IntArgument(*count, "slices");
  if (slices == 0) JinjaFail("integer division or modulo by zero");
  const auto items = JinjaIterate(in.budget(), value);
  const auto length = static_cast<int64_t>(items->items.size());
  Items out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    in.budget().Step();
    const int64_t size = length / slices + (i < length % slices ? 1 : 0);
    Items part(items->items.begin() + at, items->items.begin() + at + size);
    at += size;
    if (fill != nullptr && !fill->IsNone() && i >= length % slices) part.push_back(*fill);
    out.push_back(NewList(in, std::move(part)));
  }
  return NewGenerator(in, std::move(out));
}

JinjaValue FilterGroupBy(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [attribute, otherwise, sensitive] =
      Bind(args, {"attribute", "default", "case_sensitive"}, 1);
  const JinjaValue* missing = otherwise != nullptr && !otherwise->IsNone() ? otherwise : nullptr;
  std::vector<Keyed> items;
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    items.push_back(
        {IgnoreCase(in, in.GetPath(item, *attribute, missing), TruthOf(sensitive, false)), item});
  }
  SortKeyed(in, items, false);
  Items groups;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin;
    Items members;
    while (end < items.size() && JinjaEquals(items[end].key, items[begin].key)) {
      members.push_back(items[end++].item);
    }
    JinjaValue key = in.GetPath(items[begin].item, *attribute, missing);
    groups.push_back(MakeSequence(in.budget(), ListKind::kGroup,
                                  {std::move(key), NewList(in, std::move(members))}));
    begin = end;
  }
  return NewList(in, std::move(groups));
}

constexpr JinjaFilterEntry kSequenceFilters[] = {
    {"length", FilterLength},     {"count", FilterLength},    {"list", FilterList},
    {"first", FilterFirst},       {"last", FilterLast},       {"join", FilterJoin},
    {"reverse", FilterReverse},   {"items", FilterItems},     {"sort", FilterSort},
    {"dictsort", FilterDictSort}, {"unique", FilterUnique},   {"min", FilterMin},
    {"max", FilterMax},           {"sum", FilterSum},         {"batch", FilterBatch},
    {"slice", FilterSlice},       {"groupby", FilterGroupBy},
};

}  // namespace

std::span<const JinjaFilterEntry> SequenceFilters() {
  return kSequenceFilters;
}

}  // namespace tidemill

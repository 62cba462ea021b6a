// Methods of dicts, lists and tuples, and the tables of all methods.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

using MethodKind = JinjaSequence::Kind;

JinjaValue DictGet(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [key, otherwise] = Bind(args, {"key", "default"}, 1);
  if (!key->IsText()) in.budget().Step(self.map().entries.size());
  const JinjaValue* found = self.map().Find(*key);
  if (found != nullptr) return *found;
  return otherwise != nullptr ? *otherwise : JinjaValue();
}

JinjaValue DictItems(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  std::vector<JinjaValue> items;
  items.reserve(self.map().entries.size());
  for (const auto& [key, value] : self.map().entries) {
    items.push_back(MakeSequence(in.budget(), MethodKind::kTuple, {key, value}));
  }
  return MakeSequence(in.budget(), MethodKind::kView, std::move(items));
}

JinjaValue DictKeys(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  return MakeSequence(in.budget(), MethodKind::kView, JinjaIterate(in.budget(), self)->items);
}

JinjaValue DictValues(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs&) {
  std::vector<JinjaValue> items;
  for (const auto& entry : self.map().entries) items.push_back(entry.second);
  return MakeSequence(in.budget(), MethodKind::kView, std::move(items));
}

JinjaValue CopyOf(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return self;  // nothing can change either of them
}

JinjaValue ListIndex(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [item] = Bind(args, {"value"}, 1);
  const auto& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (JinjaEquals(items[i], *item, &in.budget())) {
      return JinjaValue::Int(static_cast<int64_t>(i));
    }
  }
  JinjaFail("the value is not in the list");
}

JinjaValue ListCount(JinjaInterpreter& in, const JinjaValue& self, const JinjaArgs& args) {
  const auto [item] = Bind(args, {"value"}, 1);
  const auto& items = self.sequence()->items;
  return JinjaValue::Int(std::count_if(items.begin(), items.end(), [&](const JinjaValue& other) {
    return JinjaEquals(other, *item, &in.budget());
  }));
}

JinjaValue FloatIsInteger(JinjaInterpreter&, const JinjaValue& self, const JinjaArgs&) {
  return JinjaValue::Bool(self.real() == static_cast<double>(static_cast<int64_t>(self.real())));
}

constexpr JinjaFilterEntry kDictMethods[] = {
    {"get", DictGet},       {"items", DictItems}, {"keys", DictKeys},
    {"values", DictValues}, {"copy", CopyOf},
};
constexpr JinjaFilterEntry kListMethods[] = {
    {"index", ListIndex},
    {"count", ListCount},
    {"copy", CopyOf},
};
constexpr JinjaFilterEntry kFloatMethods[] = {{"is_integer", FloatIsInteger}};

constexpr std::string_view kDictForbidden[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListForbidden[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};

JinjaFilterFn FindIn(std::span<const JinjaFilterEntry> table, std::string_view name) {
  for (const JinjaFilterEntry& entry : table) {
    if (entry.name == name) return entry.call;
  }
  return nullptr;
}

}  // namespace

JinjaFilterFn FindMethod(const JinjaValue& value, std::string_view name) {
  if (value.IsText()) {
    const JinjaFilterFn method = FindIn(TextMethods(), name);
    return method != nullptr ? method : FindIn(TextSplitMethods(), name);
  }
  if (value.IsMap()) return FindIn(kDictMethods, name);
  if (value.IsFloat()) return FindIn(kFloatMethods, name);
  if (!value.IsSequence()) return nullptr;
  const MethodKind kind = value.sequence()->kind;
  if (kind == MethodKind::kGenerator || kind == MethodKind::kView) return nullptr;
  if (name == "copy" && kind != MethodKind::kList) return nullptr;
  return FindIn(kListMethods, name);
}

bool IsForbiddenMethod(const JinjaValue& value, std::string_view name) {
  if (value.IsMap()) {
    return std::find(std::begin(kDictForbidden), std::end(kDictForbidden), name) !=
           std::end(kDictForbidden);
  }
  return value.IsSequence(MethodKind::kList) &&
         std::find(std::begin(kListForbidden), std::end(kListForbidden), name) !=
             std::end(kListForbidden);
}

}  // namespace tidemill

#include "conversation/jinja/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conversation/jinja/text_writer.h"
#include "conversation/jinja/value_ops.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr int kValueDepthMax = 200;
constexpr size_t kIndexedEntries = 16;

int CheckedDepth(int deepest) {
  if (deepest >= kValueDepthMax) {
    JinjaFail("a value nests deeper than " + std::to_string(kValueDepthMax) + " levels");
  }
  return deepest + 1;
}

// Whether Python could use it as a key.
void CheckKey(const JinjaValue& key) {
  const bool list = key.IsSequence(JinjaSequence::Kind::kList);
  if (key.IsMap() || list) {
    JinjaFail("unhashable type: '" + std::string(key.TypeName()) + "'");
  }
}

void IndexEntries(JinjaMap& map) {
  if (map.entries.size() < kIndexedEntries) return;
  for (size_t i = 0; i < map.entries.size(); ++i) {
    const JinjaValue& key = map.entries[i].first;
    if (key.IsText()) map.index.emplace(key.text().bytes, i);
  }
}

}  // namespace

const JinjaValue* JinjaMap::Find(std::string_view key) const {
  if (!index.empty()) {
    const auto it = index.find(key);
    return it == index.end() ? nullptr : &entries[it->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (name.IsText() && name.text().bytes == key) return &value;
  }
  return nullptr;
}

const JinjaValue* JinjaMap::Find(const JinjaValue& key) const {
  if (key.IsText()) return Find(key.text().bytes);
  for (const auto& [name, value] : entries) {
    if (JinjaEquals(name, key)) return &value;
  }
  return nullptr;
}

void JinjaNamespace::Set(std::string_view name, JinjaValue value) {
  for (auto& [field, old] : fields) {
    if (field == name) {
      old = std::move(value);
      return;
    }
  }
  lease.Add(sizeof(fields[0]) + name.size());
  fields.emplace_back(name, std::move(value));
}

const JinjaValue* JinjaNamespace::Find(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

JinjaValue JinjaValue::Own(std::string text) {
  auto body = std::make_shared<JinjaText>();
  body->bytes = std::move(text);
  return JinjaValue(TextRef(std::move(body)));
}

JinjaValue JinjaValue::Missing(std::string why) {
  return JinjaValue(Undefined{std::make_shared<const std::string>(std::move(why))});
}

bool JinjaValue::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsBool() || IsInt()) return integer() != 0;
  if (IsFloat()) return real() != 0;
  if (IsText()) return !text().bytes.empty();
  if (IsMap()) return !map().entries.empty();
  if (IsSequence()) {
    return sequence()->kind == JinjaSequence::Kind::kGenerator || !sequence()->items.empty();
  }
  return true;
}

std::string_view JinjaValue::TypeName() const {
  if (IsSequence()) {
    switch (sequence()->kind) {
      case JinjaSequence::Kind::kList:
        return "list";
      case JinjaSequence::Kind::kTuple:
      case JinjaSequence::Kind::kGroup:
        return "tuple";
      case JinjaSequence::Kind::kRange:
        return "range";
      case JinjaSequence::Kind::kView:
        return "dict_view";
      case JinjaSequence::Kind::kGenerator:
        return "generator";
    }
  }
  constexpr std::string_view kNames[] = {"NoneType",  "Undefined", "bool",       "int",
                                         "float",     "str",       "",           "dict",
                                         "Namespace", "function",  "LoopContext"};
  return kNames[data_.index()];
}

int JinjaValue::Depth() const {
  if (IsSequence()) return sequence()->depth;
  return IsMap() ? map().depth : 0;
}

JinjaValue MakeSequence(RenderBudget& budget, JinjaSequence::Kind kind,
                        std::vector<JinjaValue> items) {
  budget.Step(1 + items.size() / 8);
  MemoryLease lease(&budget);
  lease.Add(sizeof(JinjaSequence) + items.capacity() * sizeof(JinjaValue));
  int deepest = 0;
  for (const JinjaValue& item : items) deepest = std::max(deepest, item.Depth());
  return JinjaValue(JinjaValue::SequenceRef(std::make_shared<JinjaSequence>(
      JinjaSequence{kind, std::move(items), CheckedDepth(deepest), 0, std::move(lease)})));
}

JinjaValue MakeMap(RenderBudget& budget, std::vector<std::pair<JinjaValue, JinjaValue>> entries) {
  budget.Step(1 + entries.size() / 8);
  MemoryLease lease(&budget);
  lease.Add(sizeof(JinjaMap) + entries.capacity() * 2 * sizeof(entries[0]));
  auto map = std::make_shared<JinjaMap>(JinjaMap{{}, {}, 1, std::move(lease)});
  std::unordered_map<std::string_view, size_t> seen;
  std::vector<size_t> others;  // entries whose keys are no text
  int deepest = 0;
  for (auto& [key, value] : entries) {
    CheckKey(key);
    deepest = std::max({deepest, key.Depth(), value.Depth()});
    size_t at = map->entries.size();
    if (key.IsText()) {
      at = seen.emplace(key.text().bytes, at).first->second;
    } else {
      budget.Step(1 + others.size() / 8);
      const auto same = std::find_if(others.begin(), others.end(), [&](size_t i) {
        return JinjaEquals(map->entries[i].first, key);
      });
      if (same != others.end())
        at = *same;
      else
        others.push_back(at);
    }
    if (at < map->entries.size())
      map->entries[at].second = std::move(value);
    else
      map->entries.emplace_back(std::move(key), std::move(value));
  }
  map->depth = CheckedDepth(deepest);
  IndexEntries(*map);
  return JinjaValue(JinjaValue::MapRef(std::move(map)));
}

namespace {

JinjaValue OutsideText(RenderBudget& budget, const std::string& bytes) {
  TextWriter out(budget);
  out.Append(IsUtf8(bytes) ? bytes : ToUtf8(bytes), true);
  return out.Done();
}

}  // namespace

JinjaValue ValueOfJson(RenderBudget& budget, const nlohmann::ordered_json& json, int depth) {
  if (depth >= kValueDepthMax) CheckedDepth(depth);
  budget.Step();
  if (json.is_boolean()) return JinjaValue::Bool(json.get<bool>());
  if (json.is_number_unsigned()) return JinjaValue::Int(json.get<uint64_t>());
  if (json.is_number_integer()) return JinjaValue::Int(json.get<int64_t>());
  if (json.is_number_float()) return JinjaValue(json.get<double>());
  if (json.is_string()) return OutsideText(budget, json.get_ref<const std::string&>());
  if (json.is_array()) {
    std::vector<JinjaValue> items;
    items.reserve(json.size());
    for (const auto& item : json) items.push_back(ValueOfJson(budget, item, depth + 1));
    return MakeSequence(budget, JinjaSequence::Kind::kList, std::move(items));
  }
  if (json.is_object()) {
    std::vector<std::pair<JinjaValue, JinjaValue>> entries;
    entries.reserve(json.size());
    for (const auto& [key, value] : json.items()) {
      JinjaValue name = OutsideText(budget, key);
      entries.emplace_back(std::move(name), ValueOfJson(budget, value, depth + 1));
    }
    return MakeMap(budget, std::move(entries));
  }
  return {};
}

JinjaValue ParseJsonValue(RenderBudget& budget, std::string_view text) {
  budget.Step(1 + text.size() / 16);
  const auto json = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) JinjaFail("from_json: the text is not JSON");
  return ValueOfJson(budget, json);
}

}  // namespace tidemill

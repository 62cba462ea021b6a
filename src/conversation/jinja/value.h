// The values of a template, with the semantics Python gives them. All but namespaces and
// generators are immutable; copies share what they hold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "conversation/jinja/budget.h"
#include "model/text_span.h"

namespace tidemill {

class JinjaInterpreter;
class JinjaValue;
struct JinjaLoop;

using JinjaInt = __int128;  // holds every integer of a JSON file; overflow is an error

// Text that knows which of its bytes came from the conversation.
struct JinjaText {
  std::string bytes;              // valid UTF-8
  std::vector<TextSpan> outside;  // sorted, disjoint, not touching
  bool markup = false;            // marked by |safe: what is joined to it is escaped
  MemoryLease lease;
};

struct JinjaSequence {
  enum class Kind : uint8_t { kList, kTuple, kRange, kView, kGroup, kGenerator };
  Kind kind = Kind::kList;
  std::vector<JinjaValue> items;
  int depth = 1;             // of nesting
  mutable size_t taken = 0;  // of a generator: how many items were given out
  MemoryLease lease;
};

// A dict: keys in the order they came.
struct JinjaMap {
  std::vector<std::pair<JinjaValue, JinjaValue>> entries;
  std::unordered_map<std::string_view, size_t> index;  // of text keys, where there are many
  int depth = 1;
  MemoryLease lease;

  // Null: no such key.
  const JinjaValue* Find(const JinjaValue& key) const;
  const JinjaValue* Find(std::string_view key) const;
};

struct JinjaNamespace {
  std::vector<std::pair<std::string, JinjaValue>> fields;
  MemoryLease lease;
  // Replaces or adds.
  void Set(std::string_view name, JinjaValue value);
  const JinjaValue* Find(std::string_view name) const;
};

// The arguments of a call.
struct JinjaArgs {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

struct JinjaCallable {
  std::string name;
  std::function<JinjaValue(JinjaInterpreter&, const JinjaArgs&)> call;
};

class JinjaValue {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> why;  // what using it says
  };
  struct None {};
  using TextRef = std::shared_ptr<const JinjaText>;
  using SequenceRef = std::shared_ptr<const JinjaSequence>;
  using MapRef = std::shared_ptr<const JinjaMap>;
  using NamespaceRef = std::shared_ptr<JinjaNamespace>;
  using CallableRef = std::shared_ptr<const JinjaCallable>;
  using LoopRef = std::shared_ptr<JinjaLoop>;

  JinjaValue() : data_(None{}) {}
  template <typename T>
  explicit JinjaValue(T data) : data_(std::move(data)) {}

  // Text of the template itself.
  static JinjaValue Own(std::string text);
  static JinjaValue Int(JinjaInt value) { return JinjaValue(value); }
  static JinjaValue Bool(bool value) { return JinjaValue(value); }
  static JinjaValue Missing(std::string why);

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsInt() const { return std::holds_alternative<JinjaInt>(data_); }
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool IsNumber() const { return IsBool() || IsInt() || IsFloat(); }
  bool IsText() const { return std::holds_alternative<TextRef>(data_); }
  bool IsSequence() const { return std::holds_alternative<SequenceRef>(data_); }
  bool IsMap() const { return std::holds_alternative<MapRef>(data_); }
  bool IsSequence(JinjaSequence::Kind kind) const {
    return IsSequence() && sequence()->kind == kind;
  }

  // Only of the type asked for.
  const JinjaText& text() const { return *std::get<TextRef>(data_); }
  const SequenceRef& sequence() const { return std::get<SequenceRef>(data_); }
  const JinjaMap& map() const { return *std::get<MapRef>(data_); }
  double real() const { return std::get<double>(data_); }
  const std::string& why() const { return *std::get<Undefined>(data_).why; }
  // Of an int or a bool.
  JinjaInt integer() const {
    return IsBool() ? JinjaInt{std::get<bool>(data_)} : std::get<JinjaInt>(data_);
  }
  // Null: another type.
  const NamespaceRef* name_space() const { return std::get_if<NamespaceRef>(&data_); }
  const CallableRef* callable() const { return std::get_if<CallableRef>(&data_); }
  const LoopRef* loop() const { return std::get_if<LoopRef>(&data_); }

  bool Truth() const;
  // "str", "dict": the name Python has for the type.
  std::string_view TypeName() const;
  // Nesting of lists and dicts; 0 for anything else.
  int Depth() const;

 private:
  std::variant<None, Undefined, bool, JinjaInt, double, TextRef, SequenceRef, MapRef, NamespaceRef,
               CallableRef, LoopRef>
      data_;
};

// Makes sequences and dicts; throws where they would nest too deep or hold too much.
JinjaValue MakeSequence(RenderBudget& budget, JinjaSequence::Kind kind,
                        std::vector<JinjaValue> items);
// A later entry with the same key replaces the value of the earlier one.
JinjaValue MakeMap(RenderBudget& budget, std::vector<std::pair<JinjaValue, JinjaValue>> entries);
// Strings are marked as coming from outside. `json` may be hostile.
JinjaValue ValueOfJson(RenderBudget& budget, const nlohmann::ordered_json& json, int depth = 0);
// Python's json.loads; strings are marked as coming from outside.
JinjaValue ParseJsonValue(RenderBudget& budget, std::string_view text);

}  // namespace tidemill

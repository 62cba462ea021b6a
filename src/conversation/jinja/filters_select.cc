// Filters that apply filters, tests or attributes to items, and `default`.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

JinjaValue Generated(JinjaInterpreter& in, std::vector<JinjaValue> items) {
  return MakeSequence(in.budget(), JinjaSequence::Kind::kGenerator, std::move(items));
}

JinjaValue FilterMap(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  std::vector<JinjaValue> out;
  const auto items = JinjaIterate(in.budget(), value);
  if (args.positional.empty()) {
    const auto [attribute, otherwise] = Bind(args, {"attribute", "default"});
    if (attribute == nullptr) JinjaFail("map requires a filter argument");
    const JinjaValue* missing = otherwise != nullptr && !otherwise->IsNone() ? otherwise : nullptr;
    for (const JinjaValue& item : items->items) {
      out.push_back(in.GetPath(item, *attribute, missing));
    }
    return Generated(in, std::move(out));
  }
  const std::string& name = TextArgument(args.positional[0], "the filter's name").bytes;
  JinjaArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  for (const JinjaValue& item : items->items) out.push_back(in.CallFilter(name, item, rest));
  return Generated(in, std::move(out));
}

JinjaValue Select(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args,
                  bool by_attribute, bool keep) {
  std::vector<JinjaValue> out;
  if (!value.Truth()) return Generated(in, {});
  const size_t offset = by_attribute ? 1 : 0;
  if (args.positional.size() < offset) JinjaFail("Missing parameter for attribute name");
  const bool has_test = args.positional.size() > offset;
  JinjaArgs rest{{}, args.named};
  std::string name;
  if (has_test) {
    name = TextArgument(args.positional[offset], "the test's name").bytes;
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(offset) + 1,
                           args.positional.end());
  }
  const auto source = JinjaIterate(in.budget(), value);
  for (const JinjaValue& item : source->items) {
    const JinjaValue tested = by_attribute ? in.GetPath(item, args.positional[0]) : item;
    const bool passed = has_test ? in.CallTest(name, tested, rest) : tested.Truth();
    if (passed == keep) out.push_back(item);
  }
  return Generated(in, std::move(out));
}

JinjaValue FilterSelect(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Select(in, value, args, false, true);
}
JinjaValue FilterReject(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Select(in, value, args, false, false);
}
JinjaValue FilterSelectAttr(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Select(in, value, args, true, true);
}
JinjaValue FilterRejectAttr(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return Select(in, value, args, true, false);
}

JinjaValue FilterDefault(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  const auto [otherwise, boolean] = Bind(args, {"default_value", "boolean"});
  if (!value.IsUndefined() && (!TruthOf(boolean, false) || value.Truth())) return value;
  return otherwise != nullptr ? *otherwise : JinjaValue::Own("");
}

JinjaValue FilterAttr(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  const auto [name] = Bind(args, {"name"}, 1);
  const std::string& attribute = TextArgument(*name, "the name").bytes;
  // Unlike the dot, it looks at attributes only, never at items.
  if (value.IsMap() && FindMethod(value, attribute) == nullptr) {
    return JinjaValue::Missing("'dict object' has no attribute '" + attribute + "'");
  }
  return in.GetAttr(value, attribute);
}

constexpr JinjaFilterEntry kSelectFilters[] = {
    {"map", FilterMap},
    {"select", FilterSelect},
    {"reject", FilterReject},
    {"selectattr", FilterSelectAttr},
    {"rejectattr", FilterRejectAttr},
    {"default", FilterDefault},
    {"d", FilterDefault},
    {"attr", FilterAttr},
};

}  // namespace

std::span<const JinjaFilterEntry> SelectFilters() {
  return kSelectFilters;
}

}  // namespace tidemill

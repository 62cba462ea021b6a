// Attributes, items, loop variables and macros.
#include <algorithm>
#include <charconv>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

JinjaValue BoundMethod(const JinjaValue& self, std::string_view name, JinjaFilterFn method) {
  return JinjaValue(JinjaValue::CallableRef(std::make_shared<JinjaCallable>(
      JinjaCallable{std::string(name), [self, method](JinjaInterpreter& in, const JinjaArgs& args) {
                      return method(in, self, args);
                    }})));
}

JinjaValue NativeFunction(std::string name,
                          std::function<JinjaValue(JinjaInterpreter&, const JinjaArgs&)> call) {
  return JinjaValue(JinjaValue::CallableRef(
      std::make_shared<JinjaCallable>(JinjaCallable{std::move(name), std::move(call)})));
}

JinjaValue LoopCycle(const JinjaLoop& loop, const JinjaArgs& args) {
  if (args.positional.empty()) JinjaFail("no items for cycling given");
  return args.positional[loop.index % args.positional.size()];
}

JinjaValue LoopChanged(JinjaLoop& loop, const JinjaArgs& args) {
  const bool same =
      loop.has_changed &&
      std::equal(args.positional.begin(), args.positional.end(), loop.last_changed.begin(),
                 loop.last_changed.end(),
                 [](const JinjaValue& a, const JinjaValue& b) { return JinjaEquals(a, b); });
  loop.last_changed = args.positional;
  loop.has_changed = true;
  return JinjaValue::Bool(!same);
}

}  // namespace

JinjaValue JinjaInterpreter::Lacks(const JinjaValue& value, const JinjaValue& name) {
  const std::string subject =
      value.IsNone() ? "'None'" : "'" + std::string(value.TypeName()) + " object'";
  if (name.IsText()) {
    return JinjaValue::Missing(subject + " has no attribute '" + name.text().bytes.substr(0, 100) +
                               "'");
  }
  return JinjaValue::Missing(subject + " has no such element");
}

JinjaValue JinjaInterpreter::GetAttr(const JinjaValue& value, std::string_view name) {
  if (value.IsUndefined()) FailUndefined(value);
  if (const JinjaFilterFn method = FindMethod(value, name)) return BoundMethod(value, name, method);
  if (IsForbiddenMethod(value, name)) {
    return JinjaValue::Missing("access to attribute '" + std::string(name) + "' of '" +
                               std::string(value.TypeName()) + "' object is unsafe");
  }
  if (const auto* loop = value.loop()) return LoopAttr(*loop, name);
  const JinjaValue* found = nullptr;
  if (value.IsMap()) {
    found = value.map().Find(name);
  } else if (const auto* space = value.name_space()) {
    found = (*space)->Find(name);
  } else if (value.IsSequence(JinjaSequence::Kind::kGroup)) {
    if (name == "grouper") found = &value.sequence()->items[0];
    if (name == "list") found = &value.sequence()->items[1];
  } else if (const auto* function = value.callable(); function != nullptr && name == "name") {
    return JinjaValue::Own((*function)->name);
  }
  return found != nullptr ? *found : Lacks(value, JinjaValue::Own(std::string(name)));
}

JinjaValue JinjaInterpreter::GetItem(const JinjaValue& value, const JinjaValue& index) {
  if (value.IsUndefined()) FailUndefined(value);
  bool found = false;
  JinjaValue item = JinjaIndex(budget_, value, index, found);
  if (found) return item;
  if (!index.IsText()) return Lacks(value, index);
  return GetAttr(value, index.text().bytes);
}

JinjaValue JinjaInterpreter::GetPath(const JinjaValue& value, const JinjaValue& path,
                                     const JinjaValue* otherwise) {
  if (path.IsNone()) return value;
  if (!path.IsText()) return GetItem(value, path);
  JinjaValue item = value;
  std::string_view rest = path.text().bytes;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool digits = error == std::errc() && end == part.data() + part.size() && number >= 0;
    item = GetItem(item, digits ? JinjaValue::Int(number) : JinjaValue::Own(std::string(part)));
    if (otherwise != nullptr && item.IsUndefined()) item = *otherwise;
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

JinjaValue JinjaInterpreter::LoopAttr(const JinjaValue::LoopRef& loop, std::string_view name) {
  const auto& items = loop->items->items;
  const auto integer = [](size_t value) { return JinjaValue::Int(static_cast<int64_t>(value)); };
  if (name == "index") return integer(loop->index + 1);
  if (name == "index0") return integer(loop->index);
  if (name == "first") return JinjaValue::Bool(loop->index == 0);
  if (name == "last") return JinjaValue::Bool(loop->index + 1 == items.size());
  if (name == "length") return integer(items.size());
  if (name == "revindex") return integer(items.size() - loop->index);
  if (name == "revindex0") return integer(items.size() - loop->index - 1);
  if (name == "depth") return JinjaValue::Int(loop->depth);
  if (name == "depth0") return JinjaValue::Int(loop->depth - 1);
  if (name == "previtem") {
    if (loop->index > 0) return items[loop->index - 1];
    return JinjaValue::Missing("there is no previous item");
  }
  if (name == "nextitem") {
    if (loop->index + 1 < items.size()) return items[loop->index + 1];
    return JinjaValue::Missing("there is no next item");
  }
  if (name == "cycle") {
    return NativeFunction("cycle", [loop](JinjaInterpreter&, const JinjaArgs& args) {
      return LoopCycle(*loop, args);
    });
  }
  if (name == "changed") {
    return NativeFunction("changed", [loop](JinjaInterpreter&, const JinjaArgs& args) {
      return LoopChanged(*loop, args);
    });
  }
  return Lacks(JinjaValue(loop), JinjaValue::Own(std::string(name)));
}

JinjaValue JinjaInterpreter::MakeMacro(const JinjaStmt& stmt, const JinjaFramePtr& frame) {
  if (captured_.empty() || captured_.back() != frame) captured_.push_back(frame);
  return NativeFunction(stmt.text, [&stmt, frame](JinjaInterpreter& in, const JinjaArgs& args) {
    return in.CallMacro(stmt, frame, args);
  });
}

JinjaValue JinjaInterpreter::CallMacro(const JinjaStmt& stmt, const JinjaFramePtr& frame,
                                       const JinjaArgs& args) {
  const DepthGuard depth(budget_);
  const JinjaFramePtr inner = NewFrame(frame);
  BindMacro(stmt, inner, args);
  return Capture(stmt.body, inner);
}

void JinjaInterpreter::BindMacro(const JinjaStmt& stmt, const JinjaFramePtr& inner,
                                 const JinjaArgs& args) {
  const JinjaSignature& signature = stmt.signature;
  const std::string macro = "macro '" + stmt.text + "' ";
  const size_t count = signature.names.size();
  std::vector<const JinjaValue*> given(count, nullptr);
  for (size_t i = 0; i < std::min(count, args.positional.size()); ++i) {
    given[i] = &args.positional[i];
  }
  std::vector<JinjaValue> varargs(args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                count, args.positional.size())),
                                  args.positional.end());
  if (!varargs.empty() && !signature.uses_varargs) {
    JinjaFail(macro + "takes not more than " + std::to_string(count) + " argument(s)");
  }
  std::vector<std::pair<JinjaValue, JinjaValue>> kwargs;
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(signature.spelled.begin(), signature.spelled.end(), name);
    if (it != signature.spelled.end()) {
      const JinjaValue*& place = given[static_cast<size_t>(it - signature.spelled.begin())];
      if (place != nullptr) JinjaFail(macro + "got multiple values for argument '" + name + "'");
      place = &value;
    } else if (name == "caller" && caller_name_ >= 0) {
      SetVariable(*inner, caller_name_, value);
    } else if (signature.uses_kwargs) {
      kwargs.emplace_back(KeywordText(budget_, name), value);
    } else {
      JinjaFail(macro + "takes no keyword argument '" + name + "'");
    }
  }
  if (signature.uses_varargs) {
    SetVariable(*inner, varargs_name_,
                MakeSequence(budget_, JinjaSequence::Kind::kTuple, std::move(varargs)));
  }
  if (signature.uses_kwargs) SetVariable(*inner, kwargs_name_, MakeMap(budget_, std::move(kwargs)));
  const size_t required = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    JinjaValue value =
        given[i] != nullptr ? *given[i]
        : i >= required
            ? Evaluate(*signature.defaults[i - required], inner)
            : JinjaValue::Missing("parameter '" + signature.spelled[i] + "' was not provided");
    SetVariable(*inner, signature.names[i], std::move(value));
  }
}

}  // namespace tidemill

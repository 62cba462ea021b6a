#include "conversation/jinja/builtins.h"

#include <algorithm>
#include <unordered_map>

namespace tidemill {

JinjaFilterFn FindFilter(std::string_view name) {
  static const auto* const filters = [] {
    auto* map = new std::unordered_map<std::string_view, JinjaFilterFn>;
    for (const auto table : {TextFilters(), SequenceFilters(), NumberFilters(), SelectFilters()}) {
      for (const JinjaFilterEntry& entry : table) map->emplace(entry.name, entry.call);
    }
    return map;
  }();
  const auto it = filters->find(name);
  return it == filters->end() ? nullptr : it->second;
}

void BindArgs(const JinjaArgs& args, std::span<const std::string_view> names, size_t required,
              std::span<const JinjaValue*> out) {
  if (args.positional.size() > names.size()) {
    JinjaFail("takes at most " + std::to_string(names.size()) + " arguments, got " +
              std::to_string(args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) JinjaFail("got an unexpected keyword argument '" + name + "'");
    const JinjaValue*& place = out[static_cast<size_t>(it - names.begin())];
    if (place != nullptr) JinjaFail("got multiple values for argument '" + name + "'");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (out[i] == nullptr) JinjaFail("needs the argument '" + std::string(names[i]) + "'");
  }
}

const JinjaText& TextArgument(const JinjaValue& value, std::string_view what) {
  if (value.IsUndefined()) FailUndefined(value);
  if (!value.IsText()) {
    JinjaFail(std::string(what) + " must be a string, got '" + std::string(value.TypeName()) + "'");
  }
  return value.text();
}

JinjaValue KeywordText(RenderBudget& budget, std::string_view name) {
  TextWriter out(budget);
  out.Append(name, true);
  return out.Done();
}

}  // namespace tidemill

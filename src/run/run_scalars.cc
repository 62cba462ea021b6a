#include "run/run_scalars.h"

#include <cstdlib>

namespace tidemill {

EvalCurve EvalCurveOf(const std::string& name, int64_t steps) {
  EvalCurve point{"eval", steps};
  std::string rest;
  if (name.rfind("before", 0) == 0) {
    point.step = 0;
    rest = name.substr(6);
  } else if (name.rfind("after", 0) == 0) {
    rest = name.substr(5);
  } else if (name.rfind("during", 0) == 0) {
    rest = name.substr(6);
    const size_t at = rest.rfind("-step-");
    if (at != std::string::npos) {
      point.step = std::strtoll(rest.c_str() + at + 6, nullptr, 10);
      rest.erase(at);
    }
  } else {
    rest = "-" + name;
  }
  if (!rest.empty()) point.curve += "_" + rest.substr(rest[0] == '-' ? 1 : 0);
  return point;
}

ScalarPoint RunScalars::Take(const JournalEntry& entry) {
  ScalarPoint point;
  if (entry.kind == "tick") last_tick_ = entry.numbers;
  if (entry.kind != "step" && entry.kind != "eval") return point;
  const auto step = entry.numbers.find("step");
  point.step = step == entry.numbers.end() ? 0 : static_cast<int64_t>(step->second);
  std::string prefix = "step/";
  if (entry.kind == "eval") {
    const auto name = entry.words.find("name");
    const EvalCurve curve = EvalCurveOf(name == entry.words.end() ? "" : name->second, point.step);
    prefix = curve.curve + "/";
    point.step = curve.step;
  }
  for (const auto& [key, number] : entry.numbers) {
    if (key != "step") point.scalars[prefix + key] = number;
  }
  if (entry.kind == "step") {
    for (const auto& [key, number] : last_tick_) point.scalars["run/" + key] = number;
  }
  return point;
}

}  // namespace tidemill

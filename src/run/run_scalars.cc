#include "run/run_scalars.h"

#include <cstdlib>

namespace tidemill {

EvalCurve EvalCurveOf(const std::string& eval_name, int64_t steps) {
  EvalCurve point{"eval", steps};
  std::string name = eval_name;
  if (const size_t end = name.find(':'); end != std::string::npos) {
    point.policy = name.substr(0, end);
    name.erase(0, end + 1);
  }
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
  const auto named = entry.words.find("policy");
  std::string policy = named == entry.words.end() ? "" : named->second;
  if (entry.kind == "eval") {
    const auto name = entry.words.find("name");
    const EvalCurve curve = EvalCurveOf(name == entry.words.end() ? "" : name->second, point.step);
    prefix = curve.curve + "/";
    if (policy.empty()) policy = curve.policy;
    if (policy.empty()) point.step = curve.step;  // else the name has the policy's own step
  }
  if (!policy.empty()) prefix = policy + "/" + prefix;
  for (const auto& [key, number] : entry.numbers) {
    if (key != "step") point.scalars[prefix + key] = number;
  }
  if (entry.kind == "step") {
    for (const auto& [key, number] : last_tick_) point.scalars["run/" + key] = number;
  }
  return point;
}

}  // namespace tidemill

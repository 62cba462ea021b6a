#include "cli/runs_compare.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "run/earlier_parts.h"
#include "run/run_config.h"
#include "run/run_summary.h"
#include "store/run_reader.h"

namespace tidemill {
namespace {

using CompareJson = nlohmann::ordered_json;

constexpr uint64_t kLastSteps = 10;
constexpr const char* kStepFigures[] = {"reward", "batch_pass_rate", "entropy", "policy_kl",
                                        "kl",     "grad_norm",       "loss",    "lag_mean",
                                        "ess"};

// Means over the last steps, of the figures that are there.
Result<CompareJson> StepMeans(const RunDirectory& directory) {
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(directory.db_path()));
  TM_ASSIGN_OR_RETURN(const RunCounts counts, reader->Counts());
  const uint64_t after = counts.steps > kLastSteps ? counts.steps - kLastSteps : 0;
  TM_ASSIGN_OR_RETURN(const std::vector<StepRow> rows, reader->Steps(after, kLastSteps));
  CompareJson means = CompareJson::object();
  for (const char* key : kStepFigures) {
    double sum = 0, count = 0;
    for (const StepRow& row : rows) {
      const CompareJson metrics = CompareJson::parse(row.metrics_json, nullptr, false);
      if (!metrics.is_object() || !metrics.contains(key) || !metrics[key].is_number()) continue;
      sum += metrics[key].get<double>(), ++count;
    }
    if (count > 0) means[key] = sum / count;
  }
  return means;
}

// "rollout.group_size" -> "8", every key.
Result<CompareJson> ConfigOf(const RunDirectory& directory) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.LoadFile(directory.config_path()));
  CompareJson keys = CompareJson::object();
  std::istringstream lines(binder.ToToml(""));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '[') section = line.substr(1, line.find(']') - 1) + ".";
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos)
      keys[section + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

std::string Figure(const CompareJson& object, const std::string& key, const char* format) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return "-";
  return fmt::format(fmt::runtime(format), object[key].get<double>());
}

std::string EvalFigure(const CompareJson& summary, const std::string& name) {
  if (!summary.contains("eval") || !summary["eval"].contains(name)) return "-";
  const CompareJson& eval = summary["eval"][name];
  const bool spread = eval.contains("ci95") && eval["ci95"].is_number();
  if (!eval.contains("pass_rate") || !eval["pass_rate"].is_number()) return "unscored";
  return fmt::format("{:.1f} %{}{}", 100 * eval["pass_rate"].get<double>(),
                     spread ? fmt::format(" ± {:.1f}", 100 * eval["ci95"].get<double>()) : "",
                     eval.value("complete", true) ? "" : " (partial)");
}

std::vector<std::string> KeysOfBoth(const CompareJson& a, const CompareJson& b) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const CompareJson* one : {&a, &b}) {
    if (!one->is_object()) continue;
    for (const auto& [key, value] : one->items()) {
      if (seen.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

std::string Row(const std::string& name, const std::string& a, const std::string& b) {
  return fmt::format("{:<34} {:>20} {:>20}\n", name, a, b);
}

}  // namespace

Result<std::string> SummaryNow(const RunDirectory& directory, bool writing) {
  Result<std::string> summary = directory.ReadSummary();
  if (summary.ok()) return summary;
  RunOutcome outcome;
  outcome.state = writing ? "running" : "unfinished";
  TM_ASSIGN_OR_RETURN(const EarlierParts parts, EarlierParts::Read(directory.metrics_path()));
  outcome.last = parts.Last();
  return MakeSummary(directory, outcome);
}

Result<CompareJson> ComparedRun(const RunDirectory& directory) {
  TM_ASSIGN_OR_RETURN(const std::string text, SummaryNow(directory, /*writing=*/false));
  CompareJson json = CompareJson::parse(text, nullptr, false);
  if (!json.is_object()) return Corrupt(directory.summary_path() + ": not a JSON object");
  TM_ASSIGN_OR_RETURN(json["steps_mean"], StepMeans(directory));
  TM_ASSIGN_OR_RETURN(json["config"], ConfigOf(directory));
  return json;
}

std::string CompareText(const CompareJson& a, const CompareJson& b) {
  std::string text = Row("", a.value("run", ""), b.value("run", ""));
  text += Row("state", a.value("status", ""), b.value("status", ""));
  for (const std::string& name : KeysOfBoth(a["eval"], b["eval"]))
    text += Row("eval " + name, EvalFigure(a, name), EvalFigure(b, name));
  for (const char* key : {"steps", "episodes", "seconds", "generated_tokens", "trained_tokens",
                          "lost", "stale", "retries", "too_old", "zero_variance"}) {
    text += Row(key, Figure(a, key, "{:.0f}"), Figure(b, key, "{:.0f}"));
  }
  for (const std::string& key : KeysOfBoth(a["steps_mean"], b["steps_mean"])) {
    text += Row(key + ", last 10 steps", Figure(a["steps_mean"], key, "{:.4g}"),
                Figure(b["steps_mean"], key, "{:.4g}"));
  }
  for (const std::string& key : KeysOfBoth(a["config"], b["config"])) {
    const std::string left = a["config"].value(key, "-"), right = b["config"].value(key, "-");
    if (left != right && key != "run.name") text += Row(key, left, right);
  }
  return text;
}

}  // namespace tidemill

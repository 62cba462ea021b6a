#include "run/level_metrics.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/files.h"
#include "run/run_scalars.h"

namespace tidemill {
namespace {

uint64_t StepOf(const JournalEntry& entry) {
  const auto step = entry.numbers.find("step");
  return step == entry.numbers.end() || step->second < 0 ? 0 : static_cast<uint64_t>(step->second);
}

// An evaluation by its name and the step it belongs to.
using EvalKey = std::pair<std::string, int64_t>;

EvalKey EvalKeyOf(const std::string& name, uint64_t step) {
  const EvalCurve curve = EvalCurveOf(name, static_cast<int64_t>(step));
  // The name of a policy's evaluation has the policy's own step.
  return {name, curve.policy.empty() ? curve.step : static_cast<int64_t>(step)};
}

EvalKey EvalKeyOf(const JournalEntry& entry) {
  const auto name = entry.words.find("name");
  return EvalKeyOf(name == entry.words.end() ? "" : name->second, StepOf(entry));
}

// Whether a line tells of a later step than `step`.
bool IsLater(const JournalEntry& entry, uint64_t step) {
  if (entry.kind == "eval") return EvalKeyOf(entry).second > static_cast<int64_t>(step);
  const bool of_step =
      entry.kind == "step" || entry.kind == "checkpoint" || entry.kind == "publish";
  return of_step && StepOf(entry) > step;
}

// What the lines that hold tell of.
struct Told {
  std::set<uint64_t> steps;
  std::set<EvalKey> evals;
};

Told ReadTold(const std::string& path) {
  Told told;
  std::ifstream from(path);
  for (std::string line; std::getline(from, line);) {
    const std::optional<JournalEntry> entry = JournalEntry::Parse(line);
    if (!entry) continue;
    if (entry->kind == "step") told.steps.insert(StepOf(*entry));
    if (entry->kind == "eval") told.evals.insert(EvalKeyOf(*entry));
  }
  return told;
}

// The line of a step as the journal writes it.
JournalEntry EntryOf(const StepRow& row, const std::string& policy) {
  JournalEntry entry{row.at_ms, "step", {}, {}};
  if (!policy.empty()) entry.words["policy"] = policy;
  const auto metrics = nlohmann::json::parse(row.metrics_json, nullptr, false);
  if (metrics.is_object()) {
    for (const auto& [key, value] : metrics.items()) {
      if (value.is_number()) entry.numbers[key] = value.get<double>();
    }
  }
  entry.numbers["step"] = static_cast<double>(row.step);
  return entry;
}

JournalEntry EntryOf(const EvalResult& eval) {
  JournalEntry entry = {eval.finished_ms,
                        "eval",
                        {{"tasks", static_cast<double>(eval.tasks)},
                         {"episodes", static_cast<double>(eval.samples + eval.unscored)},
                         {"unscored", static_cast<double>(eval.unscored)},
                         {"step", static_cast<double>(eval.step)}},
                        {{"name", eval.eval_name}}};
  if (eval.pass_rate) entry.numbers["pass_rate"] = *eval.pass_rate;
  if (eval.mean_reward) entry.numbers["reward"] = *eval.mean_reward;
  return entry;
}

// By step, what nothing is told of; an evaluation comes behind its step.
Result<std::multimap<uint64_t, JournalEntry>> Untold(RunReader& reader, const Told& told,
                                                     uint64_t step) {
  std::multimap<uint64_t, JournalEntry> untold;
  TM_ASSIGN_OR_RETURN(const std::vector<OwnedStep> owned, reader.OwnedSteps());
  std::map<uint64_t, std::string> policies;
  for (const OwnedStep& one : owned) policies[one.step] = one.policy;
  for (uint64_t after = 0;;) {
    TM_ASSIGN_OR_RETURN(const std::vector<StepRow> rows, reader.Steps(after, kPageRowsMax));
    for (const StepRow& row : rows) {
      if (row.step <= step && !told.steps.contains(row.step)) {
        untold.emplace(row.step, EntryOf(row, policies[row.step]));
      }
    }
    if (rows.size() < kPageRowsMax) break;
    after = rows.back().step;
  }
  TM_ASSIGN_OR_RETURN(const std::vector<EvalResult> evals, reader.EvalHistory());
  for (const EvalResult& eval : evals) {
    const bool missing = !told.evals.contains(EvalKeyOf(eval.eval_name, eval.step));
    if (eval.complete && missing && eval.step <= step) untold.emplace(eval.step, EntryOf(eval));
  }
  return untold;
}

class LevelFile {
 public:
  LevelFile(const std::string& path, const std::function<Status(const JournalEntry&)>& take)
      : path_(path), to_(path, std::ios::trunc), take_(take) {}

  Status Put(const std::string& line, const JournalEntry& entry) {
    to_ << line << '\n';
    return take_(entry);
  }
  // Those of steps below `step`.
  Status PutBefore(uint64_t step, std::multimap<uint64_t, JournalEntry>& untold) {
    const auto end = untold.lower_bound(step);
    for (auto it = untold.begin(); it != end; ++it) {
      TM_RETURN_IF_ERROR(Put(it->second.ToJson(), it->second));
    }
    untold.erase(untold.begin(), end);
    return Ok();
  }
  Status Finish() {
    to_.close();
    return to_ ? Ok() : Unavailable(path_ + ": cannot be written");
  }

 private:
  const std::string path_;
  std::ofstream to_;
  const std::function<Status(const JournalEntry&)>& take_;
};

Status WriteLevel(const std::string& path, const std::string& made, uint64_t step,
                  std::multimap<uint64_t, JournalEntry> untold,
                  const std::function<Status(const JournalEntry&)>& take) {
  std::ifstream from(path);
  LevelFile to(made, take);
  for (std::string line; std::getline(from, line);) {
    const std::optional<JournalEntry> entry = JournalEntry::Parse(line);
    if (!entry || IsLater(*entry, step)) continue;
    if (entry->kind == "step") TM_RETURN_IF_ERROR(to.PutBefore(StepOf(*entry), untold));
    TM_RETURN_IF_ERROR(to.Put(line, *entry));
  }
  TM_RETURN_IF_ERROR(to.PutBefore(step + 1, untold));
  if (from.bad()) return Unavailable(path + ": cannot be read");
  return to.Finish();
}

}  // namespace

Status LevelMetrics(const std::string& path, uint64_t step, RunReader& reader,
                    const std::function<Status(const JournalEntry&)>& take) {
  TM_ASSIGN_OR_RETURN(auto untold, Untold(reader, ReadTold(path), step));
  const std::string made = path + ".resumed";
  std::error_code error;
  const Status written = WriteLevel(path, made, step, std::move(untold), take);
  if (!written.ok()) {
    std::filesystem::remove(made, error);
    return written;
  }
  std::filesystem::rename(made, path, error);
  if (error) return Unavailable(path + ": cannot be replaced: " + error.message());
  return Ok();
}

}  // namespace tidemill

#include "run/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/version.h"
#include "run/sparkline.h"
#include "run/stored_totals.h"
#include "store/run_reader.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

// Nothing: the number is null or not there.
std::optional<double> NumberIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

Result<Json> EvalJson(RunReader& reader, const EvalResult& eval) {
  TM_ASSIGN_OR_RETURN(std::vector<TaskStats> tasks, reader.EvalTasks(eval.eval_name));
  uint64_t samples = 0;
  uint64_t rated = 0;  // tasks with a sample that was scored
  for (const TaskStats& task : tasks) {
    samples = std::max(samples, task.scored);
    rated += task.scored > 0 ? 1 : 0;
  }
  Json json;
  json["pass_rate"] = OrNull(eval.pass_rate);
  json["ci95"] = OrNull(eval.pass_rate_ci95);
  json["n"] = eval.tasks;
  json["step"] = eval.step;
  json["complete"] = eval.complete;
  if (!eval.complete) json["tasks_planned"] = eval.tasks_planned;
  json["samples_per_task"] = samples;
  json["unscored"] = eval.unscored;
  json["mean_reward"] = OrNull(eval.mean_reward);
  double at_k = 0;
  for (const TaskStats& task : tasks) at_k += PassAtK(task.scored, task.solved, samples);
  if (samples > 1) json[fmt::format("pass_at_{}", samples)] = at_k / static_cast<double>(rated);
  if (eval.max_version) json["version"] = *eval.max_version;
  return json;
}

// Pass rate of all training episodes, in equal intervals of time; null where none was scored.
Result<Json> CurveJson(RunReader& reader) {
  TM_ASSIGN_OR_RETURN(const auto points, reader.PassRateOverTime("", v1::PURPOSE_TRAIN, 40));
  Json curve = Json::array();
  for (const PassRatePoint& point : points) {
    curve.push_back(point.episodes == 0 ? Json()
                                        : Json(static_cast<double>(point.solved) /
                                               static_cast<double>(point.episodes)));
  }
  return curve;
}

std::string CurveText(const Json& curve) {
  std::vector<double> rates;
  for (const Json& rate : curve) {
    if (rate.is_number()) rates.push_back(rate.get<double>());
  }
  if (rates.size() < 2) return "";
  return fmt::format("  training pass rate      {:5.1f} % {} {:.1f} %\n", 100 * rates.front(),
                     Sparkline(rates), 100 * rates.back());
}

// Over all steps: how old what they trained on was, and how far from the policy that sampled it.
Result<Json> StalenessJson(RunReader& reader) {
  std::map<std::string, std::map<uint64_t, double>> histograms;
  double lag_max = 0, ess = 0, ess_least = 1, mismatch = 0, mismatch_p99 = 0, masked = 0, steps = 0;
  for (uint64_t after = 0;;) {
    TM_ASSIGN_OR_RETURN(const std::vector<StepRow> rows, reader.Steps(after, kPageRowsMax));
    for (const StepRow& row : rows) {
      const Json metrics = Json::parse(row.metrics_json, nullptr, false);
      if (!metrics.is_object()) continue;
      const auto value = [&](const char* key, double none) {
        auto it = metrics.find(key);
        return it != metrics.end() && it->is_number() ? it->get<double>() : none;
      };
      for (const char* name : {"lag", "span"}) {
        const std::string prefix = std::string(name) + "_hist_";
        for (const auto& [key, count] : metrics.items()) {
          if (key.rfind(prefix, 0) != 0 || !count.is_number()) continue;
          histograms[name][std::strtoull(key.c_str() + prefix.size(), nullptr, 10)] +=
              count.get<double>();
        }
      }
      lag_max = std::max(lag_max, value("lag_max", 0));
      ess += value("ess", 1);
      ess_least = std::min(ess_least, value("ess", 1));
      mismatch += value("mismatch", 0);
      mismatch_p99 = std::max(mismatch_p99, value("mismatch_p99", 0));
      masked += value("masked_tokens", 0);
      ++steps;
    }
    if (rows.size() < kPageRowsMax) break;
    after = rows.back().step;
  }
  Json json;
  for (const char* name : {"lag", "span"}) {
    Json& buckets = json[std::string(name) + "_histogram"] = Json::object();
    double sum = 0, count = 0;
    for (const auto& [bucket, n] : histograms[name]) {
      buckets[std::to_string(bucket)] = n;
      sum += static_cast<double>(bucket) * n, count += n;
    }
    json[std::string(name) + "_mean"] = count > 0 ? sum / count : 0;
  }
  json["lag_max"] = lag_max;
  json["ess_mean"] = steps > 0 ? ess / steps : 0;
  json["ess_least"] = steps > 0 ? ess_least : 0;
  json["mismatch_mean"] = steps > 0 ? mismatch / steps : 0;
  json["mismatch_p99_max"] = mismatch_p99;
  json["masked_tokens"] = masked;
  return json;
}

// issued = trained + evaluated + dropped + ready + open + abandoned + lost.
Json BooksJson(const GroupBooks& books, const std::optional<FleetAccount>& fleet) {
  // Of a fleet, what is open must be on the bus or complete; alone, the ledger has it and a resumed
  // run issues it again.
  uint64_t forgotten = 0;
  for (const GroupBooks::Open& group : books.open) {
    if (fleet && !fleet->Knows(group)) ++forgotten;
  }
  Json json = {{"issued", books.issued},       {"trained", books.trained},
               {"evaluated", books.evaluated}, {"dropped", Json::object()},
               {"ready", books.ready},         {"open", books.open.size() - forgotten},
               {"abandoned", books.abandoned}, {"lost", books.missing + forgotten}};
  for (const auto& [reason, count] : books.dropped) json["dropped"][reason] = count;
  return json;
}

Result<RunSnapshot> WithStored(RunSnapshot snapshot, RunReader& reader) {
  TM_ASSIGN_OR_RETURN(const StoredTotals stored, StoredTotals::Read(reader));
  stored.PutInto(snapshot.counts);
  return snapshot;
}

uint64_t StaleIn(const RunCounts& counts) {
  uint64_t stale = 0;
  for (const auto& [kind, count] : counts.stale_by_kind) stale += count;
  return stale;
}

// The port that the run waited for most; null before it began.
Json BusiestPort(const RunSnapshot& last) {
  const BusyShare* most = nullptr;
  for (const BusyShare& busy : last.busy) {
    if (busy.port && (most == nullptr || busy.share > most->share)) most = &busy;
  }
  return most == nullptr ? Json() : Json(most->name);
}

std::string PercentText(const Json& eval, const char* key, const char* format) {
  const std::optional<double> rate = NumberIn(eval, key);
  return rate ? fmt::format(fmt::runtime(format), 100 * *rate) : "-";
}

// " ± 5.3"; of a single task nothing is known.
std::string SpreadText(const Json& eval) {
  const std::optional<double> ci95 = NumberIn(eval, "ci95");
  return ci95 ? fmt::format(" ± {:.1f}", 100 * *ci95) : "";
}

// An evaluation that was stopped, or still goes on, says how much of it there is.
std::string TasksOf(const Json& eval) {
  const int tasks = eval.value("n", 0);
  if (eval.value("complete", true)) return std::to_string(tasks);
  return fmt::format("only {} of {}", tasks, eval.value("tasks_planned", 0));
}

std::string EvalText(const std::string& name, const Json& eval) {
  const int samples = eval.value("samples_per_task", 0);
  std::string text = fmt::format("  eval {:<18} pass@1 {} %{}  ({} tasks at step {}", name,
                                 PercentText(eval, "pass_rate", "{:5.1f}"), SpreadText(eval),
                                 TasksOf(eval), eval.value("step", 0));
  if (samples > 1) {
    text += fmt::format(", {} samples; pass@{} {} %", samples, samples,
                        PercentText(eval, fmt::format("pass_at_{}", samples).c_str(), "{:.1f}"));
  }
  const int unscored = eval.value("unscored", 0);
  if (unscored > 0) text += fmt::format("; {} samples could not be scored", unscored);
  return text + ")\n";
}

std::string BooksText(const Json& groups) {
  uint64_t dropped = 0;
  std::string why;
  for (const auto& [reason, count] : groups["dropped"].items()) {
    dropped += count.get<uint64_t>();
    why += fmt::format("{}{} {}", why.empty() ? " (" : ", ", reason, count.get<uint64_t>());
  }
  return fmt::format(
      "  groups issued {}: trained {}, evaluated {}, dropped {}{}, ready {}, open {}, abandoned "
      "{}, "
      "lost {}\n",
      groups.value("issued", 0), groups.value("trained", 0), groups.value("evaluated", 0), dropped,
      why + (why.empty() ? "" : ")"), groups.value("ready", 0), groups.value("open", 0),
      groups.value("abandoned", 0), groups.value("lost", 0));
}

// "  50.8 -> 75.4 % of the held-out tasks: +24.6 points (± 5.3)"; empty where nothing was compared.
// Of a run that went on since, the step it was after stands beside it.
std::string GainText(const Json& evals, uint64_t steps) {
  if (!evals.contains("before") || !evals.contains("after")) return "";
  const Json &before = evals["before"], &after = evals["after"];
  if (!before.value("complete", true) || !after.value("complete", true)) return "";
  const auto from = NumberIn(before, "pass_rate"), to = NumberIn(after, "pass_rate");
  if (!from || !to) return "";
  const uint64_t at = after.value("step", steps);
  const std::string text = fmt::format(
      "  {:.1f} -> {:.1f} % of {} held-out tasks{}: {:+.1f} points", 100 * *from, 100 * *to,
      after.value("n", 0), at < steps ? fmt::format(" after step {} of {}", at, steps) : "",
      100 * (*to - *from));
  const auto error = NumberIn(before, "ci95"), other = NumberIn(after, "ci95");
  if (!error || !other) return text + "; chance alone can explain what one task shows\n";
  const double both = std::hypot(*error, *other);
  return text + fmt::format(" ± {:.1f}{}\n", 100 * both,
                            std::abs(*to - *from) > both ? "" : ", which chance alone can explain");
}

}  // namespace

double PassAtK(uint64_t n, uint64_t c, uint64_t k) {
  if (n == 0) return 0;
  k = std::min(k, n);
  if (n - c < k) return 1;
  double none = 1;
  for (uint64_t i = 0; i < k; ++i) {
    none *= static_cast<double>(n - c - i) / static_cast<double>(n - i);
  }
  return 1 - none;
}

Result<std::string> MakeSummary(const RunDirectory& directory, const RunOutcome& outcome) {
  TM_ASSIGN_OR_RETURN(auto reader, RunReader::Open(directory.db_path()));
  TM_ASSIGN_OR_RETURN(RunCounts counts, reader->Counts());
  TM_ASSIGN_OR_RETURN(std::vector<EvalResult> evals, reader->Evals());
  TM_ASSIGN_OR_RETURN(const RunSnapshot last, WithStored(outcome.last, *reader));
  Json json;
  json["run"] = directory.name();
  json["program"] = FullVersion();
  json["status"] = !outcome.state.empty() ? outcome.state
                   : !outcome.status.ok() ? "failed"
                   : outcome.interrupted  ? "interrupted"
                                          : "done";
  if (!outcome.status.ok()) json["error"] = outcome.status.message();
  if (!outcome.fleet_silent.empty()) json["fleet_silent"] = outcome.fleet_silent;
  Json by_name;
  for (const EvalResult& eval : evals) {
    TM_ASSIGN_OR_RETURN(by_name[eval.eval_name], EvalJson(*reader, eval));
  }
  json["eval"] = by_name.is_null() ? Json::object() : by_name;
  TM_ASSIGN_OR_RETURN(json["pass_rate_curve"], CurveJson(*reader));
  json["episodes"] = counts.episodes;
  json["train_episodes"] = counts.train;
  json["steps"] = counts.steps;
  json["resumes"] = counts.resumes;
  json["fates"] = counts.train_by_fate;
  TM_ASSIGN_OR_RETURN(const GroupBooks books, reader->Books());
  json["groups"] = BooksJson(books, outcome.fleet);
  // Nothing of this may exist: groups nobody knows of, episodes that were accepted and are not
  // here, and (in one process, where both are seen) episodes finished and neither stored nor known.
  uint64_t lost = json["groups"]["lost"].get<uint64_t>() + books.episodes_missing;
  const RunSnapshot& here = outcome.here;
  const uint64_t kept = here["episodes_stored"] + here["duplicates"];
  const bool alone = !outcome.fleet && outcome.fleet_silent.empty();
  if (alone && here["episodes_finished"] > kept) lost += here["episodes_finished"] - kept;
  json["lost"] = lost;
  json["stale"] = std::max<uint64_t>(StaleIn(counts), last["stale"]);
  json["stale_by_kind"] = counts.stale_by_kind;
  json["stale_by_cause"] = counts.stale_by_cause;
  json["retries"] = last["tool_retries"] + last["agent_retries"] + last["reward_retries"];
  for (const char* name :
       {"skipped", "put_off", "unscorable", "too_old", "zero_variance", "untrainable", "evicted",
        "rescored", "second_looks", "repeated_literals"}) {
    json[name] = last[name];
  }
  TM_ASSIGN_OR_RETURN(json["staleness"], StalenessJson(*reader));
  json["seconds"] = last.seconds;
  for (const char* name :
       {"generated_tokens", "trained_tokens", "tool_calls", "gradings", "cache_hits"}) {
    json[name] = last[name];
  }
  json["counters"] = last.counts;
  Json loops, ports;
  for (const BusyShare& busy : last.busy) (busy.port ? ports : loops)[busy.name] = busy.share;
  json["busy"] = {{"loops", loops}, {"ports", ports}};
  json["busiest_port"] = BusiestPort(last);
  return json.dump(2) + "\n";
}

Result<std::string> FinishedSummary(const RunDirectory& directory, uint64_t steps) {
  TM_ASSIGN_OR_RETURN(std::string text, directory.ReadSummary());
  const Json json = Json::parse(text, nullptr, false);
  const bool done = json.is_object() && json.value("status", "") == "done" &&
                    json.value("steps", uint64_t{0}) >= steps;
  if (!done) return NotFound(directory.path() + ": not finished");
  return text;
}

std::string SummaryText(const std::string& summary_json) {
  const Json json = Json::parse(summary_json, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return "the summary cannot be read\n";
  std::string text = fmt::format("run {}: {}\n", json.value("run", ""), json.value("status", ""));
  if (json.contains("error")) text += "  " + json.value("error", "") + "\n";
  for (const auto& [name, eval] : json["eval"].items()) {
    text += EvalText(name, eval);
  }
  if (json.contains("pass_rate_curve")) text += CurveText(json["pass_rate_curve"]);
  text += fmt::format(
      "  {} steps, {} episodes in {:.0f} s; lost {}, stale {}, retries {}, skipped {}\n",
      json.value("steps", 0), json.value("episodes", 0), json.value("seconds", 0.0),
      json.value("lost", 0), json.value("stale", 0), json.value("retries", 0),
      json.value("skipped", 0));
  if (json.contains("groups")) text += BooksText(json["groups"]);
  if (json.contains("fleet_silent")) {
    text += "  the work of other processes is unknown: " + json.value("fleet_silent", "") + "\n";
  }
  for (const char* kind : {"ports", "loops"}) {
    text += fmt::format("  busy {}:", kind);
    for (const auto& [name, share] : json["busy"][kind].items()) {
      text += fmt::format("  {} {:.0f} %", name, 100 * share.get<double>());
    }
    text += "\n";
  }
  return text + GainText(json["eval"], json.value("steps", uint64_t{0}));
}

}  // namespace tidemill

#include "cli/fleet_screen.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {
namespace {

std::string ProcessWords(const ProcessState& process) {
  std::string text = process.state;
  if (process.pid != 0) text += " (process " + std::to_string(process.pid) + ")";
  if (process.starts > 1) text += ", started " + std::to_string(process.starts) + " times";
  if (!process.last_end.empty()) text += ", " + process.last_end;
  return text;
}

std::string PhaseWords(const FleetState& state) {
  if (!state.kept && !state.over) return "its keeper is gone; start it again with tidemill launch";
  return state.failure.empty() ? state.phase : state.phase + ": " + state.failure;
}

std::string WorkerWords(const WorkerHealth& worker) {
  if (worker.lost()) return fmt::format("silent for {:.0f} s", worker.beat_age_s);
  std::string text = fmt::format("{:>3.0f} % busy", 100 * worker.busy);
  if (!worker.rate_of.empty()) text += fmt::format(", {:.1f} {}/s", worker.rate, worker.rate_of);
  return worker.doing.empty() ? text : text + ", " + worker.doing;
}

}  // namespace

std::string FleetTable(const LaunchScreen& view) {
  std::string text;
  for (const FleetState& state : view.states) {
    text += fmt::format("{:<14} {:<20} {}\n", state.run, state.host, PhaseWords(state));
    for (const ProcessState& process : state.processes) {
      text += fmt::format("  {:<12} {:<20} {}\n", process.name, state.host, ProcessWords(process));
    }
  }
  if (!view.roster_failure.empty()) text += "no roster yet: " + view.roster_failure + "\n";
  for (const RoleHealth& role : view.roles) {
    text +=
        fmt::format("{:<14} {:<20} {:>3.0f} % busy\n", role.role, RoleWords(role), 100 * role.busy);
    for (const WorkerHealth& worker : view.workers) {
      if (worker.role != role.role) continue;
      text += fmt::format("  {:<32} {:<8} {}\n", worker.worker, worker.state, WorkerWords(worker));
    }
  }
  for (const std::string& log : view.last_logs) text += "\n" + log;
  return text;
}

std::string FleetChanges::Since(const LaunchScreen& view) {
  std::string text;
  const auto show = [&](const std::string& name, const std::string& words) {
    std::string& before = shown_[name];
    if (before == words) return;
    before = words;
    text += fmt::format("  {:<24} {}\n", name, words);
  };
  for (const FleetState& state : view.states) {
    const std::string host = state.host.empty() ? "" : " on " + state.host;
    show(state.run + host, PhaseWords(state));
    for (const ProcessState& process : state.processes)
      show(process.name + host, ProcessWords(process));
  }
  for (const RoleHealth& role : view.roles) show(role.role + " workers", RoleWords(role));
  return text;
}

std::vector<std::string> FleetLogs::Since(const std::vector<FleetState>& states,
                                          const LogOf& log_of) {
  std::vector<std::string> logs;
  for (const FleetState& state : states) {
    for (const ProcessState& process : state.processes) {
      if (!process.died) continue;
      std::string& seen = seen_[state.host + "/" + process.name];
      const std::string end =
          std::to_string(process.starts) + process.state.substr(0, 6) + process.last_end;
      if (seen == end) continue;
      seen = end;
      std::string log = log_of(state, process.name);
      if (!log.empty() && log.back() != '\n') log += '\n';
      logs.push_back(process.name + " " + process.last_end + ", " + log);
    }
  }
  return logs;
}

bool IsOver(const std::vector<FleetState>& states) {
  return std::all_of(states.begin(), states.end(),
                     [](const FleetState& state) { return state.over || !state.kept; });
}

std::string FailureOf(const std::vector<FleetState>& states) {
  std::string gone;
  bool done = false;
  for (const FleetState& state : states) {
    if (!state.failure.empty()) return state.failure;
    if (!state.over && !state.kept && gone.empty()) {
      gone = "the keeper" + (state.host.empty() ? "" : " on " + state.host) + " is gone";
    }
    for (const ProcessState& process : state.processes) {
      done = done || (process.role == "learner" && process.state == "ended" && state.over);
    }
  }
  // Without a host that died meanwhile the run was done as well.
  return done ? "" : gone;
}

}  // namespace tidemill

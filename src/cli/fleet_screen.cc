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

}  // namespace

std::string FleetTable(const std::vector<FleetState>& states) {
  std::string text;
  for (const FleetState& state : states) {
    text += fmt::format("{:<14} {:<20} {}\n", state.run, state.host, PhaseWords(state));
    for (const ProcessState& process : state.processes) {
      text += fmt::format("  {:<12} {:<20} {}\n", process.name, state.host, ProcessWords(process));
    }
  }
  return text;
}

std::string FleetChanges::Since(const std::vector<FleetState>& states) {
  std::string text;
  const auto show = [&](const std::string& name, const std::string& words) {
    std::string& before = shown_[name];
    if (before == words) return;
    before = words;
    text += fmt::format("  {:<24} {}\n", name, words);
  };
  for (const FleetState& state : states) {
    const std::string host = state.host.empty() ? "" : " on " + state.host;
    show(state.run + host, PhaseWords(state));
    for (const ProcessState& process : state.processes)
      show(process.name + host, ProcessWords(process));
  }
  return text;
}

bool IsOver(const std::vector<FleetState>& states) {
  return std::all_of(states.begin(), states.end(),
                     [](const FleetState& state) { return state.over || !state.kept; });
}

std::string FailureOf(const std::vector<FleetState>& states) {
  for (const FleetState& state : states) {
    if (!state.failure.empty()) return state.failure;
    if (!state.over && !state.kept) {
      return "the keeper" + (state.host.empty() ? "" : " on " + state.host) + " is gone";
    }
  }
  return "";
}

}  // namespace tidemill

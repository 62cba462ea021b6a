// tidemill live: the sessions that a gateway recorded in a run.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/live_delete.h"
#include "cli/live_guards.h"
#include "cli/live_release.h"
#include "core/text.h"
#include "live/live_report.h"
#include "run/run_path.h"
#include "store/run_directory.h"
#include "store/session_reader.h"

namespace tidemill {
namespace {

using LiveJson = nlohmann::ordered_json;

// Sessions looked at; the newest come first.
constexpr size_t kStatusSessions = 100'000;

struct LiveArguments {
  std::string folder = "runs";
  std::string run, tenant;
  size_t limit = 20;
  bool open = false;
  bool json = false;
};

Result<std::unique_ptr<SessionReader>> OpenSessions(const LiveArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToRead(folder, name));
  return SessionReader::Open(directory.db_path());
}

// Calls `take` for the reports of the sessions asked for, the newest first.
template <typename Take>
Status ForEachReport(const LiveArguments& arguments, size_t limit, Take take) {
  TM_ASSIGN_OR_RETURN(const auto reader, OpenSessions(arguments));
  SessionFilter filter;
  if (!arguments.tenant.empty()) filter.tenant = arguments.tenant;
  filter.open_only = arguments.open;
  TM_ASSIGN_OR_RETURN(const auto rows, reader->List(filter, limit));
  for (const SessionRow& row : rows) {
    TM_ASSIGN_OR_RETURN(const StoredSession stored, reader->Read(row.session.number()));
    TM_ASSIGN_OR_RETURN(const SessionReport report, ReportSession(stored));
    take(report);
  }
  return Ok();
}

LiveJson TokensJson(const std::map<std::string, uint64_t>& tokens) {
  LiveJson json = LiveJson::object();
  for (const auto& [why, count] : tokens) json[why] = count;
  return json;
}

std::string ShareText(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void PrintStatus(const LiveReport& report) {
  fmt::print("sessions    {} open, {} closed\n", report.open, report.closed);
  fmt::print("questions   {} ({} answers stored)\n", report.questions, report.all.turns);
  fmt::print("tokens      {} sampled, {} trainable ({})\n", report.all.sampled, report.all.trained,
             ShareText(report.all.trained, report.all.sampled));
  for (const auto& [why, count] : report.tokens) {
    if (why != "trained") fmt::print("  not, {:<10} {}\n", why, count);
  }
  fmt::print("\n{:<24} {:>9} {:>9} {:>10} {:>10} {:>9} {:>10}\n", "agent", "sessions", "answers",
             "tokens", "trainable", "branches", "rewritten");
  for (const auto& [name, agent] : report.agents) {
    fmt::print("{:<24} {:>9} {:>9} {:>10} {:>10} {:>9} {:>10}\n", ForTerminal(name), agent.sessions,
               agent.turns, agent.sampled, ShareText(agent.trained, agent.sampled), agent.branches,
               agent.rewritten);
  }
}

int LiveStatus(const LiveArguments& arguments) {
  LiveReport report;
  const Status read =
      ForEachReport(arguments, kStatusSessions, [&](const SessionReport& one) { report.Add(one); });
  if (!read.ok()) return Fail(read);
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  const LiveJson release = ReadRelease(folder + "/" + name);
  const LiveJson guards = ReadGuards(folder + "/" + name);
  if (!arguments.json) {
    if (!release.is_null()) PrintRelease(release);
    PrintGuards(guards);
    PrintStatus(report);
    return 0;
  }
  LiveJson agents = LiveJson::object();
  for (const auto& [name, agent] : report.agents) {
    agents[name] = {{"sessions", agent.sessions}, {"answers", agent.turns},
                    {"sampled", agent.sampled},   {"trained", agent.trained},
                    {"branches", agent.branches}, {"rewritten", agent.rewritten}};
  }
  PrintJson({{"open", report.open},
             {"closed", report.closed},
             {"questions", report.questions},
             {"answers", report.all.turns},
             {"sampled", report.all.sampled},
             {"tokens", TokensJson(report.tokens)},
             {"agents", agents},
             {"release", release},
             {"guards", guards}});
  return 0;
}

int LiveSessions(const LiveArguments& arguments) {
  LiveJson list = LiveJson::array();
  if (!arguments.json) {
    fmt::print("{:>8} {:<16} {:<24} {:<20} {:>9} {:>9} {:>9}  {}\n", "session", "tenant", "name",
               "agent", "questions", "tokens", "trainable", "state");
  }
  const Status read = ForEachReport(arguments, arguments.limit, [&](const SessionReport& report) {
    const v1::Session& session = report.session;
    const std::string state = session.closed_ms() == 0 ? "open" : session.close_reason();
    if (arguments.json) {
      list.push_back({{"session", session.number()},
                      {"tenant", session.tenant()},
                      {"name", session.name()},
                      {"named_by", session.named_by()},
                      {"agent", session.agent()},
                      {"started_ms", session.started_ms()},
                      {"closed_ms", session.closed_ms()},
                      {"close_reason", session.close_reason()},
                      {"questions", report.questions},
                      {"answers", report.turns},
                      {"branches", report.settled.branches},
                      {"sampled", report.settled.sampled},
                      {"tokens", TokensJson(report.settled.tokens)}});
      return;
    }
    const auto trained = report.settled.tokens.find("trained");
    fmt::print("{:>8} {:<16} {:<24} {:<20} {:>9} {:>9} {:>9}  {}\n", session.number(),
               ForTerminal(session.tenant()), ForTerminal(Beginning(session.name(), 24)),
               ForTerminal(session.agent()), report.questions, report.settled.sampled,
               trained == report.settled.tokens.end() ? 0 : trained->second, state);
  });
  if (!read.ok()) return Fail(read);
  if (arguments.json) PrintJson({{"sessions", list}});
  return 0;
}

void AddLiveDelete(CLI::App& live, Exit& exit) {
  CLI::App* command = live.add_subcommand(
      "delete",
      "Delete sessions with everything stored of them, and search the run's "
      "files for remains. "
      "Exit status 3: deleted, but something is left or a file could not be searched");
  auto arguments = std::make_shared<LiveDeleteArguments>();
  arguments->folder = "runs";
  command->add_option("run", arguments->run, "Name or path of the run")->required();
  command->add_option("--folder", arguments->folder, "Folder that holds the runs")
      ->capture_default_str();
  command->add_option("--session", arguments->what.session, "Number of the session");
  command->add_option("--tenant", arguments->what.tenant, "All sessions of this tenant");
  command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  command->callback([arguments, &exit] { exit.code = LiveDelete(*arguments); });
}

void AddLiveQuarantine(CLI::App& live, Exit& exit) {
  CLI::App* command = live.add_subcommand(
      "quarantine",
      "Show sessions and tenants in quarantine, or decide on them; see docs/live-privacy.md");
  auto arguments = std::make_shared<LiveQuarantineArguments>();
  arguments->folder = "runs";
  command->add_option("run", arguments->run, "Name or path of the run")->required();
  command->add_option("--folder", arguments->folder, "Folder that holds the runs")
      ->capture_default_str();
  CLI::Option* admit =
      command->add_option("--admit", arguments->admit, "Train on what is held of this tenant");
  command->add_option("--discard", arguments->discard, "Never train on what is held of this tenant")
      ->excludes(admit);
  command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  command->callback([arguments, &exit] { exit.code = LiveQuarantine(*arguments); });
}

void AddLiveRollback(CLI::App& live, Exit& exit) {
  CLI::App* command = live.add_subcommand(
      "rollback",
      "Drop the candidate; without one, release the previous version again, under "
      "a new number; see docs/live-release.md");
  auto arguments = std::make_shared<LiveRollbackArguments>();
  arguments->folder = "runs";
  command->add_option("run", arguments->run, "Name or path of the run")->required();
  command->add_option("--folder", arguments->folder, "Folder that holds the runs")
      ->capture_default_str();
  command->add_option("--to", arguments->to, "Version whose weights are released again");
  command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  command->callback([arguments, &exit] { exit.code = LiveRollback(*arguments); });
}

}  // namespace

void AddLiveCommand(CLI::App& app, Exit& exit) {
  CLI::App* live =
      app.add_subcommand("live", "Inspect the sessions that a gateway recorded; see docs/live.md");
  live->require_subcommand(1);
  auto arguments = std::make_shared<LiveArguments>();
  auto add = [&](const char* name, const char* text, int (*run)(const LiveArguments&)) {
    CLI::App* command = live->add_subcommand(name, text);
    command->add_option("run", arguments->run, "Name or path of the run")->required();
    command->add_option("--folder", arguments->folder, "Folder that holds the runs")
        ->capture_default_str();
    command->add_option("--tenant", arguments->tenant, "Only sessions of this tenant");
    command->add_flag("--open", arguments->open, "Only sessions that are not closed");
    command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
    command->callback([arguments, run, &exit] { exit.code = run(*arguments); });
    return command;
  };
  add("status", "Totals: sessions, tokens, what is trainable and why the rest is not", LiveStatus);
  add("sessions", "List the newest sessions", LiveSessions)
      ->add_option("--limit", arguments->limit, "Number of sessions")
      ->capture_default_str();
  AddLiveDelete(*live, exit);
  AddLiveRollback(*live, exit);
  AddLiveQuarantine(*live, exit);
}

}  // namespace tidemill

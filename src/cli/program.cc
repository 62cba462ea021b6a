#include "cli/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "core/fd.h"
#include "core/log.h"
#include "core/nearest.h"
#include "core/shipped_files.h"
#include "core/threads.h"
#include "core/version.h"

namespace tidemill {
namespace {

std::string VersionText() {
  std::string text = "tidemill " + FullVersion();
  if (!TorchVersion().empty()) text += ", libtorch " + std::string(TorchVersion());
  return text;
}

void AddLogOptions(CLI::App& app, std::string& level, bool& json) {
  app.add_option("--log-level", level, "Minimum log level")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.add_flag("--log-json", json, "Write log lines as JSON objects");
  app.parse_complete_callback([&level, &json] {
    InitLog({.level = ParseLogLevel(level).value(), .json = json, .stream = nullptr});
  });
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  return names;
}

// "tidemill runs": the words as far as they were understood, and their command.
std::pair<std::string, const CLI::App*> Understood(const CLI::App& app) {
  std::string words = app.get_name();
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    words += " " + at->get_name();
  }
  return {words, at};
}

// Says what was wrong with the words. One that is no command or option gets the nearest one.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const auto [words, command] = Understood(app);
  const bool says_nothing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                            rest.empty() && command->get_require_subcommand_min() > 0;
  if (says_nothing) {
    std::fputs(command->help().c_str(), command == &app ? stdout : stderr);
    return command == &app ? 0 : 2;
  }
  if (rest.empty()) return app.exit(error) == 0 ? 0 : 2;
  if (rest[0].rfind("--", 0) == 0) {
    std::vector<std::string> names;
    for (const CLI::App* at = command; at != nullptr; at = at->get_parent()) {
      for (const CLI::Option* option : at->get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      }
    }
    const std::string name = rest[0].substr(0, rest[0].find('='));
    std::fprintf(stderr, "%s: unknown option \"%s\".%s See %s --help.\n", words.c_str(),
                 name.c_str(), DidYouMean(name, names).c_str(), words.c_str());
    return 2;
  }
  const std::vector<std::string> commands = CommandNames(*command);
  if (commands.empty()) return app.exit(error) == 0 ? 0 : 2;
  std::fprintf(stderr, "%s: unknown command \"%s\".%s See %s --help.\n", words.c_str(),
               rest[0].c_str(), DidYouMean(rest[0], commands).c_str(), words.c_str());
  return 2;
}

}  // namespace

int RunProgram(int argc, char** argv, void (*add_commands)(CLI::App& app, Exit& exit)) {
  FillStandardStreams();
  SealDescriptors();
  LimitBlasThreads(1);
  CLI::App app{"Tidemill trains coding agents by asynchronous reinforcement learning.", "tidemill"};
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit status: 0 done, 1 failed, 2 wrong arguments or config, 130 interrupted and\n"
      "saved (train, warmup, eval, worker learner: Ctrl-C or SIGTERM). `tidemill COMMAND --help`\n"
      "says more; a new user begins with `tidemill doctor` and `tidemill init`.");
  app.set_version_flag("--version", VersionText(), "Print the version and build information");
  std::string log_level = "info";
  bool log_json = false;
  AddLogOptions(app, log_level, log_json);
  Exit exit{.words = argv};
  add_commands(app, exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  } catch (const std::exception& error) {
    LogError("the command failed", {{"error", error.what()}});
    return 1;
  }
  return exit.code;
}

int BecomeProgram(const std::string& name, const Exit& exit) {
  const std::string path = ShippedProgram(name);
  std::fflush(nullptr);
  execv(path.c_str(), exit.words);
  const int error = errno;
  return Fail(Unavailable(path + ": cannot run it: " + std::strerror(error) +
                          ". `make program` builds it, and every installation of Tidemill contains "
                          "it (`cmake --install`, `make deb`)"));
}

}  // namespace tidemill

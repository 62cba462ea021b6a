// tidemill completion: scripts that let a shell complete commands, options, config keys and runs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "run/run_config.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

// The shell asks the program itself, so that it never knows less than the program.
constexpr char kBash[] = R"sh(_tidemill() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(tidemill completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _tidemill tidemill
)sh";
constexpr char kZshBegin[] = "autoload -U +X bashcompinit && bashcompinit\n";
constexpr char kFish[] =
    "complete -c tidemill -a "
    "'(tidemill completion words -- (commandline -opc)[2..-1] (commandline -ct))'\n";

void AddOptionNames(const CLI::App& app, std::vector<std::string>& words) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  }
}

std::vector<std::string> ConfigKeys() {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::vector<std::string> keys = binder.Names();
  for (std::string& key : keys) key += "=";
  return keys;
}

bool TakesRun(const CLI::App& command, const std::string& before) {
  if (before == "--resume") return true;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_name() == "run") return true;
  }
  return false;
}

// The words that may stand in the place of the last of `words`.
std::vector<std::string> Candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  const size_t known = words.empty() ? 0 : words.size() - 1;
  for (size_t i = 0; i < known; ++i) {
    const auto named =
        command->get_subcommands([&](const CLI::App* one) { return one->get_name() == words[i]; });
    if (!named.empty()) command = named.front();
  }
  const std::string last = words.empty() ? "" : words.back();
  const std::string before = known == 0 ? "" : words[known - 1];
  std::vector<std::string> found;
  if (before == "--set") return ConfigKeys();
  if (last.rfind('-', 0) == 0) {
    AddOptionNames(*command, found);
    return found;
  }
  for (const CLI::App* one : command->get_subcommands([](const CLI::App*) { return true; }))
    found.push_back(one->get_name());
  if (found.empty() && TakesRun(*command, before)) {
    const Result<std::vector<RunInfo>> runs = RunDirectory::List(RunConfig().run.folder);
    if (runs.ok()) {
      for (const RunInfo& run : *runs) found.push_back(run.name);
    }
  }
  return found;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, Exit&) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print a script for shell completion, to be sourced");
  completion->require_subcommand(1);
  const auto add = [&](const char* shell, const char* how, std::string script) {
    completion->add_subcommand(shell, how)->callback([script] {
      std::fputs(script.c_str(), stdout);
    });
  };
  add("bash", "In ~/.bashrc: source <(tidemill completion bash)", kBash);
  add("zsh", "In ~/.zshrc: source <(tidemill completion zsh)", std::string(kZshBegin) + kBash);
  add("fish", "In config.fish: tidemill completion fish | source", kFish);
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* ask = completion->add_subcommand(
      "words", "What may follow: the words typed so far, the last one perhaps a part");
  ask->add_option("words", *words, "Words behind `tidemill`, after --");
  ask->callback([words, &app] {
    for (const std::string& word : Candidates(app, *words)) {
      if (words->empty() || word.rfind(words->back(), 0) == 0) std::printf("%s\n", word.c_str());
    }
  });
}

}  // namespace tidemill

// tidemill launch: a fleet from one file, on this machine, by ssh or on Slurm.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/fleet_backend.h"
#include "cli/fleet_follow.h"
#include "cli/fleet_screen.h"
#include "core/child_process.h"
#include "core/files.h"
#include "core/text.h"
#include "run/run_config.h"
#include "run/stop_signal.h"
#include "scale/launch/keeper.h"

namespace tidemill {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr size_t kSpecBytesMax = 16u << 20;

struct LaunchArguments {
  std::string fleet_file, run, folder = "fleets";
  bool dry_run = false, detach = false;
  std::string action, host_folder;  // of `host`
};

std::string FleetFileIn(const std::string& folder) {
  return folder + "/fleet.toml";
}

// The learner would refuse it after everything was started.
Status CheckConfig(const FleetFile& fleet) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.Load(fleet.config, fleet.set));
  return CheckRunConfig(config, binder);
}

int Launch(const LaunchArguments& arguments) {
  const Result<FleetFile> fleet = ReadFleetFile(arguments.fleet_file);
  if (!fleet.ok()) return Wrong(fleet.status());
  if (const Status config = CheckConfig(*fleet); !config.ok()) return Wrong(config);
  const auto backend = BackendFor(*fleet);
  const Result<std::string> dry = backend->DryRun();
  if (!dry.ok()) return Fail(dry.status());
  if (arguments.dry_run) {
    std::printf("%s", dry->c_str());
    return 0;
  }
  if (const Status started = backend->Start(); !started.ok()) return Fail(started);
  const Status kept = WriteFileAtomically(FleetFileIn(fleet->RunFolder()), FleetFileText(*fleet));
  if (!kept.ok()) return Fail(kept);
  std::printf("fleet of %s: state and logs in %s\n", fleet->run.c_str(),
              fleet->RunFolder().c_str());
  std::fflush(stdout);
  return FollowFleet(*backend, *fleet, arguments.detach ? Until::kThere : Until::kOver);
}

// The fleet that was started under this name from here.
Result<FleetFile> FleetOf(const LaunchArguments& arguments) {
  if (!IsFleetName(arguments.run)) return Invalid("\"" + arguments.run + "\" is no name of a run");
  const std::string file = FleetFileIn(arguments.folder + "/" + arguments.run);
  if (access(file.c_str(), R_OK) != 0) {
    return NotFound("no fleet of the run \"" + arguments.run + "\" was started from " +
                    arguments.folder + "; --folder names another folder of fleets");
  }
  return ReadFleetFile(file);
}

int Attach(const LaunchArguments& arguments) {
  const Result<FleetFile> fleet = FleetOf(arguments);
  if (!fleet.ok()) return Fail(fleet.status());
  return FollowFleet(*BackendFor(*fleet), *fleet, Until::kOver);
}

int Down(const LaunchArguments& arguments) {
  const Result<FleetFile> fleet = FleetOf(arguments);
  if (!fleet.ok()) return Fail(fleet.status());
  const auto backend = BackendFor(*fleet);
  if (const Status down = backend->Down(); !down.ok()) return Fail(down);
  // Workers finish what they hold.
  for (;;) {
    const Result<std::vector<FleetState>> states = backend->States();
    if (!states.ok()) return Fail(states.status());
    if (IsOver(*states)) return 0;
    std::this_thread::sleep_for(kLookEvery);
  }
}

// What a launch asks of one host: of this one, or through ssh.
int OnHost(const LaunchArguments& arguments) {
  const std::string& folder = arguments.host_folder;
  if (arguments.action == "keep") {
    StopOnSignals();
    const Status kept = RunKeeper(folder, {}, AskedToStop);
    return kept.ok() ? 0 : Fail(kept);
  }
  if (arguments.action == "stop") {
    const Status stopped = StopKeeper(folder);
    return stopped.ok() ? 0 : Fail(stopped);
  }
  if (arguments.action == "state") {
    const Result<FleetState> state = StateIn(folder);
    if (!state.ok()) return Fail(state.status());
    std::printf("%s", StateText(*state).c_str());
    return 0;
  }
  if (arguments.action == "roster") {
    const Result<std::string> roster = RosterIn(folder);
    if (!roster.ok()) return Fail(roster.status());
    std::printf("%s", roster->c_str());
    return 0;
  }
  std::string spec(kSpecBytesMax, '\0');
  std::cin.read(spec.data(), static_cast<std::streamsize>(spec.size()));
  spec.resize(static_cast<size_t>(std::cin.gcount()));
  const Status started = StartKeeper(folder, spec, ThisProgram());
  return started.ok() ? 0 : Fail(started);
}

}  // namespace

void AddLaunchCommand(CLI::App& app, Exit& exit) {
  CLI::App* launch =
      app.add_subcommand("launch", "Start a fleet of workers from one file, follow it, end it");
  auto arguments = std::make_shared<LaunchArguments>();
  launch->add_option("fleet", arguments->fleet_file, "Fleet file (TOML), see docs/operations.md");
  launch->add_flag("--dry-run", arguments->dry_run, "Print what would be run, and run nothing");
  launch->add_flag("--detach", arguments->detach, "Return when the fleet is there");
  launch->require_subcommand(0, 1);
  const auto named = [&](const char* name, const char* doc, int (*run)(const LaunchArguments&)) {
    CLI::App* command = launch->add_subcommand(name, doc);
    command->add_option("run", arguments->run, "Name of the run")->required();
    command->add_option("--folder", arguments->folder, "Folder that holds the fleets")
        ->capture_default_str();
    command->callback([arguments, run, &exit] { exit.code = run(*arguments); });
  };
  named("attach", "Follow a fleet that was started before", Attach);
  named("down", "End a fleet: workers finish what they hold", Down);
  CLI::App* host =
      launch->add_subcommand("host", "One host's part of a fleet; launch itself uses it")
          ->group("");
  host->add_option("action", arguments->action, "start, keep, state, roster or stop")
      ->required()
      ->check(CLI::IsMember({"start", "keep", "state", "roster", "stop"}));
  host->add_option("folder", arguments->host_folder, "Folder of the fleet on this host")
      ->required();
  host->callback([arguments, &exit] { exit.code = OnHost(*arguments); });
  launch->callback([launch, arguments, &exit] {
    if (!launch->get_subcommands().empty()) return;
    if (arguments->fleet_file.empty()) throw CLI::RequiredError("fleet file");
    exit.code = Launch(*arguments);
  });
}

}  // namespace tidemill

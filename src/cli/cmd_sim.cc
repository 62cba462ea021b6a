// tidemill sim: the real loops in the simulator.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "sim/simulation.h"

namespace tidemill {
namespace {

struct SimArguments {
  uint64_t seeds = 1000;
  uint64_t first_seed = 1;
  uint64_t seed = 0;
  bool trace = false;
  bool json = false;
};

int RunSim(const SimArguments& arguments) {
  const uint64_t first = arguments.seed > 0 ? arguments.seed : arguments.first_seed;
  const uint64_t count = arguments.seed > 0 ? 1 : arguments.seeds;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t crashes = 0, resumes = 0, trajectories = 0, steps = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const sim::SimReport report = sim::RunSimulation({.seed = seed, .trace = arguments.trace});
    crashes += report.crashes, resumes += report.resumes;
    trajectories += report.trajectories, steps += report.steps;
    if (report.ok) continue;
    if (arguments.json) PrintJson({{"ok", false}, {"seed", seed}, {"failure", report.failure}});
    std::fprintf(stderr, "seed %lu: %s\nreplay with: tidemill sim --seed %lu --trace\n", seed,
                 report.failure.c_str(), seed);
    return 1;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (arguments.json) {
    PrintJson({{"ok", true},
               {"seeds", count},
               {"crashes", crashes},
               {"resumes", resumes},
               {"trajectories", trajectories},
               {"steps", steps},
               {"seconds", seconds}});
    return 0;
  }
  std::printf(
      "%lu seed%s, no guarantee broken: %lu learner steps, %lu trajectories, %lu crashes, %lu "
      "resumes in %.1f s\n",
      count, count == 1 ? "" : "s", steps, trajectories, crashes, resumes, seconds);
  return 0;
}

}  // namespace

void AddSimCommand(CLI::App& app, Exit& exit) {
  CLI::App* sim = app.add_subcommand(
      "sim", "Run the loops in the simulator with random faults and check their guarantees");
  auto arguments = std::make_shared<SimArguments>();
  sim->add_option("--seeds", arguments->seeds, "Number of seeds")->check(CLI::PositiveNumber);
  sim->add_option("--first-seed", arguments->first_seed, "First seed")->check(CLI::PositiveNumber);
  sim->add_option("--seed", arguments->seed, "Run only this seed")->check(CLI::PositiveNumber);
  sim->add_flag("--trace", arguments->trace, "Print every event with its virtual time");
  sim->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  sim->callback([arguments, &exit] { exit.code = RunSim(*arguments); });
}

}  // namespace tidemill

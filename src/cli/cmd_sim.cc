// tidemill sim: the real loops in the simulator.
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "cli/commands.h"
#include "sim/simulation.h"

namespace tidemill {
namespace {

struct SimArguments {
  uint64_t seeds = 1000;
  uint64_t first_seed = 0;  // 0: from the clock
  uint64_t seed = 0;
  double seconds = 0;  // 0: as many seeds as asked for
  bool trace = false;
  bool json = false;
};

// Seeds that were tried before find what was mended before: without a word they are new.
uint64_t SeedOfTheClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// What all seeds of a call came to.
struct SimTotals {
  uint64_t seeds = 0;
  uint64_t crashes = 0, resumes = 0, trajectories = 0, steps = 0;
  uint64_t turns = 0;  // of clients' sessions
  std::map<std::string, uint64_t> faults;
  std::unordered_set<uint64_t> interleavings;

  void Add(const sim::SimReport& report) {
    ++seeds;
    crashes += report.crashes, resumes += report.resumes;
    trajectories += report.trajectories, steps += report.steps;
    turns += report.client_turns;
    for (const auto& [kind, times] : report.faults) faults[kind] += times;
    interleavings.insert(report.interleavings.begin(), report.interleavings.end());
  }
};

void PrintTotals(const SimTotals& totals, double seconds) {
  std::printf(
      "%lu seed%s, no guarantee broken: %lu learner steps, %lu trajectories, %lu turns of "
      "sessions, %lu crashes, %lu resumes in %.1f s\n"
      "%zu distinct interleavings (orders of %d steps of loops and ports)\nfaults:",
      totals.seeds, totals.seeds == 1 ? "" : "s", totals.steps, totals.trajectories, totals.turns,
      totals.crashes, totals.resumes, seconds, totals.interleavings.size(), sim::kInterleaved);
  const char* before = " ";
  for (const auto& [kind, times] : totals.faults) {
    std::printf("%s%s %lu", before, kind.c_str(), times);
    before = ", ";
  }
  std::printf("\n");
}

int RunSim(const SimArguments& arguments) {
  const uint64_t drawn = arguments.first_seed > 0 ? arguments.first_seed : SeedOfTheClock();
  const uint64_t first = arguments.seed > 0 ? arguments.seed : drawn;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto more = [&](uint64_t done) {
    if (arguments.seed > 0) return done < 1;
    return arguments.seconds > 0 ? passed() < arguments.seconds : done < arguments.seeds;
  };
  if (arguments.seed == 0) std::fprintf(stderr, "first seed %lu\n", first);
  SimTotals totals;
  while (more(totals.seeds)) {
    const uint64_t seed = first + totals.seeds;
    const sim::SimReport report = sim::RunSimulation({.seed = seed, .trace = arguments.trace});
    totals.Add(report);
    if (report.ok) continue;
    if (arguments.json) PrintJson({{"ok", false}, {"seed", seed}, {"failure", report.failure}});
    std::fprintf(stderr, "seed %lu: %s\nreplay with: tidemill sim --seed %lu --trace\n", seed,
                 report.failure.c_str(), seed);
    return 1;
  }
  if (!arguments.json) {
    PrintTotals(totals, passed());
    return 0;
  }
  PrintJson({{"ok", true},
             {"first_seed", first},
             {"seeds", totals.seeds},
             {"crashes", totals.crashes},
             {"resumes", totals.resumes},
             {"trajectories", totals.trajectories},
             {"turns", totals.turns},
             {"steps", totals.steps},
             {"interleavings", totals.interleavings.size()},
             {"faults", totals.faults},
             {"seconds", passed()}});
  return 0;
}

}  // namespace

void AddSimCommand(CLI::App& app, Exit& exit) {
  CLI::App* sim = app.add_subcommand(
      "sim", "Run the loops in the simulator with random faults and check their guarantees");
  auto arguments = std::make_shared<SimArguments>();
  sim->add_option("--seeds", arguments->seeds, "Number of seeds")->check(CLI::PositiveNumber);
  sim->add_option("--seconds", arguments->seconds, "Run for this long instead of --seeds")
      ->check(CLI::PositiveNumber);
  sim->add_option("--first-seed", arguments->first_seed,
                  "First seed; by default drawn from the clock and printed")
      ->check(CLI::PositiveNumber);
  sim->add_option("--seed", arguments->seed, "Run only this seed")->check(CLI::PositiveNumber);
  sim->add_flag("--trace", arguments->trace, "Print every event with its virtual time");
  sim->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  sim->callback([arguments, &exit] { exit.code = RunSim(*arguments); });
}

}  // namespace tidemill

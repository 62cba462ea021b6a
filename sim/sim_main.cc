// tidemill-sim, which `tidemill sim` becomes: the real loops in the simulator.
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "cli/program.h"
#include "sim/sim_words.h"
#include "sim/simulation.h"

namespace tidemill {
namespace {

// Seeds that were tried before find what was mended before: without a word they are new.
uint64_t SeedOfTheClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// The totals over all seeds of a call.
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

int RunSim(const SimWords& words) {
  const uint64_t drawn = words.first_seed > 0 ? words.first_seed : SeedOfTheClock();
  const uint64_t first = words.seed > 0 ? words.seed : drawn;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto more = [&](uint64_t done) {
    if (words.seed > 0) return done < 1;
    return words.seconds > 0 ? passed() < words.seconds : done < words.seeds;
  };
  if (words.seed == 0) std::fprintf(stderr, "first seed %lu\n", first);
  SimTotals totals;
  while (more(totals.seeds)) {
    const uint64_t seed = first + totals.seeds;
    const sim::SimReport report = sim::RunSimulation({.seed = seed, .trace = words.trace});
    totals.Add(report);
    if (report.ok) continue;
    if (words.json) PrintJson({{"ok", false}, {"seed", seed}, {"failure", report.failure}});
    std::fprintf(stderr, "seed %lu: %s\nreplay with: tidemill sim --seed %lu --trace\n", seed,
                 report.failure.c_str(), seed);
    return 1;
  }
  if (!words.json) {
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

void AddCommands(CLI::App& app, Exit& exit) {
  AddSimWords(app, [&exit](const SimWords& words) { exit.code = RunSim(words); });
}

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  return tidemill::RunProgram(argc, argv, tidemill::AddCommands);
}

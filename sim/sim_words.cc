#include "sim/sim_words.h"

#include <memory>
#include <utility>

namespace tidemill {

void AddSimWords(CLI::App& app, std::function<void(const SimWords& words)> run) {
  CLI::App* sim = app.add_subcommand(
      "sim", "Run the loops in the simulator with random faults and check their guarantees");
  auto words = std::make_shared<SimWords>();  // shared: the callback outlives this call
  sim->add_option("--seeds", words->seeds, "Number of seeds")->check(CLI::PositiveNumber);
  sim->add_option("--seconds", words->seconds, "Run for this long instead of --seeds")
      ->check(CLI::PositiveNumber);
  sim->add_option("--first-seed", words->first_seed,
                  "First seed; by default drawn from the clock and printed")
      ->check(CLI::PositiveNumber);
  sim->add_option("--seed", words->seed, "Run only this seed")->check(CLI::PositiveNumber);
  sim->add_flag("--trace", words->trace, "Print every event with its virtual time");
  sim->add_flag("--json", words->json, "Print one JSON object on standard output");
  sim->callback([words, run = std::move(run)] { run(*words); });
}

}  // namespace tidemill

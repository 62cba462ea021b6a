// The words of `tidemill sim`, for the program that shows them and the one that does the work.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>

namespace tidemill {

struct SimWords {
  uint64_t seeds = 1000;
  uint64_t first_seed = 0;  // 0: from the clock
  uint64_t seed = 0;        // 0: not one alone
  double seconds = 0;       // 0: as many seeds as asked for
  bool trace = false;
  bool json = false;
};

void AddSimWords(CLI::App& app, std::function<void(const SimWords& words)> run);

}  // namespace tidemill

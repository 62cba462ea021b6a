// The words of `tidemill bench`, for the program that shows them and the one that measures.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tidemill {

struct BenchWords;

void AddBenchWords(CLI::App& app, std::function<void(const BenchWords& words)> run);

}  // namespace tidemill

// tidemill bench disk.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace tidemill {

void AddDiskBench(CLI::App& bench, Exit& exit);

}  // namespace tidemill

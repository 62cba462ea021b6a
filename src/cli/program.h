// The common part of `tidemill` and the programs beside it (tidemill-sim, tidemill-bench): the
// words before a command, what is said of wrong ones, and the exit status.
#pragma once

#include "cli/commands.h"

namespace tidemill {

// Reads the words and runs the command they name, of those that `add_commands` declares.
int RunProgram(int argc, char** argv, void (*add_commands)(CLI::App& app, Exit& exit));

// Becomes the program `name` of libexec/tidemill, with the same words: it does what this process
// was asked for. Returns, with the exit status, only if it is not there.
int BecomeProgram(const std::string& name, const Exit& exit);

}  // namespace tidemill

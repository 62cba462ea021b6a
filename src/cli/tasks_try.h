// tidemill tasks try FILE [--task ID | --all] [--json].
#pragma once

#include "cli/commands.h"

namespace tidemill {

void AddTasksTry(CLI::App& tasks, Exit& exit);

}  // namespace tidemill

// `tidemill model import`: a model in another program's format becomes a directory.
#pragma once

#include "cli/commands.h"

namespace tidemill {

void AddModelImport(CLI::App& model, Exit& exit);

}  // namespace tidemill

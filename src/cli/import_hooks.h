// Patches and boxes for importers of tasks; src/tasks has neither.
#pragma once

#include "tasks/import/task_import.h"

namespace tidemill {

ImportHooks NewImportHooks();

}  // namespace tidemill

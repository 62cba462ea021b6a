// What importers of tasks need and the folder of tasks does not have: patches and boxes.
#pragma once

#include "tasks/import/task_import.h"

namespace tidemill {

ImportHooks NewImportHooks();

}  // namespace tidemill

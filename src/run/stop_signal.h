// SIGTERM and Ctrl-C as a question that loops ask, for commands that end by finishing their work.
#pragma once

namespace tidemill {

// From now on these signals do not end the process.
void StopOnSignals();

// One of them came.
bool AskedToStop();

}  // namespace tidemill

// For commands that serve until somebody asks them to end.
#pragma once

namespace tidemill {

// Before any thread is started, so that all of them leave SIGINT and SIGTERM to WaitForSignal.
void BlockSignals();

// Until SIGINT or SIGTERM comes.
void WaitForSignal();

}  // namespace tidemill

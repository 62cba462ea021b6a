// SIGTERM and Ctrl-C as a question that loops ask, for commands that end by finishing their work.
#pragma once

namespace tidemill {

enum class SecondSignal { kAsksAgain, kEndsProcess };

// From now on these signals do not end the process; the second of them does only if so wanted.
void StopOnSignals(SecondSignal second = SecondSignal::kAsksAgain);

// One of them came.
bool AskedToStop();

}  // namespace tidemill

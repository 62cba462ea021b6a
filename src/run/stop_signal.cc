#include "run/stop_signal.h"

#include <atomic>
#include <csignal>

namespace tidemill {
namespace {

std::atomic<bool> asked_to_stop{false};

}  // namespace

void StopOnSignals(SecondSignal second) {
  struct sigaction action = {};
  if (second == SecondSignal::kEndsProcess) action.sa_flags = static_cast<int>(SA_RESETHAND);
  action.sa_handler = [](int) { asked_to_stop = true; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool AskedToStop() {
  return asked_to_stop;
}

}  // namespace tidemill

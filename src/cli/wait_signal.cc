#include "cli/wait_signal.h"

#include <csignal>

namespace tidemill {
namespace {

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void WaitForSignal() {
  const sigset_t signals = EndingSignals();
  int signal = 0;
  sigwait(&signals, &signal);
}

}  // namespace tidemill

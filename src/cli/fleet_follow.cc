#include "cli/fleet_follow.h"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "cli/commands.h"
#include "cli/fleet_screen.h"
#include "core/text.h"
#include "run/stop_signal.h"

namespace tidemill {
namespace {

constexpr auto kFollowEvery = std::chrono::seconds(1);
constexpr size_t kLogsShown = 3;

// Belongs to one thread.
class Follower {
 public:
  Follower(FleetBackend& backend, const FleetFile& fleet)
      : backend_(backend), fleet_(fleet), terminal_(isatty(STDOUT_FILENO) != 0) {}

  Status Look() {
    TM_ASSIGN_OR_RETURN(view_.states, backend_.States());
    const auto log_of = [this](const FleetState& state, const std::string& process) {
      return backend_.LogOf(state, process);
    };
    new_logs_ = logs_.Since(view_.states, log_of);
    view_.last_logs.insert(view_.last_logs.end(), new_logs_.begin(), new_logs_.end());
    while (view_.last_logs.size() > kLogsShown) view_.last_logs.erase(view_.last_logs.begin());
    if (!IsOver(view_.states)) LookAtRoster();
    return Ok();
  }

  void Show() {
    const std::string changed = ForTerminal(changes_.Since(view_));
    if (terminal_) {
      const std::string table = FleetTable(view_);
      if (table != shown_) std::printf("\033[H\033[J%s", ForTerminal(table).c_str());
      shown_ = table;
    } else {
      std::printf("%s", changed.c_str());
      for (const std::string& log : new_logs_) std::fprintf(stderr, "%s", ForTerminal(log).c_str());
    }
    std::fflush(stdout);
  }

  // Says so once.
  bool There() {
    if (there_ || view_.roles.empty() || !IsThere(view_.roles)) return there_;
    there_ = true;
    if (!terminal_) std::printf("the fleet is there\n");
    std::fflush(stdout);
    return true;
  }
  bool Over() const { return IsOver(view_.states); }
  std::string Failure() const { return FailureOf(view_.states); }

 private:
  void LookAtRoster() {
    Result<std::vector<WorkerHealth>> workers = backend_.Roster();
    view_.roster_failure = workers.ok() ? "" : workers.status().message();
    // What was known stays on the screen while the bus does not answer.
    if (!workers.ok()) return;
    view_.workers = std::move(*workers);
    view_.roles = RolesOf(fleet_, view_.workers);
  }

  FleetBackend& backend_;
  const FleetFile& fleet_;
  const bool terminal_;
  LaunchScreen view_;
  FleetChanges changes_;
  FleetLogs logs_;
  std::vector<std::string> new_logs_;
  std::string shown_;
  bool there_ = false;
};

}  // namespace

int FollowFleet(FleetBackend& backend, const FleetFile& fleet, Until until) {
  StopOnSignals();
  Follower follower(backend, fleet);
  while (!AskedToStop()) {
    if (const Status looked = follower.Look(); !looked.ok()) return Fail(looked);
    follower.Show();
    if (follower.Over()) {
      const std::string failure = follower.Failure();
      if (const Status left = backend.Leave(failure); !left.ok()) return Fail(left);
      return failure.empty() ? 0 : Fail(Internal("the fleet failed: " + failure));
    }
    if (follower.There() && until == Until::kThere) return 0;
    std::this_thread::sleep_for(kFollowEvery);
  }
  std::fprintf(stderr, "the fleet goes on; tidemill launch attach %s shows it, down %s ends it\n",
               fleet.run.c_str(), fleet.run.c_str());
  return kInterrupted;
}

}  // namespace tidemill

// Which processes of a fleet are started, started again and told to end, and when the fleet is
// over. Pure: the keeper (keeper.h) starts and signals what this says, and tells it what became of
// them. Belongs to one thread; time is what it is told.
//
//   running -- the learner is done --> finishing -- all have left --> over
//      `------ asked to, or hopeless --> stopping ------------------'
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/clock.h"

namespace tidemill {

struct KeeperRules {
  Duration backoff_first = std::chrono::seconds(1);  // doubles with each short life
  Duration backoff_max = std::chrono::minutes(1);
  Duration short_life = std::chrono::seconds(20);
  int short_lives_max = 8;                   // in a row: then it is not started again
  Duration leave = std::chrono::minutes(1);  // when the run is done, before they are told to end
  Duration stop = std::chrono::minutes(2);   // from being told to end until they are killed
};

enum class FleetPhase { kRunning, kFinishing, kStopping, kOver };
enum class KeptState { kWaiting, kRunning, kEnded, kFailed };

struct KeptProcess {
  std::string name, role = {};
  KeptState state = KeptState::kWaiting;
  pid_t pid = 0;  // while it runs
  uint32_t starts = 0;
  std::string last_end = {};  // "exited with status 1"; empty: it never ended
  int short_lives = 0;        // in a row
  Time since = kNever;        // it runs
  Time start_at = Time::min();
  Time told_at = kNever;  // to end
  bool killed = false;
};

class KeeperBook {
 public:
  // Names and roles; a process of the role "redis" outlives the others.
  KeeperBook(std::vector<KeptProcess> processes, const KeeperRules& rules);

  // Those to be started now; each is answered by Started or NotStarted.
  std::vector<size_t> ToStart(Time now) const;
  void Started(size_t process, pid_t pid, Time now);
  void NotStarted(size_t process, const std::string& why, Time now);
  // `wait_status` as of waitpid.
  void Ended(size_t process, int wait_status, Time now);

  struct Signal {
    size_t process;
    int signal;
  };
  // What is to be sent now; each is said once.
  std::vector<Signal> TakeSignals(Time now);

  // The fleet is to end. `why` is empty where a person wants it.
  void Stop(const std::string& why, Time now);

  // When something is due that nobody reports.
  Time NextTime() const;
  FleetPhase phase() const { return phase_; }
  // Why the fleet failed; empty: it did not.
  const std::string& failure() const { return failure_; }
  const std::vector<KeptProcess>& processes() const { return processes_; }

 private:
  void AfterEnd(KeptProcess& process, Time now);
  void GiveUp(KeptProcess& process, Time now);
  // All that runs has to end by itself; what waits is not started any more.
  void Finish(Time now);
  bool OthersAreGone() const;
  void OverIfAllAreGone();
  // Every worker of this host has left by itself.
  void OverIfAllHaveLeft(Time now);

  const KeeperRules rules_;
  std::vector<KeptProcess> processes_;
  FleetPhase phase_ = FleetPhase::kRunning;
  std::string failure_;
  Time finishing_since_ = kNever;
};

}  // namespace tidemill

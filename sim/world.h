// The simulated world: a virtual clock, a queue of things that will happen, and loops stepped by
// one thread in an order drawn from a seed. The same seed replays the same run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "core/clock.h"
#include "core/loop.h"
#include "core/random.h"
#include "sim/simulation.h"

namespace tidemill::sim {

using ProcessId = int;

// The first failure; empty while all is well. Every checker reports here.
class Verdict {
 public:
  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
};

class World {
 public:
  World(uint64_t seed, bool trace);
  ~World();

  VirtualClock& clock() { return clock_; }
  Random& random() { return random_; }
  Verdict& verdict() { return verdict_; }

  // Something that happens at `at`, on behalf of a process; forgotten if the process dies first.
  void At(Time at, ProcessId process, std::function<void()> what);
  void After(Duration delay, ProcessId process, std::function<void()> what) {
    At(clock_.Now() + delay, process, std::move(what));
  }

  // The loop belongs to the process and is stepped until it is removed.
  void AddLoop(ProcessId process, Loop& loop);
  // The process is gone: its loops are no longer stepped and what it had coming does not happen.
  void Kill(ProcessId process, MemoryBus& bus);

  // Steps loops and lets things happen until `done`, a failure, or `until`. Returns done().
  bool Run(MemoryBus* const& bus, Time until, const std::function<bool()>& done);

  // Something is done to the loops that they must survive.
  void Fault(const std::string& kind) { ++faults_[kind]; }
  // Adds the faults and the interleavings.
  void Tell(SimReport& report) const;

  bool tracing() const { return trace_; }
  void Trace(const std::string& line) const;
  uint64_t steps() const { return steps_; }

 private:
  struct Slot;
  struct Event {
    ProcessId process;
    std::function<void()> what;
  };

  bool StepOne();
  bool HappenOne();
  Time NextTime(Time bus_deadline) const;
  // The last event: an interleaving ends with it.
  void Note(uint64_t happened);

  VirtualClock clock_;
  Random random_;
  Verdict verdict_;
  bool trace_;
  uint64_t next_event_ = 0;
  uint64_t steps_ = 0;
  std::map<std::pair<Time, uint64_t>, Event> events_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<std::string, uint64_t> faults_;
  std::array<uint64_t, kInterleaved> newest_{};  // a ring
  size_t noted_ = 0;
  std::unordered_set<uint64_t> interleavings_;
};

}  // namespace tidemill::sim

#include "sim/world.h"

#include <algorithm>
#include <cstdio>

namespace tidemill::sim {

struct World::Slot final : public Waker {
  ProcessId process;
  Loop* loop;
  uint64_t name = 0;  // the same in every run
  bool woken = true;
  Time wake_at = Time::min();
  void Wake() override { woken = true; }
};

World::World(uint64_t seed, bool trace) : random_(seed), trace_(trace) {}
World::~World() = default;

void World::Trace(const std::string& line) const {
  if (trace_) std::printf("%10.3f  %s\n", Seconds(clock_.Now().time_since_epoch()), line.c_str());
}

void World::At(Time at, ProcessId process, std::function<void()> what) {
  events_.emplace(std::make_pair(at, next_event_++), Event{process, std::move(what)});
}

void World::AddLoop(ProcessId process, Loop& loop) {
  auto slot = std::make_unique<Slot>();
  slot->process = process;
  slot->loop = &loop;
  slot->name = MixHash(StableHash(loop.name()), static_cast<uint64_t>(process));
  loop.Attach(*slot);
  slots_.push_back(std::move(slot));
}

void World::Kill(ProcessId process, MemoryBus& bus) {
  for (auto& slot : slots_) {
    if (slot->process == process) bus.Unsubscribe(*slot);
  }
  std::erase_if(events_, [&](const auto& entry) { return entry.second.process == process; });
  std::erase_if(slots_, [&](const auto& slot) { return slot->process == process; });
}

// Steps one loop that has something to do, drawn from all that have.
bool World::StepOne() {
  std::vector<Slot*> runnable;
  for (auto& slot : slots_) {
    if (slot->woken || slot->wake_at <= clock_.Now()) runnable.push_back(slot.get());
  }
  if (runnable.empty()) return false;
  Slot& slot = *runnable[random_.Below(runnable.size())];
  Note(slot.name);
  slot.woken = false;
  ++steps_;
  try {
    slot.wake_at = slot.loop->Step(clock_.Now());
  } catch (const std::exception& error) {
    verdict_.Fail("loop " + std::string(slot.loop->name()) + " threw: " + error.what());
  }
  // A loop that asks to be stepped again at once gets its turn, but time goes on.
  if (slot.wake_at <= clock_.Now()) slot.wake_at = clock_.Now() + std::chrono::microseconds(100);
  return true;
}

bool World::HappenOne() {
  if (events_.empty() || events_.begin()->first.first > clock_.Now()) return false;
  auto node = events_.extract(events_.begin());
  Note(static_cast<uint64_t>(node.mapped().process));
  node.mapped().what();
  return true;
}

void World::Note(uint64_t happened) {
  newest_[noted_++ % kInterleaved] = happened;
  if (noted_ < kInterleaved) return;
  uint64_t order = 0;
  for (size_t i = noted_ - kInterleaved; i < noted_; ++i) {
    order = MixHash(order, newest_[i % kInterleaved]);
  }
  interleavings_.insert(order);
}

void World::Tell(SimReport& report) const {
  for (const auto& [kind, times] : faults_) report.faults[kind] += times;
  report.interleavings.insert(interleavings_.begin(), interleavings_.end());
}

Time World::NextTime(Time bus_deadline) const {
  Time next = bus_deadline;
  if (!events_.empty()) next = std::min(next, events_.begin()->first.first);
  for (const auto& slot : slots_) next = std::min(next, slot->wake_at);
  return next;
}

bool World::Run(MemoryBus* const& bus, Time until, const std::function<bool()>& done) {
  while (!verdict_.failed() && !done()) {
    if (HappenOne() || StepOne()) continue;
    const Time bus_deadline = bus == nullptr ? kNever : bus->NextDeadline();
    const Time next = NextTime(bus_deadline);
    if (next > until) return false;
    clock_.AdvanceTo(std::max(next, clock_.Now() + Duration(1)));
    if (bus_deadline <= clock_.Now()) bus->Poll();
  }
  return !verdict_.failed();
}

}  // namespace tidemill::sim

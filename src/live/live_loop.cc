#include "live/live_loop.h"

#include <algorithm>
#include <set>
#include <utility>

#include "bus/read_message.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr auto kSweepEvery = std::chrono::seconds(1);
constexpr size_t kSiblingsAtOnce = 64;
constexpr auto kFlushEvery = std::chrono::milliseconds(5);

}  // namespace

void LiveLoop::Attach(Waker& waker) {
  books_.store.events().Attach(waker);
  if (books_.bus != nullptr) books_.bus->Subscribe(kSiblingsTopic, waker);
  MutexLock lock(books_.mutex);
  if (!books_.judges) return;
  books_.judges->Attach(waker);
  AskAgain();
}

void LiveLoop::TakeSiblings() {
  if (books_.bus == nullptr) return;
  for (Lease& lease : TakeFrom(*books_.bus, kSiblingsTopic, kSiblingsAtOnce)) {
    v1::SiblingsDone done;
    if (!ReadOrReject(*books_.bus, lease, done, {})) continue;
    books_.Teach(books_.signals.Siblings(done));
    (void)books_.bus->Ack(lease);
  }
}

void LiveLoop::TakeJudged(Time now) {
  if (!books_.judges) return;
  for (v1::Signal& signal : books_.judges->Take(now, books_.clock.WallMs())) {
    signal.set_revision(books_.signals.NextRevision(signal));
    books_.Put(std::move(signal), nullptr);
  }
}

void LiveLoop::AskAgain() {
  books_.table.ForEach([this](const Session& session) TM_REQUIRES(books_.mutex) {
    std::set<uint32_t> judged;
    for (const v1::Signal& signal : books_.signals.SignalsOf(session.record().number())) {
      if (signal.source() == "judge") judged.insert(signal.turn());
    }
    for (const auto& [number, turn] : session.turns()) {
      if (!judged.contains(turn.record.context_turn()))
        books_.judges->Ask(session, number, books_.clock.Now());
    }
  });
}

Time LiveLoop::Step(Time now) {
  LiveTold told;
  Time wake{};
  {
    MutexLock lock(books_.mutex);
    books_.TakeStored(told);
    TakeSiblings();
    TakeJudged(now);
    if (now >= next_sweep_) {
      next_sweep_ = now + kSweepEvery;
      books_.Submit(books_.table.CloseIdle(books_.clock.WallMs()), nullptr);
    }
    wake = next_sweep_;
    if (books_.judges) wake = std::min(wake, books_.judges->next());
    if (books_.outbox) {
      books_.outbox->Flush(now);
      if (books_.outbox->waiting() > 0) wake = std::min(wake, now + kFlushEvery);
    }
    books_.Count();
  }
  for (auto& [stored, status] : told) stored(std::move(status));
  return wake;
}

bool LiveLoop::Drained() const {
  MutexLock lock(books_.mutex);
  return books_.Settled();
}

}  // namespace tidemill

#include "gateway/gateway_loop.h"

#include <algorithm>
#include <set>

#include "core/mutex.h"
#include "gateway/error_reply.h"

namespace tidemill {
namespace {

// Of a sequence that the engine does not take or carry on. `pinned`: by the client.
TurnLoss LossOf(const Status& status, bool pinned) {
  switch (status.code()) {
    case Code::kInvalid:
      return TurnLoss::kRefused;
    case Code::kNotFound:
    case Code::kUnavailable:
      return pinned ? TurnLoss::kRefused : TurnLoss::kOurs;
    default:
      return TurnLoss::kOurs;
  }
}

}  // namespace

// What came from other threads since the last step. Outlives the loop where a callback does.
struct GatewayLoop::Arrivals {
  struct StoredTurn {
    TurnId id = 0;
    int choice = 0;
    Status status;
  };

  void Wake() TM_REQUIRES(mutex) {
    if (waker != nullptr) waker->Wake();
  }

  Mutex mutex;
  Waker* waker TM_GUARDED_BY(mutex) = nullptr;
  std::vector<std::unique_ptr<AskedTurn>> asked TM_GUARDED_BY(mutex);  // bounded by Admission
  std::set<TurnId> noticed TM_GUARDED_BY(mutex);                       // of turns there are
  std::vector<StoredTurn> stored TM_GUARDED_BY(mutex);                 // one for each choice
};

GatewayLoop::GatewayLoop(EnginePort& engine, TurnRecorder& recorder, const ServedPolicy& policy,
                         RequestObserver& observer, GatewayLoopOptions options)
    : engine_(engine),
      recorder_(recorder),
      policy_(policy),
      observer_(observer),
      options_(options),
      arrivals_(std::make_shared<Arrivals>()) {}

void GatewayLoop::Detach() {
  engine_.feed().Detach();
  MutexLock lock(arrivals_->mutex);
  arrivals_->waker = nullptr;
}

GatewayLoop::~GatewayLoop() {
  Detach();
  for (const auto& [id, running] : answers_)
    GiveUp(id, TurnLoss::kOurs, Closed("the server stops"));
}

void GatewayLoop::Attach(Waker& waker) {
  engine_.feed().Attach(waker);
  MutexLock lock(arrivals_->mutex);
  arrivals_->waker = &waker;
}

void GatewayLoop::Submit(std::unique_ptr<AskedTurn> turn) {
  MutexLock lock(arrivals_->mutex);
  arrivals_->asked.push_back(std::move(turn));
  arrivals_->Wake();
}

Time GatewayLoop::Step(Time now) {
  TakeDeltas(now);
  TakeArrivals(now);  // what the recorder said inside of its call, too
  StartWaiting(now);
  if (draining_ && options_.cuts) Cut(now);
  const Time next = Beat(now);
  waiting_count_ = waiting_.size();
  running_count_ = answers_.size() - waiting_.size();
  sequence_count_ = sequences_.size();
  return next;
}

void GatewayLoop::TakeArrivals(Time now) {
  std::vector<std::unique_ptr<AskedTurn>> asked;
  std::set<TurnId> noticed;
  std::vector<Arrivals::StoredTurn> stored;
  {
    MutexLock lock(arrivals_->mutex);
    asked.swap(arrivals_->asked);
    noticed.swap(arrivals_->noticed);
    stored.swap(arrivals_->stored);
  }
  for (auto& turn : asked) {
    const TurnId id = next_turn_++;
    Running& running = answers_[id];
    running.answer = std::make_unique<LiveAnswer>(std::move(turn), policy_, options_.slow_bytes);
    running.sequences.resize(static_cast<size_t>(running.answer->choice_count()));
    running.reported.resize(running.sequences.size());
    running.answer->reply().Watch([arrivals = arrivals_, id] {
      MutexLock lock(arrivals->mutex);
      arrivals->noticed.insert(id);
      arrivals->Wake();
    });
    Enqueue(id);
  }
  for (const Arrivals::StoredTurn& turn : stored) {
    const auto it = answers_.find(turn.id);
    if (it == answers_.end()) continue;
    if (turn.status.ok()) {
      it->second.answer->Stored(turn.choice);
      it->second.answer->Flush(now);
    } else {
      FailTurn(turn.id, ErrorOf(turn.status, false), TurnLoss::kOurs, turn.status, now);
    }
    EndIfOver(turn.id);
  }
  for (const TurnId id : noticed) {
    const auto it = answers_.find(id);
    if (it == answers_.end()) continue;
    LiveAnswer& answer = *it->second.answer;
    if (answer.reply().gone()) {
      GiveUp(id, TurnLoss::kClientLeft, Closed("the client left"));
      answer.Leave(now);
    } else {
      answer.Flush(now);
    }
    EndIfOver(id);
  }
}

// A request passes those of its own tenant with a higher priority number, and nobody else.
void GatewayLoop::Enqueue(TurnId id) {
  waiting_.push_back(id);
  const AskedTurn& asked = answers_.at(id).answer->asked();
  for (size_t at = waiting_.size() - 1, i = at; i-- > 0;) {
    const AskedTurn& before = answers_.at(waiting_[i]).answer->asked();
    if (before.tenant.id != asked.tenant.id) continue;
    if (before.request.priority <= asked.request.priority) return;
    std::swap(waiting_[i], waiting_[at]);
    at = i;
  }
}

void GatewayLoop::TakeDeltas(Time now) {
  for (const TurnDelta& delta : engine_.feed().TakeAll()) {
    const auto it = sequences_.find(delta.part.id);
    if (it == sequences_.end()) continue;  // released meanwhile
    const auto [id, choice] = it->second;
    TakeDelta(id, choice, delta, now);
    EndIfOver(id);
  }
}

void GatewayLoop::TakeDelta(TurnId id, int choice, const TurnDelta& delta, Time now) {
  Running& running = answers_.at(id);
  LiveAnswer& answer = *running.answer;
  if (!delta.status.ok()) {
    // The engine has forgotten it.
    sequences_.erase(delta.part.id);
    running.sequences[static_cast<size_t>(choice)] = 0;
    const bool pinned = answer.asked().client_pinned;
    return FailTurn(id, ErrorOf(delta.status, pinned), LossOf(delta.status, pinned), delta.status,
                    now);
  }
  const bool complete = answer.Push(choice, delta, now);
  if (complete) {
    ReleaseChoice(running, choice);
    Complete(id, choice);
  }
  answer.Flush(now);
}

void GatewayLoop::Complete(TurnId id, int choice) {
  Running& running = answers_.at(id);
  running.reported[static_cast<size_t>(choice)] = true;
  recorder_.Finished(running.answer->Record(choice),
                     [arrivals = arrivals_, id, choice](Status status) {
                       MutexLock lock(arrivals->mutex);
                       arrivals->stored.push_back({id, choice, std::move(status)});
                       arrivals->Wake();
                     });
}

void GatewayLoop::StartWaiting(Time now) {
  while (!waiting_.empty()) {
    const TurnId id = waiting_.front();
    if (draining_) {
      SendAway(id, now);
      continue;
    }
    const auto choices = static_cast<size_t>(answers_.at(id).answer->choice_count());
    if (!sequences_.empty() && sequences_.size() + choices > options_.sequences_max) return;
    waiting_.pop_front();
    StartTurn(id, now);
  }
}

void GatewayLoop::Cut(Time now) {
  while (!answers_.empty()) SendAway(answers_.begin()->first, now);
}

void GatewayLoop::SendAway(TurnId id, Time now) {
  const Status why = Unavailable("The server is stopping; ask again");
  FailTurn(id, ErrorOf(why, false), TurnLoss::kOurs, why, now);
  EndIfOver(id);
}

void GatewayLoop::StartTurn(TurnId id, Time now) {
  Running& running = answers_.at(id);
  running.answer->Started(now);
  const int n = running.answer->asked().request.sampling.n;
  uint64_t group = 0;
  for (int choice = 0; choice < running.answer->choice_count(); ++choice) {
    const SequenceId sequence = new_sequences_.Take();
    if (choice % n == 0) group = sequence;  // its choices share a prompt
    running.sequences[static_cast<size_t>(choice)] = sequence;
    sequences_.emplace(sequence, std::pair(id, choice));
    engine_.Start(running.answer->Start(choice, sequence, group));
  }
}

void GatewayLoop::ReleaseChoice(Running& running, int choice) {
  SequenceId& sequence = running.sequences[static_cast<size_t>(choice)];
  if (sequence == 0) return;
  engine_.Release(sequence);
  sequences_.erase(sequence);
  sequence = 0;
}

// Choices that the recorder has not heard of are abandoned.
void GatewayLoop::GiveUp(TurnId id, TurnLoss loss, const Status& why) {
  std::erase(waiting_, id);
  Running& running = answers_.at(id);
  for (int choice = 0; choice < running.answer->choice_count(); ++choice) {
    ReleaseChoice(running, choice);
    if (running.reported[static_cast<size_t>(choice)]) continue;
    running.reported[static_cast<size_t>(choice)] = true;
    recorder_.Abandoned(running.answer->Record(choice), loss, why);
  }
}

void GatewayLoop::FailTurn(TurnId id, const ApiError& error, TurnLoss loss, const Status& why,
                           Time now) {
  GiveUp(id, loss, why);
  answers_.at(id).answer->Fail(error, now);
}

void GatewayLoop::EndIfOver(TurnId id) {
  const auto it = answers_.find(id);
  if (it == answers_.end() || !it->second.answer->over()) return;
  observer_.Over(it->second.answer->report());
  answers_.erase(it);
}

Time GatewayLoop::Beat(Time now) {
  if (answers_.empty()) return kNever;
  if (now >= next_beat_) {
    for (auto& [id, running] : answers_) running.answer->Beat(now, options_.heartbeat);
    next_beat_ = now + options_.heartbeat / 4;
  }
  return next_beat_;
}

GatewayLoop::Counts GatewayLoop::counts() const {
  return {.waiting = waiting_count_, .running = running_count_, .sequences = sequence_count_};
}

}  // namespace tidemill

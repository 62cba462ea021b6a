#include "sim/live_learner.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bus/outbox.h"
#include "core/message_check.h"
#include "core/topics.h"

namespace tidemill::sim {
namespace {

// The score of a session by the rules of docs/live.md, from all of its signals.
std::optional<double> ScoreOf(const SimStore& store, uint64_t session) {
  for (const char* source : {"program", "person", "judge"}) {
    std::vector<double> whole;
    std::map<uint32_t, std::vector<double>> turns;
    for (const auto& [key, signal] : store.durable().signals) {
      if (signal.session() != session || signal.source() != source) continue;
      (signal.turn() == 0 ? whole : turns[signal.turn()]).push_back(signal.score());
    }
    auto mean = [](const std::vector<double>& values) {
      double sum = 0;
      for (const double value : values) sum += value;
      return sum / static_cast<double>(values.size());
    };
    if (!whole.empty()) return mean(whole);
    if (turns.empty()) continue;
    std::vector<double> of_turns;
    for (const auto& [turn, values] : turns) of_turns.push_back(mean(values));
    return mean(of_turns);
  }
  return std::nullopt;
}

void CheckAcknowledged(const SimStore& store, const SignalLedger& ledger, World& world) {
  std::map<SignalLedger::Key, double> stored;
  for (const auto& [key, signal] : store.durable().signals) {
    for (const v1::SessionTurn& turn : store.durable().sessions.at(signal.session()).turns) {
      if (turn.turn() == signal.turn())
        stored[{turn.request_id(), signal.source()}] = signal.score();
    }
  }
  for (const auto& [key, score] : ledger.acknowledged) {
    const auto it = stored.find(key);
    if (it == stored.end()) return world.verdict().Fail("an acknowledged signal was lost");
    const auto open = ledger.open.find(key);
    const bool maybe = open != ledger.open.end() && open->second.contains(it->second);
    if (it->second != score && !maybe) {
      return world.verdict().Fail("an acknowledged signal was replaced by an older one");
    }
  }
}

}  // namespace

LiveLearner::LiveLearner(World& world, ProcessId process, MemoryBus& bus, SimStore& store,
                         uint64_t step, bool deaf)
    : world_(world),
      process_(process),
      bus_(bus),
      store_(store.NewClient()),
      deaf_(deaf),
      step_(step) {
  world_.After(milliseconds(1 + world_.random().Below(400)), process_, [this] { Train(); });
}

// Sooner or later, maybe twice, and maybe with none that has a reward.
void LiveLearner::AnswerSiblings() {
  for (const Lease& lease : TakeFrom(bus_, kSiblingsWantedTopic, 100)) {
    v1::SiblingsWanted wanted;
    TM_CHECK(ReadMessage(lease.body, wanted, {}).ok());
    (void)bus_.Ack(lease);
    Random& random = world_.random();
    v1::SiblingsDone done;
    done.set_session(wanted.session());
    done.set_scored(static_cast<uint32_t>(random.Below(wanted.members() + 1)));
    done.set_reward_sum(done.scored() * random.Uniform());
    const uint64_t times = random.Chance(0.2) ? 2 : 1;
    for (uint64_t n = 0; n < times; ++n) {
      world_.After(milliseconds(1 + random.Below(5000)), process_,
                   [this, done] { (void)bus_.Publish(kSiblingsTopic, done.SerializeAsString()); });
    }
  }
}

void LiveLearner::Train() {
  AnswerSiblings();
  for (const Lease& lease : TakeFrom(bus_, kLiveEventsTopic, 100)) {
    v1::LiveEvent event;
    TM_CHECK(ReadMessage(lease.body, event, {}).ok());
    (void)bus_.Ack(lease);
    if (event.has_deleted() && !deaf_) pool_.Forget(event.deleted().session());
    if (event.has_revised()) (void)pool_.Revise(event.revised());
    if (!event.has_sample()) continue;
    const v1::LiveCredit& credit = event.sample().live();
    if (credit.turn_scores_size() != event.sample().trajectory().turns_size() ||
        credit.others() == 0 || std::abs(credit.baseline()) > 1) {
      return world_.verdict().Fail("a trajectory came without what it is compared with");
    }
    (void)pool_.Add(std::move(*event.mutable_sample()));
  }
  const bool busy = world_.random().Chance(0.5);
  if (const size_t count = busy ? 0 : world_.random().Below(pool_.size() + 1); count > 0) {
    PutStep step;
    step.step = ++step_;
    for (const v1::Sample& sample : pool_.Take(count)) {
      if (gone_.contains(sample.trajectory().id().group())) {
        return world_.verdict().Fail("deleted data reached a batch");
      }
      step.used.push_back(sample.trajectory().id());
      ++used_;
    }
    store_->Submit(std::move(step), step_);
  }
  (void)store_->events().TakeAll();
  world_.After(milliseconds(1 + world_.random().Below(2000)), process_, [this] { Train(); });
}

void CheckSignals(const SimStore& store, const SignalLedger& ledger, size_t others_min,
                  World& world) {
  CheckAcknowledged(store, ledger, world);
  // A session is compared with others of its tenant.
  const auto tenant_of = [&](uint64_t session) {
    return store.durable().sessions.at(session).session.tenant();
  };
  std::map<std::string, std::set<uint64_t>> scored;
  for (const v1::Trajectory& trajectory : store.durable().live) {
    const uint64_t session = trajectory.id().group();
    if (ScoreOf(store, session)) scored[tenant_of(session)].insert(session);
  }
  for (const v1::Trajectory& trajectory : store.durable().live) {
    const std::string key = LiveKey(trajectory.id());
    const std::optional<double> score = ScoreOf(store, trajectory.id().group());
    const auto verdict = store.durable().live_verdicts.find(key);
    const auto uses = store.durable().live_uses.find(key);
    const size_t used = uses == store.durable().live_uses.end() ? 0 : uses->second.size();
    if (score.has_value() != (verdict != store.durable().live_verdicts.end())) {
      return world.verdict().Fail("a session has a verdict and no signal, or a signal and none");
    }
    if (score && std::abs(*score - verdict->second.reward()) > 1e-9) {
      return world.verdict().Fail("a verdict is not what the signals say");
    }
    if (used > 1) return world.verdict().Fail("a trajectory of a session was trained twice");
    if (used > 0 && !score) return world.verdict().Fail("a session was trained without a signal");
    if (used == 0 && score && scored[tenant_of(trajectory.id().group())].size() > others_min) {
      return world.verdict().Fail("a session with a signal was never trained");
    }
  }
}

}  // namespace tidemill::sim

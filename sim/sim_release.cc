#include "sim/sim_release.h"

namespace tidemill::sim {
namespace {

ReleaseOptions SimReleaseOptions(Random& random, size_t places) {
  ReleaseOptions options;
  options.canary_share = random.Uniform();
  options.canary_time = milliseconds(random.Below(2000));
  options.canary_answers = static_cast<uint32_t>(random.Below(4));
  options.places = places;
  options.alarm_malformed = 0.5;
  options.gate_failures = static_cast<uint32_t>(random.Below(3));
  options.behind_max = random.Below(4);
  options.alarm_entropy = 0.1;
  return options;
}

}  // namespace

SimRelease::SimRelease(World& world, SimStore& store, ProcessId process, bool swaps)
    : world_(world),
      store_(store),
      process_(process),
      swaps_(swaps),
      newest_(store.ReserveNow(0)),
      book_(SimReleaseOptions(world.random(), kPlaces), newest_, 0, Now()) {
  numbers_.insert(newest_);
  Carry(book_.Begin());
  publications_left_ = world.random().Chance(0.3) ? 0 : static_cast<int>(world.random().Below(12));
  if (publications_left_ > 0) Later(1500, [this] { Publish(); });
}

int64_t SimRelease::Now() const {
  return world_.clock().WallMs();
}

void SimRelease::Later(uint64_t within_ms, std::function<void()> what) {
  world_.After(milliseconds(1 + world_.random().Below(within_ms)), process_, std::move(what));
}

void SimRelease::Carry(const ReleaseOrders& orders) {
  for (const ReleaseOrders::Hold& hold : orders.hold) {
    // Held is what is newest, or held already; and one place is for new weights.
    const bool there = hold.version == newest_ || held_.contains(hold.version);
    if (!there || held_.size() + 1 > kPlaces - 1) {
      Carry(book_.Refused(hold.as, "no place", Now()));
      continue;
    }
    held_.insert(hold.as);
    Carry(book_.Held(hold.as, Now()));
  }
  for (const uint64_t version : orders.unhold) held_.erase(version);
  if (orders.set_back) SetBack(*orders.set_back);
  if (!orders.reserve) return;
  const uint64_t number = store_.ReserveNow(step_);
  if (!numbers_.insert(number).second) world_.verdict().Fail("a version number was given twice");
  Carry(book_.Reserved(number, Now()));
}

// The learner goes on from earlier weights, which get a number of their own, or it cannot.
void SimRelease::SetBack(uint64_t to) {
  if (!numbers_.contains(to)) world_.verdict().Fail("the learner is set back to what never was");
  if (world_.random().Chance(0.2)) return book_.NotSetBack("not kept", Now());
  newest_ = store_.ReserveNow(step_);
  if (!numbers_.insert(newest_).second) world_.verdict().Fail("a version number was given twice");
  Carry(book_.SetBack(newest_, step_, Now()));
}

void SimRelease::Publish() {
  Random& random = world_.random();
  --publications_left_;
  newest_ = store_.ReserveNow(++step_);
  book_.Stepped(step_);
  if (!numbers_.insert(newest_).second) world_.verdict().Fail("a version number was given twice");
  if (random.Chance(0.7)) Carry(book_.Published(newest_, step_, Now()));
  if (random.Chance(0.1)) Carry(book_.Trained({.step = step_, .entropy = random.Uniform()}, Now()));
  if (random.Chance(0.15)) {
    if (auto back = book_.Rollback({}, Now()); back.ok()) Carry(*back);
  }
  Carry(book_.Tick(Now()));
  const uint64_t step = step_;
  std::optional<double> rate;  // of some evaluations nothing can be scored
  if (!random.Chance(0.1)) rate = random.Uniform();
  Later(800, [this, step, rate] { Carry(book_.Evaluated(step, rate, Now())); });
  if (publications_left_ > 0) Later(1500, [this] { Publish(); });
}

uint64_t SimRelease::Pin(uint64_t session) {
  const uint64_t version = book_.VersionFor(session, false);
  releases_ += book_.released().version != last_released_ ? 1 : 0;
  last_released_ = book_.released().version;
  if (version != newest_ && !held_.contains(version)) {
    world_.verdict().Fail("a session is to be answered from a version that is not held");
  }
  const auto& candidate = book_.candidate();
  const bool canary = candidate && candidate->stage == ReleaseBook::Stage::kCanary;
  const std::pair offer{book_.released().version, canary ? candidate->version : 0};
  const auto [it, made] = given_.try_emplace(session, std::pair{offer, version});
  // A session that had its version before the canary began keeps it.
  const bool same = it->second.first == offer || it->second.first.first == offer.first;
  if (!made && same && it->second.second == offer.first && version != offer.first) {
    world_.verdict().Fail("a session changed its version in the middle");
  }
  it->second = {offer, version};
  return version;
}

std::vector<TokenVersionRun> SimRelease::Draw(uint64_t pin, uint32_t tokens) {
  const uint64_t version = swaps_ ? newest_ : pin;
  Carry(book_.Answered({.version = version, .malformed = world_.random().Chance(0.2)}, Now()));
  Carry(book_.Tick(Now()));
  return {{version, tokens}};
}

}  // namespace tidemill::sim

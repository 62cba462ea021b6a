#include "sim/sim_memory.h"

#include <map>
#include <set>
#include <utility>

#include "core/topics.h"
#include "live/live_signals.h"
#include "live/session_cases.h"

namespace tidemill::sim {
namespace {

CasesState CasesOf(const SimDurable& durable) {
  CasesState state;
  for (const auto& [number, record] : durable.cases) state.cases.push_back({number, record});
  return state;
}

MemoryOptions OptionsWith(CaseShelf& shelf) {
  MemoryOptions options;
  options.retrieval = "lexical";
  options.shelf = &shelf;
  options.lease_period = std::chrono::seconds(1);
  return options;
}

}  // namespace

SimMemory::SimMemory(World& world, ProcessId process, MemoryBus& bus, SimStore& store, bool blind)
    : world_(world),
      bus_(bus),
      store_(store),
      blind_(blind),
      port_(store.NewClient()),
      shelf_(MemoryConfig{}),
      loop_(std::make_unique<MemoryLoop>(bus, *port_, no_tasks_, OptionsWith(shelf_), Stored())) {
  world_.AddLoop(process, *loop_);
}

CasesState SimMemory::Stored() const {
  return CasesOf(store_.durable());
}

LiveMemory SimMemory::ForSessions() {
  LiveMemory memory;
  memory.case_tokens = 10'000;
  memory.look = [this](const std::string& tenant, const std::string& prompt) {
    if (!blind_) return shelf_.Look({.tenant = tenant, .prompt = prompt});
    std::vector<v1::ShownCase> all;
    shelf_.With([&](const CaseBank& bank) {
      for (const auto& [number, one] : bank.cases()) all.push_back(bank.Show(number));
    });
    return all;
  };
  return memory;
}

void SimMemory::Erase(uint64_t session) {
  const auto erased = shelf_.Erase(
      {session}, [this] { return Result<std::vector<CasesState::Learned>>(Stored().cases); });
  TM_CHECK(erased.ok(), erased.status().message());
}

bool SimMemory::Idle() const {
  const auto depth = bus_.Depth(kMemoryCasesTopic);
  return depth.ok() && depth->ready + depth->leased == 0 && loop_->Drained();
}

void SimMemory::CheckStored() const {
  CaseShelf next{MemoryConfig{}};
  for (const CasesState::Learned& one : Stored().cases) next.Apply(one.number, one.record);
  const auto digest = [](const CaseBank& bank) { return bank.Digest(); };
  if (next.With(digest) != shelf_.With(digest)) {
    world_.verdict().Fail("memory is not what the database says");
  }
}

void CheckCases(const SimStore& store, World& world) {
  const SimDurable& durable = store.durable();
  std::map<std::pair<uint64_t, uint32_t>, const v1::CaseRecord*> newest;
  for (const auto& [number, record] : durable.cases) {
    newest[{record.session(), record.id().member()}] = &record;
    if (durable.erased.contains(record.session())) {
      return world.verdict().Fail("a deleted session has a case");
    }
  }
  for (const auto& [number, stored] : durable.sessions) {
    for (const uint64_t shown : stored.session.shown_cases()) {
      if (durable.case_tenants.at(shown) != stored.session.tenant()) {
        return world.verdict().Fail("a session was shown a case of another tenant");
      }
    }
  }
  std::map<uint64_t, std::vector<v1::Signal>> signals;
  for (const auto& [key, signal] : durable.signals) signals[signal.session()].push_back(signal);
  for (const v1::Trajectory& trajectory : durable.live) {
    const uint64_t number = trajectory.id().group();
    const SessionScore score = ScoreSession(signals[number]);
    const auto stored = durable.sessions.find(number);
    if (!score.any || stored == durable.sessions.end()) continue;
    Session session(stored->second.session);
    for (const v1::SessionTurn& turn : stored->second.turns) TM_CHECK(session.Add(turn).ok());
    for (const v1::Turn& turn : trajectory.turns()) {
      const auto own = score.turns.find(turn.session_turn());
      const double value = own == score.turns.end() ? score.session : own->second;
      if (!SessionCase(session, turn.session_turn(), value)) continue;
      const auto it = newest.find({number, turn.session_turn()});
      if (it == newest.end()) return world.verdict().Fail("a scored turn never became a case");
      if (it->second->reward() != value) {
        return world.verdict().Fail("a case has a score that was taken back");
      }
    }
  }
}

}  // namespace tidemill::sim

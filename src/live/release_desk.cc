#include "live/release_desk.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/log.h"
#include "core/random.h"
#include "live/guard_desk.h"

namespace tidemill {
namespace {

using ReleaseJson = nlohmann::ordered_json;

// A request that was pinned and waits for its turn still finds its version.
constexpr auto kUnholdGrace = std::chrono::seconds(30);
// A place may be free only when that is over.
constexpr auto kHoldPatience = std::chrono::seconds(40);
constexpr auto kHoldAgain = std::chrono::seconds(2);
constexpr uint64_t kReserveTag = 1;
constexpr uint64_t kStateTag = 2;
constexpr size_t kArrivalsMax = 1 << 16;
constexpr auto kStepEvery = std::chrono::milliseconds(100);

ReleaseJson RateJson(const std::optional<double>& rate) {
  return rate ? ReleaseJson(*rate) : ReleaseJson(nullptr);
}

ReleaseJson ReleaseOf(const ReleaseBook::Release& release) {
  return {{"version", release.version},
          {"weights", release.weights},
          {"step", release.step},
          {"pass_rate", RateJson(release.pass_rate)}};
}

}  // namespace

ReleaseDesk::ReleaseDesk(const ReleaseStart& start, EnginePort& engine, StorePort& store,
                         const Clock& clock)
    : start_(start),
      engine_(engine),
      store_(store),
      clock_(clock),
      arrived_(kArrivalsMax),
      wishes_(kArrivalsMax),
      book_(start.options, start.version, start.step, clock.WallMs(), start.earlier) {
  MutexLock lock(mutex_);
  Carry(book_.Begin());
  Keep();
}

void ReleaseDesk::Attach(Waker& waker) {
  arrived_.Attach(waker);
  store_.events().Attach(waker);
}

void ReleaseDesk::Carry(const ReleaseOrders& orders) {
  for (const ReleaseOrders::Hold& hold : orders.hold) {
    engine_.Hold(hold.version, hold.as);
    const Time now = clock_.Now();
    holds_.push_back({hold.as, now + kHoldPatience, hold.version, now + kHoldAgain});
  }
  for (const uint64_t version : orders.unhold) {
    unholds_.push_back({version, clock_.Now() + kUnholdGrace});
  }
  if (orders.set_back) set_back_ = orders.set_back;
  if (orders.reserve) store_.Submit(ReserveVersion{book_.released().step}, kReserveTag);
  counters_.released = book_.released().version;
  counters_.candidate = book_.candidate() ? book_.candidate()->version : 0;
  counters_.gate_failures = book_.gate_failures();
}

void ReleaseDesk::Hear(const VersionEvent& event) {
  const int64_t now = clock_.WallMs();
  if (const auto* made = std::get_if<VersionMade>(&event)) {
    book_.Stepped(made->step);
    if (made->step % std::max<uint64_t>(1, start_.every_steps) != 0) return;
    Carry(book_.Published(made->version, made->step, now));
  } else if (const auto* trained = std::get_if<StepTrained>(&event)) {
    Carry(book_.Trained(*trained, now));
  } else if (const auto* evaluated = std::get_if<StepEvaluated>(&event)) {
    Carry(book_.Evaluated(evaluated->step, evaluated->pass_rate, now));
  } else if (const auto* back = std::get_if<LearnerSetBack>(&event)) {
    if (back->status.ok()) return Carry(book_.SetBack(back->version, back->step, now));
    book_.NotSetBack(back->status.message(), now);
  }
}

void ReleaseDesk::Keep() {
  const v1::ReleaseState state = book_.State();
  if (std::string bytes = state.SerializeAsString(); bytes != kept_) {
    kept_ = std::move(bytes);
    store_.Submit(PutRelease{state}, kStateTag);
  }
  const ReleaseWish wish{book_.released().step, book_.Wanted(), std::exchange(set_back_, {})};
  std::string told = std::to_string(wish.step);
  for (const uint64_t version : wish.keep) told += " " + std::to_string(version);
  if (told == wished_ && !wish.set_back) return;
  wished_ = std::move(told);
  wishes_.Post(wish);
}

void ReleaseDesk::CheckHolds(Time now) {
  const std::vector<uint64_t> held = engine_.Stats().held;
  for (std::deque<Waiting> waiting = std::exchange(holds_, {}); !waiting.empty();
       waiting.pop_front()) {
    const Waiting& one = waiting.front();
    if (std::find(held.begin(), held.end(), one.number) != held.end()) {
      Carry(book_.Held(one.number, clock_.WallMs()));
    } else if (now < one.until) {
      holds_.push_back(one);
      if (now < one.again) continue;
      engine_.Hold(one.version, one.number);
      holds_.back().again = now + kHoldAgain;
    } else {
      Carry(book_.Refused(one.number, "the engine has no place for it (engine.versions)",
                          clock_.WallMs()));
    }
  }
  while (!unholds_.empty() && unholds_.front().until <= now) {
    engine_.Unhold(unholds_.front().number);
    unholds_.pop_front();
  }
}

Time ReleaseDesk::Step(Time now) {
  MutexLock lock(mutex_);
  for (const VersionEvent& event : arrived_.TakeAll()) Hear(event);
  for (const StoreDone& done : store_.events().TakeAll()) {
    if (done.tag == kReserveTag && done.status.ok())
      Carry(book_.Reserved(done.version, clock_.WallMs()));
    if (done.tag == kStateTag && !done.status.ok()) {
      kept_.clear();  // again, with the next step
      LogOnce("release-state", LogLevel::kWarn, done.status.message());
    }
  }
  Carry(book_.Tick(clock_.WallMs()));
  CheckHolds(now);
  Keep();
  return now + kStepEvery;
}

void ReleaseDesk::Tick() {
  if (start_.file.empty()) return;
  const std::string state = Json();
  if (state == written_) return;
  const Status status = WriteFileAtomically(start_.file, state + "\n");
  if (!status.ok()) LogOnce("release", LogLevel::kWarn, status.message());
  written_ = state;
}

uint64_t ReleaseDesk::VersionFor(uint64_t session, const std::string& request_id) {
  MutexLock lock(mutex_);
  return session != 0 ? book_.VersionFor(session, false)
                      : book_.VersionFor(StableHash(request_id), true);
}

void ReleaseDesk::Answered(const RecordedTurn& turn) {
  if (turn.output.versions.empty()) return;
  MutexLock lock(mutex_);
  Carry(book_.Answered({.version = turn.output.versions.back().version,
                        .malformed = HasMalformedCall(turn.message),
                        .question = EndsWithQuestion(turn.message)},
                       clock_.WallMs()));
}

Status ReleaseDesk::Rollback(std::optional<uint64_t> to) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(const ReleaseOrders orders, book_.Rollback(to, clock_.WallMs()));
  Carry(orders);
  return Ok();
}

std::string ReleaseDesk::Json() const {
  MutexLock lock(mutex_);
  return JsonLocked();
}

std::string ReleaseDesk::JsonLocked() const {
  ReleaseJson json = {{"released", ReleaseOf(book_.released())}};
  json["previous"] = book_.previous() ? ReleaseOf(*book_.previous()) : ReleaseJson(nullptr);
  json["candidate"] = nullptr;
  if (const auto& candidate = book_.candidate()) {
    json["candidate"] = {
        {"version", candidate->version},
        {"step", candidate->step},
        {"stage", candidate->stage == ReleaseBook::Stage::kGate ? "gate" : "canary"},
        {"since_ms", candidate->since_ms},
        {"pass_rate", RateJson(candidate->pass_rate)}};
  }
  json["gate_failures"] = book_.gate_failures();
  json["alarms"] = book_.alarms();
  json["events"] = ReleaseJson::array();
  for (const ReleaseBook::Event& event : book_.events()) {
    json["events"].push_back({{"at_ms", event.at_ms},
                              {"what", event.what},
                              {"version", event.version},
                              {"why", event.why}});
  }
  return json.dump();
}

Result<TurnPrompt> ReleasedRecorder::Prepare(const TurnQuestion& question) {
  TM_ASSIGN_OR_RETURN(TurnPrompt prompt, next().Prepare(question));
  // An agent's episode is training data: it is drawn from the newest version.
  const bool named =
      question.headers.contains("x-policy-version") || !question.tenant.session.empty();
  if (!prompt.pin_version && !named) {
    prompt.pin_version = desk_.VersionFor(prompt.session, question.request_id);
  }
  return prompt;
}

void ReleasedRecorder::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  desk_.Answered(turn);
  next().Finished(std::move(turn), std::move(stored));
}

Result<std::optional<uint64_t>> ParseRollback(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object() && json.empty()) return std::optional<uint64_t>();
  if (json.is_object() && json.size() == 1 && json.contains("to") &&
      json["to"].is_number_unsigned()) {
    return std::optional(json["to"].get<uint64_t>());
  }
  return Invalid("must be {} or {\"to\": VERSION}");
}

}  // namespace tidemill

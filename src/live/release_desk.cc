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
constexpr std::string_view kDuring = "during-step-";

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
      book_(start.options, start.version, start.step, clock.WallMs()) {
  MutexLock lock(mutex_);
  Carry(book_.Begin());
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

void ReleaseDesk::Take(std::string_view kind, const std::map<std::string, double>& numbers,
                       const std::map<std::string, std::string>& words) {
  const auto number = [&](const char* name) {
    const auto it = numbers.find(name);
    return it == numbers.end() ? 0.0 : it->second;
  };
  MutexLock lock(mutex_);
  const int64_t now = clock_.WallMs();
  if (kind == "publish") {
    const auto step = static_cast<uint64_t>(number("step"));
    book_.Stepped(step);
    if (step % std::max<uint64_t>(1, start_.every_steps) != 0) return;
    Carry(book_.Published(static_cast<uint64_t>(number("version")), step, now));
  } else if (kind == "step") {
    Carry(book_.Trained(numbers, now));
  } else if (kind == "set_back") {
    Carry(book_.SetBack(static_cast<uint64_t>(number("version")),
                        static_cast<uint64_t>(number("step")), now));
  } else if (kind == "set_back_failed") {
    book_.NotSetBack(words.contains("why") ? words.at("why") : "", now);
  } else if (kind == "eval" && words.contains("name")) {
    const std::string& name = words.at("name");
    if (name == "before") {
      Carry(book_.Evaluated(start_.step, number("pass_rate"), now));
    } else if (name.rfind(kDuring, 0) == 0) {
      const uint64_t step = std::strtoull(name.c_str() + kDuring.size(), nullptr, 10);
      Carry(book_.Evaluated(step, number("pass_rate"), now));
    }
  }
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

void ReleaseDesk::Tick() {
  std::string state;
  {
    MutexLock lock(mutex_);
    for (const StoreDone& done : store_.events().TakeAll()) {
      if (done.status.ok()) Carry(book_.Reserved(done.version, clock_.WallMs()));
    }
    Carry(book_.Tick(clock_.WallMs()));
    CheckHolds(clock_.Now());
    state = JsonLocked();
  }
  if (start_.file.empty() || state == written_) return;
  const Status status = WriteFileAtomically(start_.file, state + "\n");
  if (!status.ok()) LogOnce("release", LogLevel::kWarn, status.message());
  written_ = state;
}

std::optional<ReleaseWish> ReleaseDesk::Wish() {
  MutexLock lock(mutex_);
  ReleaseWish wish{book_.released().step, book_.Wanted(), std::exchange(set_back_, std::nullopt)};
  return wish;
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
  TM_ASSIGN_OR_RETURN(TurnPrompt prompt, recorder_->Prepare(question));
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
  recorder_->Finished(std::move(turn), std::move(stored));
}

void ReleasedRecorder::Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) {
  recorder_->Abandoned(std::move(turn), loss, why);
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

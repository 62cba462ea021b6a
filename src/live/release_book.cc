#include "live/release_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"

namespace tidemill {
namespace {

constexpr size_t kEventsMax = 200;
constexpr uint64_t kAnswersForAlarm = 20;  // fewer say nothing about a share
constexpr size_t kPlacesForPrevious = 4;   // newest, released, candidate, previous

}  // namespace

ReleaseBook::ReleaseBook(const ReleaseOptions& options, uint64_t version, uint64_t step,
                         int64_t now_ms, const v1::ReleaseState& earlier)
    : options_(options), released_{version, step, version, std::nullopt} {
  for (const v1::ReleaseEvent& event : earlier.events()) {
    Note(event.at_ms(), event.what(), event.version(), event.why());
  }
  // Of other weights than it released, what was known says nothing.
  if (earlier.has_released() && earlier.released().step() == step) {
    gate_failures_ = earlier.gate_failures();
    if (earlier.released().evaluated()) released_.pass_rate = earlier.released().pass_rate();
  }
  Note(now_ms, "released", version, "the weights the run began with");
}

v1::ReleaseState ReleaseBook::State() const {
  v1::ReleaseState state;
  v1::ReleasedVersion& released = *state.mutable_released();
  released.set_version(released_.version);
  released.set_step(released_.step);
  released.set_weights(released_.weights);
  released.set_evaluated(released_.pass_rate.has_value());
  released.set_pass_rate(released_.pass_rate.value_or(0));
  state.set_gate_failures(gate_failures_);
  for (const Event& event : events_) {
    v1::ReleaseEvent& stored = *state.add_events();
    stored.set_at_ms(event.at_ms);
    stored.set_what(event.what);
    stored.set_version(event.version);
    stored.set_why(event.why);
  }
  return state;
}

ReleaseOrders ReleaseBook::Begin() const {
  return {.hold = {{released_.version, released_.version}}};
}

void ReleaseBook::Note(int64_t now_ms, const std::string& what, uint64_t version,
                       const std::string& why) {
  events_.push_back({now_ms, what, version, why});
  if (events_.size() > kEventsMax) events_.pop_front();
}

ReleaseOrders ReleaseBook::Published(uint64_t version, uint64_t step, int64_t now_ms) {
  ReleaseOrders orders;
  if (candidate_ || returning_ || setting_back_) return orders;  // one at a time
  candidate_ = Candidate{.version = version, .step = step, .since_ms = now_ms};
  orders.hold.push_back({version, version});
  Note(now_ms, "candidate", version, "published by step " + std::to_string(step));
  return orders;
}

void ReleaseBook::Drop(const std::string& what, const std::string& why, int64_t now_ms,
                       ReleaseOrders& orders) {
  Note(now_ms, what, candidate_->version, why);
  orders.unhold.push_back(candidate_->version);
  rates_.erase(candidate_->version);
  candidate_.reset();
}

ReleaseOrders ReleaseBook::Refused(uint64_t version, const std::string& why, int64_t now_ms) {
  ReleaseOrders orders;
  if (candidate_ && candidate_->version == version) Drop("not held", why, now_ms, orders);
  if (returning_ && returning_->version == version) {
    Note(now_ms, "not rolled back", version, why);
    returning_.reset();
    cannot_set_back_ = true;
  }
  return orders;
}

ReleaseOrders ReleaseBook::Evaluated(uint64_t step, std::optional<double> pass_rate,
                                     int64_t now_ms) {
  ReleaseOrders orders;
  if (step == released_.step && pass_rate) released_.pass_rate = pass_rate;
  if (!candidate_ || candidate_->stage != Stage::kGate || candidate_->step != step) return orders;
  if (!pass_rate) {
    Drop("gate not passed", "no sample of its evaluation could be scored", now_ms, orders);
    return orders;
  }
  candidate_->pass_rate = pass_rate;
  const double least = released_.pass_rate.value_or(0) - options_.gate_margin;
  const std::string compared = fmt::format(
      "pass rate {:.3f}, released {}, margin {:.3f}", *pass_rate,
      released_.pass_rate ? fmt::format("{:.3f}", *released_.pass_rate) : "not evaluated",
      options_.gate_margin);
  if (*pass_rate < least) {
    ++gate_failures_;
    Drop("gate failed", compared, now_ms, orders);
    if (options_.gate_failures > 0 && gate_failures_ >= options_.gate_failures) {
      AskSetBack(fmt::format("{} candidates in a row failed the gate", gate_failures_), now_ms,
                 orders);
    }
    return orders;
  }
  gate_failures_ = 0;
  Note(now_ms, "gate passed", candidate_->version, compared);
  if (options_.canary_share <= 0) {
    ReleaseCandidate("no canary is configured", now_ms, orders);
    return orders;
  }
  candidate_->stage = Stage::kCanary;
  candidate_->since_ms = now_ms;
  candidate_->first_session = newest_session_ + 1;
  rates_.erase(candidate_->version);
  Note(now_ms, "canary", candidate_->version,
       fmt::format("{:.0f} % of new sessions", 100 * options_.canary_share));
  return orders;
}

void ReleaseBook::Succeed(const Release& next, ReleaseOrders& orders) {
  if (previous_) orders.unhold.push_back(previous_->version);
  previous_.reset();
  if (options_.places >= kPlacesForPrevious) {
    previous_ = released_;
  } else {
    orders.unhold.push_back(released_.version);
  }
  rates_.erase(released_.version);
  released_ = next;
  cannot_set_back_ = false;
}

void ReleaseBook::ReleaseCandidate(const std::string& why, int64_t now_ms, ReleaseOrders& orders) {
  const Candidate candidate = *candidate_;
  candidate_.reset();
  Succeed({candidate.version, candidate.step, candidate.version, candidate.pass_rate}, orders);
  Note(now_ms, "released", candidate.version, why);
}

ReleaseOrders ReleaseBook::Alarm(const std::string& why, int64_t now_ms) {
  ReleaseOrders orders;
  if (candidate_ && candidate_->stage == Stage::kCanary) {
    Drop("rolled back", "alarm during the canary: " + why, now_ms, orders);
  }
  return orders;
}

ReleaseOrders ReleaseBook::Trained(const StepTrained& step, int64_t now_ms) {
  std::vector<std::string> on;
  if (step.entropy && *step.entropy < options_.alarm_entropy) {
    on.push_back(
        fmt::format("entropy {:.4f} is below {:.4f}", *step.entropy, options_.alarm_entropy));
  }
  if (step.kl && options_.alarm_kl > 0 && *step.kl > options_.alarm_kl) {
    on.push_back(fmt::format("KL {:.4f} is above {:.4f}", *step.kl, options_.alarm_kl));
  }
  for (const std::string& alarm : on) {
    const auto same = [&](const std::string& old) {
      return old.substr(0, 3) == alarm.substr(0, 3);
    };
    if (std::none_of(alarms_.begin(), alarms_.end(), same)) Note(now_ms, "alarm", 0, alarm);
  }
  alarms_ = on;
  return on.empty() ? ReleaseOrders() : Alarm(on.front(), now_ms);
}

ReleaseOrders ReleaseBook::Answered(const Answer& answer, int64_t now_ms) {
  const bool canary =
      candidate_ && candidate_->stage == Stage::kCanary && candidate_->version == answer.version;
  if (!canary && answer.version != released_.version) return {};
  Rates& rates = rates_[answer.version];
  ++rates.answers;
  rates.malformed += answer.malformed ? 1 : 0;
  rates.questions += answer.question ? 1 : 0;
  if (!canary || rates.answers < kAnswersForAlarm) return {};
  const auto share = [&](uint64_t part) {
    return static_cast<double>(part) / static_cast<double>(rates.answers);
  };
  if (share(rates.malformed) > options_.alarm_malformed) {
    return Alarm(fmt::format("{:.0f} % of its answers have a malformed call, more than {:.0f} %",
                             100 * share(rates.malformed), 100 * options_.alarm_malformed),
                 now_ms);
  }
  if (share(rates.questions) > options_.alarm_questions) {
    return Alarm(fmt::format("{:.0f} % of its answers are questions, more than {:.0f} %",
                             100 * share(rates.questions), 100 * options_.alarm_questions),
                 now_ms);
  }
  return {};
}

ReleaseOrders ReleaseBook::Tick(int64_t now_ms) {
  ReleaseOrders orders;
  if (options_.behind_max > 0 && !candidate_ &&
      newest_step_ > released_.step + options_.behind_max) {
    AskSetBack(fmt::format("it waits {} steps ahead of what is released, and there is no candidate",
                           newest_step_ - released_.step),
               now_ms, orders);
  }
  if (!candidate_ || candidate_->stage != Stage::kCanary) return orders;
  const auto it = rates_.find(candidate_->version);
  const uint64_t answers = it == rates_.end() ? 0 : it->second.answers;
  if (now_ms - candidate_->since_ms < options_.canary_time.count() ||
      answers < options_.canary_answers) {
    return orders;
  }
  ReleaseCandidate(fmt::format("{} answers in the canary without an alarm", answers), now_ms,
                   orders);
  return orders;
}

Result<ReleaseOrders> ReleaseBook::Rollback(std::optional<uint64_t> to, int64_t now_ms) {
  ReleaseOrders orders;
  if (returning_) return Exists("a rollback is under way");
  if (candidate_ && (!to || *to == released_.version)) {
    Drop("rolled back", "by the operator", now_ms, orders);
    return orders;
  }
  if (!previous_ || (to && *to != previous_->version)) {
    return NotFound((to ? "version " + std::to_string(*to) : std::string("the release before")) +
                    " is not held; released is " + std::to_string(released_.version) +
                    (previous_ ? ", before it " + std::to_string(previous_->version)
                               : "; to keep the one before, set engine.versions to 4 or more"));
  }
  if (candidate_) Drop("rolled back", "by the operator", now_ms, orders);
  returning_ = *previous_;
  returning_why_ = "by the operator";
  returning_->version = 0;
  orders.reserve = true;
  return orders;
}

ReleaseOrders ReleaseBook::Reserved(uint64_t number, int64_t) {
  ReleaseOrders orders;
  if (!returning_ || returning_->version != 0 || !previous_) return orders;
  returning_->version = number;
  orders.hold.push_back({previous_->version, number});
  return orders;
}

ReleaseOrders ReleaseBook::Held(uint64_t number, int64_t now_ms) {
  ReleaseOrders orders;
  if (!returning_ || returning_->version != number) return orders;
  const Release next = *returning_;
  returning_.reset();
  Note(now_ms, "rolled back", released_.version, returning_why_);
  Succeed(next, orders);
  Note(now_ms, "released", number,
       "the weights of version " + std::to_string(next.weights) + " again");
  return orders;
}

void ReleaseBook::AskSetBack(const std::string& why, int64_t now_ms, ReleaseOrders& orders) {
  if (setting_back_ || returning_ || cannot_set_back_) return;
  setting_back_ = true;
  orders.set_back = released_.weights;
  Note(now_ms, "learner set back", released_.version, why);
}

ReleaseOrders ReleaseBook::SetBack(uint64_t number, uint64_t step, int64_t now_ms) {
  ReleaseOrders orders;
  setting_back_ = false;
  gate_failures_ = 0;
  if (returning_) return orders;  // an operator has gone back further meanwhile
  if (candidate_) Drop("dropped", "the learner was set back", now_ms, orders);
  returning_ = released_;
  returning_->version = number;
  returning_->step = step;
  returning_why_ = "the learner goes on from the same weights as version " + std::to_string(number);
  orders.hold.push_back({number, number});
  return orders;
}

void ReleaseBook::NotSetBack(const std::string& why, int64_t now_ms) {
  setting_back_ = false;
  gate_failures_ = 0;
  cannot_set_back_ = true;
  Note(now_ms, "learner not set back", released_.version, why);
}

std::vector<uint64_t> ReleaseBook::Wanted() const {
  std::vector<uint64_t> wanted = {released_.weights};
  if (candidate_) wanted.push_back(candidate_->version);
  if (previous_) wanted.push_back(previous_->weights);
  return wanted;
}

uint64_t ReleaseBook::VersionFor(uint64_t session, bool fresh) {
  if (!fresh) newest_session_ = std::max(newest_session_, session);
  if (!candidate_ || candidate_->stage != Stage::kCanary) return released_.version;
  if (!fresh && session < candidate_->first_session) return released_.version;
  // Of a session always the same for one candidate.
  const double draw =
      static_cast<double>(MixHash(session, candidate_->version) >> 11) / 9007199254740992.0;
  return draw < options_.canary_share ? candidate_->version : released_.version;
}

}  // namespace tidemill

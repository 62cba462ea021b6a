#include "engine/remote/remote_server.h"

#include <algorithm>
#include <cmath>

#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kPassedKept = 64;
constexpr size_t kControlBytesMax = size_t{8} << 20;
constexpr uint32_t kFailuresMax = 2;  // in a row; then it is beyond repair
constexpr Duration kAskAgain = milliseconds(20);
constexpr Duration kLoadEvery = std::chrono::seconds(2);
constexpr int kLookAfterFailure = 5;  // times look_again

}  // namespace

RemoteServer::RemoteServer(size_t index, HttpUrl url, const ServerDialect& dialect,
                           HttpCalls& calls, const RemoteOptions& options, ServerWatch& watch)
    : index_(index),
      url_(std::move(url)),
      dialect_(dialect),
      calls_(calls),
      options_(options),
      watch_(watch),
      greeting_(dialect.Greeting()) {}

RemoteServer::~RemoteServer() {
  calls_.Cancel(call_);
  calls_.Cancel(load_call_);
}

bool RemoteServer::Serves() const {
  return phase_ == Phase::kServing || (phase_ == Phase::kUpdating && !frozen_ && version_ != 0);
}

bool RemoteServer::MayDraw(uint64_t version, uint64_t since) const {
  return version >= since && std::find(passed_.begin(), passed_.end(), version) != passed_.end();
}

Time RemoteServer::Step(Time now, const VersionPointer& newest) {
  now_ = now;
  if (call_ != 0) return kNever;
  if (now < look_at_) return look_at_;
  switch (phase_) {
    case Phase::kUnknown:
      phase_ = Phase::kGreeting;
      at_ = 0;
      Ask(greeting_[0].ask);
      break;
    case Phase::kGreeting:
      Ask(greeting_[at_].ask);
      break;
    case Phase::kBehind:
      if (newest == nullptr) return kNever;
      BeginUpdate(newest);
      break;
    case Phase::kUpdating:
      NextUpdateCall();
      break;
    case Phase::kTrial:
      BeginTrial(taking_);
      break;
    case Phase::kServing:
      if (newest != nullptr && newest->version() > version_) {
        BeginUpdate(newest);
        break;
      }
      if (now >= load_at_) AskLoad();
      return load_at_;
  }
  return kNever;
}

void RemoteServer::Doubt(const Status& why, bool distrust) {
  if (distrust) {
    Note(why);
    has_ = nullptr;
    torn_ = true;
  }
  // Otherwise what it is asked now tells whether it is still there.
  if (!Serves()) return;
  calls_.Cancel(std::exchange(call_, 0));
  if (has_ == nullptr) version_ = 0;
  phase_ = Phase::kUnknown;
  look_at_ = Time::min();
}

void RemoteServer::Forget() {
  calls_.Cancel(std::exchange(call_, 0));
  phase_ = Phase::kUnknown;
  has_ = taking_ = nullptr;
  version_ = 0;
  failures_ = 0;
  torn_ = frozen_ = false;
  look_at_ = Time::min();
}

void RemoteServer::Ask(const HttpAsk& ask) {
  body_.clear();
  call_ = calls_.Begin(url_, ask, options_.silence, *this);
}

void RemoteServer::BeginUpdate(const VersionPointer& version) {
  taking_ = version;
  update_ = dialect_.Update(version->files(), options_.cache_on_swap, torn_);
  phase_ = Phase::kUpdating;
  at_ = 0;
  NextUpdateCall();
}

void RemoteServer::NextUpdateCall() {
  const ControlCall& call = update_[at_];
  if (call.when == ControlCall::When::kFrozen && !frozen_) {
    frozen_ = true;
    frozen_at_ = now_;
  }
  if (call.when == ControlCall::When::kResume) watch_.OnTrial(index_);
  Ask(call.ask);
}

void RemoteServer::BeginTrial(const VersionPointer& version) {
  taking_ = version;
  phase_ = Phase::kTrial;
  // A name of its own: nothing cached is used.
  const std::string secret = options_.salt_key + name() + "|" + std::to_string(++trials_);
  Ask(dialect_.Score(version->canary().ids, "canary-" + Sha256Hex(secret).substr(0, 40)));
}

void RemoteServer::AskLoad() {
  load_at_ = now_ + kLoadEvery;
  if (load_call_ != 0) return;
  load_body_.clear();
  load_call_ = calls_.Begin(url_, dialect_.Load(), options_.silence, *this);
}

void RemoteServer::OnPiece(HttpCallId call, int, std::string_view bytes) {
  std::string& body = call == load_call_ ? load_body_ : body_;
  body.append(bytes.substr(0, kControlBytesMax - std::min(kControlBytesMax, body.size())));
}

void RemoteServer::OnEnd(HttpCallId call, const Result<int>& status) {
  if (call == load_call_) {
    load_call_ = 0;
    if (!status.ok()) return;
    if (const auto load = dialect_.ReadLoad(*status, load_body_)) load_ = *load;
    return;
  }
  call_ = 0;
  if (!status.ok()) return Lost(status.status());
  switch (phase_) {
    case Phase::kGreeting:
      return TakeGreeting(*status);
    case Phase::kUpdating:
      return TakeUpdate(*status);
    case Phase::kTrial:
      return TakeTrial(*status);
    default:
      TM_CHECK(false, "nothing was asked in this phase");
  }
}

void RemoteServer::TakeGreeting(int status) {
  const Status read = dialect_.ReadGreeting(at_, status, body_, abilities_);
  if (!read.ok()) {
    if (read.code() == Code::kInvalid) refusal_ = read.WithContext(name());
    return Lost(read.WithContext(greeting_[at_].what));
  }
  refusal_ = Ok();
  if (++at_ < greeting_.size()) return Ask(greeting_[at_].ask);
  if (has_ != nullptr) return BeginTrial(has_);
  phase_ = Phase::kBehind;
  look_at_ = now_;
}

void RemoteServer::TakeUpdate(int status) {
  const ControlCall& call = update_[at_];
  const Result<ControlOutcome> read = dialect_.ReadUpdate(call, status, body_);
  if (!read.ok() && !call.may_fail) return UpdateFailed(read.status().WithContext(call.what));
  if (read.ok() && *read == ControlOutcome::kAgain) {
    look_at_ = now_ + kAskAgain;
    return;
  }
  if (++at_ < update_.size()) return NextUpdateCall();
  frozen_ = false;
  pause_ = now_ - frozen_at_;
  ++updates_;
  BeginTrial(taking_);
}

Status RemoteServer::CompareCanary(const ServerDialect::Scores& scores) const {
  const std::vector<float>& right = taking_->canary().logprobs;
  const std::string version = std::to_string(taking_->version());
  if (scores.version != version) {
    return Unavailable("it reports version \"" + scores.version + "\" after an update to " +
                       version);
  }
  if (scores.logprobs.size() != right.size()) {
    return Unavailable("it scores " + std::to_string(scores.logprobs.size()) + " tokens of the " +
                       std::to_string(right.size()) + " of the canary");
  }
  double sum = 0, largest = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const double off = std::abs(static_cast<double>(scores.logprobs[i]) - right[i]);
    sum += off;
    largest = std::max(largest, off);
  }
  const double mean = right.empty() ? 0 : sum / static_cast<double>(right.size());
  if (mean <= options_.canary_tolerance && largest <= 10 * options_.canary_tolerance) return Ok();
  return Unavailable("the canary of version " + version + " is wrong: its log-probabilities are " +
                     std::to_string(mean) + " off on average, " + std::to_string(largest) +
                     " at most, and may be " + std::to_string(options_.canary_tolerance) +
                     "; the server's weights are not the trainer's");
}

void RemoteServer::TakeTrial(int status) {
  const Result<ServerDialect::Scores> scores = dialect_.ReadScore(status, body_);
  if (!scores.ok()) {
    if (scores.status().code() == Code::kInvalid) refusal_ = scores.status().WithContext(name());
    return TrialFailed(scores.status());
  }
  if (const Status right = CompareCanary(*scores); !right.ok()) {
    ++failed_canaries_;
    return TrialFailed(right);
  }
  has_ = taking_;
  version_ = has_->version();
  if (passed_.empty() || passed_.back() != version_) passed_.push_back(version_);
  if (passed_.size() > kPassedKept) passed_.erase(passed_.begin());
  failures_ = 0;
  torn_ = false;
  refusal_ = Ok();
  last_failure_ = Ok();
  phase_ = Phase::kServing;
  look_at_ = now_;
  watch_.OnPassed(index_);
}

void RemoteServer::Lost(const Status& why) {
  Note(why);
  // What it has now, if it comes back, only the canary knows.
  if (phase_ == Phase::kUpdating) torn_ = true;
  if (phase_ == Phase::kUpdating || phase_ == Phase::kTrial) has_ = nullptr;
  frozen_ = false;
  version_ = has_ != nullptr ? version_ : 0;
  phase_ = Phase::kUnknown;
  look_at_ = now_ + options_.look_again;
  watch_.OnLost(index_, why);
}

void RemoteServer::UpdateFailed(const Status& why) {
  Note(why);
  ++failures_;
  if (!frozen_) {
    // Nothing was changed; it goes on with what it has.
    phase_ = version_ != 0 ? Phase::kServing : Phase::kBehind;
    look_at_ = now_ + options_.look_again;
    return;
  }
  torn_ = true;
  phase_ = Phase::kBehind;
  look_at_ = now_;
  if (failures_ < kFailuresMax) return;  // once more, in full
  version_ = 0;
  has_ = nullptr;
  look_at_ = now_ + kLookAfterFailure * options_.look_again;
  watch_.OnLost(index_, why);
  watch_.OnBeyondRepair(index_);
}

void RemoteServer::TrialFailed(const Status& why) {
  Note(why);
  ++failures_;
  torn_ = true;
  has_ = nullptr;
  version_ = 0;
  phase_ = Phase::kBehind;
  look_at_ = failures_ < kFailuresMax ? now_ : now_ + kLookAfterFailure * options_.look_again;
  watch_.OnLost(index_, why);
  if (failures_ == kFailuresMax) watch_.OnBeyondRepair(index_);
}

void RemoteServer::Note(const Status& why) {
  last_failure_ = why.WithContext(name());
  LogEvery(std::chrono::seconds(10), "server " + name(), LogLevel::kWarn,
           "an inference server failed", {{"server", name()}, {"why", why.message()}});
}

}  // namespace tidemill

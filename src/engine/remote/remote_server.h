// One inference server: whether it is there, which weights it has, and how it gets the newest.
//
//   unknown -> greeting -> behind -> updating -> trial -> serving -> updating -> ..
//
// Nothing is believed of a server: after every update, and whenever it failed a call, it scores the
// canary, and only a version that gives the trainer's log-probabilities serves. An update that
// failed half-way is repaired while the server stands still; it is never resumed torn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/remote/prepared_version.h"
#include "engine/remote/remote_options.h"
#include "http/http_calls.h"

namespace tidemill {

// Who holds the turns at the servers; told inside of a server's own calls.
class ServerWatch {
 public:
  virtual ~ServerWatch() = default;
  // From now on the server may draw from weights that the canary has not checked.
  virtual void OnTrial(size_t server) = 0;
  // They are right.
  virtual void OnPassed(size_t server) = 0;
  // What it draws, or drew since OnTrial, is worth nothing.
  virtual void OnLost(size_t server, const Status& why) = 0;
  // It cannot be repaired; whoever can starts another in its place.
  virtual void OnBeyondRepair(size_t server) = 0;
};

// Belongs to one thread. Time comes only from the caller.
class RemoteServer final : public HttpCallUser {
 public:
  RemoteServer(size_t index, HttpUrl url, const ServerDialect& dialect, HttpCalls& calls,
               const RemoteOptions& options, ServerWatch& watch);
  ~RemoteServer() override;

  // Does what is due; returns when to be called again at the latest. `newest` may be null.
  Time Step(Time now, const VersionPointer& newest);
  // A call of somebody else failed: it is asked for its canary before it gets work. `distrust`: it
  // said what cannot be, and is updated in full.
  void Doubt(const Status& why, bool distrust);
  // Another process is there, of which nothing is known yet.
  void Forget();

  const HttpUrl& url() const { return url_; }
  std::string name() const { return url_.Authority(); }
  // Whether it may get turns.
  bool Serves() const;
  uint64_t version() const { return version_; }  // that passed last; 0: none
  // Whether a turn that began under `since` may have tokens of `version`.
  bool MayDraw(uint64_t version, uint64_t since) const;
  // Requests of others there, as it said last.
  uint32_t others(uint32_t ours) const { return load_ > ours ? load_ - ours : 0; }
  int32_t max_context() const { return abilities_.max_context; }
  // Not ok: it was started in a way that cannot serve.
  const Status& refusal() const { return refusal_; }
  const Status& last_failure() const { return last_failure_; }
  uint64_t updates() const { return updates_; }
  uint64_t failed_canaries() const { return failed_canaries_; }
  Duration pause() const { return pause_; }  // that generation stood still for the last update

  void OnPiece(HttpCallId call, int status, std::string_view bytes) override;
  void OnEnd(HttpCallId call, const Result<int>& status) override;

 private:
  enum class Phase : uint8_t { kUnknown, kGreeting, kBehind, kUpdating, kTrial, kServing };

  void Ask(const HttpAsk& ask);
  void BeginUpdate(const VersionPointer& version);
  void NextUpdateCall();
  void BeginTrial(const VersionPointer& version);
  void AskLoad();

  void TakeGreeting(int status);
  void TakeUpdate(int status);
  void TakeTrial(int status);
  Status CompareCanary(const ServerDialect::Scores& scores) const;

  void Lost(const Status& why);          // no answer
  void UpdateFailed(const Status& why);  // an answer that says so
  void TrialFailed(const Status& why);
  void Note(const Status& why);  // for people

  const size_t index_;
  const HttpUrl url_;
  const ServerDialect& dialect_;
  HttpCalls& calls_;
  const RemoteOptions& options_;
  ServerWatch& watch_;

  Phase phase_ = Phase::kUnknown;
  Time now_ = Time::min();      // of the last Step
  Time look_at_ = Time::min();  // nothing is asked before
  HttpCallId call_ = 0;         // on a control route; 0: none
  std::string body_;            // of its answer
  size_t at_ = 0;               // which of the calls below
  std::vector<ControlCall> greeting_, update_;
  VersionPointer taking_;         // by the update or the trial
  VersionPointer has_;            // passed last
  bool frozen_ = false;           // its generation stands still, by us
  bool torn_ = false;             // an update failed half-way, or nothing is known of its weights
  uint32_t failures_ = 0;         // of updates and trials, in a row
  uint64_t version_ = 0;          // of has_
  std::vector<uint64_t> passed_;  // the last versions that did
  uint64_t trials_ = 0;
  ServerAbilities abilities_;
  Status refusal_, last_failure_;
  uint64_t updates_ = 0, failed_canaries_ = 0;
  Time frozen_at_{};
  Duration pause_{};
  HttpCallId load_call_ = 0;
  std::string load_body_;
  Time load_at_ = Time::min();
  uint32_t load_ = 0;
};

}  // namespace tidemill

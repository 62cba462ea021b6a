// The gateway's memory: gives each request its session and its prompt, and lets the client see the
// end of a turn once the turn is durable.
//
//   worker: Prepare -> SessionTable, PromptBuilder;  Finished -> StoreOp -> StoreDone -> stored(Ok)
//
// Prepare, Finished and Abandoned come from any thread; as a Loop it takes what the store answers
// and closes idle sessions.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/outbox.h"
#include "core/clock.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/mutex.h"
#include "gateway/turn_recorder.h"
#include "live/feedback.h"
#include "live/live_signals.h"
#include "live/next_state.h"
#include "live/session_table.h"
#include "store/session_eraser.h"
#include "store/store_port.h"

namespace tidemill {

struct LiveCounters : CounterSet {
  Counter open{*this,
               {.key = "live_sessions_open",
                .metric = "tidemill_live_sessions_open",
                .help = "Sessions that are not closed",
                .kind = Counter::Kind::kLevel}};
  Counter sessions{
      *this,
      {.key = "live_sessions", .metric = "tidemill_live_sessions_total", .help = "Sessions begun"}};
  Counter closed{*this,
                 {.key = "live_sessions_closed",
                  .metric = "tidemill_live_sessions_closed_total",
                  .help = "Sessions closed"}};
  Counter questions{*this,
                    {.key = "live_questions",
                     .metric = "tidemill_live_questions_total",
                     .help = "Requests that are no retry"}};
  Counter retries{*this,
                  {.key = "live_retries",
                   .metric = "tidemill_live_retries_total",
                   .help = "Requests recognised as retries"}};
  Counter turns{
      *this, {.key = "live_turns", .metric = "tidemill_live_turns_total", .help = "Turns stored"}};
  Counter branches{*this,
                   {.key = "live_branches",
                    .metric = "tidemill_live_branches_total",
                    .help = "Turns of closed sessions that extend no earlier turn"}};
  Counter rewritten{*this,
                    {.key = "live_rewritten_answers",
                     .metric = "tidemill_live_rewritten_answers_total",
                     .help = "Answers that came back altered"}};
  Counter sampled{*this,
                  {.key = "live_tokens",
                   .metric = "tidemill_live_tokens_total",
                   .help = "Sampled tokens of closed sessions"}};
  Counter trained{*this,
                  {.key = "live_tokens_trained",
                   .metric = "tidemill_live_trainable_tokens_total",
                   .help = "Of these, tokens that reach training"}};
  Counter signals{*this,
                  {.key = "live_signals",
                   .metric = "tidemill_live_signals_total",
                   .help = "Signals on sessions stored"}};
  Counter revised{*this,
                  {.key = "live_signals_revised",
                   .metric = "tidemill_live_signals_revised_total",
                   .help = "Signals that replaced an earlier one of the same source"}};
  Counter asked{*this,
                {.key = "live_judge_questions",
                 .metric = "tidemill_live_judge_questions_total",
                 .help = "Turns that judges were asked about because of what came next"}};
  Counter unanswered{
      *this,
      {.key = "live_judge_lost",
       .metric = "tidemill_live_judge_lost_total",
       .help = "Of these, turns without an answer: the judge was away for too long"}};
  Counter judging{*this,
                  {.key = "live_judging",
                   .metric = "tidemill_live_judging",
                   .help = "Turns of sessions that wait for a judge",
                   .kind = Counter::Kind::kLevel}};
  Counter unsignalled{*this,
                      {.key = "live_unsignalled",
                       .metric = "tidemill_live_trajectories_waiting",
                       .help = "Trajectories of closed sessions that wait for a signal",
                       .kind = Counter::Kind::kLevel}};
  Counter uncompared{*this,
                     {.key = "live_uncompared",
                      .metric = "tidemill_live_sessions_uncompared",
                      .help = "Sessions with a signal that wait for others to be compared with",
                      .kind = Counter::Kind::kLevel}};
  Counter awaiting{*this,
                   {.key = "live_awaiting_siblings",
                    .metric = "tidemill_live_sessions_awaiting_siblings",
                    .help = "Sessions with a signal that wait for attempts at their task",
                    .kind = Counter::Kind::kLevel}};
  Counter quarantined{*this,
                      {.key = "live_quarantined",
                       .metric = "tidemill_live_sessions_quarantined",
                       .help = "Sessions kept from training for their rewards",
                       .kind = Counter::Kind::kLevel}};
  Counter quarantined_tenants{*this,
                              {.key = "live_quarantined_tenants",
                               .metric = "tidemill_live_tenants_quarantined",
                               .help = "Tenants whose rewards changed at once",
                               .kind = Counter::Kind::kLevel}};
  Counter unsent{*this,
                 {.key = "live_unsent",
                  .metric = "tidemill_live_samples_unsent",
                  .help = "Scored trajectories that wait for room on the way to replay",
                  .kind = Counter::Kind::kLevel}};
  Counter with_cases{*this,
                     {.key = "live_sessions_with_cases",
                      .metric = "tidemill_live_sessions_with_cases_total",
                      .help = "Sessions that were shown cases of memory"}};
  Counter consent{*this, Untrained("consent")};
  Counter secret{*this, Untrained("secret")};
  Counter side{*this, Untrained("side")};
  Counter cut{*this, Untrained("cut")};
  Counter retried{*this, Untrained("retried")};
  Counter choice{*this, Untrained("choice")};
  Counter sampling{*this, Untrained("sampling")};
  Counter forced{*this, Untrained("forced")};

 private:
  static Counter::About Untrained(const char* reason) {
    return {.key = std::string("live_tokens_") + reason,
            .metric = "tidemill_live_untrained_tokens_total",
            .help = "Sampled tokens of closed sessions that are not trained, by reason",
            .labels = {{"reason", reason}}};
  }
};

// How sessions use memory.
struct LiveMemory {
  // Cases of the tenant that fit the prompt, the most useful first. Called by the gateway's
  // workers, several at a time; takes milliseconds at most. Empty: sessions are shown none, and
  // none of them becomes a case.
  std::function<std::vector<v1::ShownCase>(const std::string& tenant, const std::string& prompt)>
      look{};
  size_t case_tokens = 512;  // of a prompt, at most
};

// What learning from sessions needs, besides.
struct LiveLearning {
  SignalOptions signals{};
  NextStateOptions next_state{};
  LiveMemory memory{};
  Bus* bus = nullptr;  // where samples for replay go; null: nothing is trained here
};

// Thread-safe. What it is given must outlive it.
class LiveRecorder final : public TurnRecorder, public Loop {
 public:
  // `sessions`: what an earlier process left.
  LiveRecorder(const LiveOptions& options, const PromptBuilder& builder, StorePort& store,
               const Clock& clock, const SessionsState& sessions, const LiveState& state = {},
               const LiveLearning& learning = {});

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override;
  void Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) override;

  void TakeFeedback(const FeedbackPost& post,
                    std::function<void(Result<std::string>)> answered) override;

  // Closes a session as soon as its requests are done. kNotFound: it is not open.
  Status Close(uint64_t session, const std::string& reason);

  // Drops sessions from memory, open ones too; what is under way for them is answered and not
  // stored. Their numbers. What is stored already is the caller's (erase.h).
  std::vector<uint64_t> Erase(const EraseWhat& what);
  // Of sessions that were deleted and need not be in memory: nothing is learned from them.
  void Forget(const std::vector<uint64_t>& sessions);
  // Replay has taken everything that was sent to it, the last Forget with it.
  bool Untaught() const;

  std::string_view name() const override { return "live"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  bool Drained() const override;

  // How the engine is told to forget what it cached for a tenant. Before the first deletion.
  void OnErased(std::function<void(const std::string& tenant)> forget) {
    forget_pages_ = std::move(forget);
  }

  // What is kept from training for its rewards (Quarantine), and an operator's word on it.
  std::string QuarantineJson() const;
  Status Decide(const std::string& tenant, bool train);

  const LiveCounters& counters() const { return counters_; }
  // Of the rewards that baselines are taken over.
  double BaselineVariance() const;

 private:
  struct Waiting {
    StoreOp again;  // of a session's close, which is tried until it is durable
    uint64_t session = 0;
    uint32_t turn = 0;  // 0: of a session
    std::function<void(Status)> stored;
    std::optional<v1::Signal> signal;
  };
  using Told = std::vector<std::pair<std::function<void(Status)>, Status>>;
  void TakeStored(Told& told) TM_REQUIRES(mutex_);
  void TakeSiblings() TM_REQUIRES(mutex_);
  void CloseStored(Waiting waiting, const Status& status) TM_REQUIRES(mutex_);
  void Teach(LiveLessons lessons) TM_REQUIRES(mutex_);
  // Asks judges what an earlier process did not come to ask, or got no answer to.
  void AskAgain() TM_REQUIRES(mutex_);
  void TakeJudged(Time now) TM_REQUIRES(mutex_);
  void PutSignalOf(v1::Signal signal, std::function<void(Status)> stored) TM_REQUIRES(mutex_);
  Result<v1::Signal> SignalOf(const Feedback& feedback, const FeedbackPost& post)
      TM_REQUIRES(mutex_);
  void Submit(LiveStores stores, std::function<void(Status)> stored) TM_REQUIRES(mutex_);
  void Count() TM_REQUIRES(mutex_);
  void Unteach(uint64_t session) TM_REQUIRES(mutex_);
  // What the request is shown if it begins a session.
  CasesNote CasesFor(const TurnQuestion& question, const WireJson& messages) const;
  void TellMemory(const std::vector<ScoredTurn>& turns) TM_REQUIRES(mutex_);
  Result<TurnPrompt> PrepareUnstored(const TurnQuestion& question) const;
  CleanMessages CleanOf(const TurnQuestion& question) const;
  std::vector<CleanPrompt> CleanOf(const std::vector<std::vector<TokenId>>& prompts,
                                   const SecretSet& secrets) const;

  const std::shared_ptr<const Redaction> redaction_;  // shared with the table
  const PromptBuilder& builder_;
  StorePort& store_;
  const Clock& clock_;
  LiveCounters counters_;
  const LiveMemory memory_;
  Bus* const bus_;                                        // null: nothing is trained here
  std::function<void(const std::string&)> forget_pages_;  // may be empty
  Time next_sweep_{};                                     // of the loop's thread

  mutable Mutex mutex_;
  SessionTable table_ TM_GUARDED_BY(mutex_);
  LiveSignals signals_ TM_GUARDED_BY(mutex_);
  std::optional<Outbox> outbox_ TM_GUARDED_BY(mutex_);
  std::optional<NextStateJudges> judges_ TM_GUARDED_BY(mutex_);
  std::map<uint64_t, Waiting> waiting_ TM_GUARDED_BY(mutex_);  // by tag
  uint64_t next_tag_ TM_GUARDED_BY(mutex_) = 1;
};

}  // namespace tidemill

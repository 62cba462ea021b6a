// The gateway's memory: gives each request its session and its prompt, and lets the client see the
// end of a turn once the turn is durable.
//
//   worker: Prepare -> SessionTable, PromptBuilder;  Finished -> SessionOp -> LiveLoop ->
//   stored(Ok)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/turn_recorder.h"
#include "live/feedback.h"
#include "live/live_books.h"
#include "live/live_loop.h"
#include "store/session_eraser.h"

namespace tidemill {

// Thread-safe; its loop must run for anything to become durable. What it is given must outlive it.
class LiveRecorder final : public TurnRecorder {
 public:
  // Sessions of a run. `sessions`: what an earlier process left.
  LiveRecorder(const LiveOptions& options, const PromptBuilder& builder, StorePort& store,
               const Clock& clock, const SessionsState& sessions, const LiveState& state = {},
               const LiveLearning& learning = {});
  // Sessions of which nobody says anything.
  LiveRecorder(const LiveOptions& options, const PromptBuilder& builder, SessionStore& store,
               const Clock& clock);

  Loop& loop() { return loop_; }

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
  // How the engine is told to forget what it cached for a tenant. Before the first deletion.
  void OnErased(std::function<void(const std::string& tenant)> forget) {
    forget_pages_ = std::move(forget);
  }

  // Sessions kept from training for their rewards (Quarantine), and an operator's word on them.
  std::string QuarantineJson() const;
  Status Decide(const std::string& tenant, bool train);

  const LiveCounters& counters() const { return books_.counters; }
  // Of the rewards that baselines are taken over.
  double BaselineVariance() const;

 private:
  Result<v1::Signal> SignalOf(const Feedback& feedback, const FeedbackPost& post)
      TM_REQUIRES(books_.mutex);
  // The cases shown to the request if it begins a session.
  CasesNote CasesFor(const TurnQuestion& question, const WireJson& messages) const;
  Result<TurnPrompt> PrepareUnstored(const TurnQuestion& question) const;
  CleanMessages CleanOf(const TurnQuestion& question) const;
  std::vector<CleanPrompt> CleanOf(const std::vector<std::vector<TokenId>>& prompts,
                                   const SecretSet& secrets) const;

  const std::shared_ptr<const Redaction> redaction_;  // shared with the table
  const PromptBuilder& builder_;
  const size_t case_tokens_;                              // of a prompt, at most
  std::function<void(const std::string&)> forget_pages_;  // may be empty
  std::unique_ptr<RunSessionStore> run_store_;            // null: the owner's
  LiveBooks books_;
  LiveLoop loop_;
};

}  // namespace tidemill

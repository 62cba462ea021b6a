// The prover as a port: questions of the scorer "proof" are answered on a thread of its own, all
// others by the port behind it.
#pragma once

#include <memory>
#include <string>

#include "core/work_queue.h"
#include "prover/prover.h"
#include "reward/scorer_port.h"

namespace tidemill {

// What the scorer "proof" asks for, and the name of the part of an answer that knows nothing.
inline constexpr char kProofQuestion[] = "proof";
inline constexpr char kProofUnknown[] = "unknown";

// What the scorer "proof" finds out about an answer, within its limits of work. An answer that no
// compiler takes for C is refuted by kNoCMethod, without an input. One with a main of its own is
// unknown.
inline constexpr char kNoCMethod[] = "grammar";
Proof ProveAnswer(const v1::Specification& specification, const std::string& candidate);

// The answer to a question: a score of 1 proved, 0 refuted, or a part kProofUnknown; the comment
// has the counterexample or the reason. A question that cannot be read is unknown: a box decides
// then.
CommandAnswer AnswerProofQuestion(const std::string& question);

class ProofPort final : public ScorerPort {
 public:
  // `behind` may be null.
  explicit ProofPort(std::unique_ptr<ScorerPort> behind);
  // Waits for the proof that is being looked for (its work is bounded); what waits is forgotten.
  ~ProofPort() override = default;

  bool Knows(const std::string& command) const override;
  void Submit(const std::string& command, std::string question, uint64_t tag) override;
  Mailbox<ScorerDone>& events() override { return behind_ ? behind_->events() : own_events_; }

 private:
  struct Job {
    std::string question;
    uint64_t tag = 0;
  };
  void Answer(const Job& job);

  const std::unique_ptr<ScorerPort> behind_;
  const bool asks_behind_;  // a program was configured for the question itself
  Mailbox<ScorerDone> own_events_;
  WorkQueue<Job> queue_;  // last: its thread uses all of the above
};

}  // namespace tidemill

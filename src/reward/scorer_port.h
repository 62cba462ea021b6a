// External commands as a port: questions in, answers out. A question is a JSON object; what it
// holds and what an answer may hold is in docs/training.md.
#pragma once

#include <cstdint>
#include <string>

#include "core/mailbox.h"
#include "core/status.h"
#include "reward/scorer.h"

namespace tidemill {

struct ScorerDone {
  uint64_t tag = 0;
  Status status;  // not ok: no answer, or one that is wrong; says which and how
  CommandAnswer answer;
  uint64_t cpu_us = 0;  // CPU time it took, where that is known
};

class ScorerPort {
 public:
  virtual ~ScorerPort() = default;
  // Whether a command of this name can be asked.
  virtual bool Knows(const std::string& command) const = 0;
  virtual void Submit(const std::string& command, std::string question, uint64_t tag) = 0;
  virtual Mailbox<ScorerDone>& events() = 0;
};

// The question for a command.
std::string MakeQuestion(const Need& need, const v1::ScoreRequest& request,
                         const ScoreEvidence& evidence);

// kInvalid names the field that is wrong, what it is and what it should be.
Result<CommandAnswer> ParseAnswer(const std::string& text);

}  // namespace tidemill

// The models behind judges as a port: prompts in, what the model said out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/mailbox.h"
#include "core/status.h"
#include "judge/judge_question.h"

namespace tidemill {

struct JudgeCall {
  uint64_t tag = 0;
  std::string judge;
  JudgePrompt prompt;
  uint64_t seed = 0;  // of the vote
};

struct JudgeDone {
  uint64_t tag = 0;
  // Not ok: nothing was said, through no fault of whoever is judged. kInvalid: it will not be
  // otherwise when asked again (a wrong key, an unknown model).
  Status status;
  JudgeReply reply;
  Duration wait{0};  // the endpoint wants to be left alone for so long
  Duration took{0};
};

class JudgePort {
 public:
  virtual ~JudgePort() = default;
  // Every call is answered, in any order. The loop keeps to the judge's concurrency.
  virtual void Submit(JudgeCall call) = 0;
  virtual Mailbox<JudgeDone>& events() = 0;
};

}  // namespace tidemill

// The port that scores tokens for distillation: a teacher, which is another model or the policy
// itself with more in its context. Ids in, log-probabilities out.
//
//   TeacherRequest -> TeacherLoop -> TeacherPort (ModelTeacher, ..) -> TeacherAnswer
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/clock.h"
#include "core/mailbox.h"
#include "core/status.h"
#include "model/token_id.h"

namespace tidemill {

// Places [begin, begin + tokens) of a sequence; begin is at least 1.
struct TokenSpan {
  size_t begin = 0;
  size_t tokens = 0;
};

struct TeacherCall {
  uint64_t tag = 0;
  std::vector<TokenId> ids;
  std::vector<TokenSpan> spans;  // to be scored, in order and within `ids`
  double temperature = 1;        // logits are divided by it
};

// The log-probabilities of one sequence's spans, one after the other.
struct TokenLogprobsOf {
  std::vector<float> logprobs;
  std::vector<uint8_t> known;  // 0: the teacher cannot tell
};

struct TeacherDone {
  uint64_t tag = 0;
  // Not ok: nothing is known. kInvalid: it will not be otherwise when asked again.
  Status status;
  TokenLogprobsOf scores;
  Duration took{0};
};

class TeacherPort {
 public:
  virtual ~TeacherPort() = default;
  // Every call is answered, in any order. The loop keeps to its limit of calls.
  virtual void Submit(TeacherCall call) = 0;
  virtual Mailbox<TeacherDone>& events() = 0;
};

}  // namespace tidemill

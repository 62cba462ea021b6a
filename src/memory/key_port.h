// The port that reads prompts for memory: text in, a vector out that is near to those of prompts
// which the policy reads alike.
//
//   prompt -> MemoryLoop (PromptKeys) -> KeyPort (ModelKeys) -> key
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mailbox.h"
#include "core/status.h"

namespace tidemill {

struct KeyCall {
  uint64_t tag = 0;
  std::string prompt;
};

struct KeyDone {
  uint64_t tag = 0;
  Status status;  // not ok: there is no key
  std::vector<float> key;
};

class KeyPort {
 public:
  virtual ~KeyPort() = default;
  // Every call is answered, in any order. The loop keeps to its limit of calls.
  virtual void Submit(KeyCall call) = 0;
  virtual Mailbox<KeyDone>& events() = 0;
};

}  // namespace tidemill

// What the answer to a request may be, as a constraint on its tokens.
//
//   response_format, tools that are strict, the model's formats -> ConstraintPart -> Constraint
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "core/status.h"
#include "engine/constraint/constraint.h"
#include "gateway/chat_request.h"
#include "gateway/served_policy.h"

namespace tidemill {

// nullopt: it may be anything. `thinking_open`: the prompt ends inside of a think block.
std::optional<ConstraintPart> PartOfAnswer(const ServedPolicy& policy, const ChatRequest& request,
                                           bool thinking_open);

// Of tools that ask to be enforced those that cannot be, as a warning to the client; empty: none.
std::string StrictWarning(const ServedPolicy& policy, const ChatRequest& request);

// Thread-safe. `policy` must outlive it.
class AnswerConstraints {
 public:
  explicit AnswerConstraints(const ServedPolicy& policy) : policy_(policy) {}

  // Null: the answer may be anything. kInvalid names the field and what of it is not supported.
  Result<std::shared_ptr<const Constraint>> For(const ChatRequest& request, bool thinking_open);

 private:
  ConstraintCompiler& Compiler();

  const ServedPolicy& policy_;
  Mutex mutex_;
  std::unique_ptr<ConstraintCompiler> compiler_ TM_GUARDED_BY(mutex_);  // made when first asked for
};

}  // namespace tidemill

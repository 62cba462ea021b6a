// A model's tool calls as a constraint: what a turn may be, so that its calls are well formed and
// satisfy their schemas. Serving and training hold a model to it.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "conversation/model_chat.h"
#include "engine/constraint/constraint_part.h"
#include "engine/constraint/token_vocabulary.h"

namespace tidemill {

// Whether calls in the format can be held to a schema.
bool EnforcesCalls(ToolFormat format);

struct CallRules {
  std::set<std::string> strict{};  // tools whose calls satisfy their schemas
  std::string only{};              // the one tool that may be called; empty: all
  bool must_call = false;          // nothing but calls
  bool parallel = true;            // several at once
};

// Text with calls in it, or calls alone. `tools` as a template takes them; EnforcesCalls(format).
ConstraintPart PartOfCalls(ToolFormat format, const nlohmann::ordered_json& tools,
                           const CallRules& rules);

// The answer, with a thought before it where the model thinks. `open`: the prompt ends inside one.
ConstraintPart BehindThoughts(const OutputFormat& format, ConstraintPart answer, bool open);

// The model's tokens, those that mark calls and thoughts among them.
TokenVocabulary AnswerVocabulary(const ModelChat& chat);

}  // namespace tidemill

#include "gateway/answer_constraints.h"

#include <utility>

#include "conversation/call_constraint.h"

namespace tidemill {
namespace {

using Kind = ConstraintPart::Kind;

bool CallsMayCome(const ServedPolicy& policy, const ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::kNone &&
         policy.format.tools != ToolFormat::kNone;
}

CallRules RulesOf(const ChatRequest& request) {
  const ToolChoice& choice = request.tool_choice;
  const bool named = choice.kind == ToolChoice::Kind::kNamed;
  return {.strict = request.strict_tools,
          .only = named ? choice.name : std::string(),
          .must_call = named || choice.kind == ToolChoice::Kind::kRequired || request.shape,
          .parallel = request.parallel_tool_calls};
}

// What bounds the answer, for records.
std::string KindOf(const ChatRequest& request) {
  if (!request.shape) return "tools";
  switch (request.shape->part.kind) {
    case Kind::kSchema:
      return "json_schema";
    case Kind::kObject:
      return "json_object";
    case Kind::kRegex:
      return "regex";
    case Kind::kChoice:
      return "choice";
    default:
      return "grammar";
  }
}

}  // namespace

std::optional<ConstraintPart> PartOfAnswer(const ServedPolicy& policy, const ChatRequest& request,
                                           bool thinking_open) {
  const bool calls = CallsMayCome(policy, request);
  const bool must = request.tool_choice.kind == ToolChoice::Kind::kRequired ||
                    request.tool_choice.kind == ToolChoice::Kind::kNamed;
  const bool strict = calls && !request.strict_tools.empty() && EnforcesCalls(policy.format.tools);
  std::optional<ConstraintPart> answer;
  if (request.shape && !(calls && must)) {
    answer = request.shape->part;
    if (calls && EnforcesCalls(policy.format.tools)) {
      answer = ConstraintPart{
          .kind = Kind::kChoice,
          .parts = {std::move(*answer),
                    PartOfCalls(policy.format.tools, request.tools, RulesOf(request))}};
    }
  } else if (strict) {
    answer = PartOfCalls(policy.format.tools, request.tools, RulesOf(request));
  }
  if (!answer || HasRawPrompts(request.api)) return answer;
  return BehindThoughts(policy.format, std::move(*answer), thinking_open);
}

std::string StrictWarning(const ServedPolicy& policy, const ChatRequest& request) {
  if (request.strict_tools.empty() || !CallsMayCome(policy, request) ||
      EnforcesCalls(policy.format.tools)) {
    return "";
  }
  return "the schemas of strict tools are not enforced in the format " +
         std::string(ToolFormatName(policy.format.tools));
}

ConstraintCompiler& AnswerConstraints::Compiler() {
  MutexLock lock(mutex_);
  if (!compiler_) {
    compiler_ = std::make_unique<ConstraintCompiler>(
        std::make_shared<const TokenVocabulary>(AnswerVocabulary(policy_)));
  }
  return *compiler_;
}

Result<std::shared_ptr<const Constraint>> AnswerConstraints::For(const ChatRequest& request,
                                                                 bool thinking_open) {
  const std::optional<ConstraintPart> part = PartOfAnswer(policy_, request, thinking_open);
  if (!part) return std::shared_ptr<const Constraint>();
  const std::string field = request.shape ? request.shape->field : "tools";
  if (request.sampling.ignore_eos) {
    return Invalid(field +
                   ": an answer that is bounded ends where it is complete; ignore_eos "
                   "cannot be kept");
  }
  auto made = Compiler().Compile(*part, KindOf(request));
  if (!made.ok()) return made.status().WithContext(field);
  return made;
}

}  // namespace tidemill

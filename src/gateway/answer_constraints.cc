#include "gateway/answer_constraints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "conversation/written_turn.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

using Kind = ConstraintPart::Kind;

ConstraintPart TextPart(std::string text) {
  return {.kind = Kind::kText, .text = std::move(text)};
}

ConstraintPart RegexPart(std::string text) {
  return {.kind = Kind::kRegex, .text = std::move(text)};
}

ConstraintPart UntilPart(std::string mark) {
  return {.kind = Kind::kUntil, .text = std::move(mark)};
}

ConstraintPart PartsOf(Kind kind, std::vector<ConstraintPart> parts) {
  return {.kind = kind, .parts = std::move(parts)};
}

bool CallsMayCome(const ServedPolicy& policy, const ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::kNone &&
         policy.format.tools != ToolFormat::kNone;
}

// Whether calls in the format can be held to a schema.
bool EnforcesCalls(ToolFormat format) {
  return format == ToolFormat::kHermesJson || format == ToolFormat::kLlama3Json ||
         format == ToolFormat::kQwenCoderXml;
}

ConstraintPart ArgumentsOf(const WireJson& function, bool strict) {
  if (!strict) return {.kind = Kind::kObject};
  return {.kind = Kind::kSchema, .schema = function["parameters"]};
}

// {"name": "f", KEY: {..}}
ConstraintPart JsonCall(const WireJson& function, const char* key, bool strict) {
  return PartsOf(Kind::kSequence,
                 {TextPart("{\"name\": " + DumpWire(function["name"]) + ", \"" + key + "\":"),
                  RegexPart(" ?"), ArgumentsOf(function, strict), TextPart("}")});
}

// The text of one parameter: strings as they are, other values as JSON. It ends with its tag.
ConstraintPart XmlValue(const WireJson& schema, const WireJson& function) {
  static const std::string kClose = "\n</parameter>\n";
  if (schema.is_object() && schema.value("type", WireJson()) == "string") {
    if (!schema.contains("enum")) return UntilPart(kClose);
    ConstraintPart choice{.kind = Kind::kChoice};
    for (const WireJson& value : schema["enum"]) {
      if (value.is_string()) choice.parts.push_back(TextPart(value.get<std::string>() + kClose));
    }
    return choice;
  }
  WireJson whole = schema;
  for (const char* defs : {"$defs", "definitions"}) {
    if (whole.is_object() && function["parameters"].contains(defs)) {
      whole[defs] = function["parameters"][defs];
    }
  }
  return PartsOf(Kind::kSequence,
                 {{.kind = Kind::kSchema, .schema = std::move(whole)}, TextPart(kClose)});
}

// <function=f>, its parameters in their order, </function>
ConstraintPart XmlCall(const WireJson& function, bool strict) {
  ConstraintPart call = PartsOf(
      Kind::kSequence, {TextPart("<function=" + function["name"].get<std::string>() + ">\n")});
  const WireJson& parameters = function["parameters"];
  if (!strict || !parameters.is_object() || !parameters.contains("properties") ||
      !parameters["properties"].is_object()) {
    call.parts.push_back(UntilPart("</function>"));
    return call;
  }
  const WireJson required = parameters.value("required", WireJson::array());
  for (const auto& [name, schema] : parameters["properties"].items()) {
    ConstraintPart one = PartsOf(
        Kind::kSequence, {TextPart("<parameter=" + name + ">\n"), XmlValue(schema, function)});
    const bool needed =
        required.is_array() && std::find(required.begin(), required.end(), name) != required.end();
    if (needed) {
      call.parts.push_back(std::move(one));
    } else {
      call.parts.push_back(PartsOf(Kind::kChoice, {std::move(one), TextPart("")}));
    }
  }
  call.parts.push_back(TextPart("</function>"));
  return call;
}

struct CallShape {
  ConstraintPart opening;  // what nothing but a call begins with
  ConstraintPart rest;     // the call behind it
  std::string mark;        // the opening's text, where it has one
};

CallShape ShapeOfCalls(const ServedPolicy& policy, const ChatRequest& request) {
  const ToolFormat format = policy.format.tools;
  ConstraintPart calls{.kind = Kind::kChoice};
  for (const WireJson& tool : request.tools) {
    const WireJson& function = tool["function"];
    const std::string name = function["name"].get<std::string>();
    const ToolChoice& choice = request.tool_choice;
    if (choice.kind == ToolChoice::Kind::kNamed && choice.name != name) continue;
    const bool strict = request.strict_tools.contains(name);
    switch (format) {
      case ToolFormat::kQwenCoderXml:
        calls.parts.push_back(XmlCall(function, strict));
        break;
      case ToolFormat::kLlama3Json:
        calls.parts.push_back(JsonCall(function, "parameters", strict));
        break;
      default:
        calls.parts.push_back(JsonCall(function, "arguments", strict));
        break;
    }
  }
  if (format == ToolFormat::kLlama3Json) {
    return {.opening = PartsOf(Kind::kChoice, {TextPart("<|python_tag|>"), TextPart("")}),
            .rest = std::move(calls),
            .mark = ""};
  }
  return {.opening = TextPart("<tool_call>"),
          .rest = PartsOf(Kind::kSequence,
                          {TextPart("\n"), std::move(calls), TextPart("\n</tool_call>")}),
          .mark = "<tool_call>"};
}

// Calls and nothing else, or text with calls in it.
ConstraintPart PartOfCalls(const ServedPolicy& policy, const ChatRequest& request) {
  const CallShape shape = ShapeOfCalls(policy, request);
  const bool must = request.tool_choice.kind == ToolChoice::Kind::kRequired ||
                    request.tool_choice.kind == ToolChoice::Kind::kNamed || request.shape;
  const ConstraintPart call = PartsOf(Kind::kSequence, {shape.opening, shape.rest});
  if (shape.mark.empty()) {
    if (must) return call;
    // Text that begins like a call is one.
    return PartsOf(Kind::kChoice, {call, RegexPart("(?:[^{<\\s][\\s\\S]*)?")});
  }
  if (must) {
    if (!request.parallel_tool_calls) return call;
    return PartsOf(Kind::kSequence, {call, PartsOf(Kind::kRepeat, {RegexPart("\\n?"), call})});
  }
  return PartsOf(Kind::kSequence, {PartsOf(Kind::kRepeat, {UntilPart(shape.mark), shape.rest}),
                                   {.kind = Kind::kWithout, .text = shape.mark}});
}

ConstraintPart BehindThoughts(const ServedPolicy& policy, ConstraintPart answer, bool open) {
  if (!policy.format.thinking && !open) return answer;
  ConstraintPart thought = PartsOf(Kind::kSequence, {UntilPart("</think>"), RegexPart("\\n{0,2}")});
  if (open) return PartsOf(Kind::kSequence, {std::move(thought), std::move(answer)});
  return PartsOf(
      Kind::kSequence,
      {PartsOf(Kind::kChoice,
               {TextPart(""), PartsOf(Kind::kSequence, {TextPart("<think>"), std::move(thought)})}),
       std::move(answer)});
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

std::vector<TokenId> MarksOf(const ServedPolicy& policy) {
  std::vector<TokenId> marks;
  for (TokenId id = 0; id < policy.tokenizer.vocab_size(); ++id) {
    if (policy.tokenizer.IsSpecial(id) && IsAnswerText(policy.tokenizer, policy.format, id)) {
      marks.push_back(id);
    }
  }
  return marks;
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
      answer = PartsOf(Kind::kChoice, {std::move(*answer), PartOfCalls(policy, request)});
    }
  } else if (strict) {
    answer = PartOfCalls(policy, request);
  }
  const bool raw = request.api == Api::kCompletions || request.api == Api::kGenerate;
  if (!answer || raw) return answer;
  return BehindThoughts(policy, std::move(*answer), thinking_open);
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
        std::make_shared<const TokenVocabulary>(TokenVocabulary::Of(
            policy_.tokenizer, policy_.end_ids, MarksOf(policy_), policy_.tokenizer.vocab_size())));
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

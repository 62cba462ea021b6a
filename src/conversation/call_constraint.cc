#include "conversation/call_constraint.h"

#include <algorithm>
#include <utility>

#include "conversation/written_turn.h"

namespace tidemill {
namespace {

using CallJson = nlohmann::ordered_json;
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

ConstraintPart ArgumentsOf(const CallJson& function, bool strict) {
  if (!strict) return {.kind = Kind::kObject};
  return {.kind = Kind::kSchema, .schema = function["parameters"]};
}

// {"name": "f", KEY: {..}}
ConstraintPart JsonCall(const CallJson& function, const char* key, bool strict) {
  return PartsOf(Kind::kSequence,
                 {TextPart("{\"name\": " + function["name"].dump() + ", \"" + key + "\":"),
                  RegexPart(" ?"), ArgumentsOf(function, strict), TextPart("}")});
}

// The text of one parameter: strings as they are, other values as JSON. It ends with its tag.
ConstraintPart XmlValue(const CallJson& schema, const CallJson& function) {
  static const std::string kClose = "\n</parameter>\n";
  if (schema.is_object() && schema.value("type", CallJson()) == "string") {
    if (!schema.contains("enum")) return UntilPart(kClose);
    ConstraintPart choice{.kind = Kind::kChoice};
    for (const CallJson& value : schema["enum"]) {
      if (value.is_string()) choice.parts.push_back(TextPart(value.get<std::string>() + kClose));
    }
    return choice;
  }
  CallJson whole = schema;
  for (const char* defs : {"$defs", "definitions"}) {
    if (whole.is_object() && function["parameters"].contains(defs)) {
      whole[defs] = function["parameters"][defs];
    }
  }
  return PartsOf(Kind::kSequence,
                 {{.kind = Kind::kSchema, .schema = std::move(whole)}, TextPart(kClose)});
}

// <function=f>, its parameters in their order, </function>
ConstraintPart XmlCall(const CallJson& function, bool strict) {
  ConstraintPart call = PartsOf(
      Kind::kSequence, {TextPart("<function=" + function["name"].get<std::string>() + ">\n")});
  const CallJson& parameters = function["parameters"];
  if (!strict || !parameters.is_object() || !parameters.contains("properties") ||
      !parameters["properties"].is_object()) {
    call.parts.push_back(UntilPart("</function>"));
    return call;
  }
  const CallJson required = parameters.value("required", CallJson::array());
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

CallShape ShapeOfCalls(ToolFormat format, const CallJson& tools, const CallRules& rules) {
  ConstraintPart calls{.kind = Kind::kChoice};
  for (const CallJson& tool : tools) {
    const CallJson& function = tool["function"];
    const std::string name = function["name"].get<std::string>();
    if (!rules.only.empty() && rules.only != name) continue;
    const bool strict = rules.strict.contains(name);
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

}  // namespace

bool EnforcesCalls(ToolFormat format) {
  return format == ToolFormat::kHermesJson || format == ToolFormat::kLlama3Json ||
         format == ToolFormat::kQwenCoderXml;
}

ConstraintPart PartOfCalls(ToolFormat format, const nlohmann::ordered_json& tools,
                           const CallRules& rules) {
  const CallShape shape = ShapeOfCalls(format, tools, rules);
  const ConstraintPart call = PartsOf(Kind::kSequence, {shape.opening, shape.rest});
  if (shape.mark.empty()) {
    if (rules.must_call) return call;
    // Text that begins like a call is one.
    return PartsOf(Kind::kChoice, {call, RegexPart("(?:[^{<\\s][\\s\\S]*)?")});
  }
  if (rules.must_call) {
    if (!rules.parallel) return call;
    return PartsOf(Kind::kSequence, {call, PartsOf(Kind::kRepeat, {RegexPart("\\n?"), call})});
  }
  return PartsOf(Kind::kSequence, {PartsOf(Kind::kRepeat, {UntilPart(shape.mark), shape.rest}),
                                   {.kind = Kind::kWithout, .text = shape.mark}});
}

ConstraintPart BehindThoughts(const OutputFormat& format, ConstraintPart answer, bool open) {
  if (!format.thinking && !open) return answer;
  ConstraintPart thought = PartsOf(Kind::kSequence, {UntilPart("</think>"), RegexPart("\\n{0,2}")});
  if (open) return PartsOf(Kind::kSequence, {std::move(thought), std::move(answer)});
  return PartsOf(
      Kind::kSequence,
      {PartsOf(Kind::kChoice,
               {TextPart(""), PartsOf(Kind::kSequence, {TextPart("<think>"), std::move(thought)})}),
       std::move(answer)});
}

TokenVocabulary AnswerVocabulary(const ModelChat& chat) {
  std::vector<TokenId> marks;
  for (TokenId id = 0; id < chat.tokenizer.vocab_size(); ++id) {
    if (chat.tokenizer.IsSpecial(id) && IsAnswerText(chat.tokenizer, chat.format, id)) {
      marks.push_back(id);
    }
  }
  return TokenVocabulary::Of(chat.tokenizer, chat.end_ids, marks, chat.tokenizer.vocab_size());
}

}  // namespace tidemill

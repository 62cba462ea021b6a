#include "gateway/control_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "gateway/request_parts.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kBiasesMax = 2048;
constexpr size_t kStopIdsMax = 64;
constexpr size_t kChoicesMax = 4096;
constexpr int32_t kTokenMax = std::numeric_limits<int32_t>::max();

using Kind = ConstraintPart::Kind;

void ReadBiases(const WireObject& body, SamplingFields& out) {
  const WireJson* biases = body.Object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kBiasesMax) {
    return body.Fail("logit_bias", fmt::format("at most {} tokens", kBiasesMax));
  }
  for (const auto& [key, bias] : biases->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      return body.Fail("logit_bias", fmt::format("{} is no token id", ShownWire(key)));
    }
    if (!bias.is_number() || !(bias.get<double>() >= -100 && bias.get<double>() <= 100)) {
      return body.Fail("logit_bias", "a bias is a number from -100 to 100");
    }
    out.logit_bias.emplace_back(id, bias.get<double>());
  }
}

void SetShape(const WireObject& at, std::string_view key, ConstraintPart part,
              ChatRequest& request) {
  if (request.shape) {
    return at.Fail(
        key, fmt::format("says what the answer may be, and so does {}", request.shape->field));
  }
  request.shape = AnswerShape{std::move(part), at.PlaceOf(key).Path()};
}

ConstraintPart SchemaPart(WireJson schema) {
  return {.kind = Kind::kSchema, .schema = std::move(schema)};
}

// An object, or a text that holds one.
void ReadSchema(const WireObject& at, std::string_view key, ChatRequest& request) {
  const WireJson* value = at.Find(key);
  if (value == nullptr) return;
  if (value->is_object() || value->is_boolean()) {
    return SetShape(at, key, SchemaPart(*value), request);
  }
  if (!value->is_string()) {
    return at.Fail(key, "must be a JSON Schema, got " + ShownWire(*value), "invalid_type");
  }
  Result<WireJson> parsed = ParseWire(value->get<std::string>(), at.parse().limits());
  if (!parsed.ok()) return at.Fail(key, "must be a JSON Schema: " + parsed.status().message());
  SetShape(at, key, SchemaPart(std::move(*parsed)), request);
}

void ReadText(const WireObject& at, std::string_view key, Kind kind, ChatRequest& request) {
  if (auto text = at.String(key)) {
    SetShape(at, key, {.kind = kind, .text = std::move(*text)}, request);
  }
}

void ReadChoices(const WireObject& at, std::string_view key, ChatRequest& request) {
  if (at.Find(key) == nullptr) return;
  ConstraintPart part{.kind = Kind::kChoice};
  for (std::string& text : at.Strings(key, kChoicesMax)) {
    if (text.empty()) return at.Fail(key, "a choice must not be empty");
    part.parts.push_back({.text = std::move(text)});
  }
  if (part.parts.empty()) return at.Fail(key, "must hold at least one choice");
  SetShape(at, key, std::move(part), request);
}

}  // namespace

void ReadControls(const WireObject& body, SamplingFields& out) {
  out.presence_penalty = body.Number("presence_penalty", -2, 2).value_or(0);
  out.frequency_penalty = body.Number("frequency_penalty", -2, 2).value_or(0);
  out.repetition_penalty = body.Number("repetition_penalty", 0.01, 10).value_or(1);
  if (const auto repeat = body.Number("repeat_penalty", 0.01, 10)) out.repetition_penalty = *repeat;
  ReadBiases(body, out);
  out.min_tokens = body.Int("min_tokens", 0, kTokenMax).value_or(0);
  out.ignore_eos = body.Bool("ignore_eos").value_or(false);
  body.List("stop_token_ids", kStopIdsMax, [&](const WireJson& value, const WirePlace& at) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{kTokenMax}) {
      out.stop_token_ids.push_back(value.get<int32_t>());
    } else {
      body.parse().Fail(at, fmt::format("must be a token id, got {}", ShownWire(value)),
                        "invalid_type");
    }
  });
  if (const auto top = body.Int("prompt_logprobs", -1, body.parse().limits().top_logprobs)) {
    if (*top >= 0) out.prompt_logprobs = static_cast<int>(*top);
  }
}

void ReadFormat(const WireObject& holder, std::string_view key, std::string_view where,
                ChatRequest& request) {
  const WireJson* value = holder.Object(key);
  if (value == nullptr) return;
  WireParse& parse = holder.parse();
  const WirePlace at = holder.PlaceOf(key);
  const std::string type = CheckedType(parse, *value, at, where, "");
  const WireObject format(parse, *value, at, where);
  if (type == "json_object") {
    if (format.Find("schema") != nullptr) return ReadSchema(format, "schema", request);
    return SetShape(holder, key, {.kind = Kind::kObject}, request);
  }
  if (type != "json_schema") return;
  // Chat Completions has name and schema in an object of their own.
  if (const WireJson* inner = format.Object("json_schema")) {
    const WireObject named(parse, *inner, format.PlaceOf("json_schema"),
                           std::string(where) + ".json_schema");
    named.Require("schema");
    return ReadSchema(named, "schema", request);
  }
  format.Require("schema");
  ReadSchema(format, "schema", request);
}

void ReadAnswerShape(const WireObject& body, ChatRequest& request) {
  ReadFormat(body, "response_format", "response_format", request);
  ReadSchema(body, "guided_json", request);
  ReadSchema(body, "json_schema", request);
  ReadText(body, "guided_regex", Kind::kRegex, request);
  ReadText(body, "guided_grammar", Kind::kGrammar, request);
  ReadText(body, "grammar", Kind::kGrammar, request);
  ReadChoices(body, "guided_choice", request);
  const WireJson* value = body.Object("structured_outputs");
  if (value == nullptr) return;
  const WireObject fields(body.parse(), *value, body.PlaceOf("structured_outputs"),
                          "structured_outputs");
  ReadSchema(fields, "json", request);
  ReadText(fields, "regex", Kind::kRegex, request);
  ReadText(fields, "grammar", Kind::kGrammar, request);
  ReadChoices(fields, "choice", request);
  if (fields.Bool("json_object").value_or(false)) {
    SetShape(fields, "json_object", {.kind = Kind::kObject}, request);
  }
}

void TakePrefill(const WireObject& body, ChatRequest& request) {
  const WireJson* last = request.messages.empty() ? nullptr : &request.messages.back();
  if (last == nullptr || (*last)["role"] != "assistant") {
    return body.Fail("messages", "must end with the assistant's to be continued");
  }
  if (last->contains("tool_calls")) {
    return body.Fail("messages", "a message with calls cannot be continued");
  }
  if (request.messages.size() == 1) {
    return body.Fail("messages", "must hold a message before the assistant's");
  }
  request.prefill = (*last)["content"].get<std::string>();
  request.messages.erase(request.messages.end() - 1);
}

}  // namespace tidemill

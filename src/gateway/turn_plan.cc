#include "gateway/turn_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/random.h"

namespace tidemill {
namespace {

// Agents look for these words, each in those of its own API. Not `exact`: there are more tokens.
ApiError TooLong(const ChatRequest& request, int64_t tokens, bool exact, int64_t context) {
  const bool anthropic = request.api == Api::kMessages || request.api == Api::kCountTokens;
  const char* least = exact ? "" : "at least ";
  const int64_t most = context - 1;  // an answer has one token at least
  ApiError error{.status = 400, .code = "context_length_exceeded"};
  error.param = request.api == Api::kCompletions  ? "prompt"
                : request.api == Api::kGenerate   ? "token_ids"
                : request.api == Api::kEmbeddings ? "input"
                : request.api == Api::kResponses  ? "input"
                                                  : "messages";
  error.message =
      anthropic ? fmt::format("prompt is too long: {} tokens > {} maximum ({}{} too many)", tokens,
                              most, least, tokens - most)
                : fmt::format(
                      "This model's maximum context length is {} tokens. However, the {} resulted "
                      "in {}{} tokens, {} more than fit.",
                      context, error.param, least, tokens, tokens - most);
  return error;
}

SamplingParams SamplingOf(const SamplingFields& asked, const SamplingDefaults& defaults,
                          bool records) {
  SamplingParams sampling;
  sampling.temperature = static_cast<float>(asked.temperature.value_or(defaults.temperature));
  sampling.top_p = static_cast<float>(asked.top_p.value_or(defaults.top_p));
  const int64_t top_k = asked.top_k.value_or(defaults.top_k);
  sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(top_k, 0, INT32_MAX));
  sampling.min_p = static_cast<float>(asked.min_p.value_or(defaults.min_p));
  if (records) sampling.top_logprobs = asked.logprobs ? asked.top_logprobs : 0;
  return sampling;
}

TurnControls ControlsOf(const SamplingFields& asked,
                        const std::shared_ptr<const Constraint>& constraint, bool recorded) {
  TurnControls controls;
  controls.presence_penalty = static_cast<float>(asked.presence_penalty);
  controls.frequency_penalty = static_cast<float>(asked.frequency_penalty);
  controls.repetition_penalty = static_cast<float>(asked.repetition_penalty);
  for (const auto& [id, bias] : asked.logit_bias) {
    controls.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  controls.min_tokens = static_cast<int32_t>(
      std::min<int64_t>(asked.min_tokens, std::numeric_limits<int32_t>::max()));
  controls.constraint = constraint;
  controls.record_support = recorded;
  return controls;
}

// What names a token must name one of the vocabulary.
std::optional<ApiError> CheckTokenIds(const ServedPolicy& policy, const SamplingFields& asked) {
  const auto check = [&](int32_t id, const char* field) -> std::optional<ApiError> {
    if (id < policy.tokenizer.vocab_size()) return std::nullopt;
    return ApiError{.message = fmt::format("{}: token {} is outside the vocabulary of {}", field,
                                           id, policy.tokenizer.vocab_size()),
                    .param = field};
  };
  for (const auto& [id, bias] : asked.logit_bias) {
    if (auto error = check(id, "logit_bias")) return error;
  }
  for (const int32_t id : asked.stop_token_ids) {
    if (auto error = check(id, "stop_token_ids")) return error;
  }
  return std::nullopt;
}

std::vector<TokenId> ForcedIds(const ServedPolicy& policy, const ChatRequest& request,
                               const TurnPrompt& prompt, std::optional<ApiError>& error) {
  const ToolChoice& choice = request.tool_choice;
  if (choice.kind != ToolChoice::Kind::kRequired && choice.kind != ToolChoice::Kind::kNamed) {
    return {};
  }
  if (request.tools.empty()) {
    error = ApiError{.message = "tool_choice: asks for a call, but there are no tools",
                     .param = "tool_choice"};
    return {};
  }
  // With one tool there is nothing to choose.
  std::string name = choice.name;
  if (name.empty() && request.tools.size() == 1) name = request.tools[0]["function"]["name"];
  const Rendered opening = CallOpening(policy.format.tools, name, prompt.thinking_open);
  if (opening.text.empty()) {
    error = ApiError{.message =
                         "tool_choice: must be \"auto\" or \"none\", because the model's chat "
                         "template has no format for calls",
                     .param = "tool_choice",
                     .code = "unsupported_parameter"};
  }
  return policy.tokenizer.EncodeGuarded(opening.text, opening.outside);
}

Rendered Opening(std::string before, std::string_view name, std::string_view behind) {
  Rendered opening{.text = std::move(before), .outside = {}};
  const size_t begin = opening.text.size();
  opening.text.append(name);
  if (!name.empty()) opening.outside.push_back({begin, opening.text.size()});
  opening.text.append(behind);
  return opening;
}

}  // namespace

SamplingDefaults DefaultsFrom(const GenerationConfig& generation) {
  SamplingDefaults defaults;
  if (generation.do_sample.has_value() && !*generation.do_sample) {
    defaults.temperature = 0;
    return defaults;
  }
  defaults.temperature = generation.temperature.value_or(1);
  defaults.top_p = generation.top_p.value_or(1);
  defaults.top_k = generation.top_k.value_or(0);
  defaults.min_p = generation.min_p.value_or(0);
  return defaults;
}

Rendered CallOpening(ToolFormat format, std::string_view name, bool thinking_open) {
  const std::string think = thinking_open ? "</think>\n\n" : "";
  std::string quoted = nlohmann::json(std::string(name)).dump();
  quoted = quoted.substr(1, quoted.size() - 2);
  const bool named = !name.empty();
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermesJson:
      return Opening(think + "<tool_call>\n{\"name\": \"", quoted,
                     named ? "\", \"arguments\":" : "");
    case ToolFormat::kQwenCoderXml:
      return Opening(think + "<tool_call>\n<function=", name, named ? ">\n" : "");
    case ToolFormat::kLlama3Json:
      return Opening(think + "{\"name\": \"", quoted, named ? "\", \"parameters\":" : "");
    case ToolFormat::kLlamaPythonic:
      return Opening(think + "[", name, named ? "(" : "");
  }
  return {};
}

std::optional<ApiError> CheckPromptFits(const ChatRequest& request, size_t tokens, size_t more,
                                        int64_t context_tokens) {
  const auto all = static_cast<int64_t>(tokens + more);
  if (all < context_tokens) return std::nullopt;
  return TooLong(request, all, more == 0, context_tokens);
}

TurnPlan PlanTurns(const ServedPolicy& policy, const PlanOptions& options,
                   const ChatRequest& request, const TurnPrompt& prompt, const PlanUse& use) {
  TurnPlan plan;
  const std::vector<TokenId> forced = ForcedIds(policy, request, prompt, plan.error);
  const SamplingFields& asked = request.sampling;
  if (!plan.error) plan.error = CheckTokenIds(policy, asked);
  if (plan.error) return plan;
  const bool records = asked.logprobs || request.return_token_ids;
  const uint64_t first_seed = asked.seed ? static_cast<uint64_t>(*asked.seed) : use.seed;
  for (const std::vector<TokenId>& ids : prompt.prompts) {
    plan.error = CheckPromptFits(request, ids.size(), prompt.tokens_more, options.context_tokens);
    plan.too_long = plan.error.has_value();
    if (plan.error) return plan;
    const int64_t room = options.context_tokens - static_cast<int64_t>(ids.size());
    PlannedChoice choice;
    choice.params.sampling = SamplingOf(asked, options.defaults, records);
    int64_t most = asked.max_tokens.value_or(
        policy.generation.max_new_tokens ? *policy.generation.max_new_tokens : room);
    if (options.answer_tokens > 0) most = std::min(most, options.answer_tokens);
    choice.context_bound = most >= room;
    choice.params.max_new_tokens = static_cast<int32_t>(std::min({most, room, int64_t{INT32_MAX}}));
    if (!asked.ignore_eos) choice.params.stop_ids = policy.end_ids;
    choice.params.stop_ids.insert(choice.params.stop_ids.end(), asked.stop_token_ids.begin(),
                                  asked.stop_token_ids.end());
    choice.params.controls = ControlsOf(asked, use.constraint, prompt.ticket != 0);
    choice.params.stop_strings = asked.stop;
    choice.params.forced = forced;
    const size_t given = choice.params.forced.size();
    if (given >= static_cast<size_t>(choice.params.max_new_tokens)) {
      plan.error = ApiError{
          .message = fmt::format("tool_choice: the call's opening takes {} tokens, which leaves "
                                 "nothing of {} for the answer",
                                 given, choice.params.max_new_tokens),
          .param = "tool_choice"};
      return plan;
    }
    for (int i = 0; i < asked.n; ++i) {
      const uint64_t number = plan.choices.size();
      choice.params.prompt_state = request.api == Api::kEmbeddings;
      choice.params.prompt_logprobs = i == 0 ? asked.prompt_logprobs.value_or(-1) : -1;
      choice.params.seed = number == 0 ? first_seed : MixHash(first_seed, number);
      plan.choices.push_back(choice);
    }
  }
  return plan;
}

}  // namespace tidemill

// POST /inference/v1/generate, /tokenize and /detokenize: the requests, in vLLM's words.
#include <fmt/format.h>

#include <limits>

#include "gateway/control_fields.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr int64_t kTokenIdMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kPriorityMax = 1'000'000;
constexpr int64_t kAnswerTokens = 16;  // where the request does not say, as in vLLM

// A list of token ids, `most` at most; ids that are none are an error.
std::vector<int32_t> ReadIds(const WireObject& object, std::string_view key, size_t most) {
  std::vector<int32_t> ids;
  object.List(key, most, [&](const WireJson& value, const WirePlace& at) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{kTokenIdMax}) {
      ids.push_back(value.get<int32_t>());
    } else if (!object.parse().failed()) {
      object.parse().Fail(at, fmt::format("must be a token id, got {}", ShownWire(value)),
                          "invalid_type");
    }
  });
  return ids;
}

void ReadGenerateSampling(const WireObject& params, ChatRequest& request) {
  SamplingFields& sampling = request.sampling;
  const WireLimits& limits = params.parse().limits();
  ReadSampling(params, sampling);
  ReadStops(params, "stop", sampling);
  ReadControls(params, sampling);
  ReadAnswerShape(params, request);
  sampling.max_tokens = params.Int("max_tokens", 1, kTokenIdMax).value_or(kAnswerTokens);
  sampling.n = static_cast<int>(params.Int("n", 1, limits.choices).value_or(1));
  const auto alternatives = params.Int("logprobs", 0, limits.top_logprobs);
  sampling.logprobs = alternatives.has_value();
  sampling.top_logprobs = static_cast<int>(alternatives.value_or(0));
}

}  // namespace

void ReadGenerateBody(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  request.model = body.String("model").value_or("");
  request.stream = body.Bool("stream").value_or(false);
  request.return_token_ids = true;
  request.priority =
      static_cast<int32_t>(body.Int("priority", -kPriorityMax, kPriorityMax).value_or(0));
  if (const WireJson* options = body.Object("stream_options")) {
    const WireObject fields(parse, *options, body.PlaceOf("stream_options"), "stream_options");
    request.include_usage = fields.Bool("include_usage").value_or(false);
  }
  for (const char* hint : {"prompt_cache_key", "session_id"}) AddHint(body, hint, hint, request);
  const WireJson none = WireJson::object();
  const WireJson* given = body.Object("sampling_params");
  const WireObject params(parse, given == nullptr ? none : *given, body.PlaceOf("sampling_params"),
                          "sampling_params");
  ReadGenerateSampling(params, request);
  body.Require("token_ids");
  RawPrompt prompt{.text = {}, .ids = ReadIds(body, "token_ids", parse.limits().values)};
  if (prompt.ids.empty()) body.Fail("token_ids", "must hold at least one id");
  request.prompts.push_back(std::move(prompt));
}

void ReadTokenizeBody(const WireObject& body, ChatRequest& request) {
  auto text = body.String("prompt");
  if (!text) text = body.String("content");
  if (body.Find("messages") != nullptr) {
    if (text) body.Fail("prompt", "not together with messages");
    ReadConversation(body, request);
  } else if (text) {
    request.model = body.String("model").value_or("");
    request.prompts.push_back({.text = *text, .ids = {}});
  } else {
    body.Require("prompt");
  }
  request.return_token_strs = body.Bool("return_token_strs").value_or(false);
}

void ReadDetokenizeBody(const WireObject& body, ChatRequest& request) {
  request.model = body.String("model").value_or("");
  body.Require("tokens");
  request.prompts.push_back(
      {.text = {}, .ids = ReadIds(body, "tokens", body.parse().limits().values)});
}

}  // namespace tidemill

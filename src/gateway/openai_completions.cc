// POST /v1/completions: the request.
#include <fmt/format.h>

#include <limits>

#include "gateway/control_fields.h"
#include "gateway/raw_prompts.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr int64_t kIdMax = std::numeric_limits<int32_t>::max();

}  // namespace

void ReadCompletionsBody(const WireObject& body, ChatRequest& request) {
  const WireLimits& limits = body.parse().limits();
  SamplingFields& sampling = request.sampling;
  request.model = body.RequiredString("model");
  request.stream = body.Bool("stream").value_or(false);
  request.return_token_ids = body.Bool("return_token_ids").value_or(false);
  if (const WireJson* options = body.Object("stream_options")) {
    const WireObject fields(body.parse(), *options, body.PlaceOf("stream_options"),
                            "stream_options");
    request.include_usage = fields.Bool("include_usage").value_or(false);
  }
  for (const char* hint : {"prompt_cache_key", "session_id"}) AddHint(body, hint, hint, request);
  ReadSampling(body, sampling);
  ReadControls(body, sampling);
  ReadAnswerShape(body, request);
  request.echoes = body.Bool("echo").value_or(false);
  ReadStops(body, "stop", sampling);
  sampling.max_tokens = body.Int("max_tokens", 1, kIdMax).value_or(16);
  if (const auto other = body.Int("n_predict", 1, kIdMax)) sampling.max_tokens = other;
  sampling.n = static_cast<int>(body.Int("n", 1, limits.choices).value_or(1));
  const auto alternatives = body.Int("logprobs", 0, limits.top_logprobs);
  sampling.logprobs = alternatives.has_value();
  sampling.top_logprobs = static_cast<int>(alternatives.value_or(0));
  if (request.echoes && request.stream) body.Fail("echo", "is not streamed");
  if (sampling.prompt_logprobs && request.stream) {
    body.Fail("prompt_logprobs", "is not streamed");
  }
  if (request.echoes && sampling.logprobs && !sampling.prompt_logprobs) {
    sampling.prompt_logprobs = sampling.top_logprobs;
  }
  ReadPrompts(body, "prompt", request);
  const size_t answers = request.prompts.size() * static_cast<size_t>(sampling.n);
  if (answers > limits.answers) {
    body.Fail("n",
              fmt::format("{} prompts with n = {} ask for {} answers, at most {} are drawn for "
                          "one request",
                          request.prompts.size(), sampling.n, answers, limits.answers));
  }
}

}  // namespace tidemill

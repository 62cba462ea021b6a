#include "gateway/field_rules.h"

namespace tidemill {
namespace {

using enum Treatment;

constexpr FieldRule kCompletionsTable[] = {
    {"", "model", kHonoured, "any name, unless the server is strict"},
    {"", "prompt", kHonoured, "a text, a list of texts, token ids or a list of those"},
    {"", "temperature", kHonoured, "0 to 2"},
    {"", "top_p", kHonoured, ""},
    {"", "top_k", kHonoured, "0 or -1: no bound"},
    {"", "min_p", kHonoured, ""},
    {"", "seed", kHonoured, ""},
    {"", "stop", kHonoured, "a string or a list"},
    {"", "max_tokens", kHonoured, "16 where absent, as the API says"},
    {"", "n", kHonoured, "answers for each prompt"},
    {"", "logprobs", kHonoured, "how many alternatives; of the model at temperature 1"},
    {"", "stream", kHonoured, ""},
    {"", "stream_options", kHonoured, ""},
    {"", "prompt_cache_key", kHonoured, "may name the session"},
    {"", "session_id", kHonoured, "may name the session"},
    {"", "return_token_ids", kHonoured,
     "ids of prompt and answer, log-probabilities, policy versions"},
    {"", "user", kIgnored, ""},
    {"", "metadata", kIgnored, "nothing is stored by it"},
    {"", "request_id", kIgnored, ""},
    {"", "spaces_between_special_tokens", kIgnored, ""},
    {"", "skip_special_tokens", kRefused, "special tokens are never text", "[true]"},
    {"", "add_special_tokens", kRefused, "the prompt is taken as it is", "[true]"},
    {"", "best_of", kRefused, "every answer drawn is returned", "[1]"},
    {"", "echo", kRefused, "use `return_token_ids`", "[false]"},
    {"", "suffix", kRefused, "text is only continued", R"([""])"},
    {"", "response_format", kRefused, "there is no constrained decoding", R"([{"type":"text"}])"},
    {"", "guided_json", kRefused, "there is no constrained decoding"},
    {"", "guided_regex", kRefused, "there is no constrained decoding"},
    {"", "structured_outputs", kRefused, "there is no constrained decoding"},
    {"", "frequency_penalty", kRefused, "there are no penalties", "[0]"},
    {"", "presence_penalty", kRefused, "there are no penalties", "[0]"},
    {"", "repetition_penalty", kRefused, "there are no penalties", "[1]"},
    {"", "length_penalty", kRefused, "there is no beam search", "[1]"},
    {"", "use_beam_search", kRefused, "there is no beam search", "[false]"},
    {"", "logit_bias", kRefused, "tokens are drawn from the model's own distribution", "[{}]"},
    {"", "min_tokens", kRefused, "an answer ends where the model ends it", "[0]"},
    {"", "ignore_eos", kRefused, "an answer ends where the model ends it", "[false]"},
    {"", "stop_token_ids", kRefused, "use `stop`", "[[]]"},
    {"", "prompt_logprobs", kRefused, "only sampled tokens have log-probabilities"},
    {"", "priority", kRefused, "requests are served in order", "[0]"},

    {"stream_options", "include_usage", kHonoured, ""},
    {"stream_options", "include_obfuscation", kIgnored, "nothing is padded"},
    {"stream_options", "continuous_usage_stats", kRefused, "usage comes last", "[false]"},
};

}  // namespace

const std::span<const FieldRule> kCompletionsRules = kCompletionsTable;

}  // namespace tidemill

#include "gateway/field_rules.h"

namespace tidemill {
namespace {

constexpr Treatment kTextYes = Treatment::kHonoured;
constexpr Treatment kTextSkip = Treatment::kIgnored;
constexpr Treatment kTextNo = Treatment::kRefused;

constexpr FieldRule kCompletionsTable[] = {
    {"", "model", kTextYes, "any name, unless the server is strict"},
    {"", "prompt", kTextYes, "a text, a list of texts, token ids or a list of those"},
    {"", "temperature", kTextYes, "0 to 2"},
    {"", "top_p", kTextYes, ""},
    {"", "top_k", kTextYes, "0 or -1: no bound"},
    {"", "min_p", kTextYes, ""},
    {"", "seed", kTextYes, ""},
    {"", "stop", kTextYes, "a string or a list"},
    {"", "max_tokens", kTextYes, "16 where absent, as the API says"},
    {"", "n", kTextYes, "answers for each prompt"},
    {"", "logprobs", kTextYes, "how many alternatives; of the model at temperature 1"},
    {"", "stream", kTextYes, ""},
    {"", "stream_options", kTextYes, ""},
    {"", "prompt_cache_key", kTextYes, "may name the session"},
    {"", "session_id", kTextYes, "may name the session"},
    {"", "return_token_ids", kTextYes,
     "ids of prompt and answer, log-probabilities, policy versions"},
    {"", "user", kTextSkip, ""},
    {"", "metadata", kTextSkip, "nothing is stored by it"},
    {"", "request_id", kTextSkip, ""},
    {"", "spaces_between_special_tokens", kTextSkip, ""},
    {"", "skip_special_tokens", kTextNo, "special tokens are never text", "[true]"},
    {"", "add_special_tokens", kTextNo, "the prompt is taken as it is", "[true]"},
    {"", "best_of", kTextNo, "every answer drawn is returned", "[1]"},
    {"", "echo", kTextNo, "use `return_token_ids`", "[false]"},
    {"", "suffix", kTextNo, "text is only continued", R"([""])"},
    {"", "response_format", kTextNo, "there is no constrained decoding", R"([{"type":"text"}])"},
    {"", "guided_json", kTextNo, "there is no constrained decoding"},
    {"", "guided_regex", kTextNo, "there is no constrained decoding"},
    {"", "structured_outputs", kTextNo, "there is no constrained decoding"},
    {"", "frequency_penalty", kTextNo, "there are no penalties", "[0]"},
    {"", "presence_penalty", kTextNo, "there are no penalties", "[0]"},
    {"", "repetition_penalty", kTextNo, "there are no penalties", "[1]"},
    {"", "length_penalty", kTextNo, "there is no beam search", "[1]"},
    {"", "use_beam_search", kTextNo, "there is no beam search", "[false]"},
    {"", "logit_bias", kTextNo, "tokens are drawn from the model's own distribution", "[{}]"},
    {"", "min_tokens", kTextNo, "an answer ends where the model ends it", "[0]"},
    {"", "ignore_eos", kTextNo, "an answer ends where the model ends it", "[false]"},
    {"", "stop_token_ids", kTextNo, "use `stop`", "[[]]"},
    {"", "prompt_logprobs", kTextNo, "only sampled tokens have log-probabilities"},
    {"", "priority", kTextNo, "requests are served in order", "[0]"},

    {"stream_options", "include_usage", kTextYes, ""},
    {"stream_options", "include_obfuscation", kTextSkip, "nothing is padded"},
    {"stream_options", "continuous_usage_stats", kTextNo, "usage comes last", "[false]"},
};

}  // namespace

const std::span<const FieldRule> kCompletionsRules = kCompletionsTable;

}  // namespace tidemill

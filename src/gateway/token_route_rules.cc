#include "gateway/field_rules.h"

namespace tidemill {
namespace {

using enum Treatment;

constexpr FieldRule kGenerateTable[] = {
    {"", "token_ids", kHonoured, "the prompt, as it is"},
    {"", "model", kHonoured, "may be absent; any name, unless the server is strict"},
    {"", "sampling_params", kHonoured, ""},
    {"", "stream", kHonoured, ""},
    {"", "stream_options", kHonoured, ""},
    {"", "priority", kHonoured,
     "the lowest first among the waiting requests of the same key; others are not passed"},
    {"", "prompt_cache_key", kHonoured, "may name the session"},
    {"", "session_id", kHonoured, "may name the session"},
    {"", "request_id", kIgnored, "the answer has one of its own"},
    {"", "cache_salt", kIgnored, "no tenant meets what another's requests computed"},
    {"", "features", kRefused, "there is only text"},
    {"", "kv_transfer_params", kRefused, "keys and values stay where they are"},

    {"stream_options", "include_usage", kHonoured, ""},
    {"stream_options", "continuous_usage_stats", kRefused, "usage comes last", "[false]"},
    {"sampling_params", "max_tokens", kHonoured, "16 where absent"},
    {"sampling_params", "temperature", kHonoured, "0 to 2"},
    {"sampling_params", "top_p", kHonoured, ""},
    {"sampling_params", "top_k", kHonoured, "0 or -1: no bound"},
    {"sampling_params", "min_p", kHonoured, ""},
    {"sampling_params", "seed", kHonoured, ""},
    {"sampling_params", "n", kHonoured, ""},
    {"sampling_params", "stop", kHonoured, "a string or a list"},
    {"sampling_params", "stop_token_ids", kHonoured, "besides those that end a turn"},
    {"sampling_params", "ignore_eos", kHonoured, "true: only `stop_token_ids` and `stop` end it"},
    {"sampling_params", "logprobs", kHonoured,
     "how many alternatives; the tokens' own are always there"},
    {"sampling_params", "skip_special_tokens", kIgnored, "the answer is ids"},
    {"sampling_params", "spaces_between_special_tokens", kIgnored, "the answer is ids"},
    {"sampling_params", "detokenize", kIgnored, "the answer is ids"},
    {"sampling_params", "include_stop_str_in_output", kIgnored, "the answer is ids"},
    {"sampling_params", "output_kind", kIgnored, "`stream` decides"},
    {"sampling_params", "routed_experts_prompt_start", kIgnored, "no experts are reported"},
    {"sampling_params", "frequency_penalty", kHonoured, "-2 to 2, of tokens of the answer"},
    {"sampling_params", "presence_penalty", kHonoured, "-2 to 2, of tokens of the answer"},
    {"sampling_params", "repetition_penalty", kHonoured, "of tokens of prompt and answer"},
    {"sampling_params", "min_tokens", kHonoured, "before them no token ends the answer"},
    {"sampling_params", "logit_bias", kHonoured, "-100 to 100 by token id"},
    {"sampling_params", "bad_words", kRefused, "tokens are drawn from the model's own distribution",
     "[[]]"},
    {"sampling_params", "prompt_logprobs", kRefused, "only sampled tokens have log-probabilities"},
    {"sampling_params", "structured_outputs", kHonoured, "the answer is held to it"},
    {"sampling_params", "truncate_prompt_tokens", kRefused, "the prompt is taken as it is"},
    {"sampling_params", "extra_args", kRefused, "there are none", "[{}]"},
    {"structured_outputs", "json", kHonoured, ""},
    {"structured_outputs", "regex", kHonoured, ""},
    {"structured_outputs", "choice", kHonoured, ""},
    {"structured_outputs", "grammar", kHonoured, "in GBNF"},
    {"structured_outputs", "json_object", kHonoured, ""},
    {"structured_outputs", "structural_tag", kRefused, "use `tools`"},
    {"structured_outputs", "disable_fallback", kIgnored, "there is one backend"},
    {"structured_outputs", "disable_any_whitespace", kRefused, "white space is bounded", "[false]"},
    {"structured_outputs", "disable_additional_properties", kIgnored,
     "properties that the schema does not name are left out"},
    {"structured_outputs", "whitespace_pattern", kRefused, "white space is bounded"},
};

// A conversation's other fields are those of Chat Completions.
constexpr FieldRule kTokenizeTable[] = {
    {"", "model", kHonoured, "may be absent for a `prompt`"},
    {"", "prompt", kHonoured, "a text"},
    {"", "content", kHonoured, "the same, in llama.cpp's word"},
    {"", "messages", kHonoured, "as in Chat Completions"},
    {"", "tools", kHonoured, "as in Chat Completions"},
    {"", "chat_template_kwargs", kHonoured, "given to the template"},
    {"", "return_token_strs", kHonoured, ""},
    {"", "add_special_tokens", kIgnored, "a text is encoded as `/v1/completions` encodes it"},
    {"", "add_generation_prompt", kRefused, "every request asks for a new answer", "[true]"},
    {"", "continue_final_message", kRefused, "every request asks for a new answer", "[false]"},
    {"", "chat_template", kRefused, "the model's own template is used"},
};

constexpr FieldRule kDetokenizeTable[] = {
    {"", "model", kHonoured, "may be absent"},
    {"", "tokens", kHonoured, ""},
};

}  // namespace

const std::span<const FieldRule> kGenerateRules = kGenerateTable;
const std::span<const FieldRule> kTokenizeRules = kTokenizeTable;
const std::span<const FieldRule> kDetokenizeRules = kDetokenizeTable;

}  // namespace tidemill

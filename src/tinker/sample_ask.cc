#include "tinker/sample_ask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/tinker.pb.h"
#include "tinker/wire_json_fields.h"
#include "tinker/wire_numbers.h"

namespace tidemill {
namespace {

constexpr size_t kStopIdsMax = 256;
constexpr float kNoLogprob = -99999.0f;  // the client's word for an empty cell

// Fields that would change the answer and are not served.
Status RefuseUnserved(const WireJson& json) {
  if (FieldOf(json, "target_prompt_logprobs") != nullptr) {
    return Invalid("\"target_prompt_logprobs\" is not supported");
  }
  TM_ASSIGN_OR_RETURN(const int64_t alternatives,
                      WholeField(json, "prompt_alt_tokens_k", 0, INT32_MAX, 0));
  if (alternatives > 0) return Invalid("\"prompt_alt_tokens_k\" is not supported");
  TM_ASSIGN_OR_RETURN(const bool stability, BoolField(json, "record_stability_info", false));
  if (stability) return Invalid("\"record_stability_info\" is not supported");
  return Ok();
}

Status ReadPrompt(const WireJson& json, std::vector<TokenId>& prompt) {
  const WireJson* const input = FieldOf(json, "prompt");
  const WireJson* const chunks = input == nullptr ? nullptr : FieldOf(*input, "chunks");
  if (chunks == nullptr || !chunks->is_array()) return Invalid("\"prompt\" must have chunks");
  for (const WireJson& chunk : *chunks) {
    const WireJson* const type = FieldOf(chunk, "type");
    if (type != nullptr && *type != "encoded_text") {
      return Invalid("a prompt chunk of type " + ShownWire(*type) +
                     " is not supported: the models read text");
    }
    TM_RETURN_IF_ERROR(ReadTokens(FieldOf(chunk, "tokens"), prompt));
  }
  if (prompt.empty()) return Invalid("\"prompt\" has no tokens");
  return Ok();
}

Status ReadStops(const WireJson& params, SampleAsk& ask) {
  const WireJson* const stop = FieldOf(params, "stop");
  if (stop == nullptr) return Ok();
  ask.own_stops = true;
  if (stop->is_string()) {
    ask.turn.stop_strings.push_back(stop->get<std::string>());
    return Ok();
  }
  if (!stop->is_array() || stop->size() > kStopIdsMax) {
    return Invalid("\"stop\" must be a string, a list of strings or a list of at most " +
                   std::to_string(kStopIdsMax) + " token ids");
  }
  for (const WireJson& one : *stop) {
    if (one.is_string()) {
      ask.turn.stop_strings.push_back(one.get<std::string>());
    } else if (one.is_number_integer() && one >= 0 && one <= INT32_MAX) {
      ask.turn.stop_ids.push_back(one.get<TokenId>());
    } else {
      return Invalid("\"stop\" has " + ShownWire(one) + ", which is no string and no token id");
    }
  }
  return Ok();
}

Status ReadSampling(const WireJson& json, SampleAsk& ask) {
  const WireJson* const params = FieldOf(json, "sampling_params");
  if (params == nullptr || !params->is_object()) {
    return Invalid("\"sampling_params\" must be an object");
  }
  SamplingParams& sampling = ask.turn.sampling;
  TM_ASSIGN_OR_RETURN(const double temperature, NumberField(*params, "temperature", 1.0));
  TM_ASSIGN_OR_RETURN(const double top_p, NumberField(*params, "top_p", 1.0));
  TM_ASSIGN_OR_RETURN(const int64_t top_k, WholeField(*params, "top_k", -1, INT32_MAX, -1));
  if (!(temperature >= 0 && temperature <= 100)) {
    return Invalid("\"temperature\" must be from 0 to 100");
  }
  if (!(top_p > 0 && top_p <= 1)) return Invalid("\"top_p\" must be above 0 and at most 1");
  sampling.temperature = static_cast<float>(temperature);
  sampling.top_p = static_cast<float>(top_p);
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  if (FieldOf(*params, "seed") != nullptr) {
    TM_ASSIGN_OR_RETURN(const int64_t seed, WholeField(*params, "seed", INT64_MIN, INT64_MAX));
    ask.seed = static_cast<uint64_t>(seed);
  }
  if (FieldOf(*params, "max_tokens") != nullptr) {
    TM_ASSIGN_OR_RETURN(const int64_t length, WholeField(*params, "max_tokens", 1, INT32_MAX));
    ask.turn.max_new_tokens = static_cast<int32_t>(length);
    ask.length_given = true;
  }
  return ReadStops(*params, ask);
}

tinker::TopkLogprobs TopOf(const std::vector<std::vector<TokenLogprob>>& rows, uint32_t k) {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  for (const auto& row : rows) {
    for (uint32_t i = 0; i < k; ++i) {
      ids.push_back(i < row.size() ? row[i].id : 0);
      logprobs.push_back(i < row.size() ? row[i].logprob : kNoLogprob);
    }
  }
  tinker::TopkLogprobs top;
  top.set_token_ids(ToWireBytes(ids));
  top.set_logprobs(ToWireBytes(logprobs));
  top.set_k(k);
  top.set_length(static_cast<uint32_t>(rows.size()));
  return top;
}

void AddScores(const SampleAsk& ask, const PromptScores& scores, tinker::SampleResponse& response) {
  // Nothing predicts the first token.
  const size_t last = ask.score_last == 0 ? ask.prompt.size() : ask.score_last;
  const size_t first = std::max<size_t>(1, ask.prompt.size() - std::min(last, ask.prompt.size()));
  if (ask.prompt_logprobs) {
    std::vector<float> numbers(ask.prompt.size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t i = first; i < numbers.size(); ++i) numbers[i] = scores.logprobs[i - 1];
    response.set_prompt_logprobs(ToWireBytes(numbers));
  }
  if (ask.prompt_top == 0) return;
  std::vector<std::vector<TokenLogprob>> rows(ask.prompt.size());
  for (size_t i = first; i < rows.size(); ++i) rows[i] = scores.top[i - 1];
  *response.mutable_topk_prompt_logprobs() = TopOf(rows, ask.prompt_top);
}

WireJson TopJson(const tinker::TopkLogprobs& top) {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  WireJson rows = WireJson::array();
  if (!FromWireBytes(top.token_ids(), ids) || !FromWireBytes(top.logprobs(), logprobs)) return rows;
  for (uint32_t row = 0; row < top.length(); ++row) {
    WireJson cells = WireJson::array();
    for (size_t i = size_t{row} * top.k(); i < size_t{row + 1} * top.k(); ++i) {
      if (logprobs[i] != kNoLogprob) cells.push_back({ids[i], logprobs[i]});
    }
    rows.push_back(cells.empty() ? WireJson() : std::move(cells));
  }
  return rows;
}

}  // namespace

Result<SampleAsk> ParseSampleAsk(std::string_view body) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(body));
  SampleAsk ask;
  TM_RETURN_IF_ERROR(RefuseUnserved(json));
  TM_ASSIGN_OR_RETURN(ask.sampler, TextField(json, "sampling_session_id"));
  TM_ASSIGN_OR_RETURN(const int64_t seq, WholeField(json, "seq_id", 0, INT64_MAX));
  ask.seq = static_cast<uint64_t>(seq);
  TM_ASSIGN_OR_RETURN(const int64_t samples, WholeField(json, "num_samples", 1, kSamplesMax, 1));
  ask.samples = static_cast<uint32_t>(samples);
  TM_RETURN_IF_ERROR(ReadPrompt(json, ask.prompt));
  TM_RETURN_IF_ERROR(ReadSampling(json, ask));
  TM_ASSIGN_OR_RETURN(ask.prompt_logprobs, BoolField(json, "prompt_logprobs", false));
  TM_ASSIGN_OR_RETURN(const int64_t top, WholeField(json, "topk_prompt_logprobs", 0, kTopMax, 0));
  ask.prompt_top = static_cast<uint32_t>(top);
  TM_ASSIGN_OR_RETURN(const int64_t drawn, WholeField(json, "topk_sample_logprobs", 0, kTopMax, 0));
  ask.turn.sampling.top_logprobs = drawn > 0 ? static_cast<int32_t>(drawn) : -1;
  TM_ASSIGN_OR_RETURN(const int64_t last,
                      WholeField(json, "prompt_logprobs_last_n", 1, INT32_MAX, 0));
  ask.score_last = static_cast<uint32_t>(last);
  return ask;
}

std::string SampleAnswerBytes(const SampleAsk& ask, const SampleAnswer& answer) {
  tinker::SampleResponse response;
  for (const TurnOutput& turn : answer.turns) {
    tinker::SampledSequence& sequence = *response.add_sequences();
    sequence.set_stop_reason(turn.finish == TurnFinish::kStop ? tinker::SampledSequence::STOP
                                                              : tinker::SampledSequence::LENGTH);
    sequence.set_tokens(ToWireBytes(turn.ids));
    sequence.set_logprobs(ToWireBytes(turn.logprobs));
    if (ask.turn.sampling.top_logprobs > 0) {
      *sequence.mutable_topk_sampled_logprobs() =
          TopOf(turn.top, static_cast<uint32_t>(ask.turn.sampling.top_logprobs));
    }
  }
  if (!answer.turns.empty()) {
    response.set_prompt_cache_hit_tokens(
        static_cast<int32_t>(std::min<size_t>(answer.turns.front().cached_tokens, INT32_MAX)));
  }
  if (answer.scores) AddScores(ask, *answer.scores, response);
  return response.SerializeAsString();
}

Result<std::string> SampleAnswerJson(std::string_view bytes) {
  tinker::SampleResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt("a stored result is no SampleResponse");
  }
  WireJson sequences = WireJson::array();
  for (const tinker::SampledSequence& sequence : response.sequences()) {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    if (!FromWireBytes(sequence.tokens(), tokens) ||
        !FromWireBytes(sequence.logprobs(), logprobs)) {
      return Corrupt("a stored result has half a number");
    }
    const bool stopped = sequence.stop_reason() == tinker::SampledSequence::STOP;
    sequences.push_back(
        {{"stop_reason", stopped ? "stop" : "length"}, {"tokens", tokens}, {"logprobs", logprobs}});
    if (sequence.has_topk_sampled_logprobs()) {
      sequences.back()["topk_logprobs"] = TopJson(sequence.topk_sampled_logprobs());
    }
  }
  WireJson json = {{"type", "sample"}, {"sequences", std::move(sequences)}};
  std::vector<float> prompt;
  if (response.has_prompt_logprobs() && FromWireBytes(response.prompt_logprobs(), prompt)) {
    WireJson numbers = WireJson::array();
    for (const float number : prompt) {
      numbers.push_back(std::isnan(number) ? WireJson() : WireJson(number));
    }
    json["prompt_logprobs"] = std::move(numbers);
  }
  if (response.has_topk_prompt_logprobs()) {
    json["topk_prompt_logprobs"] = TopJson(response.topk_prompt_logprobs());
  }
  return DumpWire(json);
}

}  // namespace tidemill

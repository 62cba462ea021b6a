// Rows and messages of a run as the JSON of the API. docs/api.md describes every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/http_message.h"
#include "model/tokenizer.h"
#include "store/run_queries.h"
#include "store/run_reader.h"

namespace tidemill {

using ApiJson = nlohmann::ordered_json;

ApiJson EpisodeRowJson(const EpisodeRow& row);
// With every token's text, log-probability and version. Without a tokenizer ids stand for texts.
ApiJson EpisodeDetailJson(const EpisodeDetail& detail, const std::optional<Tokenizer>& tokenizer);
// The texts of a transcript, in its order, each text with where it stands: "prompt", "turn 2",
// "turn 2, compile", "submission".
std::vector<std::pair<std::string, std::string>> TranscriptTexts(
    const v1::Trajectory& trajectory, const std::optional<Tokenizer>& tokenizer);
// A turn's tokens, their log-probabilities and versions, its calls and times.
ApiJson TurnJson(const v1::Turn& turn, const std::optional<Tokenizer>& tokenizer);
ApiJson GroupJson(const GroupRow& group);
ApiJson EvalJson(const EvalResult& eval);
ApiJson CountsJson(const RunCounts& counts);
ApiJson TimelineJson(const Timeline& timeline);

// The share of successes and the half-width of its 95 % interval (Wilson's, around its own middle).
struct Share {
  double rate = 0;
  double low = 0;
  double high = 0;
};
Share WilsonShare(uint64_t solved, uint64_t scored);

HttpResponse JsonResponse(const ApiJson& json);

}  // namespace tidemill

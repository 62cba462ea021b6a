#include "engine/turn.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

// Whether the token completes a stop string. Keeps as many bytes as a later token could still
// complete.
bool CompletesStop(Sequence& s, const std::string& bytes) {
  s.tail += bytes;
  size_t longest = 0;
  for (const std::string& stop : s.turn.stop_strings) {
    if (s.tail.find(stop) != std::string::npos) return true;
    longest = std::max(longest, stop.size());
  }
  if (s.tail.size() >= longest) s.tail.erase(0, s.tail.size() - (longest - 1));
  return false;
}

}  // namespace

Status CheckTurn(const TurnParams& turn, bool has_bytes) {
  const SamplingParams& p = turn.sampling;
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature)) {
    return Invalid("temperature must be 0 or more");
  }
  if (!(p.top_p > 0 && p.top_p <= 1)) return Invalid("top_p must be above 0 and at most 1");
  if (p.top_k < 0) return Invalid("top_k must be 0 or more");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return Invalid("min_p must be between 0 and 1");
  if (turn.max_new_tokens < 1) return Invalid("max_new_tokens must be 1 or more");
  for (const std::string& stop : turn.stop_strings) {
    if (stop.empty()) return Invalid("a stop string is empty");
  }
  if (!turn.stop_strings.empty() && !has_bytes) {
    return Invalid("stop strings need an engine that was given token_bytes");
  }
  return Ok();
}

void BeginTurn(Sequence& sequence, TurnParams turn) {
  sequence.turn = std::move(turn);
  sequence.output = {};
  sequence.output.id = sequence.id;
  sequence.tail.clear();
}

bool EndsWithin(const Sequence& s, int32_t more, int32_t max_context) {
  const size_t tokens = static_cast<size_t>(more);
  return s.output.ids.size() + tokens >= static_cast<size_t>(s.turn.max_new_tokens) ||
         s.tokens.size() + tokens >= static_cast<size_t>(max_context);
}

bool AppendToken(Sequence& s, const Drawn& drawn, uint64_t version, int32_t max_context,
                 const std::function<std::string(TokenId)>& token_bytes) {
  TurnOutput& out = s.output;
  s.tokens.push_back(drawn.id);
  out.ids.push_back(drawn.id);
  out.logprobs.push_back(drawn.logprob);
  if (s.turn.sampling.Truncates()) out.full_logprobs.push_back(drawn.full_logprob);
  if (out.versions.empty() || out.versions.back().version != version) {
    out.versions.push_back({.version = version, .tokens = 0});
  }
  ++out.versions.back().tokens;
  const std::vector<TokenId>& stops = s.turn.stop_ids;
  if (std::find(stops.begin(), stops.end(), drawn.id) != stops.end() ||
      (!s.turn.stop_strings.empty() && CompletesStop(s, token_bytes(drawn.id)))) {
    out.finish = TurnFinish::kStop;
    return true;
  }
  if (out.ids.size() >= static_cast<size_t>(s.turn.max_new_tokens)) {
    out.finish = TurnFinish::kLength;
    return true;
  }
  if (s.tokens.size() >= static_cast<size_t>(max_context)) {
    out.finish = TurnFinish::kContext;
    return true;
  }
  return false;
}

}  // namespace tidemill

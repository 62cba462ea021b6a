#include "engine/turn.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/token_support.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

constexpr size_t kStopStringsMax = 64;
constexpr size_t kStopStringBytesMax = 1024;
constexpr int32_t kTopLogprobsMax = 64;

// The longest end of `tail` that a stop string begins with.
size_t BeginsStop(const std::string& tail, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t n = std::min(tail.size(), stop.size() - 1); n > held; --n) {
      if (tail.compare(tail.size() - n, n, stop, 0, n) == 0) held = n;
    }
  }
  return held;
}

// Whether the token completes a stop string: of several, the one that begins first. Keeps as many
// bytes as a later token could still complete.
bool CompletesStop(Sequence& s, const std::string& bytes) {
  s.tail += bytes;
  s.bytes += static_cast<uint32_t>(bytes.size());
  s.tail_tokens.resize(s.tail.size(), static_cast<uint32_t>(s.turned - 1));
  const uint32_t tail_at = s.bytes - static_cast<uint32_t>(s.tail.size());
  size_t longest = 0;
  size_t begins = std::string::npos;
  for (size_t i = 0; i < s.turn.stop_strings.size(); ++i) {
    const std::string& stop = s.turn.stop_strings[i];
    longest = std::max(longest, stop.size());
    const size_t at = s.tail.find(stop);
    if (at >= begins) continue;
    begins = at;
    s.output.stop = {.string = static_cast<int32_t>(i),
                     .token = s.tail_tokens[at],
                     .byte = tail_at + static_cast<uint32_t>(at)};
  }
  if (begins != std::string::npos) return true;
  s.output.held_bytes = static_cast<uint32_t>(BeginsStop(s.tail, s.turn.stop_strings));
  if (s.tail.size() >= longest) {
    const size_t over = s.tail.size() - (longest - 1);
    s.tail.erase(0, over);
    s.tail_tokens.erase(s.tail_tokens.begin(), s.tail_tokens.begin() + static_cast<long>(over));
  }
  return false;
}

void CountVersion(std::vector<TokenVersionRun>& versions, uint64_t version, uint32_t tokens) {
  if (versions.empty() || versions.back().version != version) {
    versions.push_back({.version = version, .tokens = 0});
  }
  versions.back().tokens += tokens;
}

// Those that were given, in front of the first that was drawn. `supported`: that one has a support.
void AppendForced(Sequence& s, std::optional<uint64_t> version, bool supported) {
  const std::vector<TokenId>& forced = s.turn.forced;
  TurnOutput& out = s.output;
  out.forced = static_cast<uint32_t>(forced.size());
  out.ids = forced;
  out.logprobs.assign(forced.size(), 0);
  if (s.turn.sampling.Truncates()) out.full_logprobs.assign(forced.size(), 0);
  if (s.turn.sampling.top_logprobs >= 0) {
    out.model_logprobs.assign(forced.size(), 0);
    out.top.resize(forced.size());
  }
  if (supported) {
    for (const TokenId id : forced) out.supports.Add(EncodeSupport(std::span(&id, 1)));
  }
  if (version) CountVersion(out.versions, *version, out.forced);
}

Status CheckControls(const TurnControls& controls) {
  for (const float penalty : {controls.presence_penalty, controls.frequency_penalty}) {
    if (!std::isfinite(penalty)) return Invalid("a penalty must be a number");
  }
  if (!(controls.repetition_penalty > 0) || !std::isfinite(controls.repetition_penalty)) {
    return Invalid("repetition_penalty must be above 0");
  }
  for (const auto& [id, bias] : controls.logit_bias) {
    if (!std::isfinite(bias)) return Invalid("a bias must be a number");
  }
  return Ok();
}

template <typename T>
void AppendAll(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

v1::TurnEnd MessageOf(TurnFinish finish) {
  switch (finish) {
    case TurnFinish::kStop:
      return v1::TURN_END_STOP;
    case TurnFinish::kLength:
      return v1::TURN_END_LENGTH;
    case TurnFinish::kContext:
      return v1::TURN_END_CONTEXT;
    case TurnFinish::kInterrupted:
      return v1::TURN_END_INTERRUPTED;
    case TurnFinish::kCancelled:
      break;
  }
  return v1::TURN_END_UNSPECIFIED;
}

}  // namespace

void AppendPart(TurnOutput& whole, TurnOutput part) {
  AppendAll(whole.ids, part.ids);
  AppendAll(whole.logprobs, part.logprobs);
  AppendAll(whole.full_logprobs, part.full_logprobs);
  AppendAll(whole.model_logprobs, part.model_logprobs);
  AppendAll(whole.top, part.top);
  whole.supports.Append(part.supports);
  whole.experts.Append(part.experts);
  for (const TokenVersionRun& run : part.versions) {
    CountVersion(whole.versions, run.version, run.tokens);
  }
  AppendAll(whole.prompt, part.prompt);
  if (!part.prompt_state.empty()) whole.prompt_state = std::move(part.prompt_state);
  whole.id = part.id;
  whole.finish = part.finish;
  whole.stop = part.stop;
  whole.forced += part.forced;
  whole.cached_tokens = part.cached_tokens;
  whole.held_bytes = part.held_bytes;
  whole.place_ms = part.place_ms;
}

Status CheckTurn(const TurnParams& turn, bool has_bytes) {
  const SamplingParams& p = turn.sampling;
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature)) {
    return Invalid("temperature must be 0 or more");
  }
  if (!(p.top_p > 0 && p.top_p <= 1)) return Invalid("top_p must be above 0 and at most 1");
  if (p.top_k < 0) return Invalid("top_k must be 0 or more");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return Invalid("min_p must be between 0 and 1");
  if (turn.max_new_tokens < 1) return Invalid("max_new_tokens must be 1 or more");
  if (turn.forced.size() >= static_cast<size_t>(turn.max_new_tokens)) {
    return Invalid("max_new_tokens leaves no room behind " + std::to_string(turn.forced.size()) +
                   " forced tokens");
  }
  if (p.top_logprobs < -1 || p.top_logprobs > kTopLogprobsMax) {
    return Invalid("top_logprobs must be at most " + std::to_string(kTopLogprobsMax));
  }
  TM_RETURN_IF_ERROR(CheckControls(turn.controls));
  if (turn.prompt_state && turn.prompt_logprobs >= 0) {
    return Invalid("prompt_state and prompt_logprobs are not asked for together");
  }
  if (turn.prompt_logprobs < -1 || turn.prompt_logprobs > kTopLogprobsMax) {
    return Invalid("prompt_logprobs must be at most " + std::to_string(kTopLogprobsMax));
  }
  if (turn.stop_strings.size() > kStopStringsMax) {
    return Invalid("at most " + std::to_string(kStopStringsMax) + " stop strings");
  }
  for (const std::string& stop : turn.stop_strings) {
    if (stop.empty()) return Invalid("a stop string is empty");
    if (stop.size() > kStopStringBytesMax) {
      return Invalid("a stop string is longer than " + std::to_string(kStopStringBytesMax) +
                     " bytes");
    }
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
  sequence.interrupted = false;
  sequence.turned = static_cast<int32_t>(sequence.turn.forced.size());
  sequence.tokens.insert(sequence.tokens.end(), sequence.turn.forced.begin(),
                         sequence.turn.forced.end());
  sequence.controls.Begin(sequence.turn.controls, sequence.tokens, sequence.turn.forced.size());
  sequence.tail.clear();
  sequence.tail_tokens.clear();
  sequence.bytes = 0;
}

bool EndsWithin(const Sequence& s, int32_t more, int32_t max_context) {
  return s.turned + more >= s.turn.max_new_tokens ||
         s.tokens.size() + static_cast<size_t>(more) >= static_cast<size_t>(max_context);
}

bool AppendToken(Sequence& s, Drawn drawn, std::optional<uint64_t> version, int32_t max_context,
                 const std::function<std::string(TokenId)>& token_bytes) {
  TurnOutput& out = s.output;
  if (static_cast<size_t>(s.turned) == s.turn.forced.size() && s.turned > 0) {
    AppendForced(s, version, !drawn.support.empty());
  }
  if (!drawn.experts.empty()) {
    const auto rows = static_cast<uint32_t>(s.tokens.size()) - static_cast<uint32_t>(s.routed);
    out.experts.Append({.first = static_cast<uint32_t>(s.routed),
                        .choices = static_cast<uint32_t>(drawn.experts.size()) / rows,
                        .chosen = std::move(drawn.experts)});
    s.routed = static_cast<int32_t>(s.tokens.size());
  }
  ++s.turned;
  s.controls.Take(drawn.id);
  s.tokens.push_back(drawn.id);
  out.ids.push_back(drawn.id);
  out.logprobs.push_back(drawn.logprob);
  if (s.turn.sampling.Truncates()) out.full_logprobs.push_back(drawn.full_logprob);
  if (s.turn.sampling.top_logprobs >= 0) {
    out.model_logprobs.push_back(drawn.model_logprob);
    out.top.push_back(std::move(drawn.top));
  }
  if (!drawn.support.empty()) out.supports.Add(std::move(drawn.support));
  if (version) CountVersion(out.versions, *version, 1);
  const std::vector<TokenId>& stops = s.turn.stop_ids;
  out.held_bytes = 0;
  if (std::find(stops.begin(), stops.end(), drawn.id) != stops.end() ||
      (!s.turn.stop_strings.empty() && CompletesStop(s, token_bytes(drawn.id)))) {
    // What was cut short of its form did not stop by itself.
    out.finish = s.controls.astray() ? TurnFinish::kLength : TurnFinish::kStop;
    return true;
  }
  if (s.turned >= s.turn.max_new_tokens || s.controls.astray()) {
    out.finish = TurnFinish::kLength;
    return true;
  }
  if (s.tokens.size() >= static_cast<size_t>(max_context)) {
    out.finish = TurnFinish::kContext;
    return true;
  }
  if (s.interrupted) {
    out.finish = TurnFinish::kInterrupted;
    return true;
  }
  return false;
}

TurnOutput TakeOutput(Sequence& s) {
  TurnOutput next;
  next.id = s.id;
  next.cached_tokens = s.output.cached_tokens;
  next.place_ms = s.output.place_ms;
  return std::exchange(s.output, std::move(next));
}

void FillDrawn(const TurnOutput& output, v1::Turn& turn) {
  turn.mutable_ids()->Add(output.ids.begin(), output.ids.end());
  turn.mutable_logprobs()->Add(output.logprobs.begin(), output.logprobs.end());
  if (!output.supports.empty()) FillSupports(output.supports, 0, *turn.mutable_supports());
  for (const TokenVersionRun& run : output.versions) {
    v1::VersionRun& out = *turn.add_versions();
    out.set_version(run.version);
    out.set_tokens(run.tokens);
  }
  turn.set_end(MessageOf(output.finish));
}

}  // namespace tidemill

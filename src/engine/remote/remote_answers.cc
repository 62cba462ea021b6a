// What servers answer, and what becomes of a turn by it.
#include <algorithm>
#include <charconv>

#include "core/log.h"
#include "engine/remote/remote_turn.h"
#include "engine/remote/remote_turns.h"
#include "engine/turn.h"

namespace tidemill {
namespace {

// Calls whose answer nobody needs.
class NobodyAsks final : public HttpCallUser {
 public:
  void OnPiece(HttpCallId, int, std::string_view) override {}
  void OnEnd(HttpCallId, const Result<int>&) override {}
};
NobodyAsks nobody_asks;

// Whether the log-probability that is drawn from is the model's own.
bool DrawsAsModel(const SamplingParams& p) {
  return !p.Truncates() && (p.temperature == 1.0f || p.temperature == 0.0f);
}

// Versions are the decimal numbers that we gave the server.
std::optional<uint64_t> VersionIn(const std::string& text) {
  uint64_t version = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), version);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return std::to_string(version) == text ? std::optional(version) : std::nullopt;
}

}  // namespace

void RemoteTurns::OnPiece(HttpCallId call, int status, std::string_view bytes) {
  Turn& turn = *turns_.at(call_of_.at(call));
  if (status != 200) {
    turn.refusal.append(bytes.substr(0, 4096 - std::min<size_t>(4096, turn.refusal.size())));
    return;
  }
  Result<ServedPart> part = turn.reader->Read(bytes);
  if (!part.ok()) return Again(turn, part.status());
  if (turn.on_trial) {
    turn.held.push_back(std::move(*part));
    return;
  }
  if (const Status applied = Apply(turn, std::move(*part)); !applied.ok()) Again(turn, applied);
}

void RemoteTurns::OnEnd(HttpCallId call, const Result<int>& status) {
  const auto it = call_of_.find(call);
  Turn& turn = *turns_.at(it->second);
  call_of_.erase(it);
  turn.call = 0;
  if (turn.on_trial) {
    turn.over = status;
    return;
  }
  EndCall(turn, status);
}

Status RemoteTurns::Apply(Turn& turn, ServedPart part) {
  Sequence& s = turn.sequence;
  if (part.cached_tokens) s.output.cached_tokens = *part.cached_tokens;
  const int32_t most = max_context();
  const int32_t context = most > 0 ? most : INT32_MAX;
  const bool model = DrawsAsModel(s.turn.sampling);
  for (size_t i = 0; i < part.ids.size(); ++i) {
    ++turn.answered;
    if (turn.ended) continue;  // drawn before the server heard that it should stop
    if (part.ids[i] >= options_.vocabulary) {
      return Unavailable("its answer has token " + std::to_string(part.ids[i]) +
                         ", outside of the vocabulary");
    }
    Drawn drawn{.id = part.ids[i], .logprob = part.logprobs[i]};
    if (model) drawn.model_logprob = drawn.logprob;
    if (model && i < part.top.size()) drawn.top = std::move(part.top[i]);
    drawn.top.resize(std::min<size_t>(
        drawn.top.size(), static_cast<size_t>(std::max(0, s.turn.sampling.top_logprobs))));
    turn.ended = AppendToken(s, std::move(drawn), std::nullopt, context, options_.token_bytes);
    ++stats_.generated_tokens;
  }
  if (part.end) {
    turn.end = part.end;
    turn.spans = std::move(part.versions);
    return Ok();
  }
  if (!turn.ended) Tell(turn, /*done=*/false);
  if (turn.ended && s.output.stop.string >= 0 && !turn.aborting) {
    // The server knows no stop strings. It ends the answer with the versions of its tokens.
    turn.aborting = true;
    calls_.Begin(servers_[*turn.server].server->url(), dialect_.Abort(turn.ask_id),
                 options_.silence, nobody_asks);
  }
  return Ok();
}

void RemoteTurns::EndCall(Turn& turn, const Result<int>& status) {
  RemoteServer& server = *servers_[*turn.server].server;
  if (status.ok() && *status == 200 && !turn.end) {
    Result<ServedPart> last = turn.reader->Finish();
    if (!last.ok()) return Again(turn, last.status());
    if (const Status applied = Apply(turn, std::move(*last)); !applied.ok()) {
      return Again(turn, applied);
    }
  }
  if (turn.end) return Conclude(turn);
  if (status.ok() && (*status == 400 || *status == 422)) {
    LeaveServer(turn);
    return Fail(turn.id(), Invalid(server.name() + " refuses the turn: " + turn.refusal));
  }
  const Status why =
      !status.ok() ? status.status()
      : *status != 200
          ? Unavailable(server.name() + " answers " + std::to_string(*status) + ": " + turn.refusal)
          : Unavailable(server.name() + ": its answer has no end");
  server.Doubt(why, /*distrust=*/false);
  Again(turn, why);
}

void RemoteTurns::Conclude(Turn& turn) {
  RemoteServer& server = *servers_[*turn.server].server;
  if (!turn.ended) {
    return Again(turn, Unavailable(server.name() + (*turn.end == ServedEnd::kAbort
                                                        ? " aborted the turn unasked"
                                                        : " ended the turn too early")));
  }
  Result<std::vector<TokenVersionRun>> runs = RunsOf(turn);
  if (!runs.ok()) {
    const Status why = runs.status().WithContext(server.name());
    server.Doubt(why, /*distrust=*/true);
    return Again(turn, why);
  }
  turn.sequence.output.versions = std::move(*runs);
  LeaveServer(turn);
  Tell(turn, /*done=*/true);
}

Result<std::vector<TokenVersionRun>> RemoteTurns::RunsOf(const Turn& turn) const {
  const RemoteServer& server = *servers_[*turn.server].server;
  // Of the drawn tokens that are part of the turn; a stream has told some of them already.
  const auto drawn = static_cast<uint32_t>(turn.sequence.turned) -
                     static_cast<uint32_t>(turn.sequence.turn.forced.size());
  std::vector<TokenVersionRun> runs;
  uint32_t at = 0;
  for (const VersionSpan& span : turn.spans) {
    if (span.start != at || span.end < span.start || span.end > turn.answered) {
      return Unavailable("it reports versions of other tokens than it drew");
    }
    at = span.end;
    const std::optional<uint64_t> version = VersionIn(span.version);
    if (!version || !server.MayDraw(*version, turn.since) ||
        (!runs.empty() && *version < runs.back().version)) {
      return Unavailable("it reports a token of version \"" + span.version +
                         "\", which it was not given");
    }
    const uint32_t tokens = std::min(span.end, drawn) - std::min(span.start, drawn);
    if (tokens == 0) continue;
    runs.push_back({.version = *version, .tokens = tokens});
  }
  if (at != turn.answered || runs.empty()) {
    return Unavailable("it reports the versions of " + std::to_string(at) + " of " +
                       std::to_string(turn.answered) + " tokens");
  }
  // Those that were given count as the first that was drawn.
  runs.front().tokens += static_cast<uint32_t>(turn.sequence.turn.forced.size());
  return runs;
}

// Of a stream: what came since the last time. Else all of it, when it is done.
void RemoteTurns::Tell(Turn& turn, bool done) {
  Sequence& s = turn.sequence;
  if (!s.stream && !done) return;
  if (!done && s.output.ids.empty()) return;
  TurnOutput part = TakeOutput(s);
  part.full_logprobs.clear();  // servers report one distribution, the one they draw from
  if (!DrawsAsModel(s.turn.sampling)) part.model_logprobs.clear(), part.top.clear();
  if (!s.stream) return events_.Post({.status = Ok(), .turn = std::move(part)});
  turn.told = true;
  deltas_.push_back({.part = std::move(part), .done = done, .status = Ok()});
}

void RemoteTurns::Again(Turn& turn, const Status& why) {
  LeaveServer(turn);
  LogEvery(std::chrono::seconds(10), "turn again", LogLevel::kWarn, "a turn is generated again",
           {{"why", why.message()}});
  if (turn.told || ++turn.attempts >= options_.attempts) {
    return Fail(turn.id(), Unavailable(why.message()));
  }
  turn.server.reset();
  turn.waiting = true;
  QueueOf(turn).push_front(turn.id());
}

void RemoteTurns::OnTrial(size_t server) {
  for (const SequenceId id : servers_[server].asked) turns_.at(id)->on_trial = true;
}

void RemoteTurns::OnPassed(size_t server) {
  const std::set<SequenceId> asked = servers_[server].asked;
  for (const SequenceId id : asked) {
    Turn& turn = *turns_.at(id);
    if (!std::exchange(turn.on_trial, false)) continue;
    const std::optional<Result<int>> over = std::exchange(turn.over, std::nullopt);
    Status applied;
    for (ServedPart& part : std::exchange(turn.held, {})) {
      applied = Apply(turn, std::move(part));
      if (!applied.ok()) break;
    }
    if (!applied.ok()) {
      Again(turn, applied);
    } else if (over) {
      EndCall(turn, *over);
    }
  }
}

void RemoteTurns::OnLost(size_t server, const Status& why) {
  const std::set<SequenceId> asked = servers_[server].asked;
  for (const SequenceId id : asked) Again(*turns_.at(id), why);
}

}  // namespace tidemill

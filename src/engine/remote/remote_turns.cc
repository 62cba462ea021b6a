#include "engine/remote/remote_turns.h"

#include <algorithm>

#include "core/hash.h"
#include "engine/remote/remote_turn.h"
#include "engine/turn.h"

namespace tidemill {
namespace {

constexpr Duration kTurnsPoll = milliseconds(500);

}  // namespace

RemoteTurns::RemoteTurns(std::vector<HttpUrl> servers, const ServerDialect& dialect,
                         HttpCalls& calls, RemoteOptions options,
                         std::function<void(size_t)> beyond_repair)
    : dialect_(dialect),
      calls_(calls),
      options_(std::move(options)),
      beyond_repair_(std::move(beyond_repair)),
      events_(options_.max_outstanding) {
  for (size_t i = 0; i < servers.size(); ++i) {
    Place place;
    place.server =
        std::make_unique<RemoteServer>(i, std::move(servers[i]), dialect_, calls_, options_, *this);
    servers_.push_back(std::move(place));
  }
}

RemoteTurns::~RemoteTurns() {
  for (const auto& [call, id] : call_of_) calls_.Cancel(call);
}

int32_t RemoteTurns::max_context() const {
  int32_t least = options_.max_context;
  for (const Place& place : servers_) {
    const int32_t there = place.server->max_context();
    if (there > 0) least = least > 0 ? std::min(least, there) : there;
  }
  return least;
}

uint64_t RemoteTurns::version() const {
  uint64_t newest = 0;
  for (const Place& place : servers_) newest = std::max(newest, place.server->version());
  return newest;
}

Status RemoteTurns::CheckStart(const SequenceStart& start) const {
  if (turns_.contains(start.id)) {
    return Exists("sequence " + std::to_string(start.id) + " is there already");
  }
  if (start.pin_version) {
    return Unavailable("version " + std::to_string(*start.pin_version) +
                       ": an inference server holds the newest only (engine.backend)");
  }
  if (start.policy != PolicyId::kMain) {
    return Unavailable("policy " + std::to_string(static_cast<uint32_t>(start.policy)) +
                       ": an inference server has the main policy only (engine.backend)");
  }
  if (start.prompt.empty()) return Invalid("the prompt is empty");
  for (const TokenId id : start.prompt) {
    if (id < 0 || id >= options_.vocabulary) {
      return Invalid("token " + std::to_string(id) + " is outside of the vocabulary of " +
                     std::to_string(options_.vocabulary));
    }
  }
  return Ok();
}

void RemoteTurns::Start(SequenceStart start) {
  if (const Status right = CheckStart(start); !right.ok()) {
    return Answer(start.id, start.stream, right);
  }
  auto turn = std::make_unique<Turn>();
  Sequence& s = turn->sequence;
  s.id = start.id;
  s.tokens = std::move(start.prompt);
  s.share_group = start.share_group;
  s.service = start.service;
  s.stream = start.stream;
  turn->tenant = start.tenant;
  turn->session = start.session;
  const auto times = forgotten_.find(start.tenant);
  turn->forgotten = times == forgotten_.end() ? 0 : times->second;
  Turn& there = *turn;
  turns_.emplace(start.id, std::move(turn));
  s.turn = std::move(start.turn);
  Enqueue(there);
}

void RemoteTurns::Continue(SequenceId id, std::vector<TokenId> append, TurnParams params) {
  const auto it = turns_.find(id);
  if (it == turns_.end()) {
    return Answer(id, false, NotFound("no sequence " + std::to_string(id)));
  }
  Turn& turn = *it->second;
  if (turn.under_way()) {
    return Fail(id, Invalid("sequence " + std::to_string(id) + " has a turn under way"));
  }
  Sequence& s = turn.sequence;
  s.tokens.insert(s.tokens.end(), append.begin(), append.end());
  s.turn = std::move(params);
  turn.attempts = 0;
  Enqueue(turn);
}

// The turn begins, or begins anew.
void RemoteTurns::Enqueue(Turn& turn) {
  Sequence& s = turn.sequence;
  Status right = CheckTurn(s.turn, options_.token_bytes != nullptr);
  if (right.ok() && (s.turn.controls.Any() || s.turn.prompt_logprobs >= 0 || s.turn.prompt_state)) {
    right = Invalid(
        "constraints, penalties, biases and log-probabilities of a prompt are not available on "
        "an inference server of another kind");
  }
  if (right.ok()) right = dialect_.Check(s.turn);
  const int32_t context = max_context();
  if (right.ok() && context > 0 &&
      s.tokens.size() + s.turn.forced.size() >= static_cast<size_t>(context)) {
    right = Invalid(std::to_string(s.tokens.size()) + " tokens leave no room in a context of " +
                    std::to_string(context));
  }
  if (!right.ok()) return Fail(turn.id(), right);
  turn.before = s.tokens.size();
  turn.told = false;
  turn.waiting = true;
  QueueOf(turn).push_back(turn.id());
}

std::deque<SequenceId>& RemoteTurns::QueueOf(const Turn& turn) {
  return turn.sequence.service == SequenceClass::kLive ? waiting_live_ : waiting_training_;
}

void RemoteTurns::Release(SequenceId id) {
  const auto it = turns_.find(id);
  if (it == turns_.end()) return;
  Turn& turn = *it->second;
  if (turn.waiting) std::erase(QueueOf(turn), id);
  LeaveServer(turn);
  turns_.erase(it);
}

// Ends what is asked there; closing the connection tells the server.
void RemoteTurns::LeaveServer(Turn& turn) {
  if (turn.server) servers_[*turn.server].asked.erase(turn.id());
  call_of_.erase(turn.call);
  calls_.Cancel(std::exchange(turn.call, 0));
  turn.over.reset();
  turn.held.clear();
  turn.on_trial = false;
}

Time RemoteTurns::Step(Time now, const VersionPointer& newest, uint64_t published) {
  if (now_ == Time::min()) served_at_ = now;
  now_ = now;
  newest_ = newest;
  published_ = std::max(published, newest != nullptr ? newest->version() : 0);
  Time next = now + kTurnsPoll;
  for (Place& place : servers_) next = std::min(next, place.server->Step(now, newest_));
  Dispatch(now);
  GiveUpWaiting(now);
  feed_.Post(std::exchange(deltas_, {}));
  return next;
}

bool RemoteTurns::MayStartAt(size_t i) const {
  const Place& place = servers_[i];
  if (!place.server->Serves() || place.asked.size() >= options_.turns_per_server) return false;
  return !options_.wait_for_weights || place.server->version() >= published_;
}

// The one that has its pages; else the one with the least to do.
std::optional<size_t> RemoteTurns::Choose(const Turn& turn) const {
  if (turn.server && MayStartAt(*turn.server)) return turn.server;
  std::optional<size_t> best;
  size_t least = 0;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (!MayStartAt(i)) continue;
    const size_t ours = servers_[i].asked.size();
    const size_t load = ours + servers_[i].server->others(static_cast<uint32_t>(ours));
    if (!best || load < least) best = i, least = load;
  }
  return best;
}

void RemoteTurns::Dispatch(Time now) {
  for (const Place& place : servers_) {
    if (place.server->Serves()) served_at_ = now;
  }
  for (std::deque<SequenceId>* queue : {&waiting_live_, &waiting_training_}) {
    while (!queue->empty()) {
      Turn& turn = *turns_.at(queue->front());
      const std::optional<size_t> server = Choose(turn);
      if (!server) break;
      queue->pop_front();
      turn.waiting = false;
      AskServer(turn, *server);
    }
  }
}

// What one tenant's sequences computed, no other's meet; nor do versions, but for the sequence's
// own pages, which stay usable over a swap that keeps the cache.
std::string RemoteTurns::SaltOf(const Turn& turn, uint64_t version) const {
  const Sequence& s = turn.sequence;
  std::string owner = "s" + std::to_string(s.id);
  if (s.share_group != 0) owner = "g" + std::to_string(s.share_group);
  if (turn.tenant != 0) {
    owner = "t" + std::to_string(turn.tenant) + "," + std::to_string(turn.forgotten) + "," +
            std::to_string(turn.session);
  }
  return Sha256Hex(options_.salt_key + owner + "," + std::to_string(version)).substr(0, 43);
}

void RemoteTurns::AskServer(Turn& turn, size_t i) {
  Sequence& s = turn.sequence;
  Place& place = servers_[i];
  const uint64_t version = place.server->version();
  if (turn.salt_version == 0 || options_.cache_on_swap == CacheOnSwap::kRebuild) {
    turn.salt_version = version;
  }
  s.tokens.resize(turn.before);
  TurnParams params = std::move(s.turn);
  BeginTurn(s, std::move(params));
  turn.server = i;
  turn.since = version;
  turn.reader = dialect_.NewReader();
  turn.refusal.clear();
  turn.ended = turn.aborting = false;
  turn.answered = 0;
  turn.end.reset();
  turn.spans.clear();
  turn.ask_id = "tidemill-" + options_.salt_key.substr(0, 8) + "-" + std::to_string(++asks_);
  const int32_t room = max_context() > 0 ? max_context() - static_cast<int32_t>(s.tokens.size())
                                         : s.turn.max_new_tokens;
  TurnAsk ask;
  ask.id = turn.ask_id;
  ask.ids = s.tokens;
  ask.sampling = s.turn.sampling;
  ask.max_new_tokens =
      std::min(s.turn.max_new_tokens - static_cast<int32_t>(s.turn.forced.size()), room);
  ask.stop_ids = s.turn.stop_ids;
  ask.seed = s.turn.seed;
  const std::string salt = SaltOf(turn, turn.salt_version);
  ask.salt = salt;
  ask.live = s.service == SequenceClass::kLive;
  ask.as_drawn = s.stream || !s.turn.stop_strings.empty();
  turn.call = calls_.Begin(place.server->url(), dialect_.Generate(ask), options_.silence, *this);
  call_of_.emplace(turn.call, turn.id());
  place.asked.insert(turn.id());
}

void RemoteTurns::GiveUpWaiting(Time now) {
  if (now - served_at_ < options_.patience) return;
  Status why = Unavailable("no inference server serves");
  for (const Place& place : servers_) {
    if (!place.server->last_failure().ok())
      why = Unavailable(place.server->last_failure().message());
  }
  for (std::deque<SequenceId>* queue : {&waiting_live_, &waiting_training_}) {
    for (const SequenceId id : std::exchange(*queue, {})) {
      turns_.at(id)->waiting = false;
      Fail(id, why);
    }
  }
}

void RemoteTurns::Fail(SequenceId id, const Status& status) {
  const bool stream = turns_.at(id)->sequence.stream;
  turns_.erase(id);
  Answer(id, stream, status);
}

void RemoteTurns::Answer(SequenceId id, bool stream, const Status& status) {
  if (stream) {
    TurnDelta delta;
    delta.part.id = id;
    delta.status = status;
    deltas_.push_back(std::move(delta));
    return;
  }
  EngineEvent event;
  event.status = status;
  event.turn.id = id;
  events_.Post(std::move(event));
}

void RemoteTurns::OnBeyondRepair(size_t server) {
  if (beyond_repair_) beyond_repair_(server);
}

EngineStats RemoteTurns::Stats() const {
  EngineStats stats = stats_;
  stats.version = version();
  for (const Place& place : servers_) {
    stats.running += place.asked.size();
    stats.swaps += place.server->updates();
    stats.pause_seconds = std::max(stats.pause_seconds, Seconds(place.server->pause()));
    if (place.server->Serves()) ++stats.versions_held;
  }
  stats.waiting = waiting_live_.size() + waiting_training_.size();
  stats.waiting_live = waiting_live_.size();
  stats.parked = turns_.size() - std::min(turns_.size(), stats.running + stats.waiting);
  return stats;
}

}  // namespace tidemill

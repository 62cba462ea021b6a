#include "planner/planned_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tidemill {
namespace {

constexpr double kHalfToken = 1e-6, kPromptRounding = 1e-3;

}  // namespace

double PlannedEngine::StepSeconds() const {
  double seconds =
      times_.step_s + times_.row_s * static_cast<double>(drawing_) + times_.context_s * contexts_;
  if (!filling_.empty()) seconds += times_.prompt_s * times_.chunk;
  constexpr double kLeast = 1e-6;
  return std::max(seconds, kLeast);
}

void PlannedEngine::Advance() {
  const double now = host_.Now();
  const double from = std::max(host_now_, std::min(now, paused_until_));
  const double passed = now - from;
  host_now_ = now;
  if (passed <= 0 || !working()) return;
  const double steps = passed / StepSeconds();
  if (drawing_ > 0) {
    drawn_ += steps;
    contexts_ += steps * static_cast<double>(drawing_);
    totals_.drawn += steps * static_cast<double>(drawing_);
  }
  if (!filling_.empty()) {
    const double more = std::min(steps * times_.chunk, queued_ - filled_);
    filled_ += more;
    totals_.prompts += more;
  }
}

void PlannedEngine::Start(SequenceId id, TokenId place, double fresh, double shared) {
  Advance();
  Sequence& sequence = sequences_[id];
  sequence.place = place;
  sequence.fresh = fresh;
  sequence.context = fresh + shared;
  waiting_.push_back(id);
  Go();
}

void PlannedEngine::Continue(SequenceId id, double appended) {
  Advance();
  Sequence& sequence = sequences_.at(id);
  parked_.erase({sequence.parked, id});
  ++sequence.place;
  ++totals_.continued;
  sequence.fresh = appended;
  sequence.context += appended;
  if (sequence.room == 0 && times_.cache_tokens > 0) {  // its cache was given up
    sequence.fresh = sequence.context;
    ++totals_.rebuilt;
  }
  sequence.state = State::kWaiting;
  waiting_.push_back(id);
  Go();
}

void PlannedEngine::Release(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  TM_CHECK(found->second.state == State::kParked, "a planned sequence is released in its turn");
  parked_.erase({found->second.parked, id});
  room_used_ -= found->second.room;
  sequences_.erase(found);
  Advance();
  Go();
}

void PlannedEngine::Take(uint64_t version) {
  Advance();
  swaps_.push_back({drawn_, version});
  paused_until_ = std::max(paused_until_, host_.Now()) + times_.swap_s;
  Go();
}

// Those that wait for a tool give their cache up, the longest first.
bool PlannedEngine::FindRoom(Sequence& sequence) {
  if (times_.cache_tokens <= 0) return true;
  const double wanted = sequence.context + table_.At(sequence.place).turn->tokens;
  const double more = wanted - sequence.room;
  while (room_used_ + more > times_.cache_tokens && !parked_.empty()) {
    Sequence& idle = sequences_.at(parked_.begin()->second);
    room_used_ -= std::exchange(idle.room, 0);
    parked_.erase(parked_.begin());
  }
  // One alone always has room.
  if (room_used_ + more > times_.cache_tokens && running_ > 0) return false;
  room_used_ += more;
  sequence.room = wanted;
  return true;
}

void PlannedEngine::Admit() {
  while (!waiting_.empty() && running_ < times_.rows_max) {
    const SequenceId id = waiting_.front();
    Sequence& sequence = sequences_.at(id);
    if (!FindRoom(sequence)) return;
    waiting_.pop_front();
    ++running_;
    // Behind the prompt that it shares, if that is still being read.
    if (sequence.fresh <= 0 && filling_.empty()) {
      BeginDrawing(id, sequence);
      continue;
    }
    sequence.state = State::kFilling;
    queued_ += sequence.fresh;
    filling_.push_back({queued_, id});
  }
}

void PlannedEngine::BeginDrawing(SequenceId id, Sequence& sequence) {
  sequence.state = State::kDrawing;
  sequence.begun = drawn_;
  ++drawing_;
  contexts_ += sequence.context;
  endings_.push({drawn_ + table_.At(sequence.place).turn->tokens, id});
}

void PlannedEngine::EndTurn(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  const uint32_t tokens = table_.At(sequence.place).turn->tokens;
  --drawing_, --running_;
  contexts_ = drawing_ == 0 ? 0 : std::max(0.0, contexts_ - sequence.context - tokens);
  sequence.context += tokens;
  EngineEvent event;
  event.status = Ok();
  event.turn.id = id;
  // The versions under which it drew, and how many tokens each.
  auto swap = std::upper_bound(swaps_.begin(), swaps_.end(), sequence.begun + kHalfToken,
                               [](double drawn, const Swap& one) { return drawn < one.drawn; });
  uint64_t version = std::prev(swap)->version;
  double left = tokens, from = sequence.begun;
  const auto add = [&](double count) {
    event.turn.ids.push_back(static_cast<TokenId>(count));
    event.turn.versions.push_back({version, 1});
    left -= count;
  };
  for (; swap != swaps_.end(); ++swap) {
    const double count = std::min(left, std::round(swap->drawn - from));
    if (count >= 1 && count < left) {
      add(count);
      from += count;
    }
    if (swap->drawn - sequence.begun >= tokens - kHalfToken) break;
    version = swap->version;
  }
  add(left);
  event.turn.ids.push_back(sequence.place);
  event.turn.versions.back().tokens = 2;
  event.turn.logprobs.assign(event.turn.ids.size(), -1.0f);
  sequence.state = State::kParked;
  sequence.parked = ++parks_;
  parked_.insert({sequence.parked, id});
  events_.Post(std::move(event));
}

void PlannedEngine::Go() {
  while (!endings_.empty() && endings_.top().first <= drawn_ + kHalfToken) {
    const SequenceId id = endings_.top().second;
    endings_.pop();
    EndTurn(id);
  }
  while (!filling_.empty() && filling_.front().by <= filled_ + kPromptRounding) {
    const SequenceId id = filling_.front().id;
    filling_.pop_front();
    BeginDrawing(id, sequences_.at(id));
  }
  Admit();
  if (working() != loaded_) {
    loaded_ = working();
    host_.Load(loaded_ ? times_.threads : -times_.threads);
    if (loaded_) busy_since_ = world_.Seconds();
    if (!loaded_) totals_.busy_s += world_.Seconds() - busy_since_;
  }
  const uint64_t plan = ++planned_;
  if (!working()) return;
  double steps = std::numeric_limits<double>::max();
  if (!endings_.empty()) steps = std::min(steps, endings_.top().first - drawn_);
  if (!filling_.empty()) steps = std::min(steps, (filling_.front().by - filled_) / times_.chunk);
  // The longer contexts get, the longer steps take.
  if (times_.context_s > 0 && drawing_ > 0) {
    steps = std::min(steps, std::max(32.0, 0.1 * contexts_ / static_cast<double>(drawing_)));
  }
  const double pause = std::max(0.0, paused_until_ - host_.Now());
  // What rounding left of a token is no reason to stand still.
  constexpr double kLeast = 1e-7;
  host_.After(pause + std::max(kLeast, steps * StepSeconds()), [this, plan] {
    if (plan != planned_) return;
    Advance();
    Go();
  });
}

EngineTotals PlannedEngine::Totals() {
  Advance();
  EngineTotals totals = totals_;
  if (loaded_) totals.busy_s += world_.Seconds() - busy_since_;
  return totals;
}

PlannedEngines::PlannedEngines(PlanWorld& world, const std::vector<SharedHost*>& hosts,
                               const EngineTimes& times, const ScriptTable& table, uint64_t version,
                               uint64_t seed)
    : table_(table), random_(seed), events_(10'000'000), version_(version) {
  for (SharedHost* host : hosts) {
    engines_.emplace_back(world, *host, times, table, events_, version);
  }
}

void PlannedEngines::Start(SequenceStart start) {
  const TokenId place =
      table_.Begin(static_cast<size_t>(start.prompt.front()), random_.Next() >> 1);
  const double prompt = table_.At(place).script->prompt;
  const auto [found, first] = groups_.try_emplace(start.share_group);
  Group& group = found->second;
  if (first) {
    size_t least = 0;
    for (size_t i = 1; i < engines_.size(); ++i) {
      if (engines_[i].load() < engines_[least].load()) least = i;
    }
    group.engine = least;
  }
  ++group.sequences;
  known_[start.id] = {group.engine, start.share_group};
  engines_[group.engine].Start(start.id, place, first ? prompt : 0, first ? 0 : prompt);
}

void PlannedEngines::Continue(SequenceId id, std::vector<TokenId> append, TurnParams) {
  const auto known = known_.find(id);
  if (known == known_.end()) return;
  double tokens = 0;
  for (const TokenId count : append) tokens += count;
  engines_[known->second.engine].Continue(id, tokens);
}

void PlannedEngines::Release(SequenceId id) {
  const auto known = known_.find(id);
  if (known == known_.end()) return;
  const auto group = groups_.find(known->second.group);
  if (--group->second.sequences == 0) groups_.erase(group);
  engines_[known->second.engine].Release(id);
  known_.erase(known);
}

void PlannedEngines::Publish(uint64_t version) {
  version_ = version;
  for (PlannedEngine& engine : engines_) engine.Take(version);
}

EngineTotals PlannedEngines::Totals() {
  EngineTotals totals;
  for (PlannedEngine& engine : engines_) {
    const EngineTotals one = engine.Totals();
    totals.busy_s += one.busy_s;
    totals.drawn += one.drawn;
    totals.prompts += one.prompts;
    totals.continued += one.continued;
    totals.rebuilt += one.rebuilt;
  }
  return totals;
}

EngineStats PlannedEngines::Stats() const {
  EngineStats stats;
  stats.version = version_;
  return stats;
}

}  // namespace tidemill

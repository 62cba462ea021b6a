#include "live/live_signals.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tidemill {
namespace {

// In the order of trust.
constexpr std::array<const char*, 3> kSources = {"program", "person", "judge"};

struct Mean {
  double sum = 0;
  int count = 0;
  void Add(double value) { sum += value, ++count; }
  double value() const { return sum / count; }
};

// The signals of one kind of source.
struct SourceScore {
  Mean whole;                      // of the session itself
  std::map<uint32_t, Mean> turns;  // of turns and parts of them
  uint32_t version = 0;
  std::string text;

  bool any() const { return whole.count > 0 || !turns.empty(); }
  double session() const {
    if (whole.count > 0) return whole.value();
    Mean mean;
    for (const auto& [turn, scores] : turns) mean.Add(scores.value());
    return mean.value();
  }
};

uint64_t TokensOf(const v1::Trajectory& trajectory) {
  uint64_t tokens = static_cast<uint64_t>(trajectory.prompt_ids_size());
  for (const v1::Turn& turn : trajectory.turns()) {
    tokens += static_cast<uint64_t>(turn.ids_size() + turn.observation_ids_size());
  }
  return tokens;
}

// The rest of a trajectory when its tokens are elsewhere: its name and that of its turns.
void KeepNames(v1::Trajectory& trajectory) {
  trajectory.clear_prompt_ids();
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    const uint32_t number = turn.session_turn();
    turn.Clear();
    turn.set_session_turn(number);
  }
}

v1::Verdict VerdictOf(const v1::TrajectoryId& id, const SessionScore& score) {
  v1::Verdict verdict;
  *verdict.mutable_id() = id;
  uint64_t version = 0;
  for (const v1::RewardPart& part : score.parts) version += part.scorer_version();
  verdict.set_request_id("live." + id.task() + "." + std::to_string(version));
  verdict.set_scored(true);
  verdict.set_reward(score.session);
  verdict.set_solved(score.session >= 1);
  for (const v1::RewardPart& part : score.parts) *verdict.add_parts() = part;
  return verdict;
}

}  // namespace

SessionScore ScoreSession(const std::vector<v1::Signal>& signals) {
  std::map<std::string, SourceScore> sources;
  for (const v1::Signal& signal : signals) {
    SourceScore& source = sources[signal.source()];
    (signal.turn() == 0 ? source.whole : source.turns[signal.turn()]).Add(signal.score());
    source.version += signal.revision();
    if (!signal.text().empty()) source.text = signal.text();
  }
  SessionScore score;
  for (const char* name : kSources) {
    const auto it = sources.find(name);
    if (it == sources.end() || !it->second.any()) continue;
    const SourceScore& source = it->second;
    v1::RewardPart& part = score.parts.emplace_back();
    part.set_scorer(std::string("live.") + name);
    part.set_scorer_version(source.version);
    part.set_value(source.session());
    part.set_comment(source.text);
    if (score.any) continue;  // one that is trusted more has decided; this one is only shown
    score.any = true;
    score.session = source.session();
    for (const auto& [turn, mean] : source.turns) score.turns[turn] = mean.value();
    part.set_weight(1);
  }
  return score;
}

LiveSignals::SignalKey LiveSignals::KeyOf(const v1::Signal& signal) {
  return {signal.turn(), signal.span_from(), signal.span_to(), signal.source(), signal.by()};
}

void LiveSignals::AddPart(Entry& entry, v1::Trajectory trajectory, bool usable) {
  const auto same = [&](const Part& part) {
    return part.trajectory.id().task() == trajectory.id().task() &&
           part.trajectory.id().member() == trajectory.id().member();
  };
  if (std::any_of(entry.parts.begin(), entry.parts.end(), same)) return;
  Part part;
  part.tokens = usable && options_.train ? TokensOf(trajectory) : 0;
  if (part.tokens == 0) KeepNames(trajectory);
  part.trajectory = std::move(trajectory);
  tokens_ += part.tokens;
  unsignalled_ += part.tokens > 0 ? 1 : 0;
  entry.parts.push_back(std::move(part));
}

LiveLessons LiveSignals::Restore(const LiveState& state) {
  for (const StoredLive& live : state.trajectories) {
    Entry& entry = sessions_[live.session.number()];
    entry.of = {live.session.tenant(), live.session.task_class()};
    AddPart(entry, live.trajectory, live.usable);
  }
  for (const v1::Signal& signal : state.signals) {
    Entry& entry = sessions_[signal.session()];
    entry.signals[KeyOf(signal)] = signal;
    entry.revisions[KeyOf(signal)] = signal.revision();
  }
  LiveLessons lessons;
  for (auto& [number, entry] : sessions_) {
    if (!entry.parts.empty()) Score(number, entry, lessons);
  }
  Bound();
  return lessons;
}

LiveLessons LiveSignals::Settled(const v1::Session& session,
                                 std::vector<v1::Trajectory> trajectories) {
  LiveLessons lessons;
  if (trajectories.empty()) return lessons;
  Entry& entry = sessions_[session.number()];
  entry.of = {session.tenant(), session.task_class()};
  for (v1::Trajectory& trajectory : trajectories) AddPart(entry, std::move(trajectory), true);
  Score(session.number(), entry, lessons);
  Bound();
  return lessons;
}

uint32_t LiveSignals::NextRevision(const v1::Signal& signal) {
  return ++sessions_[signal.session()].revisions[KeyOf(signal)];
}

LiveLessons LiveSignals::Put(const v1::Signal& signal) {
  LiveLessons lessons;
  Entry& entry = sessions_[signal.session()];
  v1::Signal& here = entry.signals[KeyOf(signal)];
  if (here.revision() >= signal.revision()) return lessons;  // a newer one was durable first
  ++counters_.signals;
  counters_.revised += here.revision() > 0 ? 1 : 0;
  here = signal;
  uint32_t& revision = entry.revisions[KeyOf(signal)];
  revision = std::max(revision, signal.revision());
  if (!entry.parts.empty()) Score(signal.session(), entry, lessons);
  return lessons;
}

std::vector<v1::Signal> LiveSignals::SignalsOf(uint64_t session) const {
  std::vector<v1::Signal> signals;
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return signals;
  for (const auto& [key, signal] : it->second.signals) signals.push_back(signal);
  return signals;
}

void LiveSignals::Score(uint64_t session, Entry& entry, LiveLessons& lessons) {
  const SessionScore score = ScoreSession(SignalsOf(session));
  if (!score.any) return;
  for (const Part& part : entry.parts) {
    lessons.verdicts.push_back(VerdictOf(part.trajectory.id(), score));
  }
  baseline_.Put(entry.of, session, score.session);
  if (!options_.train) return;
  quarantine_.Put(entry.of.first, session, score.session, baseline_.Without(entry.of, session));
  TellScores(session, entry, score, lessons);
  if (!AskSiblings(session, entry, lessons)) Send(session, entry, score, lessons);
  SendWaiting(entry.of, lessons);
}

// A session in quarantine teaches memory nothing, either.
void LiveSignals::TellScores(uint64_t session, Entry& entry, const SessionScore& score,
                             LiveLessons& lessons) {
  if (quarantine_.Holds(entry.of.first, session)) return;
  for (const Part& part : entry.parts) {
    for (const v1::Turn& turn : part.trajectory.turns()) {
      const auto own = score.turns.find(turn.session_turn());
      const double value = own == score.turns.end() ? score.session : own->second;
      const auto [told, first] = entry.told.try_emplace(turn.session_turn(), value);
      if (!first && told->second == value) continue;
      told->second = value;
      lessons.scored.push_back({session, turn.session_turn(), value});
    }
  }
}

bool LiveSignals::AskSiblings(uint64_t session, Entry& entry, LiveLessons& lessons) {
  if (entry.siblings != Entry::Siblings::kNotAsked) {
    return entry.siblings == Entry::Siblings::kAsked;
  }
  const bool unsent = std::any_of(entry.parts.begin(), entry.parts.end(),
                                  [](const Part& part) { return part.tokens > 0; });
  if (options_.siblings == 0 || !unsent || !options_.tasks.contains(entry.of.second)) return false;
  entry.siblings = Entry::Siblings::kAsked;
  ++awaiting_;
  v1::SiblingsWanted& wanted = lessons.wanted.emplace_back();
  wanted.set_session(session);
  wanted.set_task(entry.of.second);
  wanted.set_members(options_.siblings);
  return true;
}

LiveLessons LiveSignals::Siblings(const v1::SiblingsDone& done) {
  LiveLessons lessons;
  const uint64_t session = done.session();
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.siblings != Entry::Siblings::kAsked) return lessons;
  Entry& entry = it->second;
  entry.siblings = Entry::Siblings::kKnown;
  --awaiting_;
  const double mean = done.scored() > 0 ? done.reward_sum() / done.scored() : 0;
  entry.compared.mean = 2 * mean - 1;  // as the scores of sessions are
  entry.compared.others = done.scored();
  Send(session, entry, ScoreSession(SignalsOf(session)), lessons);
  return lessons;
}

// The spread of rewards is that of the window also where the mean is that of siblings.
LiveBaseline::Comparison LiveSignals::Compare(uint64_t session, const Entry& entry) const {
  LiveBaseline::Comparison compared = baseline_.Without(entry.of, session);
  if (entry.compared.others == 0) return compared;
  compared.mean = entry.compared.mean;
  compared.others = entry.compared.others;
  return compared;
}

bool LiveSignals::Comparable(uint64_t session, const Entry& entry) const {
  return entry.compared.others > 0 ||
         baseline_.Without(entry.of, session).others >= options_.others_min;
}

void LiveSignals::Send(uint64_t session, Entry& entry, const SessionScore& score,
                       LiveLessons& lessons) {
  const LiveBaseline::Comparison compared = Compare(session, entry);
  const bool enough = Comparable(session, entry);
  if (enough) uncompared_.erase({entry.of, session});
  if (enough && quarantine_.Holds(entry.of.first, session)) return;
  for (Part& part : entry.parts) {
    if (!enough && part.tokens > 0) {
      uncompared_.insert({entry.of, session});
      continue;
    }
    v1::LiveEvent& event = lessons.events.emplace_back();
    const bool whole = part.tokens > 0;
    v1::LiveCredit& credit =
        whole ? *event.mutable_sample()->mutable_live() : *event.mutable_revised()->mutable_live();
    (whole ? *event.mutable_sample()->mutable_verdict()
           : *event.mutable_revised()->mutable_verdict()) = VerdictOf(part.trajectory.id(), score);
    credit.set_baseline(compared.mean);
    credit.set_deviation(compared.deviation);
    credit.set_others(static_cast<uint32_t>(compared.others));
    credit.set_tenant(entry.of.first);
    credit.set_task_class(entry.of.second);
    for (const v1::Turn& turn : part.trajectory.turns()) {
      const auto own = score.turns.find(turn.session_turn());
      credit.add_turn_scores(own == score.turns.end() ? score.session : own->second);
    }
    if (!whole) continue;
    *event.mutable_sample()->mutable_trajectory() = part.trajectory;
    tokens_ -= part.tokens;
    --unsignalled_;
    part.tokens = 0;
    KeepNames(part.trajectory);
  }
}

Result<LiveLessons> LiveSignals::Decide(const std::string& tenant, bool train) {
  LiveLessons lessons;
  TM_ASSIGN_OR_RETURN(const auto sessions, quarantine_.Decide(tenant, train));
  for (const uint64_t session : sessions) {
    const auto it = sessions_.find(session);
    if (!train || it == sessions_.end()) continue;
    TellScores(session, it->second, ScoreSession(SignalsOf(session)), lessons);
    Send(session, it->second, ScoreSession(SignalsOf(session)), lessons);
  }
  return lessons;
}

void LiveSignals::SendWaiting(const LiveBaseline::Class& of, LiveLessons& lessons) {
  std::vector<uint64_t> waiting;
  for (auto it = uncompared_.lower_bound({of, 0}); it != uncompared_.end() && it->first == of;
       ++it) {
    waiting.push_back(it->second);
  }
  for (const uint64_t session : waiting) {
    const auto entry = sessions_.find(session);
    if (entry != sessions_.end()) {
      if (!Comparable(session, entry->second)) continue;
      Send(session, entry->second, ScoreSession(SignalsOf(session)), lessons);
    }
    uncompared_.erase({of, session});
  }
}

void LiveSignals::Forget(uint64_t session) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  baseline_.Forget(it->second.of, session);
  quarantine_.Forget(it->second.of.first, session);
  Release(session);
}

// Its signals and tokens leave memory.
void LiveSignals::Release(uint64_t session) {
  const auto it = sessions_.find(session);
  for (const Part& part : it->second.parts) {
    tokens_ -= part.tokens;
    unsignalled_ -= part.tokens > 0 ? 1 : 0;
  }
  uncompared_.erase({it->second.of, session});
  awaiting_ -= it->second.siblings == Entry::Siblings::kAsked ? 1 : 0;
  sessions_.erase(it);
}

// A forgotten session stays stored; a signal on it is stored and no longer trained.
void LiveSignals::Bound() {
  while (sessions_.size() > options_.max_sessions) Release(sessions_.begin()->first);
  for (auto it = sessions_.begin(); tokens_ > options_.max_tokens && it != sessions_.end(); ++it) {
    for (Part& part : it->second.parts) {
      if (part.tokens == 0) continue;
      tokens_ -= part.tokens;
      --unsignalled_;
      part.tokens = 0;
      KeepNames(part.trajectory);
    }
  }
}

}  // namespace tidemill

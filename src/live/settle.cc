#include "live/settle.h"

#include <algorithm>
#include <optional>

#include "core/token_support.h"

namespace tidemill {
namespace {

uint32_t SequenceSize(const LiveTurn& turn) {
  return turn.prompt_tokens + static_cast<uint32_t>(turn.record.answer().ids_size());
}

// Whether the prompt holds an earlier turn whole, from its first token to its last.
bool ExtendsAny(const Session& session, const LiveTurn& turn) {
  uint32_t shared = turn.record.prefix_tokens();
  for (uint32_t at = turn.record.prefix_turn(); at != 0;) {
    const LiveTurn& earlier = session.turns().at(at);
    if (shared >= SequenceSize(earlier)) return true;
    shared = std::min(shared, earlier.record.prefix_tokens());
    at = earlier.record.prefix_turn();
  }
  return false;
}

class Decision {
 public:
  Decision(const Session& session, uint32_t after, uint32_t up_to)
      : session_(session), after_(after) {
    for (const auto& [number, turn] : session.turns()) {
      if (number <= up_to) by_question_[turn.record.question()].push_back(number);
      if (number <= up_to && turn.record.tools()) with_tools_ = true;
    }
  }

  // Empty: trained.
  std::string ReasonOf(const LiveTurn& turn) const {
    if (!session_.record().trainable()) return untrained::kConsent;
    if (turn.record.redacted() > 0) return untrained::kSecret;
    // A question without tools that nothing builds on, beside others that have tools: a title, a
    // summary.
    const bool aside = with_tools_ && !turn.record.tools() && !Continued(turn.record.question());
    if (!turn.record.side().empty() || aside) return untrained::kSide;
    if (turn.record.cut()) return untrained::kCut;
    if (turn.record.choices() > 1) {
      if (!turn.continued) return untrained::kChoice;
    } else if (!Counts(turn)) {
      return untrained::kRetried;
    }
    return turn.record.untrainable().empty() ? "" : untrained::kSampling;
  }

 private:
  const LiveTurn& At(uint32_t turn) const { return session_.turns().at(turn); }

  bool Continued(uint32_t question) const {
    const auto& turns = by_question_.at(question);
    return std::any_of(turns.begin(), turns.end(), [&](uint32_t t) { return At(t).continued; });
  }

  // Of several whole answers to one question those count that the client went on from; without
  // any, the last. A cut one is not trained: going on from it takes nothing from the others.
  bool Counts(const LiveTurn& turn) const {
    uint32_t last = 0;
    bool continued = false;
    for (const uint32_t other : by_question_.at(turn.record.question())) {
      const LiveTurn& one = At(other);
      if (one.record.cut() || one.record.choices() > 1) continue;
      if (other <= after_) return false;  // was settled with an earlier close
      last = std::max(last, other);
      continued = continued || one.continued;
    }
    return continued ? turn.continued : turn.record.turn() == last;
  }

  const Session& session_;
  const uint32_t after_;
  bool with_tools_ = false;
  std::map<uint32_t, std::vector<uint32_t>> by_question_;
};

// Puts trained turns one behind the other while each prompt extends all that came before.
class Chains {
 public:
  Chains(const Session& session, uint32_t close) : session_(session), close_(close) {}

  void Add(const LiveTurn& turn) {
    const std::vector<TokenId> prompt = session_.TokensOf(turn.record.turn(), false);
    const std::optional<uint32_t> before = LastBefore(turn);
    const size_t chain = before ? tails_.at(*before) : trajectories_.size();
    const uint32_t forced =
        std::min<uint32_t>(turn.record.forced(), turn.record.answer().ids_size());
    if (before) {
      v1::Turn& last = *trajectories_[chain].mutable_turns()->rbegin();
      const uint32_t from = SequenceSize(session_.turns().at(*before));
      last.mutable_observation_ids()->Add(prompt.begin() + from, prompt.end());
      Force(turn, forced, *last.mutable_observation_ids());
      tails_.erase(*before);
    } else {
      v1::Trajectory& fresh = trajectories_.emplace_back();
      fresh.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
      Force(turn, forced, *fresh.mutable_prompt_ids());
      *fresh.mutable_sampling() = turn.record.sampling();
      fresh.set_started_ms(turn.record.answer().started_ms());
    }
    v1::Trajectory& trajectory = trajectories_[chain];
    AddDrawn(turn, forced, *trajectory.add_turns());
    trajectory.set_finished_ms(turn.record.answer().finished_ms());
    tails_[turn.record.turn()] = chain;
    CheckExact(trajectory, turn);
  }

  std::vector<v1::Trajectory> Take() {
    const v1::Session& record = session_.record();
    std::string task = "session-" + std::to_string(record.number());
    if (close_ > 1) task += "." + std::to_string(close_);
    for (size_t i = 0; i < trajectories_.size(); ++i) {
      v1::Trajectory& one = trajectories_[i];
      one.mutable_id()->set_task(task);
      one.mutable_id()->set_group(record.number());
      one.mutable_id()->set_member(static_cast<uint32_t>(i));
      one.mutable_id()->set_attempt(1);
      one.set_purpose(v1::PURPOSE_LIVE);
      one.set_end(v1::EPISODE_END_SUBMITTED);
      one.set_worker("gateway");
      *one.mutable_shown_cases() = record.shown_cases();
      one.set_group_members(static_cast<uint32_t>(trajectories_.size()));
    }
    return std::move(trajectories_);
  }

 private:
  // The nearest turn that ends a chain, was drawn at the same temperature and is whole in the
  // prompt.
  std::optional<uint32_t> LastBefore(const LiveTurn& turn) const {
    uint32_t shared = turn.record.prefix_tokens();
    for (uint32_t at = turn.record.prefix_turn(); at != 0;) {
      const LiveTurn& earlier = session_.turns().at(at);
      const auto tail = tails_.find(at);
      if (shared >= SequenceSize(earlier) && tail != tails_.end() &&
          trajectories_[tail->second].sampling().temperature() ==
              turn.record.sampling().temperature()) {
        return at;
      }
      shared = std::min(shared, earlier.record.prefix_tokens());
      at = earlier.record.prefix_turn();
    }
    return std::nullopt;
  }

  static void Force(const LiveTurn& turn, uint32_t forced,
                    google::protobuf::RepeatedField<uint32_t>& to) {
    const auto& ids = turn.record.answer().ids();
    to.Add(ids.begin(), ids.begin() + forced);
  }

  static void AddDrawn(const LiveTurn& turn, uint32_t forced, v1::Turn& out) {
    const v1::Turn& answer = turn.record.answer();
    out.mutable_ids()->Add(answer.ids().begin() + forced, answer.ids().end());
    out.mutable_logprobs()->Add(answer.logprobs().begin() + forced, answer.logprobs().end());
    if (answer.has_supports()) FillSupports(answer.supports(), forced, *out.mutable_supports());
    if (answer.has_experts()) *out.mutable_experts() = answer.experts();
    uint32_t skip = forced;
    for (const v1::VersionRun& run : answer.versions()) {
      const uint32_t skipped = std::min(skip, run.tokens());
      skip -= skipped;
      if (skipped == run.tokens()) continue;
      v1::VersionRun& kept = *out.add_versions();
      kept.set_version(run.version());
      kept.set_tokens(run.tokens() - skipped);
    }
    out.set_session_turn(turn.record.turn());
    out.set_end(answer.end());
    out.set_started_ms(answer.started_ms());
    out.set_finished_ms(answer.finished_ms());
  }

  // No trained token was tokenized again: what the learner sees before and in the turn is what the
  // engine was given and drew.
  void CheckExact(const v1::Trajectory& trajectory, const LiveTurn& turn) const {
    const std::vector<TokenId> real = session_.TokensOf(turn.record.turn(), true);
    size_t at = 0;
    auto same = [&](const google::protobuf::RepeatedField<uint32_t>& ids) {
      for (const uint32_t id : ids) {
        if (at >= real.size() || real[at++] != static_cast<TokenId>(id)) return false;
      }
      return true;
    };
    bool exact = same(trajectory.prompt_ids());
    for (const v1::Turn& one : trajectory.turns()) {
      exact = exact && same(one.ids()) && same(one.observation_ids());
    }
    TM_CHECK(exact && at == real.size(), "a trained token is not the one that was drawn");
  }

  const Session& session_;
  const uint32_t close_;
  std::vector<v1::Trajectory> trajectories_;
  std::map<uint32_t, size_t> tails_;  // the last turn of a chain, and which chain it is
};

}  // namespace

Settlement Settle(const Session& session, uint32_t after, uint32_t up_to, uint32_t close) {
  Settlement settled;
  const Decision decision(session, after, up_to);
  Chains chains(session, close);
  for (const auto& [number, turn] : session.turns()) {
    if (number <= after || number > up_to) continue;
    const std::string reason = decision.ReasonOf(turn);
    const uint64_t drawn = turn.record.answer().ids_size();
    const uint64_t forced = std::min<uint64_t>(turn.record.forced(), drawn);
    settled.reasons[number] = reason;
    settled.sampled += drawn;
    settled.rewritten += turn.record.rewritten();
    if (turn.record.context_messages() > 0 && !ExtendsAny(session, turn)) ++settled.branches;
    if (!reason.empty()) {
      settled.tokens[reason] += drawn;
      continue;
    }
    if (forced > 0) settled.tokens[untrained::kForced] += forced;
    settled.tokens["trained"] += drawn - forced;
    if (drawn > forced) chains.Add(turn);
  }
  settled.trajectories = chains.Take();
  return settled;
}

}  // namespace tidemill

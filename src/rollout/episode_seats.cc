#include "rollout/episode_seats.h"

#include <utility>

#include "core/hash.h"

namespace tidemill {
namespace {

const TeamPlan& OneAgent() {
  static const TeamPlan kOne;
  return kOne;
}

}  // namespace

EpisodeSeats::EpisodeSeats(const SeatTerms& terms, const v1::CaseSet& cases)
    : terms_(terms),
      plan_(terms.team == nullptr ? OneAgent() : *terms.team),
      play_(plan_),
      seats_(plan_.seats.size()) {
  if (terms_.team != nullptr) now().own = TaskFor(plan_.seats[0], Submits(), terms_.task, "");
  const v1::Task& read = terms_.team == nullptr ? terms_.task : now().own;
  now().talk = terms_.protocol.Begin({read, cases, terms_.wall_ms});
}

const RolePolicy& EpisodeSeats::policy() const {
  const TeamSeat& seat = plan_.seats[play_.seat()];
  return seat.policy ? *seat.policy : terms_.policy;
}

Result<TeamNext> EpisodeSeats::Leave(const ParsedTurn& turn, const v1::Tree& tree) {
  now().tree = tree;
  now().answer = *turn.answer;
  return play_.After(now().answer.empty() ? turn.text : now().answer);
}

Result<NextPrompt> EpisodeSeats::TakeOver(const TeamNext& next, v1::Tree& tree) {
  Seat& seat = seats_[next.seat];
  if (seat.talk) return seat.talk->Hear(next.given);
  if (play_.BeginsApart()) {
    *tree.mutable_files() = terms_.task.files();
    NormalizeTree(tree);
  }
  v1::Task found = terms_.task;
  *found.mutable_files() = tree.files();
  seat.own = TaskFor(plan_.seats[next.seat], Submits(), found, next.given);
  const v1::CaseSet none;
  seat.talk = terms_.protocol.Begin({seat.own, none, terms_.wall_ms});
  TM_ASSIGN_OR_RETURN(std::vector<TokenId> ids, seat.talk->Open());
  return NextPrompt{.ids = std::move(ids), .anew = true};
}

}  // namespace tidemill

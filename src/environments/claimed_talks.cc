#include "environments/claimed_talks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tidemill {
namespace {

using AnswerIds = std::vector<uint32_t>;

AnswerIds IdsOf(const v1::Turn& turn) {
  return {turn.ids().begin(), turn.ids().end()};
}

const ClaimedTalk* TalkOf(const std::vector<ClaimedTalk>& talks, const EpisodeSession& recorded,
                          const v1::Turn& turn) {
  const auto named = recorded.talks.find(turn.session_turn());
  if (named == recorded.talks.end()) return talks.size() == 1 ? talks.data() : nullptr;
  for (const ClaimedTalk& talk : talks) {
    if (talk.id == named->second) return &talk;
  }
  return nullptr;
}

}  // namespace

Status HoldAgainst(const std::vector<ClaimedTalk>& talks, const EpisodeSession& recorded,
                   std::vector<v1::Trajectory>& branches) {
  std::map<std::string, uint32_t> answers;
  for (const auto& [turn, talk] : recorded.talks) ++answers[talk];
  if (answers.empty() && talks.size() == 1) answers[talks[0].id] = recorded.turns;
  uint32_t told = 0;
  for (const ClaimedTalk& talk : talks) {
    const uint32_t found = answers[talk.id];
    if (found == 0 && !talk.trained) continue;  // it asked another model
    told += talk.answers;
    if (found == talk.answers) continue;
    return Unavailable("the environment tells of " + std::to_string(talk.answers) +
                       " answers of the model; " + std::to_string(found) + " were drawn for it");
  }
  if (told != recorded.turns) {
    return Unavailable("the model drew " + std::to_string(recorded.turns) +
                       " answers, the environment tells of " + std::to_string(told));
  }
  std::map<const ClaimedTalk*, std::multiset<AnswerIds>> drawn;
  for (const ClaimedTalk& talk : talks) drawn[&talk] = {talk.drawn.begin(), talk.drawn.end()};
  std::vector<v1::Trajectory> kept;
  for (v1::Trajectory& branch : branches) {
    const ClaimedTalk* player = nullptr;
    for (v1::Turn& turn : *branch.mutable_turns()) {
      player = TalkOf(talks, recorded, turn);
      if (player == nullptr) return Unavailable("an answer is of no conversation that it tells of");
      if (!player->drawn.empty() && drawn[player].count(IdsOf(turn)) == 0) {
        return Unavailable("the environment shows other ids for an answer than were drawn");
      }
      turn.set_role(player->player);
    }
    if (player != nullptr && player->trained) kept.push_back(std::move(branch));
  }
  branches = std::move(kept);
  return Ok();
}

}  // namespace tidemill

#include "replay/score_request.h"

#include <algorithm>
#include <vector>

#include "core/ids.h"

namespace tidemill {
namespace {

// The members stand in a ring, and each is compared with those around it: if they are asked about
// two, the next and the one before. So a comparison serves both.
void AddPeers(const ReplayGroup& group, uint32_t member, uint32_t most, v1::ScoreRequest& request) {
  if (most == 0) return;
  std::vector<const v1::Trajectory*> ring;
  size_t own = 0;
  for (const auto& [index, other] : group.members) {
    if (index == member) own = ring.size();
    // What failed because of us says nothing about the policy.
    if (index == member || other.trajectory.end() != v1::EPISODE_END_GIVEN_UP)
      ring.push_back(&other.trajectory);
  }
  const size_t count = std::min<size_t>(most, ring.size() - 1);
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = i / 2 + 1;
    const size_t place = i % 2 == 0 ? own + distance : own + ring.size() - distance;
    const v1::Trajectory& other = *ring[place % ring.size()];
    v1::ScoredPeer& peer = *request.add_peers();
    peer.set_member(other.id().member());
    peer.set_submitted(other.end() == v1::EPISODE_END_SUBMITTED);
    peer.set_submission(other.submission());
  }
}

}  // namespace

v1::ScoreRequest MakeScoreRequest(const v1::Task& task, const ReplayGroup& group, uint32_t member,
                                  const std::map<std::string, uint32_t>& known,
                                  const ReplayOptions& options) {
  const v1::Trajectory& trajectory = group.members.at(member).trajectory;
  v1::ScoreRequest request;
  *request.mutable_id() = trajectory.id();
  request.set_purpose(trajectory.purpose());
  request.set_end(trajectory.end());
  *request.mutable_tree() = trajectory.tree();
  *request.mutable_grading() = task.grading();
  for (const v1::Turn& turn : trajectory.turns()) {
    v1::ToolCall& last = *request.add_last_calls();
    if (turn.calls_size() > 0) last = turn.calls(turn.calls_size() - 1);
    request.set_generated_tokens(request.generated_tokens() +
                                 static_cast<uint32_t>(turn.ids_size()));
    if (!options.roles.empty()) request.add_turn_roles(turn.role());
    if (options.turn_text)
      request.add_turn_texts(options.turn_text({turn.ids().begin(), turn.ids().end()}));
  }
  request.set_turns(static_cast<uint32_t>(trajectory.turns_size()));
  request.set_max_tokens(options.max_turn_tokens * request.turns());
  request.set_prompt(task.prompt());
  *request.mutable_weights() = task.weights();
  request.set_metadata_json(task.metadata_json());
  request.set_root(task.root());
  for (const auto& [scorer, version] : known) {
    v1::ScorerVersion& seen = *request.add_known_versions();
    seen.set_scorer(scorer), seen.set_version(version);
  }
  request.set_submission(trajectory.submission());
  *request.mutable_time() = trajectory.time();
  if (trajectory.has_environment()) *request.mutable_environment() = trajectory.environment();
  if (!task.answer_file().empty()) request.add_files(task.answer_file());
  for (const std::string& source : task.grading().sources()) {
    if (source != task.answer_file()) request.add_files(source);
  }
  AddPeers(group, member, options.compared_with, request);
  return request;
}

Status CheckTurnRewards(const v1::Verdict& verdict, const v1::Trajectory& of) {
  const int turns = of.turns_size();
  if (verdict.turn_rewards_size() == 0 || verdict.turn_rewards_size() == turns) return Ok();
  return Invalid("Verdict.turn_rewards: " + std::to_string(verdict.turn_rewards_size()) + " for " +
                 std::to_string(turns) + " turns");
}

Status CheckVerdict(const v1::Verdict& verdict, const v1::Trajectory& of) {
  const TrajectoryKey judged = TrajectoryKey::From(verdict.id());
  const TrajectoryKey asked = TrajectoryKey::From(of.id());
  if (judged == asked) return CheckTurnRewards(verdict, of);
  return Invalid("Verdict.id: of " + judged.ToString() + ", asked about " + asked.ToString());
}

}  // namespace tidemill

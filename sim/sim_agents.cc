#include "sim/sim_agents.h"

#include "core/hash.h"
#include "rollout/episode.h"

namespace tidemill::sim {

void SimAgents::Start(AgentJob job, uint64_t tag) {
  ended_early_[tag] = false;
  const uint64_t begun_with = versions_.Newest();
  const auto duration =
      milliseconds(20 + static_cast<int64_t>(world_.random().LogNormal(200, 1.2)));
  world_.After(duration, process_, [this, job = std::move(job), tag, begun_with] {
    AgentDone done{tag, {}};
    if (ended_early_[tag]) {
      done.outcome.status = Unavailable("the episode was given up");
    } else {
      done.outcome = Outcome(job, begun_with);
    }
    ended_early_.erase(tag);
    events_.Post(std::move(done));
  });
}

AgentOutcome SimAgents::Outcome(const AgentJob& job, uint64_t begun_with) {
  Random& random = world_.random();
  AgentOutcome outcome;
  const bool lost = random.Chance(0.05);
  if (lost) world_.Fault("agent's box lost");
  if (lost && !lost_is_a_result_) {
    outcome.status = Unavailable("the simulated box was lost");
    return outcome;
  }
  const double share = random.Uniform();
  outcome.end = lost || share < 0.1 ? v1::EPISODE_END_FAILED
                : share < 0.2       ? v1::EPISODE_END_MAX_TURNS
                                    : v1::EPISODE_END_SUBMITTED;
  // Files that differ: equal ones get equal gradings.
  const std::string& answer_file = job.group->lease.task().answer_file();
  v1::File& file = *outcome.tree.add_files();
  file.set_path(answer_file.empty() ? "answer.c" : answer_file);
  file.set_content("x" + std::to_string(random.Below(100)));
  file.set_has_content(true);
  file.set_hash(Sha256Hex(file.content()));
  if (share > 0.97) return outcome;  // it never asked
  outcome.branches.push_back(Branch(job, begun_with, lost));
  if (random.Chance(0.1)) outcome.branches.push_back(Branch(job, begun_with, lost));
  return outcome;
}

v1::Trajectory SimAgents::Branch(const AgentJob& job, uint64_t begun_with, bool lost) {
  Random& random = world_.random();
  v1::Trajectory branch;
  for (const uint32_t id : {1u, 2u, 3u}) branch.add_prompt_ids(id);
  *branch.mutable_sampling() = job.group->lease.sampling();
  v1::Turn& turn = *branch.add_turns();
  const uint32_t count = 1 + static_cast<uint32_t>(random.Below(4));
  for (uint32_t i = 0; i < count; ++i) {
    turn.add_ids(lost ? kLostAgentToken : static_cast<uint32_t>(random.Below(140)));
    turn.add_logprobs(-1.0f);
  }
  // Weights may have arrived in the middle of the turn.
  const auto early = static_cast<uint32_t>(random.Below(count + 1));
  const auto add = [&turn](uint64_t version, uint32_t tokens) {
    if (tokens == 0) return;
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(version);
    run.set_tokens(tokens);
  };
  add(begun_with, early);
  add(versions_.Newest(), count - early);
  turn.set_end(v1::TURN_END_STOP);
  turn.set_finished_ms(world_.clock().WallMs());
  return branch;
}

}  // namespace tidemill::sim

// Samples for tests, made by hand.
#pragma once

#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

struct TurnSpec {
  std::vector<uint32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::pair<uint64_t, uint32_t>> versions;  // version, tokens
  std::vector<uint32_t> observation;
  std::string tree_hash;  // left by the turn's call; empty: no call
};

inline v1::Sample MakeSample(uint64_t group, uint32_t member, double reward,
                             const std::vector<uint32_t>& prompt,
                             const std::vector<TurnSpec>& turns) {
  v1::Sample sample;
  v1::Trajectory& trajectory = *sample.mutable_trajectory();
  trajectory.mutable_id()->set_task("task");
  trajectory.mutable_id()->set_group(group);
  trajectory.mutable_id()->set_member(member);
  trajectory.mutable_id()->set_attempt(1);
  trajectory.mutable_sampling()->set_temperature(1.0);
  trajectory.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  for (const TurnSpec& spec : turns) {
    v1::Turn& turn = *trajectory.add_turns();
    turn.mutable_ids()->Add(spec.ids.begin(), spec.ids.end());
    turn.mutable_logprobs()->Add(spec.logprobs.begin(), spec.logprobs.end());
    for (const auto& [version, tokens] : spec.versions) {
      v1::VersionRun& run = *turn.add_versions();
      run.set_version(version);
      run.set_tokens(tokens);
    }
    turn.mutable_observation_ids()->Add(spec.observation.begin(), spec.observation.end());
    if (!spec.tree_hash.empty()) turn.add_calls()->set_tree_hash(spec.tree_hash);
  }
  sample.mutable_verdict()->set_scored(true);
  sample.mutable_verdict()->set_reward(reward);
  return sample;
}

}  // namespace tidemill

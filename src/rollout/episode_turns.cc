#include "rollout/episode_turns.h"

#include <algorithm>
#include <utility>

#include "core/token_experts.h"
#include "engine/turn.h"
#include "rollout/job_tools.h"

namespace tidemill {
void FillTurn(const TurnOutput& output, v1::Turn& turn) {
  FillDrawn(output, turn);
  if (!output.experts.empty()) FillExperts(output.experts, 0, *turn.mutable_experts());
}

void PutBranches(std::vector<v1::Trajectory> branches, v1::Trajectory& trajectory,
                 EpisodeClock& clock) {
  for (size_t i = 0; i < branches.size(); ++i) {
    v1::Trajectory& branch = branches[i];
    if (i == 0) {
      *trajectory.mutable_prompt_ids() = std::move(*branch.mutable_prompt_ids());
      trajectory.mutable_sampling()->set_temperature(branch.sampling().temperature());
    } else {
      // A trajectory is trained at one temperature.
      if (branch.sampling().temperature() != trajectory.sampling().temperature()) continue;
      *branch.mutable_turns(0)->mutable_prompt_ids() = std::move(*branch.mutable_prompt_ids());
    }
    for (v1::Turn& turn : *branch.mutable_turns()) {
      clock.Turn(turn.started_ms(), 0, turn.finished_ms());
      *trajectory.add_turns() = std::move(turn);
    }
  }
}

void PutAgentCalls(const std::vector<v1::ToolCall>& calls, v1::Trajectory& trajectory,
                   EpisodeClock& clock) {
  for (const v1::ToolCall& call : calls) {
    if (call.answered_ms() > 0 && !call.cancelled() && !IsJobTool(call.tool())) {
      clock.Call(call.asked_ms(), call.queue_ms(), call.answered_ms());
    }
    if (trajectory.turns().empty()) {
      *trajectory.mutable_log()->add_calls() = call;
      continue;
    }
    int last = 0;
    for (int i = 0; i < trajectory.turns_size(); ++i) {
      if (trajectory.turns(i).finished_ms() <= call.asked_ms()) last = i;
    }
    v1::Turn& turn = *trajectory.mutable_turns(last);
    *turn.add_calls() = call;
    const bool waited = call.handle().empty() && call.answered_ms() > 0;
    if (waited) turn.set_observed_ms(std::max(turn.observed_ms(), call.answered_ms()));
  }
}

}  // namespace tidemill

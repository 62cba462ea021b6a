#include "sim/sim_background.h"

#include <map>

namespace tidemill::sim {

std::string SimToolText(const std::string& arguments_json) {
  return "said to " + arguments_json;
}

std::string WrongBackground(const v1::Trajectory& trajectory) {
  std::map<std::string, const v1::ToolCall*> begun;
  std::map<std::string, int> delivered;
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::ToolCall& call : turn.calls()) {
      const bool told = call.text().starts_with("said to ");
      if (told && call.text() != SimToolText(call.arguments_json())) {
        return "a result was given to another episode: " + call.tool() + " of " +
               call.arguments_json() + " was answered \"" + call.text() + "\"";
      }
      if (call.answered_ms() > trajectory.finished_ms())
        return "a result was taken after the episode's end";
      if (call.handle().empty()) continue;
      begun[call.handle()] = &call;
      if (call.cancelled() &&
          (call.run_ms() != 0 || call.answered_ms() != 0 || !call.text().empty()))
        return "a cancelled call was charged";
    }
    for (const std::string& handle : turn.delivered()) {
      if (++delivered[handle] > 1) return "a result was delivered twice";
      const auto call = begun.find(handle);
      if (call == begun.end()) return "a result was delivered that was not asked for";
      if (call->second->cancelled()) return "a cancelled call was delivered";
    }
  }
  return "";
}

void PlantInEpisode(Bug bug, v1::Trajectory& trajectory) {
  v1::Turn* turn_with_result = nullptr;
  for (v1::Turn& turn : *trajectory.mutable_turns()) {
    if (bug == Bug::kDeliveredTwice && turn_with_result != nullptr) {
      turn.add_delivered(turn_with_result->delivered(0));
      return;
    }
    if (!turn.delivered().empty()) turn_with_result = &turn;
    for (v1::ToolCall& call : *turn.mutable_calls()) {
      if (call.handle().empty()) continue;
      if (bug == Bug::kDeliveredAfterEnd && call.cancelled()) {
        call.set_cancelled(false);
        call.set_answered_ms(trajectory.finished_ms() + 1);
      }
      if (bug == Bug::kCancelledIsCharged && call.cancelled()) call.set_run_ms(20);
    }
  }
}

}  // namespace tidemill::sim

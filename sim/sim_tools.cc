#include "sim/sim_tools.h"

#include "sim/sim_background.h"

namespace tidemill::sim {

void SimTools::Submit(v1::ToolRequest request, uint64_t tag) {
  Random& random = world_.random();
  // Most answers are quick; some outlast the lease they are under.
  const double ms = random.Chance(0.02) ? 1000 + random.Uniform() * 6000 : random.LogNormal(20, 1);
  ToolCompletion done;
  done.tag = tag;
  v1::ToolResult& result = done.result;
  result.set_request_id(request.request_id());
  *result.mutable_episode() = request.episode();
  result.set_tool(request.tool());
  if (random.Chance(0.03) || request.tool() == broken_) {
    world_.Fault("box did not start");
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("the simulated box did not start");
  } else {
    result.set_outcome(v1::OUTCOME_OK);
    const std::string text = SimToolText(request.arguments_json());
    result.set_text(confuses_ && !text_before_.empty() ? text_before_ : text);
    text_before_ = text;
    result.set_wall_ms(ms);
    result.set_compiled(true);
    result.set_tests_total(4);
    result.set_tests_passed(static_cast<uint32_t>(random.Below(5)));
    *result.mutable_tree() = request.tree();
  }
  world_.After(std::chrono::microseconds(static_cast<int64_t>(ms * 1000)), process_,
               [this, done = std::move(done)] { completions_.Post(done); });
}

}  // namespace tidemill::sim

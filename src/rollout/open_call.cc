#include "rollout/open_call.h"

#include <algorithm>

#include "bus/questions.h"

namespace tidemill {

v1::ToolRequest RequestFor(const v1::Task& task, const v1::TrajectoryId& episode,
                           const std::string& tool, std::string arguments_json) {
  v1::ToolRequest request;
  *request.mutable_episode() = episode;
  request.set_tool(tool);
  request.set_arguments_json(std::move(arguments_json));
  *request.mutable_limits() = task.limits();
  if (tool == "run_tests" && task.has_examples()) *request.mutable_grading() = task.examples();
  request.set_root(task.root());
  return request;
}

bool FailedThroughUs(const v1::ToolResult& result) {
  return result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED;
}

std::optional<ToolCallOrder> TryAgain(OpenCall& call, const EpisodeLimits& limits, int64_t now_ms) {
  if (call.retries >= limits.tool_retries) return std::nullopt;
  const Duration delay = BackOff(limits.retry_delay, call.retries++);
  const std::string& id = call.request.request_id();
  call.request.set_request_id(id.substr(0, id.find('~')) + "~" + std::to_string(call.retries));
  call.request.set_created_ms(now_ms);
  return ToolCallOrder{call.request, delay};
}

void TakeResult(OpenCall& call, const v1::ToolResult& result, int64_t now_ms) {
  call.done = true;
  call.answered_ms = now_ms;
  call.result = result;
  // That of an identical request says nothing of this one.
  call.queue_ms = result.cached() ? 0 : result.queue_ms();
  if (call.skipped) call.result.set_text("the tool is unavailable at the moment");
}

v1::ToolCall RecordOf(const OpenCall& call) {
  v1::ToolCall record;
  record.set_tool(call.request.tool());
  record.set_arguments_json(call.request.arguments_json());
  record.set_outcome(call.result.outcome());
  record.set_text(call.result.text());
  if (call.answered_ms > 0) {
    record.set_wait_ms(static_cast<double>(std::max<int64_t>(0, call.answered_ms - call.asked_ms)));
  }
  record.set_run_ms(call.result.wall_ms());
  record.set_queue_ms(call.queue_ms);
  record.set_retries(call.retries);
  record.set_skipped(call.skipped);
  record.set_tests_passed(call.result.tests_passed());
  record.set_tests_total(call.result.tests_total());
  record.set_compiled(call.result.compiled());
  record.set_asked_ms(call.asked_ms);
  record.set_answered_ms(call.answered_ms);
  record.set_asked_token(call.asked_token);
  return record;
}

void AnswerAtOnce(OpenCall& call, v1::Outcome outcome, std::string text, int64_t now_ms) {
  v1::ToolResult result;
  result.set_outcome(outcome);
  if (outcome == v1::OUTCOME_INVALID) result.set_cause(text);
  result.set_text(std::move(text));
  if (call.asked_ms == 0) call.asked_ms = now_ms;
  TakeResult(call, result, now_ms);
}

}  // namespace tidemill

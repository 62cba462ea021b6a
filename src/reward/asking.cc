#include "reward/asking.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/topics.h"
#include "reward/judge_scorer.h"
#include "reward/proof_port.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

constexpr size_t kAnswersAtOnce = 256;

QuestionOptions ToolAnswersOf(const RewardOptions& options) {
  QuestionOptions calls;
  calls.inbox = InboxTopic(options.worker, "reward");
  calls.most = size_t{options.max_outstanding} * Asking::kNeedsMax;
  calls.patience = options.call_patience;
  calls.secret = options.secret;
  calls.limits = options.limits;
  return calls;
}

QuestionOptions JudgeAnswersOf(const RewardOptions& options) {
  QuestionOptions judges = ToolAnswersOf(options);
  judges.inbox = InboxTopic(options.worker, "judged");
  // One question of each for its reward, and one for the order.
  judges.most = size_t{options.max_outstanding} * (options.judges.size() + 1);
  // A judge that is there answers within its own patience.
  for (const JudgeConfig& judge : options.judges)
    judges.patience = std::max<Duration>(judges.patience, judge.patience * 3 / 2);
  return judges;
}

}  // namespace

Asking::Asking(Bus& bus, Outbox& outbox, const Clock& clock, const RewardOptions& options,
               ScorerPort* port, RewardCounters& counters)
    : bus_(bus),
      clock_(clock),
      options_(options),
      port_(port),
      counters_(counters),
      tools_(bus, outbox, ToolAnswersOf(options)),
      judges_(bus, outbox, JudgeAnswersOf(options)) {}

void Asking::Attach(Waker& waker) {
  tools_.Attach(waker);
  if (!options_.judges.empty()) judges_.Attach(waker);
  if (port_ != nullptr) port_->events().Attach(waker);
}

Status Asking::Ask(const OpenScore& score, const NeedOf& asked, Time now) {
  const OpenNeed& need = score.open.at(asked.need);
  switch (need.need.kind) {
    case Need::Kind::kTool:
      AskTool(score, need, asked, now);
      return Ok();
    case Need::Kind::kJudge:
      return AskConfigured(score, need, asked, now);
    default:
      return AskCommand(score, need, asked);
  }
}

void Asking::AskTool(const OpenScore& score, const OpenNeed& need, const NeedOf& asked, Time now) {
  const std::string& tool = need.need.name;
  v1::ToolRequest request;
  request.set_request_id(score.request.request_id() + "." + need.need.Key() +
                         std::to_string(need.tries) + "@" + options_.worker);
  *request.mutable_episode() = score.request.id();
  request.set_tool(tool);
  request.set_arguments_json("{}");
  *request.mutable_tree() = score.request.tree();
  request.set_root(score.request.root());
  if (tool == "grade") {
    *request.mutable_grading() = score.request.grading();
    v1::Limits& limits = *request.mutable_grading()->mutable_limits();
    // Not set stays not set: then the default is the limit of both looks.
    limits.set_cpu_ms(limits.cpu_ms() * need.need.look);
    limits.set_wall_ms(limits.wall_ms() * need.need.look);
    *request.mutable_limits() = limits;
    request.set_arguments_json(need.need.look == 1 ? "{}" : "{\"look\":2}");
  } else {
    const auto& files = score.request.files();
    const std::vector<std::string> names(files.begin(), files.end());
    request.set_arguments_json(nlohmann::json{{"files", names}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  request.set_created_ms(clock_.WallMs());
  tools_.Ask(ToolTopic(tool), std::move(request), asked, now);
}

const JudgeConfig& Asking::JudgeOf(const Need& need) const {
  const auto judge = std::find_if(options_.judges.begin(), options_.judges.end(),
                                  [&](const JudgeConfig& keys) { return keys.name == need.name; });
  TM_CHECK(judge != options_.judges.end(), "the scorer knows the judges of the config");
  return *judge;
}

void Asking::AskJudge(v1::JudgeRequest question, const NeedOf& asked, Time now) {
  judges_.Ask(kJudgeTopic, std::move(question), asked, now);
}

Status Asking::AskConfigured(const OpenScore& score, const OpenNeed& need, const NeedOf& asked,
                             Time now) {
  const JudgeConfig& judge = JudgeOf(need.need);
  Result<v1::JudgeRequest> request = MakeJudgeRequest(judge, score.request);
  if (!request.ok()) return request.status().WithContext("judge " + judge.name);
  request->set_request_id(score.request.request_id() + "." + judge.name + "." +
                          std::to_string(need.tries) + "@" + options_.worker);
  AskJudge(std::move(*request), asked, now);
  return Ok();
}

Status Asking::AskCommand(const OpenScore& score, const OpenNeed& need, const NeedOf& asked) {
  if (port_ == nullptr || !port_->Knows(need.need.name)) {
    return NotFound("no command \"" + need.need.name + "\" is configured");
  }
  const uint64_t tag = next_tag_++;
  commands_.emplace(tag, asked);
  port_->Submit(need.need.name, MakeQuestion(need.need, score.request, score.evidence), tag);
  return Ok();
}

void Asking::CountProof(const ScorerDone& done) {
  const bool decided = done.answer.has_score;
  ++(!decided ? counters_.undecided : done.answer.score > 0 ? counters_.proved : counters_.refuted);
  counters_.proof_micros += done.cpu_us;
}

std::vector<Asking::Answer> Asking::TakeAnswers() {
  std::vector<Answer> answers;
  for (auto& [asked, status, result, lease] : tools_.TakeAnswers<v1::ToolResult>(kAnswersAtOnce)) {
    if (status.ok()) (void)bus_.Ack(lease);
    const bool ours =
        result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED;
    if (status.ok() && ours) status = Unavailable(result.cause());
    answers.push_back({std::move(asked), std::move(status), std::move(result)});
  }
  if (port_ != nullptr) {
    for (ScorerDone& done : port_->events().TakeAll()) {
      auto command = commands_.extract(done.tag);
      if (command.empty()) continue;
      if (done.status.ok() && command.mapped().need == kProofQuestion) CountProof(done);
      answers.push_back(
          {std::move(command.mapped()), std::move(done.status), std::move(done.answer)});
    }
  }
  if (options_.judges.empty()) return answers;
  for (auto& [asked, status, judged, lease] :
       judges_.TakeAnswers<v1::JudgeAnswer>(kAnswersAtOnce)) {
    if (status.ok()) (void)bus_.Ack(lease);
    if (status.ok() && !judged.available()) status = Unavailable(judged.cause());
    answers.push_back({std::move(asked), std::move(status), std::move(judged)});
  }
  return answers;
}

std::vector<Asking::Answer> Asking::TakeLost(Time now) {
  std::vector<Answer> lost;
  for (Questions<NeedOf>* questions : {&tools_, &judges_}) {
    for (auto& [id, asked] : questions->TakeLost(now)) {
      lost.push_back({std::move(asked), Unavailable("no answer in time"), {}});
    }
  }
  return lost;
}

void Asking::Clear() {
  tools_.Clear();
  judges_.Clear();
  commands_.clear();
}

}  // namespace tidemill

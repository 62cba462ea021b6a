#include "reward/scorer_check.h"

#include <set>
#include <thread>

#include "reward/proof_port.h"

namespace tidemill {
namespace {

constexpr int kRounds = 4;

v1::ScoreRequest EmptyAttempt(const v1::Task& task) {
  v1::ScoreRequest request;
  request.mutable_id()->set_task(task.id());
  request.set_prompt(task.prompt());
  *request.mutable_tree()->mutable_files() = task.files();
  if (task.has_grading()) *request.mutable_grading() = task.grading();
  request.set_end(v1::EPISODE_END_SUBMITTED);
  request.set_purpose(v1::PURPOSE_TRAIN);
  request.set_turns(1);
  request.set_metadata_json(task.metadata_json());
  return request;
}

ScorerDone AskOnce(ScorerPort& port, const std::string& command, const std::string& question) {
  port.Submit(command, question, 0);
  for (;;) {
    for (ScorerDone& done : port.events().TakeAll()) return std::move(done);
    std::this_thread::sleep_for(milliseconds(2));
  }
}

}  // namespace

Status CheckScorers(const std::vector<WeightedScorer>& scorers, ScorerPort& port,
                    const v1::Task& task, const ScorerCheckOptions& options) {
  const v1::ScoreRequest request = EmptyAttempt(task);
  ScoreEvidence evidence;
  const auto no_test_passed = [&](const std::string& key) {
    v1::ToolResult& result = evidence.tools[key];
    result.set_outcome(v1::OUTCOME_OK);
    result.set_tests_total(static_cast<uint32_t>(request.grading().cases_size()));
  };
  if (request.grading().cases_size() > 0) no_test_passed("grade");
  for (int round = 0; round < kRounds; ++round) {
    for (const WeightedScorer& weighted : scorers) {
      for (const Need& need : weighted.scorer->Needs(request, evidence)) {
        if (need.kind == Need::Kind::kTool) {
          no_test_passed(need.Key());
          continue;
        }
        if (need.kind == Need::Kind::kJudge || need.name == kProofQuestion || evidence.Has(need) ||
            !port.Knows(need.name))
          continue;
        const std::string question = MakeQuestion(need, request, evidence);
        ScorerDone done = AskOnce(port, need.name, question);
        for (uint32_t i = 0;
             i < options.retries && !done.status.ok() && done.status.code() != Code::kInvalid;
             ++i) {
          std::this_thread::sleep_for(options.retry_delay);
          done = AskOnce(port, need.name, question);
        }
        if (!done.status.ok()) {
          return Invalid("the scorer " + need.name +
                         " failed when it was tried before the run, on task " + task.id() +
                         " with nothing submitted: " + done.status.message());
        }
        evidence.answers[need.Key()] = std::move(done.answer);
      }
    }
  }
  return Ok();
}

}  // namespace tidemill

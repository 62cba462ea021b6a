#include "cli/judge_answers.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cli/proof_answers.h"
#include "core/random.h"
#include "judge/judge_question.h"
#include "store/run_directory.h"
#include "store/run_reader.h"
#include "tasks/task_file.h"

namespace tidemill {
namespace {

constexpr uint64_t kLabelledPage = 1000;
constexpr uint64_t kKeptBackOneIn = 5;

bool IsKeptBack(const std::string& task) {
  return StableHash("verifier " + task) % kKeptBackOneIn == 0;
}

// Whether the answer is right; nothing: its hidden tests were not run, nor (where that counts) was
// it proved or refuted.
std::optional<bool> IsRight(const EpisodeDetail& episode, bool proofs_count) {
  if (!episode.verdict || !episode.verdict->scored()) return std::nullopt;
  const v1::Verdict& verdict = *episode.verdict;
  if (verdict.tests_total() > 0) return verdict.tests_passed() == verdict.tests_total();
  const bool proof =
      std::any_of(verdict.parts().begin(), verdict.parts().end(),
                  [](const v1::RewardPart& part) { return part.scorer() == "proof"; });
  if (!proofs_count || !proof) return std::nullopt;
  return verdict.solved();
}

struct LabelledAnswer {
  std::string id, prompt, submission, label;
};

std::string LineOf(const LabelledAnswer& answer, const JudgeAnswersOptions& options) {
  nlohmann::ordered_json line;
  if (options.demonstrations) {
    JudgeConfig judge;
    judge.form = options.form;
    JudgeQuestion question;
    question.task = v1::JUDGE_TASK_OUTCOME;
    question.prompt = answer.prompt, question.text = answer.submission;
    line = {{"prompt", MakeJudgePrompt(judge, question).user}, {"completion", answer.label}};
  } else {
    line = {{"id", answer.id},
            {"task", "outcome"},
            {"kind", "answer"},
            {"prompt", answer.prompt},
            {"submission", answer.submission},
            {"label", answer.label}};
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<std::map<std::string, std::string>> PromptsOf(const RunDirectory& directory,
                                                     const JudgeAnswersOptions& options) {
  std::string file = options.tasks;
  if (file.empty()) {
    TM_ASSIGN_OR_RETURN(file, TaskFileOf(directory));
  }
  TM_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, ReadTaskFile(file));
  std::map<std::string, std::string> prompts;
  for (const v1::Task& task : tasks) {
    if (IsKeptBack(task.id()) == options.heldout) prompts[task.id()] = task.prompt();
  }
  return prompts;
}

}  // namespace

Result<JudgeAnswersWritten> WriteJudgeAnswers(const JudgeAnswersOptions& options) {
  TM_ASSIGN_OR_RETURN(const RunDirectory directory,
                      RunDirectory::OpenToRead(options.runs, options.run));
  TM_ASSIGN_OR_RETURN(const auto prompts, PromptsOf(directory, options));
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(directory.db_path()));
  std::ofstream out(options.out, std::ios::trunc);
  std::set<std::pair<std::string, std::string>> seen;
  JudgeAnswersWritten written;
  EpisodeFilter filter;
  filter.purpose = v1::PURPOSE_TRAIN;
  filter.end = v1::EPISODE_END_SUBMITTED;
  filter.scored = true;
  for (bool more = true; more && seen.size() < options.limit;) {
    TM_ASSIGN_OR_RETURN(const EpisodePage page,
                        reader->Episodes(filter, EpisodeSort::kOldest, {0, kLabelledPage}));
    more = page.rows.size() == kLabelledPage;
    for (const EpisodeRow& row : page.rows) {
      filter.after_seq = row.seq;
      const auto prompt = prompts.find(row.task);
      if (prompt == prompts.end() || seen.size() >= options.limit) continue;
      TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader->Episode(row.group, row.member));
      const std::optional<bool> passed = IsRight(episode, options.proved);
      const std::string& submission = episode.trajectory.submission();
      if (!passed || !seen.emplace(row.task, submission).second) continue;
      ++(*passed ? written.right : written.wrong);
      const std::string id =
          row.task + "/" + std::to_string(row.group) + "." + std::to_string(row.member);
      out << LineOf({id, prompt->second, submission, *passed ? "yes" : "no"}, options) << '\n';
    }
  }
  out.flush();
  if (!out) return Unavailable("cannot write " + options.out);
  if (seen.empty()) return NotFound("the run has no executed answers of these tasks");
  return written;
}

}  // namespace tidemill

// How good a judge is: it is asked about cases whose answer is known, through the same loop as in a
// run, and what it said is compared.
//
//   FILE.jsonl -> ReadJudgeCases -> JudgeLoop over a JudgePort -> answers -> CompareAnswers
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"
#include "judge/judge_config.h"
#include "judge/judge_loop.h"
#include "judge/judge_port.h"

namespace tidemill {

// A line of a file of cases; docs/judges.md has the fields.
struct JudgeCase {
  std::string id;
  v1::JudgeTask task = v1::JUDGE_TASK_UNSPECIFIED;
  v1::JudgeRequest request;  // without judge and id
  std::string label;         // one of the task's words (ChoicesOf)
  std::string kind;          // "plain", "misleading", "instructing"; any word
};

// kInvalid: file, line and field, what was wrong and what would be right.
Result<JudgeCase> ParseJudgeCase(const std::string& line);
Result<std::vector<JudgeCase>> ReadJudgeCases(const std::string& path);

// A share of cases with its 95 % interval (Wilson).
struct CaseShare {
  uint64_t right = 0, count = 0;
  double value() const { return count == 0 ? 0 : static_cast<double>(right) / count; }
  double low() const;
  double high() const;
};

struct JudgeCheck {
  CaseShare all;
  std::map<std::string, CaseShare> by_label, by_kind;
  uint64_t unavailable = 0;      // cases without a judgement; in no other figure
  double auc = 0;                // good (yes, first, equivalent) against every other label
  double auc_error = 0;          // standard error, Hanley and McNeil
  double calibration_error = 0;  // expected, over ten bins of the confidence in what was chosen
  double agreement = 0;          // of two votes on the same question
  double keyword_auc = 0;        // of a rule that looks for words of praise and failure
  double seconds_median = 0, seconds_99 = 0;  // of one answer of the model
  double cost = 0;
  uint64_t tokens_in = 0, tokens_out = 0;
};

// The word that was chosen, and how sure the votes were of it.
struct Chosen {
  std::string word;
  double confidence = 0;
};
Chosen ChosenBy(v1::JudgeTask task, const v1::Judgement& judgement);

// What a rule says that knows nothing but words: higher is better.
double KeywordScore(const v1::JudgeRequest& request);

// answers[i] belongs to cases[i]; one that is not available has no judgement.
JudgeCheck CompareAnswers(const std::vector<JudgeCase>& cases,
                          const std::vector<v1::JudgeAnswer>& answers);

// Asks the judge about every case. `progress` is told how many are done; may be empty.
// kUnavailable: the endpoint did nothing but fail, for 5 s or, if it answered before, for a minute.
Result<JudgeCheck> RunJudgeCheck(const JudgeConfig& judge, const std::vector<JudgeConfig>& judges,
                                 JudgePort& port, const std::vector<JudgeCase>& cases,
                                 const std::function<void(size_t)>& progress);

}  // namespace tidemill

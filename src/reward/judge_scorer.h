// "judge": what the [[judge]]s with reward = true say. Of the answer as a value, of single turns as
// turn rewards. Where the answer is judged, the judges also say whether the task was solved, and
// the audit (reward/audit.h) checks that against execution. A judge that compares answers says
// which are better, not which are right.
#pragma once

#include "reward/scorer.h"

namespace tidemill {

// kInvalid: no judge has a part in rewards.
Result<std::unique_ptr<Scorer>> NewJudgeScorer(const RewardConfig& reward);

// What the judge is asked about an episode; without its id. kUnavailable: the turns' texts did not
// come along.
Result<v1::JudgeRequest> MakeJudgeRequest(const JudgeConfig& judge,
                                          const v1::ScoreRequest& request);

// kInvalid: not one judgement for every question of MakeJudgeRequest.
Status CheckJudgeAnswer(const JudgeConfig& judge, const v1::ScoreRequest& request,
                        const v1::JudgeAnswer& answer);

}  // namespace tidemill

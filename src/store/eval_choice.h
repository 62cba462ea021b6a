// Which evaluation of a name counts: a run may attempt the same one several times, when it goes on
// to more steps, or when it was stopped in the middle of one.
#pragma once

#include <string>

namespace tidemill {

// SQL, true for a row `e` of evaluations: every group was issued and has its final report.
inline constexpr const char* kEvaluationIsWhole =
    "((SELECT count(*) FROM evaluation_groups eg JOIN groups g USING (grp) "
    "WHERE eg.evaluation = e.evaluation AND g.accepted + g.dropped >= g.members) >= e.tasks)";

// SQL for the number of the evaluation of this name (an expression) that counts: the newest whole
// one of the line of weights that lives, or, while there is none, the newest.
inline std::string EvaluationThatCounts(const std::string& eval_name) {
  return "(SELECT n FROM (SELECT e.evaluation AS n, " + std::string(kEvaluationIsWhole) +
         " AS whole FROM evaluations e WHERE e.abandoned = 0 AND e.eval_name = " + eval_name +
         ") ORDER BY whole DESC, n DESC LIMIT 1)";
}

}  // namespace tidemill

// RunReader's part on evaluations.
#include <algorithm>
#include <cmath>

#include "store/eval_choice.h"
#include "store/run_reader.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

const std::string kThatCounts = "WHERE evaluation = " + EvaluationThatCounts("?1");

// Adds up one evaluation task by task, so that the spread between tasks is known.
class EvalSum {
 public:
  explicit EvalSum(EvalResult begun) : result_(std::move(begun)) {}

  void AddTask(uint64_t samples, uint64_t solved, uint64_t unscored, double reward_sum) {
    ++result_.tasks;
    result_.samples += samples;
    result_.unscored += unscored;
    result_.solved += solved;
    if (solved > 0) ++result_.tasks_solved;
    reward_sum_ += reward_sum;
    if (samples == 0) return;
    const double rate = static_cast<double>(solved) / static_cast<double>(samples);
    ++rated_;
    rate_sum_ += rate;
    rate_squares_ += rate * rate;
  }

  EvalResult Finish() {
    if (rated_ > 0) result_.pass_rate = rate_sum_ / rated_;
    if (rated_ > 1) {
      const double mean = *result_.pass_rate;
      const double variance = std::max(0.0, (rate_squares_ - rated_ * mean * mean) / (rated_ - 1));
      result_.pass_rate_ci95 = 1.96 * std::sqrt(variance / rated_);
    }
    if (result_.samples > 0) {
      result_.mean_reward = reward_sum_ / static_cast<double>(result_.samples);
    }
    return result_;
  }

  EvalResult& result() { return result_; }

 private:
  EvalResult result_;
  double rated_ = 0;  // tasks with a sample that was scored
  double rate_sum_ = 0;
  double rate_squares_ = 0;
  double reward_sum_ = 0;
};

// The evaluations that `which` (a condition, ?1 for `value`) picks, without their results.
template <typename T>
Result<std::vector<EvalResult>> Begun(Database& db, const std::string& which, const T& value) {
  std::vector<EvalResult> begun;
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT eval_name, evaluation, step, tasks, " + std::string(kEvaluationIsWhole) +
          " FROM evaluations e " + which,
      [&](Statement& row) {
        EvalResult& result = begun.emplace_back();
        result.eval_name = row.Text(0);
        result.evaluation = row.Uint(1);
        result.step = row.Uint(2);
        result.tasks_planned = row.Uint(3);
        result.complete = row.Int(4) != 0;
        return Ok();
      },
      value));
  return begun;
}

// A group without a final report counts with what is stored of it.
Result<EvalResult> ReadEval(Database& db, EvalResult begun) {
  EvalSum sum(std::move(begun));
  EvalResult& result = sum.result();
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT coalesce(sum(t.scored), 0), coalesce(sum(t.solved), 0), "
      "max(count(t.seq), iif(g.accepted + g.dropped >= g.members, g.members, 0)), "
      "total(t.reward), min(t.min_version), max(t.max_version), coalesce(max(t.finished_ms), 0) "
      "FROM evaluation_groups eg JOIN groups g USING (grp) LEFT JOIN trajectories t USING (grp) "
      "WHERE eg.evaluation = ?1 GROUP BY g.grp ORDER BY g.task",
      [&](Statement& row) {
        if (row.Uint(2) == 0) return Ok();
        sum.AddTask(row.Uint(0), row.Uint(1), row.Uint(2) - row.Uint(0), row.Double(3));
        if (!row.IsNull(4)) {
          result.min_version = std::min(result.min_version.value_or(row.Uint(4)), row.Uint(4));
          result.max_version = std::max(result.max_version.value_or(row.Uint(5)), row.Uint(5));
        }
        result.finished_ms = std::max(result.finished_ms, row.Int(6));
        return Ok();
      },
      result.evaluation));
  return sum.Finish();
}

}  // namespace

Result<std::vector<EvalResult>> RunReader::Evals() {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  TM_RETURN_IF_ERROR(ForEachRow(*db_,
                                "SELECT eval_name FROM evaluations WHERE abandoned = 0 "
                                "GROUP BY eval_name ORDER BY min(evaluation)",
                                [&](Statement& row) {
                                  names.push_back(row.Text(0));
                                  return Ok();
                                }));
  std::vector<EvalResult> results;
  for (const std::string& name : names) {
    TM_ASSIGN_OR_RETURN(std::vector<EvalResult> begun, Begun(*db_, kThatCounts, name));
    TM_ASSIGN_OR_RETURN(EvalResult result, ReadEval(*db_, std::move(begun.at(0))));
    results.push_back(std::move(result));
  }
  return results;
}

Result<std::vector<EvalResult>> RunReader::EvalHistory() {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(std::vector<EvalResult> results,
                      Begun(*db_, "WHERE abandoned = ?1 ORDER BY evaluation", 0));
  for (EvalResult& result : results) {
    TM_ASSIGN_OR_RETURN(result, ReadEval(*db_, std::move(result)));
  }
  return results;
}

Result<EvalResult> RunReader::Eval(const std::string& eval_name) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(std::vector<EvalResult> found, Begun(*db_, kThatCounts, eval_name));
  if (found.empty()) return NotFound(db_->path() + ": no evaluation \"" + eval_name + "\"");
  return ReadEval(*db_, std::move(found[0]));
}

Result<std::vector<TaskStats>> RunReader::EvalTasks(const std::string& eval_name) {
  MutexLock lock(mutex_);
  std::vector<TaskStats> tasks;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT task, count(*), coalesce(sum(scored), 0), coalesce(sum(solved), 0), "
      "coalesce(avg(reward), 0) FROM evaluation_groups JOIN trajectories USING "
      "(grp) WHERE evaluation = " +
          EvaluationThatCounts("?1") + " GROUP BY task ORDER BY task",
      [&](Statement& row) {
        tasks.push_back({row.Text(0), row.Uint(1), row.Uint(2), row.Uint(3), row.Double(4)});
        return Ok();
      },
      eval_name));
  return tasks;
}

}  // namespace tidemill

// The readers' side of run.db, for people and the dashboard: while a run goes on, or after it.
//
// Everything here is quick on a hundred thousand episodes: columns and indexes answer, bodies are
// read only for the one episode asked for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/fate.h"
#include "core/mutex.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "store/run_db.h"

namespace tidemill {

class Database;

// An episode without its tokens.
struct EpisodeRow {
  uint64_t seq = 0;  // in the order stored, from 1
  std::string task;
  uint64_t group = 0;
  uint32_t member = 0;
  uint32_t attempt = 0;
  v1::Purpose purpose = v1::PURPOSE_UNSPECIFIED;
  std::string eval_name;
  std::optional<uint64_t> eval_step;  // the learner's when that evaluation began
  v1::EpisodeEnd end = v1::EPISODE_END_UNSPECIFIED;
  std::string stale_cause;
  std::string worker;
  int64_t started_ms = 0;
  int64_t finished_ms = 0;
  uint64_t prompt_tokens = 0;
  uint64_t tokens = 0;  // the model wrote
  uint32_t turns = 0;
  uint32_t tool_calls = 0;
  std::optional<uint64_t> min_version;  // none: it wrote nothing
  std::optional<uint64_t> max_version;
  std::string fate;
  std::string fate_reason;
  uint32_t uses = 0;
  std::optional<bool> scored;    // none: no verdict yet; false: a scorer of ours failed
  std::optional<double> reward;  // with scored = true only, like the rest
  std::optional<bool> solved;
  uint32_t tests_passed = 0;
  uint32_t tests_total = 0;
  bool compiled = false;
};

// What is not set does not restrict.
struct EpisodeFilter {
  std::optional<std::string> task;
  std::optional<uint64_t> group;
  std::optional<v1::Purpose> purpose;
  std::optional<std::string> eval_name;  // of the evaluation of this name that counts
  std::optional<v1::EpisodeEnd> end;
  std::optional<Fate> fate;
  std::optional<bool> scored;  // false: no verdict with a reward
  std::optional<bool> solved;
  std::optional<double> reward_min;
  std::optional<double> reward_max;
  std::optional<uint64_t>
      version;  // some of its tokens may be of this one: between its least and greatest
  std::optional<uint64_t> after_seq;
  std::optional<uint64_t> before_seq;
  std::optional<uint64_t> lag_min;  // used, its oldest token at least so many steps old by then
};

// Episodes without a reward come last in kWorst and kBest.
enum class EpisodeSort { kNewest, kOldest, kWorst, kBest, kMostTokens, kMostTurns, kSlowest };

struct EpisodePage {
  std::vector<EpisodeRow> rows;
  uint64_t total = 0;  // that match, on all pages
};

struct EpisodeDetail {
  EpisodeRow row;
  v1::Trajectory trajectory;
  std::optional<v1::Verdict> verdict;
  std::vector<uint64_t> used_by;  // steps of the line that lives
};

struct GroupRow {
  v1::GroupLease lease;
  v1::GroupReport report;  // revision 0: none yet
  std::vector<EpisodeRow> episodes;
};

struct TaskStats {
  std::string task;
  uint64_t episodes = 0;
  uint64_t scored = 0;
  uint64_t solved = 0;
  double mean_reward = 0;  // of those scored
  double pass_rate() const {
    return scored == 0 ? 0 : static_cast<double>(solved) / static_cast<double>(scored);
  }
};

// One interval of time.
struct PassRatePoint {
  int64_t from_ms = 0;
  uint64_t episodes = 0;  // scored, finished in it
  uint64_t solved = 0;
  double mean_reward = 0;
};

struct StepRow {
  uint64_t step = 0;
  uint64_t version = 0;
  int64_t at_ms = 0;
  uint64_t used = 0;  // trajectories
  std::string metrics_json;
};

struct OwnedStep {
  uint64_t step = 0;         // of the run
  std::string policy;        // as in messages
  uint64_t policy_step = 0;  // its own
};

// One evaluation. Of several with the same name, the newest whole one of the line of weights that
// lives counts; while none is whole, the newest.
struct EvalResult {
  std::string eval_name;
  uint64_t evaluation = 0;     // its number
  uint64_t step = 0;           // the learner's when it began
  bool complete = false;       // every task was attempted
  uint64_t tasks_planned = 0;  // when it is complete
  uint64_t tasks = 0;
  uint64_t samples = 0;   // scored
  uint64_t unscored = 0;  // stale, or not scored (yet): not in the means
  uint64_t solved = 0;
  uint64_t tasks_solved = 0;  // at least once
  // Mean over tasks of the share of its samples that is solved; nothing: no sample was scored.
  std::optional<double> pass_rate;
  std::optional<double> pass_rate_ci95;  // half-width, tasks as the unit that varies: two at least
  std::optional<double> mean_reward;     // over samples
  std::optional<uint64_t> min_version;
  std::optional<uint64_t> max_version;
  int64_t finished_ms = 0;  // of its last episode
};

struct RunCounts {
  uint64_t episodes = 0;
  uint64_t train = 0;
  uint64_t eval = 0;
  uint64_t unscored = 0;
  uint64_t groups = 0;
  uint64_t groups_outstanding = 0;
  uint64_t steps = 0;
  uint64_t steps_abandoned = 0;
  uint64_t resumes = 0;
  uint64_t last_version = 0;                      // reserved
  std::map<std::string, uint64_t> train_by_fate;  // purpose TRAIN
  // Given up, or without a verdict, any purpose; the hundred most frequent causes.
  std::map<std::string, uint64_t> stale_by_cause;
  std::map<std::string, uint64_t> stale_by_kind;  // all of them, by the words of core/fate.h
};

// What the model wrote in the episodes of tasks, and what was made of it.
struct TokenUse {
  uint64_t drawn = 0;    // in all of them
  uint64_t used = 0;     // in training episodes that a step of the line that lives used
  uint64_t answers = 0;  // that the newest agents without a token to train got
  std::map<std::string, uint64_t> untrained;  // of these agents: why, how often
};

// What became of every group that was issued: each is in exactly one of these, or missing.
struct GroupBooks {
  struct Open {
    uint64_t group = 0;
    uint32_t members = 0;
    std::set<uint32_t> stored;  // members whose trajectories are here
  };
  uint64_t issued = 0;                      // numbers given out
  uint64_t trained = 0;                     // used by a step of the line that lives
  uint64_t evaluated = 0;                   // of evaluations that count, all members in
  std::map<std::string, uint64_t> dropped;  // by reason: "zero_variance", "stale", ..
  uint64_t ready = 0;                       // accepted, waiting for a batch
  uint64_t abandoned = 0;                   // of evaluations that were begun anew
  std::vector<Open> open;                   // without a final report
  uint64_t missing = 0;                     // issued, and not in the ledger
  uint64_t episodes_missing = 0;            // members of accepted groups that are not stored
};

inline constexpr uint64_t kPageRowsMax = 1000;

// A connection that only reads, for questions of one's own, with RunReader::Open's failures.
Result<std::unique_ptr<Database>> OpenRunDbToRead(const std::string& db_path);

// Thread-safe; calls take turns on one connection that only reads. Never holds up the writer.
class RunReader {
 public:
  // kNotFound: no such file. kInvalid: of another schema version, or not ours. kCorrupt: damaged.
  static Result<std::unique_ptr<RunReader>> Open(const std::string& db_path);
  ~RunReader();

  struct Page {
    uint64_t offset = 0;
    uint64_t limit = 50;  // at most kPageRowsMax
  };
  Result<EpisodePage> Episodes(const EpisodeFilter& filter, EpisodeSort sort, const Page& page);
  // kNotFound: no member of this group is stored under this number.
  Result<EpisodeDetail> Episode(uint64_t group, uint32_t member);
  Result<GroupRow> Group(uint64_t group);

  // By task. `purpose` PURPOSE_UNSPECIFIED: any.
  Result<std::vector<TaskStats>> Tasks(v1::Purpose purpose);
  // `points` equal intervals (1 to 1000) from the first to the last finished episode; task empty:
  // all tasks.
  Result<std::vector<PassRatePoint>> PassRateOverTime(const std::string& task, v1::Purpose purpose,
                                                      uint32_t points);
  // Of the line that lives, from the first step above `after` on.
  Result<std::vector<StepRow>> Steps(uint64_t after, uint64_t limit);
  Result<RunCounts> Counts();
  // Reads every row: for the end of a run, not for a page.
  Result<TokenUse> Tokens();
  // Reads every group: for the end of a run, not for a page.
  Result<GroupBooks> Books();
  // Those that count, a name each, in the order the names came up; one, or kNotFound.
  Result<std::vector<EvalResult>> Evals();
  // All of the line that lives, those that others of the same name replaced as well; in the order
  // they began.
  Result<std::vector<EvalResult>> EvalHistory();
  Result<EvalResult> Eval(const std::string& eval_name);
  // Task by task, by task.
  Result<std::vector<TaskStats>> EvalTasks(const std::string& eval_name);
  Result<std::vector<CheckpointRecord>> Checkpoints();
  // Whose each step of the run is, in their order. Of a run that was opened for writing before.
  Result<std::vector<OwnedStep>> OwnedSteps();

 private:
  explicit RunReader(std::unique_ptr<Database> db);

  Mutex mutex_;
  std::unique_ptr<Database> db_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill

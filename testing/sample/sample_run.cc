#include "testing/sample/sample_run.h"

#include <algorithm>
#include <cmath>

namespace tidemill {

SampleRun::SampleRun(const std::string& folder, const std::string& name,
                     const SampleOptions& options)
    : options_(options), random_(options.seed), clock_(options.begin_ms), name_(name) {
  auto directory = RunDirectory::Create(folder, name, ConfigToml());
  TM_CHECK(directory.ok(), directory.status().ToString());
  directory_.emplace(std::move(*directory));
  auto db = RunDb::Open(directory_->db_path(), clock_);
  TM_CHECK(db.ok(), db.status().ToString());
  db_ = std::move(*db);
  auto log = MetricsLog::Open(directory_->metrics_path());
  TM_CHECK(log.ok(), log.status().ToString());
  metrics_.emplace(std::move(*log), options_, random_);
  if (!options.model.empty()) {
    auto tokenizer = Tokenizer::Read(options.model);
    TM_CHECK(tokenizer.ok(), tokenizer.status().ToString());
    tokenizer_ = std::move(*tokenizer);
  }
  slot_free_ms_.assign(options.slots, options.begin_ms);
  train_end_ms_ = options.begin_ms;
}

void SampleRun::WriteAll() {
  Evaluate("before");
  for (uint64_t i = 0; i < options_.steps; ++i) WriteStep();
  Evaluate("after");
  Log("disagreement",
      {{"group", 1},
       {"member", 0},
       {"executed", 1},
       {"task", "clamp"},
       {"scorer", "proof"},
       {"comment", "refuted: f(a=-1, b=0): the reference returns 0, the candidate returns -1"},
       {"explanation",
        "12 of 12 hidden tests pass, and none of them asks what the scorer objects to"}});
  if (!options_.live)
    metrics_->TicksUntil(*std::max_element(slot_free_ms_.begin(), slot_free_ms_.end()));
  if (options_.finished) Finish();
}

void SampleRun::WriteStep() {
  if (options_.synchronous) {
    for (int64_t& free : slot_free_ms_) free = std::max(free, train_end_ms_);
  }
  std::vector<v1::TrajectoryId> used;
  double reward = 0;
  int64_t batch_ms = 0;
  for (uint32_t g = 0; g < options_.groups_per_step; ++g) {
    batch_ms = std::max(batch_ms, WriteGroup(v1::PURPOSE_TRAIN, "", &used, &reward));
  }
  Train(used, reward, batch_ms);
  if (!options_.live) {
    // Nothing more is written of the time before the first slot is free.
    metrics_->TicksUntil(*std::min_element(slot_free_ms_.begin(), slot_free_ms_.end()));
  }
  if (step_ % options_.steps_a_transaction == 0) Flush();
}

void SampleRun::Evaluate(const std::string& eval) {
  Flush();
  double reward = 0;
  const uint32_t tasks = std::min(options_.tasks, 12u);
  evaluation_ = GroupEvaluation{group_ + 1, step_, tasks};
  for (uint32_t t = 0; t < tasks; ++t) {
    next_task_ = t;
    WriteGroup(v1::PURPOSE_EVAL, eval, nullptr, &reward);
  }
  Flush();
  evaluation_.reset();
  const double n = tasks * options_.group_size;
  Log("eval", {{"pass_rate", eval_solved_ / n},
               {"reward", reward / n},
               {"tasks", tasks},
               {"episodes", n},
               {"unscored", 0},
               {"step", step_},
               {"name", eval}});
  eval_solved_ = 0;
}

void SampleRun::Finish() {
  metrics_->Flush(INT64_MAX);
  nlohmann::ordered_json json = {{"run", name_}, {"program", "sample"}, {"status", "done"}};
  json["eval"] = {{"before", {{"pass_rate", 0.14}, {"ci95", 0.05}, {"n", 12}}},
                  {"after", {{"pass_rate", 0.71}, {"ci95", 0.06}, {"n", 12}}}};
  json["episodes"] = episodes_;
  json["steps"] = step_;
  json["seconds"] = static_cast<double>(clock_.WallMs() - options_.begin_ms) / 1000;
  json["lost"] = 0;
  json["stale"] = stale_;
  json["retries"] = retries_;
  json["generated_tokens"] = metrics_->totals.generated;
  json["trained_tokens"] = metrics_->totals.trained;
  TM_CHECK(directory_->WriteSummary(json.dump(2) + "\n").ok(), "summary");
}

void SampleRun::Warn(const std::string& what) {
  Log("warning", {{"what", what}});
  metrics_->Flush(INT64_MAX);
}

std::string SampleRun::ConfigToml() const {
  return "# A made-up run.\n[run]\nseed = " + std::to_string(options_.seed) + "\nmode = \"" +
         (options_.synchronous ? "sync" : "async") +
         "\"\nsteps = " + std::to_string(options_.steps) + "\n\n[model]\npath = \"" +
         options_.model + "\"\nprotocol = \"chat\"\n\n[rollout]\ngroup_size = " +
         std::to_string(options_.group_size) +
         "\ngroups_per_step = " + std::to_string(options_.groups_per_step) +
         "\n\n[staleness]\nmax_steps = " + (options_.synchronous ? "0" : "2") +
         "\n\n[reward]\nweights = { tests = 1.0, lint = 0.1 }\n\n[learner]\nobjective = "
         "\"grpo\"\n"
         "learning_rate = " +
         (options_.synchronous ? "2e-5" : "1e-5") + "\n" +
         (options_.memory ? "\n[memory]\non = true\ncapacity = 30\n" : "");
}

void SampleRun::Flush() {
  if (ops_.empty()) return;
  std::vector<const StoreOp*> pointers;
  for (const auto& op : ops_) pointers.push_back(op.get());
  auto done = db_->Apply(pointers);
  TM_CHECK(done.ok(), done.status().ToString());
  for (const RunDb::Outcome& outcome : *done)
    TM_CHECK(outcome.status.ok(), outcome.status.ToString());
  ops_.clear();
}

int64_t SampleRun::WriteGroup(v1::Purpose purpose, const std::string& eval,
                              std::vector<v1::TrajectoryId>* used, double* reward) {
  const uint32_t t = next_task_++ % options_.tasks;
  const uint64_t group = ++group_;
  PutGroup put;
  put.group.set_group(group);
  put.group.mutable_task()->set_id(TaskName(t));
  put.group.set_members(options_.group_size);
  put.group.set_purpose(purpose);
  put.group.set_eval_name(eval);
  put.group.set_issued_ms(*std::min_element(slot_free_ms_.begin(), slot_free_ms_.end()));
  put.cursor = std::to_string(group);
  put.evaluation = evaluation_;
  Put(std::move(put));
  int64_t last_ms = 0;
  v1::GroupReport report;
  report.set_group(group);
  report.set_revision(1);
  for (uint32_t m = 0; m < options_.group_size; ++m) {
    last_ms = std::max(last_ms, WriteEpisode(purpose, eval, t, m, report, used));
  }
  *reward += report.reward_sum();
  if (purpose == v1::PURPOSE_EVAL) eval_solved_ += report.solved();
  report.set_accepted(options_.group_size);
  Put(PutGroupReport{report});
  if (options_.steps_a_transaction == 1) Flush();
  return last_ms;
}

void SampleRun::Train(const std::vector<v1::TrajectoryId>& used, double reward, int64_t batch_ms) {
  const int64_t begin = std::max(train_end_ms_, batch_ms);
  const auto took = static_cast<int64_t>(900 + random_.Exponential(300));
  train_end_ms_ = begin + took;
  metrics_->training.Add(begin, train_end_ms_);
  clock_.Set(std::max(clock_.WallMs(), train_end_ms_));
  ++step_;
  metrics_->totals.steps = static_cast<double>(step_);
  const uint64_t tokens = used.size() * 90;
  metrics_->totals.trained += static_cast<double>(tokens);
  Json metrics = {
      {"step", step_},
      {"seconds", static_cast<double>(took) / 1000},
      {"tokens", tokens},
      {"reward", reward / static_cast<double>(std::max<size_t>(1, used.size()))},
      {"episodes", used.size()},
      {"entropy", 0.9 * std::exp(-static_cast<double>(step_) / 60) + 0.05 * random_.Uniform()},
      {"policy_kl", 0.002 + 0.002 * random_.Uniform()},
      {"clip_fraction", 0.02 + 0.02 * random_.Uniform()},
      {"grad_norm", 0.4 + 0.1 * random_.Normal()},
      {"loss", 0.02 * random_.Normal()},
      {"lr", 1e-5 * std::min(1.0, static_cast<double>(step_) / 10)},
      {"response_tokens", 60 + 30 * std::exp(-static_cast<double>(step_) / 20)},
      {"scorer_tests", reward / static_cast<double>(std::max<size_t>(1, used.size()))},
      {"scorer_lint", 0.5 + 0.1 * random_.Uniform()},
      {"ratio", 1 + 0.01 * random_.Normal()}};
  const double lag = options_.synchronous ? 0 : 0.7;
  metrics["lag_mean"] = lag;
  metrics["lag_max"] = options_.synchronous ? 0 : 2;
  metrics["lag_hist_0"] = options_.synchronous ? tokens : tokens * 4 / 10;
  if (!options_.synchronous)
    metrics["lag_hist_1"] = tokens * 5 / 10, metrics["lag_hist_2"] = tokens / 10;
  Put(ReserveVersion{step_});
  Put(PutStep{step_, step_, used, metrics.dump()});
  for (const v1::TrajectoryId& id : used) Put(PutFate{id, Fate::kUsed, ""});
  metrics_->Add(train_end_ms_, "step", metrics);
  const double publishing = 0.05 + 0.03 * random_.Uniform();
  train_end_ms_ += static_cast<int64_t>(publishing * 1000);
  metrics_->Add(train_end_ms_, "publish",
                {{"version", step_}, {"step", step_}, {"seconds", publishing}});
  if (step_ % 20 == 0) {
    Put(PutCheckpoint{step_, step_, "checkpoints/step-" + std::to_string(step_)});
    Log("checkpoint",
        {{"step", step_}, {"seconds", 0.4}, {"path", "checkpoints/step-" + std::to_string(step_)}});
  }
}

}  // namespace tidemill

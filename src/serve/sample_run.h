// A made-up run for the tests of this folder and of the page: a simulated small agent that gets
// better, written through the real store. The same seed gives the same run.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "policy/tokenizer.h"
#include "store/run_db.h"
#include "store/run_directory.h"

namespace tidemill {

struct SampleOptions {
  uint64_t steps = 40;
  uint32_t groups_per_step = 8;
  uint32_t group_size = 4;
  uint32_t tasks = 24;
  uint32_t slots = 16;
  bool synchronous = false;  // generation stands still while a step trains
  bool finished = true;      // writes summary.json
  bool metrics = true;
  bool live = false;  // Tick is called from outside, with the real time
  uint32_t steps_a_transaction = 1;
  uint64_t seed = 1;
  int64_t begin_ms = 1'760'000'000'000;
  std::string model;  // a folder with a tokenizer; empty: ids without texts
};

class SampleClock final : public Clock {
 public:
  explicit SampleClock(int64_t wall_ms) : wall_ms_(wall_ms) {}
  Time Now() const override { return Time(milliseconds(wall_ms_)); }
  int64_t WallMs() const override { return wall_ms_; }
  void Set(int64_t wall_ms) { wall_ms_ = wall_ms; }

 private:
  int64_t wall_ms_;
};

class SampleRun {
 public:
  SampleRun(const std::string& folder, const std::string& name, const SampleOptions& options)
      : options_(options), random_(options.seed), clock_(options.begin_ms), name_(name) {
    auto directory = RunDirectory::Create(folder, name, ConfigToml());
    TM_CHECK(directory.ok(), directory.status().ToString());
    directory_.emplace(std::move(*directory));
    auto db = RunDb::Open(directory_->db_path(), clock_);
    TM_CHECK(db.ok(), db.status().ToString());
    db_ = std::move(*db);
    auto log = MetricsLog::Open(directory_->metrics_path());
    TM_CHECK(log.ok(), log.status().ToString());
    log_.emplace(std::move(*log));
    if (!options.model.empty()) {
      auto tokenizer = Tokenizer::Read(options.model);
      TM_CHECK(tokenizer.ok(), tokenizer.status().ToString());
      tokenizer_ = std::move(*tokenizer);
    }
    slot_free_ms_.assign(options.slots, options.begin_ms);
    train_end_ms_ = options.begin_ms;
    next_tick_ms_ = options.begin_ms + 1000;
    last_ = {options.begin_ms, {}};
  }

  void WriteAll() {
    Evaluate("before");
    for (uint64_t i = 0; i < options_.steps; ++i) WriteStep();
    Evaluate("after");
    if (!options_.live) TicksUntil(*std::max_element(slot_free_ms_.begin(), slot_free_ms_.end()));
    if (options_.finished) Finish();
  }

  // The episodes of one step, and the step.
  void WriteStep() {
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
      TicksUntil(*std::min_element(slot_free_ms_.begin(), slot_free_ms_.end()));
    }
    if (step_ % options_.steps_a_transaction == 0) Flush();
  }

  void Evaluate(const std::string& eval) {
    Flush();
    double reward = 0;
    for (uint32_t t = 0; t < std::min(options_.tasks, 12u); ++t) {
      next_task_ = t;
      WriteGroup(v1::PURPOSE_EVAL, eval, nullptr, &reward);
    }
    Flush();
    const double n = std::min(options_.tasks, 12u) * options_.group_size;
    Log("eval", {{"pass_rate", eval_solved_ / n},
                 {"reward", reward / n},
                 {"tasks", std::min(options_.tasks, 12u)},
                 {"episodes", n},
                 {"unscored", 0},
                 {"step", step_},
                 {"name", eval}});
    eval_solved_ = 0;
  }

  void Finish() {
    FlushLog(INT64_MAX);
    nlohmann::ordered_json json = {{"run", name_}, {"program", "sample"}, {"status", "done"}};
    json["eval"] = {{"before", {{"pass_rate", 0.14}, {"ci95", 0.05}, {"n", 12}}},
                    {"after", {{"pass_rate", 0.71}, {"ci95", 0.06}, {"n", 12}}}};
    json["episodes"] = episodes_;
    json["steps"] = step_;
    json["seconds"] = Elapsed();
    json["lost"] = 0;
    json["stale"] = stale_;
    json["retries"] = retries_;
    json["generated_tokens"] = totals_.generated;
    json["trained_tokens"] = totals_.trained;
    TM_CHECK(directory_->WriteSummary(json.dump(2) + "\n").ok(), "summary");
  }

  uint64_t episodes() const { return episodes_; }
  uint64_t step() const { return step_; }
  const RunDirectory& directory() const { return *directory_; }
  void Warn(const std::string& what) {
    Log("warning", {{"what", what}});
    FlushLog(INT64_MAX);
  }
  // One line of totals as a run writes every second; `now` only grows.
  void Tick(int64_t now) { Tick(now, {now, totals_}); }

 private:
  struct Totals {
    double steps = 0, episodes = 0, scored = 0, solved = 0, stale = 0, tool_calls = 0, retries = 0,
           generated = 0, trained = 0;
  };
  struct TotalsAt {
    int64_t at_ms = 0;
    Totals totals;
  };
  // Time spent working, up to a moment that only grows.
  class Work {
   public:
    void Add(int64_t from_ms, int64_t to_ms) { spans_.emplace_back(from_ms, to_ms); }
    double Until(int64_t now) {
      double some = 0;
      std::erase_if(spans_, [&](const auto& span) {
        (span.second <= now ? done_ : some) +=
            static_cast<double>(std::max<int64_t>(0, std::min(span.second, now) - span.first));
        return span.second <= now;
      });
      return done_ + some;
    }

   private:
    std::vector<std::pair<int64_t, int64_t>> spans_;
    double done_ = 0;
  };

  // Ticks up to a time before which everything is written; totals grow evenly over them.
  void TicksUntil(int64_t end) {
    const TotalsAt reached{std::max(end, next_tick_ms_), totals_};
    for (; next_tick_ms_ <= end; next_tick_ms_ += 1000) Tick(next_tick_ms_, reached);
    if (end > last_.at_ms) last_ = {end, totals_};
    FlushLog(end);
  }

  void Tick(int64_t now, const TotalsAt& reached) {
    const double seconds = std::max(0.001, static_cast<double>(now - options_.begin_ms) / 1000);
    const auto span = static_cast<double>(std::max<int64_t>(1, reached.at_ms - last_.at_ms));
    const double part = std::clamp(static_cast<double>(now - last_.at_ms) / span, 0.0, 1.0);
    auto at = [&](double Totals::*field) {
      return std::floor(last_.totals.*field + part * (reached.totals.*field - last_.totals.*field));
    };
    auto some = [&](double mean) { return std::floor(random_.Exponential(mean)); };
    auto share = [&](Work& work, double workers) {
      return std::min(1.0, work.Until(now) / (seconds * 1000 * workers));
    };
    const double calls = at(&Totals::tool_calls);
    LogAt(now, "tick",
          {{"seconds", seconds},
           {"steps", at(&Totals::steps)},
           {"version", at(&Totals::steps)},
           {"episodes_running", options_.slots},
           {"episodes_finished", at(&Totals::episodes)},
           {"episodes_stored", at(&Totals::episodes)},
           {"waiting_for_tools", some(3)},
           {"waiting_verdicts", some(2)},
           {"ready_episodes", some(12)},
           {"generated_tokens", at(&Totals::generated)},
           {"trained_tokens", at(&Totals::trained)},
           {"scored", at(&Totals::scored)},
           {"solved", at(&Totals::solved)},
           {"stale", at(&Totals::stale)},
           {"too_old", 0},
           {"zero_variance", 0},
           {"duplicates", 0},
           {"dead_letters", 0},
           {"tool_calls", calls},
           {"gradings", at(&Totals::scored)},
           {"cache_hits", std::floor(calls / 5)},
           {"cache_misses", calls - std::floor(calls / 5)},
           {"tool_retries", at(&Totals::retries)},
           {"reward_retries", 0},
           {"tool_commands", calls - std::floor(calls / 5)},
           {"tool_ms", 180 + 2 * random_.Normal()},
           {"queue_ms", 25 + random_.Normal()},
           {"busy_port_engine", share(generating_, options_.slots)},
           {"busy_port_boxes", share(boxes_, options_.slots * 0.4)},
           {"busy_port_store", 0.04},
           {"busy_port_trainer", share(training_, 1)},
           {"busy_loop_rollout", 0.05},
           {"busy_loop_tools", 0.02},
           {"busy_loop_reward", 0.01},
           {"busy_loop_replay", 0.03},
           {"busy_loop_learner", 0.01},
           {"busy_loop_dispatcher", 0.01},
           {"depth_rollout.groups", some(1)},
           {"depth_tools.run_tests", some(4)},
           {"depth_tools.grade", some(2)},
           {"depth_reward.score", some(1)},
           {"depth_replay.trajectories", some(1)},
           {"depth_dispatch.reports", some(1)}});
  }

  using Json = nlohmann::ordered_json;

  std::string ConfigToml() const {
    return "# A made-up run.\n[run]\nseed = " + std::to_string(options_.seed) + "\nmode = \"" +
           (options_.synchronous ? "sync" : "async") +
           "\"\nsteps = " + std::to_string(options_.steps) + "\n\n[model]\npath = \"" +
           options_.model + "\"\nprotocol = \"hermes\"\n\n[rollout]\ngroup_size = " +
           std::to_string(options_.group_size) +
           "\ngroups_per_step = " + std::to_string(options_.groups_per_step) +
           "\n\n[staleness]\nmax_steps = " + (options_.synchronous ? "0" : "2") +
           "\n\n[reward]\nweights = { tests = 1.0, lint = 0.1 }\n\n[learner]\nobjective = "
           "\"grpo\"\n"
           "learning_rate = " +
           (options_.synchronous ? "2e-5" : "1e-5") + "\n";
  }

  double Elapsed() const { return static_cast<double>(clock_.WallMs() - options_.begin_ms) / 1000; }

  void Log(const char* kind, const Json& fields) { LogAt(clock_.WallMs(), kind, fields); }

  // A run writes its lines in the order of time; here some are known late.
  void LogAt(int64_t at_ms, const char* kind, const Json& fields) {
    if (!options_.metrics) return;
    Json json = {{"time_ms", at_ms}, {"kind", kind}};
    json.update(fields);
    lines_.emplace(at_ms, json.dump());
    if (options_.live) FlushLog(INT64_MAX);
  }

  void FlushLog(int64_t end) {
    const auto last = lines_.upper_bound(end);
    for (auto it = lines_.begin(); it != last; ++it) {
      TM_CHECK(log_->Append(it->second).ok(), "metrics");
    }
    lines_.erase(lines_.begin(), last);
  }

  void Put(StoreOp op) { ops_.push_back(std::make_unique<StoreOp>(std::move(op))); }

  void Flush() {
    if (ops_.empty()) return;
    std::vector<const StoreOp*> pointers;
    for (const auto& op : ops_) pointers.push_back(op.get());
    auto done = db_->Apply(pointers);
    TM_CHECK(done.ok(), done.status().ToString());
    for (const RunDb::Outcome& outcome : *done)
      TM_CHECK(outcome.status.ok(), outcome.status.ToString());
    ops_.clear();
  }

  std::string TaskName(uint32_t t) const {
    static constexpr std::array kNames = {"clamp",          "gcd", "is_prime", "count_bits",
                                          "reverse_digits", "fib", "max3",     "abs_diff"};
    return "cfunc/" + std::string(kNames[t % kNames.size()]) + "-" + std::to_string(t);
  }

  // Some are easy, some never succeed, one gets worse.
  double SolveChance(uint32_t t) const {
    const double progress =
        std::min(1.0, static_cast<double>(step_) / static_cast<double>(options_.steps));
    if (t % 11 == 10) return 0;
    if (t % 13 == 12) return 0.85 - 0.75 * progress;
    const double ease = 0.6 + 0.4 * static_cast<double>((t * 7) % 10) / 10;
    return std::min(0.97, 0.12 + ease * 0.8 * progress);
  }

  int64_t WriteGroup(v1::Purpose purpose, const std::string& eval,
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

  int64_t WriteEpisode(v1::Purpose purpose, const std::string& eval, uint32_t t, uint32_t member,
                       v1::GroupReport& report, std::vector<v1::TrajectoryId>* used) {
    auto slot = std::min_element(slot_free_ms_.begin(), slot_free_ms_.end());
    v1::Trajectory trajectory;
    trajectory.mutable_id()->set_task(TaskName(t));
    trajectory.mutable_id()->set_group(group_);
    trajectory.mutable_id()->set_member(member);
    trajectory.mutable_id()->set_attempt(1);
    trajectory.set_purpose(purpose);
    trajectory.set_eval_name(eval);
    trajectory.set_worker("local");
    trajectory.set_group_members(options_.group_size);
    trajectory.set_started_ms(*slot);
    trajectory.mutable_sampling()->set_temperature(1.0);
    const bool solved = random_.Chance(SolveChance(t));
    const bool stale = purpose == v1::PURPOSE_TRAIN && random_.Chance(0.004);
    AddText(*trajectory.mutable_prompt_ids(), "Write the C function " + TaskName(t) + ".\n");
    const auto turns =
        static_cast<uint32_t>(solved ? random_.Between(1, 2) : random_.Between(1, 3));
    int64_t now = *slot;
    for (uint32_t i = 0; i < turns; ++i)
      now = AddTurn(trajectory, t, solved && i + 1 == turns, now);
    trajectory.set_finished_ms(now);
    trajectory.set_end(stale                  ? v1::EPISODE_END_GIVEN_UP
                       : random_.Chance(0.03) ? v1::EPISODE_END_MAX_TOKENS
                                              : v1::EPISODE_END_SUBMITTED);
    if (stale) trajectory.set_stale_cause("tools.run_tests: the box could not start");
    trajectory.set_submission(Source(t, solved));
    v1::File& file = *trajectory.mutable_tree()->add_files();
    file.set_path("solution.c");
    file.set_content(Source(t, solved));
    file.set_has_content(true);
    *slot = now + 20;
    ++episodes_, ++totals_.episodes;
    clock_.Set(std::max(clock_.WallMs(), now));
    const v1::TrajectoryId id = trajectory.id();
    Put(PutTrajectory{std::move(trajectory)});
    if (stale) {
      ++stale_, ++totals_.stale;
      Put(PutFate{id, "stale", "tools.run_tests: the box could not start"});
      return now;
    }
    PutScore(id, solved, report);
    if (used != nullptr) used->push_back(id);
    return now;
  }

  void PutScore(const v1::TrajectoryId& id, bool solved, v1::GroupReport& report) {
    v1::Verdict verdict;
    *verdict.mutable_id() = id;
    verdict.set_scored(true);
    verdict.set_solved(solved);
    verdict.set_compiled(solved || random_.Chance(0.7));
    verdict.set_tests_total(8);
    verdict.set_tests_passed(solved ? 8 : static_cast<uint32_t>(random_.Below(8)));
    const double share = verdict.tests_passed() / 8.0;
    const double lint = -0.1 * static_cast<double>(random_.Below(3));
    auto part = [&](const char* scorer, double value, double weight, const char* comment) {
      v1::RewardPart& p = *verdict.add_parts();
      p.set_scorer(scorer), p.set_scorer_version(1), p.set_value(value), p.set_weight(weight),
          p.set_comment(comment);
    };
    part("tests", share, 1, solved ? "all hidden tests pass" : "some hidden tests fail");
    part("lint", lint, 0.1, lint < 0 ? "unused variable" : "clean");
    verdict.set_reward(share + 0.1 * lint);
    report.set_scored(report.scored() + 1);
    report.set_solved(report.solved() + (solved ? 1 : 0));
    report.set_reward_sum(report.reward_sum() + verdict.reward());
    ++totals_.scored;
    totals_.solved += solved ? 1 : 0;
    Put(PutVerdict{std::move(verdict)});
  }

  int64_t AddTurn(v1::Trajectory& trajectory, uint32_t t, bool right, int64_t now) {
    v1::Turn& turn = *trajectory.add_turns();
    turn.set_started_ms(now);
    AddText(*turn.mutable_ids(),
            "<tool_call>\n{\"name\": \"run_tests\", \"arguments\": {\"solution.c\": \"" +
                Source(t, right) + "\"}}\n</tool_call>");
    const int tokens = turn.ids_size();
    for (int i = 0; i < tokens; ++i) {
      turn.add_logprobs(static_cast<float>(-random_.Exponential(random_.Chance(0.1) ? 2.5 : 0.15)));
    }
    const int64_t took = 150 + tokens * 4 + static_cast<int64_t>(random_.Exponential(120));
    const bool swapped = !options_.synchronous && step_ > 0 && random_.Chance(0.3);
    auto version = [&](uint64_t v, int n) {
      if (n <= 0) return;
      turn.add_versions()->set_version(v);
      turn.mutable_versions(turn.versions_size() - 1)->set_tokens(static_cast<uint32_t>(n));
    };
    const uint64_t behind = options_.synchronous || step_ == 0 ? 0 : random_.Below(2);
    version(step_ - behind - (swapped && step_ > behind ? 1 : 0), swapped ? tokens / 2 : 0);
    version(step_ - behind, swapped ? tokens - tokens / 2 : tokens);
    totals_.generated += tokens;
    generating_.Add(now, now + took);
    turn.set_finished_ms(now + took);
    turn.set_end(v1::TURN_END_STOP);
    v1::ToolCall& call = *turn.add_calls();
    call.set_tool(random_.Chance(0.2) ? "compile" : random_.Chance(0.1) ? "lint" : "run_tests");
    call.set_arguments_json(Json{{"path", "solution.c"}}.dump());
    call.set_outcome(right                  ? v1::OUTCOME_OK
                     : random_.Chance(0.06) ? v1::OUTCOME_TIMEOUT
                                            : v1::OUTCOME_FAILED);
    call.set_compiled(true);
    call.set_tests_total(4);
    call.set_tests_passed(right ? 4 : static_cast<uint32_t>(random_.Below(4)));
    call.set_run_ms(random_.LogNormal(140, 0.7));
    call.set_wait_ms(call.run_ms() + random_.Exponential(60));
    call.set_retries(random_.Chance(0.02) ? 1 : 0);
    retries_ += call.retries(), totals_.retries += call.retries();
    call.set_text(right ? "4 of 4 tests pass"
                        : "test 2: f(3, 7) expected 7, got 3\ntest 4: f(0, -1) expected 0, got -1");
    ++totals_.tool_calls;
    AddText(*turn.mutable_observation_ids(),
            "\n<tool_response>\n" + call.text() + "\n</tool_response>\n");
    turn.set_observed_ms(turn.finished_ms() + static_cast<int64_t>(call.wait_ms()));
    boxes_.Add(turn.observed_ms() - static_cast<int64_t>(call.run_ms()), turn.observed_ms());
    return turn.observed_ms();
  }

  static std::string Source(uint32_t t, bool right) {
    const std::string n = std::to_string(t);
    return "int f(int a, int b) {\n  // case " + n + "\n  if (a " + (right ? "<" : ">") +
           " b) {\n    return b;\n  }\n  for (int i = 0; i < " + n +
           "; i++) a += 0;\n  return a;\n}\n";
  }

  template <typename Ids>
  void AddText(Ids& ids, const std::string& text) {
    if (tokenizer_) {
      for (const TokenId id : tokenizer_->Encode(text, SpecialTokens::kAsText))
        ids.Add(static_cast<uint32_t>(id));
    } else {
      for (size_t i = 0; i < text.size(); i += 4)
        ids.Add(static_cast<uint32_t>(random_.Below(32'000)));
    }
  }

  void Train(const std::vector<v1::TrajectoryId>& used, double reward, int64_t batch_ms) {
    const int64_t begin = std::max(train_end_ms_, batch_ms);
    const auto took = static_cast<int64_t>(900 + random_.Exponential(300));
    train_end_ms_ = begin + took;
    training_.Add(begin, train_end_ms_);
    clock_.Set(std::max(clock_.WallMs(), train_end_ms_));
    ++step_;
    totals_.steps = static_cast<double>(step_);
    const uint64_t tokens = used.size() * 90;
    totals_.trained += static_cast<double>(tokens);
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
        {"ratio", 1 + 0.01 * random_.Normal()}};
    const double lag = options_.synchronous ? 0 : 0.7;
    metrics["lag_mean"] = lag;
    metrics["lag_max"] = options_.synchronous ? 0 : 2;
    metrics["lag_hist_0"] = options_.synchronous ? tokens : tokens * 4 / 10;
    if (!options_.synchronous)
      metrics["lag_hist_1"] = tokens * 5 / 10, metrics["lag_hist_2"] = tokens / 10;
    Put(ReserveVersion{step_});
    Put(PutStep{step_, step_, used, metrics.dump()});
    for (const v1::TrajectoryId& id : used) Put(PutFate{id, "used", ""});
    LogAt(train_end_ms_, "step", metrics);
    const double publishing = 0.05 + 0.03 * random_.Uniform();
    train_end_ms_ += static_cast<int64_t>(publishing * 1000);
    LogAt(train_end_ms_, "publish", {{"version", step_}, {"step", step_}, {"seconds", publishing}});
    if (step_ % 20 == 0) {
      Put(PutCheckpoint{step_, step_, "checkpoints/step-" + std::to_string(step_)});
      Log("checkpoint", {{"step", step_},
                         {"seconds", 0.4},
                         {"path", "checkpoints/step-" + std::to_string(step_)}});
    }
  }

  const SampleOptions options_;
  Random random_;
  SampleClock clock_;
  const std::string name_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<RunDb> db_;
  std::optional<MetricsLog> log_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<StoreOp>> ops_;
  std::vector<int64_t> slot_free_ms_;
  int64_t train_end_ms_ = 0;
  int64_t next_tick_ms_ = 0;
  Work generating_, boxes_, training_;
  Totals totals_;
  TotalsAt last_;
  std::multimap<int64_t, std::string> lines_;  // by their time
  uint32_t next_task_ = 0;
  uint64_t group_ = 0, step_ = 0, episodes_ = 0, stale_ = 0, retries_ = 0, eval_solved_ = 0;
};

inline void WriteSampleRun(const std::string& folder, const std::string& name,
                           const SampleOptions& options) {
  SampleRun(folder, name, options).WriteAll();
}

}  // namespace tidemill

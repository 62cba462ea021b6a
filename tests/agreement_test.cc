// Whoever is asked about a run says the same: the summary, `runs`, the export, the API, the lines
// of metrics.jsonl and TensorBoard's file. Of a run that was continued, stopped, killed and
// resumed.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "dashboard/run_api.h"
#include "learner/packing.h"
#include "store/run_db.h"
#include "store/run_directory.h"
#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using nlohmann::json;

class AgreementTest : public LineTest {
 protected:
  static std::string Runs() { return folder_ + "/runs"; }
  static json Told(const std::string& words) {
    const ProcessOutput told = RunTidemill("runs --folder " + Runs() + " " + words, "2>/dev/null");
    EXPECT_EQ(told.exit_code, 0) << words << told.output;
    return json::parse(told.output, nullptr, false);
  }
  static std::vector<json> LinesOf(const std::string& path) {
    std::vector<json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static std::vector<json> Exported(const std::string& run, const std::string& more = "") {
    const std::string out = folder_ + "/exported.jsonl";
    MustRun("runs --folder " + Runs() + " export " + run + " --out " + out + " " + more);
    return LinesOf(out);
  }
  static std::vector<json> Journal(const std::string& run, const std::string& kind) {
    std::vector<json> of_kind;
    for (json& line : LinesOf(run + "/metrics.jsonl")) {
      if (line["kind"] == kind) of_kind.push_back(std::move(line));
    }
    return of_kind;
  }
  static json LastEvalOf(const std::string& run, const std::string& name) {
    json last;
    for (const json& line : Journal(run, "eval")) {
      if (line["name"] == name) last = line;
    }
    return last;
  }
  static json Api(const std::string& target) {
    RunApi api({.folder = Runs()});
    return json::parse(api.Get(target).body);
  }
  static void WaitForStep(const std::string& run, uint64_t step, const BackgroundProgram& program) {
    ASSERT_TRUE(Eventually([&] {
      const auto reader = RunReader::Open(Runs() + "/" + run + "/run.db");
      const auto steps = reader.ok() ? (*reader)->Steps(step - 1, 1) : reader.status();
      return steps.ok() && !steps->empty();
    })) << program.Log();
  }
};

// What a kill at the wrong moment leaves out: the step is stored, its line was not written.
void ForgetStep(const std::string& path, uint64_t step) {
  std::string kept;
  std::ifstream from(path);
  for (std::string line; std::getline(from, line);) {
    const json parsed = json::parse(line, nullptr, false);
    const bool it = parsed.is_object() && parsed.value("kind", "") == "step" &&
                    parsed.value("step", uint64_t{0}) == step;
    if (!it) kept += line + "\n";
  }
  from.close();
  std::ofstream(path) << kept;
}

class ContinuedRun : public AgreementTest {
 protected:
  // Three steps; on, stopped; on, killed, one line short; on to the end.
  void SetUp() override {
    const std::string resume = "--log-level warn train --json --no-web --resume " + Run();
    MustRun(Train("line",
                  "--set run.steps=3 --set learner.checkpoint_every_steps=2 "
                  "--set eval.samples=2 --set eval.every_steps=2 --set tasks.eval=" +
                      folder_ + "/eval.jsonl"));
    first_after_ = LastEval("after");
    {
      BackgroundProgram program(resume + " --set run.steps=100000", {folder_ + "/stopped.log"});
      WaitForStep("line", 5, program);
      program.Stop(SIGINT);
    }
    {
      BackgroundProgram program(resume, {folder_ + "/killed.log"});
      WaitForStep("line", Steps() + 3, program);
      program.Stop(SIGKILL);
    }
    ForgetStep(Run() + "/metrics.jsonl", 2);
    // An odd number: no evaluation on the way is at the last step.
    const std::string steps = std::to_string(Steps() / 2 * 2 + 3);
    const ProcessOutput last = RunTidemill(resume + " --set run.steps=" + steps, "2>/dev/null");
    ASSERT_EQ(last.exit_code, 0) << last.output;
    summary_ = Summary(last);
  }

  static std::string Run() { return Runs() + "/line"; }
  static uint64_t Steps() { return Reader("line")->Counts()->steps; }
  static std::vector<json> Kind(const std::string& kind) { return Journal(Run(), kind); }
  static json LastEval(const std::string& name) { return LastEvalOf(Run(), name); }

  void CompareEvaluations();
  void CompareSteps();
  void CompareTensorboard();
  void CompareEpisodes();
  void CompareRows();
  void CompareEvaluationAlone();
  void CompareTraining();
  void ComparePass(const std::vector<json>& records);

  json summary_, first_after_;
};

// An evaluation of two samples a task, from its exported episodes alone.
struct Recounted {
  double pass_rate = 0;
  double at_2 = 0;  // the share of tasks of which one sample at least is right
  double ci95 = 0;
  double reward = 0;
  uint64_t episodes = 0;
  uint64_t unscored = 0;
  uint64_t tasks_solved = 0;
  uint64_t newest_version = 0;
};
Recounted Recount(const std::vector<json>& records) {
  std::map<std::string, std::pair<double, double>> tasks;  // solved of scored
  Recounted counted;
  double reward = 0, scored = 0;
  for (const json& record : records) {
    if (record["branch"] != 1) continue;
    ++counted.episodes;
    for (const json& version : record["versions"])
      counted.newest_version = std::max(counted.newest_version, version.get<uint64_t>());
    if (!record["scored"]) {
      ++counted.unscored;
      continue;
    }
    auto& [solved, of] = tasks[record["task"]];
    solved += record["solved"].get<bool>() ? 1 : 0, ++of;
    reward += record["reward"].get<double>(), ++scored;
  }
  const auto count = std::max<double>(1, static_cast<double>(tasks.size()));
  for (const auto& [task, rate] : tasks) {
    counted.pass_rate += rate.first / rate.second / count;
    counted.tasks_solved += rate.first > 0 ? 1 : 0;
  }
  counted.at_2 = static_cast<double>(counted.tasks_solved) / count;
  double squares = 0;
  for (const auto& [task, rate] : tasks)
    squares += std::pow(rate.first / rate.second - counted.pass_rate, 2);
  counted.ci95 = 1.96 * std::sqrt(squares / (count - 1) / count);
  counted.reward = reward / std::max(1.0, scored);
  return counted;
}

// One whole evaluation of six tasks, as the summary (`told`), the API (`eval`), metrics.jsonl
// (`line`) and the export have it.
void CompareOne(const json& told, const json& eval, const json& line, const Recounted& counted) {
  EXPECT_EQ(told["samples_per_task"], 2);
  EXPECT_EQ(told["n"], 6);
  EXPECT_EQ(eval["tasks"], 6);
  EXPECT_EQ(eval["tasks_planned"], 6);
  EXPECT_EQ(line["tasks"], 6);
  EXPECT_EQ(counted.episodes, 12u);
  EXPECT_EQ(line["episodes"], 12);
  EXPECT_EQ(eval["samples"].get<uint64_t>() + eval["unscored"].get<uint64_t>(), 12u);
  EXPECT_EQ(eval["tasks_solved"], counted.tasks_solved);
  for (const json& unscored : {told["unscored"], eval["unscored"], line["unscored"]})
    EXPECT_EQ(unscored, counted.unscored);
  for (const json& step : {told["step"], eval["step"], line["step"]}) EXPECT_EQ(step, told["step"]);
  for (const json& version : {told["version"], eval["version"]})
    EXPECT_EQ(version, counted.newest_version);
  for (const json& rate : {told["pass_rate"], eval["pass_rate"], line["pass_rate"]})
    EXPECT_NEAR(rate.get<double>(), counted.pass_rate, 1e-9);
  for (const json& mean : {told["mean_reward"], eval["mean_reward"], line["reward"]})
    EXPECT_NEAR(mean.get<double>(), counted.reward, 1e-6);
  for (const json& ci95 : {told["ci95"], eval["ci95"]})
    EXPECT_NEAR(ci95.get<double>(), counted.ci95, 1e-9);
  EXPECT_NEAR(told["pass_at_2"].get<double>(), counted.at_2, 1e-9);
}

void ContinuedRun::CompareEvaluations() {
  const json shown = Told("show line --json"), of_api = Api("/api/runs/line");
  EXPECT_EQ(shown, summary_);
  EXPECT_EQ(json::parse(TextOf(Run() + "/summary.json")), summary_);
  EXPECT_EQ(of_api["summary"], summary_);
  EXPECT_EQ(Told("list --json")["runs"][0]["summary"]["eval"], summary_["eval"]);
  EXPECT_EQ(Told("compare line line --json")["line"]["eval"], summary_["eval"]);
  ASSERT_EQ(of_api["evals"].size(), summary_["eval"].size());
  for (const json& eval : of_api["evals"]) {
    const std::string name = eval["name"];
    SCOPED_TRACE(name);
    const json& told = summary_["eval"][name];
    const json line = LastEval(name);
    EXPECT_EQ(eval["complete"], told["complete"]);
    if (!told["complete"]) {  // a part of the run ended in the middle of it
      EXPECT_TRUE(line.is_null());
      EXPECT_NE(name, "after");
      continue;
    }
    CompareOne(told, eval, line, Recount(Exported("line", "--eval " + name)));
    EXPECT_EQ(Told("episodes line --json --newest 1 --eval " + name)["total"], 12);
    EXPECT_EQ(Api("/api/runs/line/episodes?limit=1&eval=" + name)["total"], 12);
  }
  // The last evaluation counts as "after", and the earlier one is where it was.
  EXPECT_EQ(first_after_["step"], 3);
  EXPECT_EQ(summary_["eval"]["after"]["step"], summary_["steps"]);
  std::vector<json> after;
  for (const json& line : Kind("eval")) {
    if (line["name"] == "after") after.push_back(line);
  }
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0], first_after_);
}

void ContinuedRun::CompareSteps() {
  const uint64_t steps = summary_["steps"];
  EXPECT_GE(steps, 6u);
  EXPECT_EQ(Api("/api/runs/line")["counts"]["steps"], steps);
  EXPECT_EQ(Api("/api/runs/line")["step"]["step"], steps);
  const std::vector<StepRow> stored = Reader("line")->Steps(0, 1000).value();
  const std::vector<json> lines = Kind("step");
  ASSERT_EQ(stored.size(), steps);
  ASSERT_EQ(lines.size(), steps);
  for (size_t i = 0; i < steps; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1) << "in order";
    const json metrics = json::parse(stored[i].metrics_json);
    for (const char* key : {"loss", "reward", "tokens", "entropy"})
      EXPECT_EQ(lines[i][key].get<double>(), metrics[key].get<double>()) << key;
  }
}

void ContinuedRun::CompareTensorboard() {
  const ProcessOutput read = RunProcess(
      {"sh", "-c", SourceDir() + "/scripts/read_tfevents.py " + Run() + "/tensorboard/*"},
      std::chrono::seconds(60));
  std::map<uint64_t, double> rewards;
  std::map<uint64_t, double> evals;
  for (const json& event : json::parse(read.output)) {
    if (!event.contains("scalars")) continue;
    const json& scalars = event["scalars"];
    if (scalars.contains("step/reward")) {
      EXPECT_TRUE(rewards.emplace(event["step"], scalars["step/reward"]).second) << event.dump();
    }
    if (scalars.contains("eval/pass_rate")) evals[event["step"]] = scalars["eval/pass_rate"];
  }
  EXPECT_EQ(rewards.size(), summary_["steps"].get<size_t>());
  for (const json& line : Kind("step")) {
    EXPECT_NEAR(rewards[line["step"]], line["reward"].get<double>(), 1e-5) << line["step"];
  }
  for (const auto& [name, eval] : summary_["eval"].items()) {
    if (!eval["complete"]) continue;
    EXPECT_NEAR(evals[eval["step"]], eval["pass_rate"].get<double>(), 1e-5) << name;
  }
}

void ContinuedRun::CompareEpisodes() {
  const json counts = Api("/api/runs/line")["counts"];
  std::map<uint64_t, std::set<std::pair<uint64_t, uint64_t>>> used;  // by step
  std::set<std::pair<std::string, uint64_t>> evaluations;
  uint64_t episodes = 0, evaluated = 0;
  for (const json& record : Exported("line")) {
    if (record["branch"] != 1) continue;
    ++episodes;
    if (record["purpose"] == "eval") {
      ++evaluated;
      evaluations.emplace(record["eval"], record["eval_step"]);
    }
    for (const json& step : record["used_by_steps"])
      used[step].emplace(record["group"], record["member"]);
  }
  EXPECT_EQ(summary_["episodes"], episodes);
  EXPECT_EQ(counts["episodes"], episodes);
  EXPECT_EQ(counts["eval"], evaluated);
  EXPECT_EQ(Told("episodes line --json --newest 1")["total"], episodes);
  EXPECT_EQ(used.size(), summary_["steps"].get<size_t>());
  for (const json& line : Kind("step"))
    EXPECT_EQ(used[line["step"]].size(), line["episodes"].get<size_t>()) << line["step"];
  // Six tasks an evaluation at most, however often one of them was begun.
  const json& groups = summary_["groups"];
  EXPECT_LE(groups["evaluated"].get<size_t>(), 6 * evaluations.size());
  uint64_t sum = 0;
  for (const char* fate : {"trained", "evaluated", "ready", "open", "abandoned", "lost"})
    sum += groups[fate].get<uint64_t>();
  for (const auto& [reason, count] : groups["dropped"].items()) sum += count.get<uint64_t>();
  EXPECT_EQ(groups["issued"], sum);
  EXPECT_EQ(summary_["lost"], 0);
}

// Every episode, as the export, the API and `runs episodes` have it.
void ContinuedRun::CompareRows() {
  struct Whole {
    json first;  // its first branch
    uint64_t drawn = 0;
    size_t turns = 0;
  };
  using Episode = std::pair<uint64_t, uint64_t>;
  const auto episode_of = [](const json& one) {
    return Episode(one["group"].get<uint64_t>(), one["member"].get<uint64_t>());
  };
  std::map<Episode, Whole> exported;
  for (json& record : Exported("line")) {
    Whole& whole = exported[episode_of(record)];
    for (const json& by_model : record["completion_mask"]) whole.drawn += by_model.get<uint64_t>();
    whole.turns += record["turns"].size();
    if (record["branch"] == 1) whole.first = std::move(record);
  }
  const json told = Told("episodes line --json --newest 40")["episodes"];
  std::map<Episode, json> rewards;
  for (const json& one : told) rewards[episode_of(one)] = one["reward"];
  EXPECT_EQ(rewards.size(), 40u);
  size_t shown = 0;
  for (uint64_t offset = 0; offset < exported.size(); offset += 100) {
    const json page =
        Api("/api/runs/line/episodes?limit=100&offset=" + std::to_string(offset))["episodes"];
    for (const json& row : page) {
      const auto& [first, drawn, turns] = exported.at(episode_of(row));
      SCOPED_TRACE(row.dump());
      ++shown;
      EXPECT_EQ(row["tokens"], drawn);
      EXPECT_EQ(row["turns"], turns);
      EXPECT_EQ(row["uses"], first["used_by_steps"].size());
      EXPECT_EQ(row["eval_name"], first["eval"]);
      EXPECT_EQ(row["prompt_tokens"], first["prompt_ids"].size());
      for (const char* key : {"task", "attempt", "end", "fate", "fate_reason", "eval_step",
                              "reward", "tests_passed", "tests_total", "compiled", "worker"})
        EXPECT_EQ(row[key], first[key]) << key;
      const auto reward = rewards.find(episode_of(row));
      EXPECT_TRUE(reward == rewards.end() || reward->second == row["reward"]);
    }
  }
  EXPECT_EQ(shown, exported.size());
}

// `tidemill eval` of what the run left: a run of its own, with the same readers.
void ContinuedRun::CompareEvaluationAlone() {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(Run() + "/checkpoints")) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with("step-")) newest = std::max(newest, path);
  }
  const ProcessOutput told =
      RunTidemill("--log-level warn eval --json --name alone --model " + newest + " --tasks " +
                      folder_ + "/eval.jsonl --set run.folder=" + Runs() +
                      " --set model.protocol=compact --set rollout.max_turn_tokens=8 --set "
                      "rollout.max_turns=2 --set reward.weights.format=0.1 --set eval.samples=2",
                  "2>/dev/null");
  ASSERT_EQ(told.exit_code, 0) << told.output;
  const json summary = Summary(told), of_api = Api("/api/runs/alone");
  EXPECT_EQ(Told("show alone --json"), summary);
  EXPECT_EQ(of_api["summary"], summary);
  ASSERT_EQ(of_api["evals"].size(), summary["eval"].size());
  for (const json& eval : of_api["evals"]) {
    const std::string of = eval["name"];
    SCOPED_TRACE(of);
    CompareOne(summary["eval"][of], eval, LastEvalOf(Runs() + "/alone", of),
               Recount(Exported("alone", "--eval " + of)));
  }
  EXPECT_EQ(summary["episodes"], Told("episodes alone --json --newest 1")["total"]);
}

// What each step was trained on, counted again from the export, and what the steps come to.
void ContinuedRun::CompareTraining() {
  struct Trained {
    double reward = 0, solved = 0, tokens = 0;
    std::set<std::pair<uint64_t, uint64_t>> episodes;
  };
  std::map<uint64_t, Trained> steps;
  std::map<std::string, uint64_t> fates;
  const std::vector<json> records = Exported("line");
  double drawn = 0;
  for (const json& record : records) {
    double tokens = 0;
    for (const json& by_model : record["completion_mask"]) tokens += by_model.get<double>();
    drawn += tokens;
    if (record["purpose"] == "train" && record["branch"] == 1) ++fates[record["fate"]];
    for (const json& step : record["used_by_steps"]) {
      Trained& of = steps[step];
      of.tokens += tokens;
      if (!of.episodes.emplace(record["group"], record["member"]).second) continue;
      of.reward += record["reward"].get<double>();
      of.solved += record["solved"].get<bool>() ? 1 : 0;
    }
  }
  double all = 0;
  const json series = Api("/api/runs/line/series?points=4000")["step"]["columns"];
  const std::vector<json> lines = Kind("step");
  ASSERT_EQ(series["step"].size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const json& line = lines[i];
    SCOPED_TRACE(line["step"].dump());
    const Trained& of = steps[line["step"]];
    const auto count = static_cast<double>(of.episodes.size());
    EXPECT_NEAR(line["reward"].get<double>(), of.reward / count, 1e-6);
    EXPECT_NEAR(line["batch_pass_rate"].get<double>(), of.solved / count, 1e-9);
    EXPECT_EQ(line["tokens"].get<double>() + line["masked_tokens"].get<double>(), of.tokens);
    all += line["tokens"].get<double>();
    for (const char* key : {"step", "reward", "tokens", "loss"})
      EXPECT_EQ(series[key][i].get<double>(), line[key].get<double>()) << key;
  }
  EXPECT_EQ(summary_["trained_tokens"].get<double>(), all);
  EXPECT_GE(summary_["generated_tokens"].get<double>(), drawn);
  const json tick = Kind("tick").back(), of_page = Api("/api/runs/line")["tick"];
  for (const char* key : {"trained_tokens", "generated_tokens", "steps", "tool_calls", "retries"}) {
    if (!summary_.contains(key) || !tick.contains(key)) continue;
    EXPECT_EQ(tick[key], summary_[key]) << key;
    EXPECT_EQ(of_page[key], summary_[key]) << key;
  }
  EXPECT_EQ(summary_["fates"], json(fates));
  EXPECT_EQ(Api("/api/runs/line")["counts"]["train_by_fate"], json(fates));
  ComparePass(records);
}

// Pass rates over time and by task.
void ContinuedRun::ComparePass(const std::vector<json>& records) {
  double scored = 0, solved = 0;
  std::map<std::string, std::pair<double, double>> by_task;
  for (const json& record : records) {
    if (record["purpose"] != "train" || record["branch"] != 1 || !record["scored"]) continue;
    const double one = record["solved"].get<bool>() ? 1 : 0;
    ++scored, solved += one;
    ++by_task[record["task"]].first, by_task[record["task"]].second += one;
  }
  double episodes = 0, right = 0;
  const json curve = Api("/api/runs/line/pass_rate");
  for (const json& point : curve["points"])
    episodes += point["episodes"].get<double>(), right += point["solved"].get<double>();
  EXPECT_EQ(episodes, scored);
  EXPECT_EQ(right, solved);
  const json tasks = Api("/api/runs/line/tasks?limit=100")["tasks"];
  EXPECT_EQ(tasks.size(), by_task.size());
  for (const json& task : tasks) {
    const auto& [of, passed] = by_task[task["task"]];
    EXPECT_EQ(task["scored"].get<double>(), of) << task["task"];
    EXPECT_EQ(task["solved"].get<double>(), passed) << task["task"];
  }
}

TEST_F(ContinuedRun, EveryReaderSaysTheSame) {
  CompareEvaluations();
  CompareSteps();
  CompareTensorboard();
  CompareEpisodes();
  CompareRows();
  CompareTraining();
  CompareEvaluationAlone();
}

// Two of three tasks of an evaluation have an answer, which is right, as long as it goes on.
TEST_F(AgreementTest, APartOfAnEvaluationIsNotItsRate) {
  const auto directory = RunDirectory::Create(
      Runs(), "part", "[model]\npath = \"" + folder_ + "/model\"\nprotocol = \"compact\"\n");
  ASSERT_TRUE(directory.ok()) << directory.status().ToString();
  const RealClock clock;
  auto db = RunDb::Open(directory->db_path(), clock);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  for (uint64_t number = 1; number <= 2; ++number) {
    PutGroup group;
    group.group.set_group(number), group.group.set_members(1);
    group.group.mutable_task()->set_id("task" + std::to_string(number));
    group.group.set_purpose(v1::PURPOSE_EVAL), group.group.set_eval_name("before");
    group.evaluation = {.number = 1, .step = 0, .tasks = 3};
    ASSERT_TRUE((*db)->ApplyOne(group).ok());
    v1::Trajectory t;
    t.mutable_id()->set_task("task" + std::to_string(number)), t.mutable_id()->set_group(number);
    t.mutable_id()->set_attempt(1);
    t.set_purpose(v1::PURPOSE_EVAL), t.set_eval_name("before"), t.set_group_members(1);
    t.mutable_sampling()->set_temperature(1);
    t.add_prompt_ids(1);
    ASSERT_TRUE((*db)->ApplyOne(PutTrajectory{t}).ok());
    v1::Verdict verdict;
    *verdict.mutable_id() = t.id();
    verdict.set_scored(true), verdict.set_solved(true), verdict.set_reward(1);
    ASSERT_TRUE((*db)->ApplyOne(PutVerdict{verdict}).ok());
    v1::GroupReport report;
    report.set_group(number), report.set_revision(1), report.set_accepted(1);
    ASSERT_TRUE((*db)->ApplyOne(PutGroupReport{report}).ok());
  }
  const json told = Told("show part --json")["eval"]["before"];
  EXPECT_EQ(told["complete"], false);
  EXPECT_EQ(told["tasks_planned"], 3);
  EXPECT_EQ(Api("/api/runs/part")["evals"][0]["complete"], false);
  const std::string listed = RunTidemill("runs --folder " + Runs() + " list").output;
  EXPECT_NE(listed.find("partial"), std::string::npos) << listed;
  EXPECT_EQ(listed.find("100.0 %"), std::string::npos) << listed;
  const std::string shown = RunTidemill("runs --folder " + Runs() + " show part").output;
  EXPECT_NE(shown.find("only 2 of 3 tasks"), std::string::npos) << shown;
}

// A planner that asks, and an executor with a prompt of its own.
TEST_F(AgreementTest, ASecondRolesPromptIsExportedShownAndServed) {
  const auto directory = RunDirectory::Create(
      Runs(), "roles", "[model]\npath = \"" + folder_ + "/model\"\nprotocol = \"compact\"\n");
  ASSERT_TRUE(directory.ok()) << directory.status().ToString();
  const RealClock clock;
  auto db = RunDb::Open(directory->db_path(), clock);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  const auto tokenizer = Tokenizer::Read(folder_ + "/model").value();
  const auto ids = [&](const char* text) {
    const auto encoded = tokenizer.Encode(text, SpecialTokens::kAsText);
    return std::vector<uint32_t>(encoded.begin(), encoded.end());
  };
  v1::Sample sample;
  v1::Trajectory& t = *sample.mutable_trajectory();
  t.mutable_id()->set_task("two roles");
  t.mutable_id()->set_group(1);
  t.set_purpose(v1::PURPOSE_TRAIN);
  t.set_group_members(1);
  t.mutable_sampling()->set_temperature(1);
  const auto add = [](auto* field, const std::vector<uint32_t>& values) {
    field->Add(values.begin(), values.end());
  };
  const auto turn = [&](const char* text, const char* behind) {
    v1::Turn& made = *t.add_turns();
    add(made.mutable_ids(), ids(text));
    for (int i = 0; i < made.ids_size(); ++i) made.add_logprobs(-1);
    v1::VersionRun& run = *made.add_versions();
    run.set_version(1), run.set_tokens(static_cast<uint32_t>(made.ids_size()));
    add(made.mutable_observation_ids(), ids(behind));
    return &made;
  };
  add(t.mutable_prompt_ids(), ids("return a+1;"));
  turn("return b;", "a*2");
  turn("return 2;", "");
  add(turn("return a*b;", "b+b")->mutable_prompt_ids(), ids("return b*7;"));
  PutGroup group;
  group.group.set_group(1), group.group.set_members(1);
  group.group.mutable_task()->set_id("two roles");
  group.group.set_purpose(v1::PURPOSE_TRAIN);
  ASSERT_TRUE((*db)->ApplyOne(group).ok());
  ASSERT_TRUE((*db)->ApplyOne(PutTrajectory{t}).ok());

  const std::vector<json> records = Exported("roles");
  const auto packed = FlattenBranches(sample, {});
  ASSERT_TRUE(packed.ok()) << packed.status().ToString();
  ASSERT_EQ(records.size(), packed->size());
  for (size_t i = 0; i < records.size(); ++i) {
    const json& record = records[i];
    const TrainSequence& row = packed->at(i);
    EXPECT_EQ(record["branch"], i + 1);
    EXPECT_EQ(record["branches"], 2);
    auto all = record["prompt_ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(all.size(), row.prompt_tokens);
    const auto completion = record["completion_ids"].get<std::vector<int32_t>>();
    all.insert(all.end(), completion.begin(), completion.end());
    EXPECT_EQ(all, row.ids);
    const auto mask = record["completion_mask"].get<std::vector<uint8_t>>();
    EXPECT_TRUE(std::equal(mask.begin(), mask.end(),
                           row.mask.begin() + static_cast<std::ptrdiff_t>(row.prompt_tokens),
                           row.mask.end()));
  }
  EXPECT_EQ(records[0]["turns"], (json{1, 2}));
  EXPECT_EQ(records[1]["turns"], (json{3}));
  EXPECT_EQ(records[1]["messages"], (json{{{"role", "user"}, {"content", "return b*7;"}},
                                          {{"role", "assistant"}, {"content", "return a*b;"}},
                                          {{"role", "user"}, {"content", "b+b"}}}));
  const std::string shown = Told("episodes roles --json")["episodes"][0]["transcript"];
  const size_t second = shown.find("prompt of turn 3, which begins a branch\n    return b*7;");
  EXPECT_NE(second, std::string::npos) << shown;
  EXPECT_LT(shown.find("return 2;"), second);
  const json turns = Api("/api/runs/roles/episodes/1/0")["turn_list"];
  EXPECT_TRUE(turns[0]["prompt"].is_null());
  EXPECT_EQ(turns[2]["prompt"], "return b*7;");
}

}  // namespace
}  // namespace tidemill

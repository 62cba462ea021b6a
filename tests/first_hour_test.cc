// What goes wrong in the first hour with the program, and what it then says: scorers that fail,
// runs that teach nothing, runs that are killed or resumed, and what is done with their episodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class FirstHour : public LineTest {
 protected:
  // A scorer of Python; `body` sees the question as q and sets `score` or exits.
  static std::string Scorer(const std::string& name, const std::string& body) {
    const std::string script = folder_ + "/" + name + ".py";
    std::ofstream(script) << "import json, sys\nq = json.load(sys.stdin)\nscore = 0.5\n"
                          << body << "\nprint(json.dumps({'score': score}))\n";
    return " --set 'reward.command=[\"python3\",\"" + script +
           "\"]' --set reward.weights.command=1 --set reward.retries=0";
  }
  static std::string Runs(const std::string& words) {
    return RunTidemill("runs --folder " + folder_ + "/runs " + words).output;
  }
  // Lines of a kind in metrics.jsonl.
  static std::vector<json> Lines(const std::string& run, const std::string& kind) {
    std::vector<json> lines;
    std::ifstream file(folder_ + "/runs/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      json parsed = json::parse(line);
      if (parsed["kind"] == kind) lines.push_back(std::move(parsed));
    }
    return lines;
  }
};

TEST_F(FirstHour, AScorerThatCannotWorkIsFoundBeforeTheRunAndNoRunIsLeft) {
  const ProcessOutput result =
      RunTidemill(Train("early", "--set run.steps=1" + Scorer("early", "sys.exit('no model')")));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("the scorer command failed when it was tried before the run"));
  EXPECT_THAT(result.output, HasSubstr("no model"));
  EXPECT_FALSE(fs::exists(folder_ + "/runs/early"));
}

TEST_F(FirstHour, ARunInWhichNoEpisodeCanBeScoredEndsWithTheCause) {
  const ProcessOutput result = RunTidemill(Train(
      "unscored", "--set run.steps=100" +
                      Scorer("unscored", "if q['group'] > 0: sys.exit('KeyError: the judge')")));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("episodes could be scored; most frequent cause"));
  EXPECT_THAT(result.output, HasSubstr("a scorer failed")) << "logged at once";
  const std::vector<json> warnings = Lines("unscored", "warning");
  ASSERT_FALSE(warnings.empty());
  EXPECT_THAT(warnings[0]["what"].get<std::string>(),
              HasSubstr("could not score an episode of task"));
  EXPECT_THAT(Runs("show unscored"), HasSubstr("run unscored: failed"));
  EXPECT_THAT(Runs("episodes unscored --newest 200"), HasSubstr("KeyError: the judge"));
}

// What was scored before the resume is no reason to go on for ever.
TEST_F(FirstHour, AResumedRunWhoseScorerIsBrokenNowEndsWithTheCause) {
  const std::string gone = folder_ + "/scorer.gone", script = folder_ + "/scorer.sh";
  // It works when it is tried before the run.
  std::ofstream(script) << "question=$(cat)\n"
                        << "case $question in *'\"group\":0'*) ;; *)\n"
                        << "  if test -e " << gone << "; then echo no judge >&2; exit 1; fi ;;\n"
                        << "esac\n"
                        << "echo '{\"score\": 0.5}'\n";
  MustRun(Train("broken", "--set run.steps=1 --set 'reward.command=[\"/bin/sh\",\"" + script +
                              "\"]' --set reward.weights.command=1 --set reward.retries=0"));
  std::ofstream(gone) << "x";
  const ProcessOutput result = RunTidemill("--log-level error train --no-web --resume " + folder_ +
                                           "/runs/broken --set run.steps=100000");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("could be scored; most frequent cause"));
  EXPECT_THAT(result.output, HasSubstr("no judge"));
}

TEST_F(FirstHour, ARunThatTaughtNothingIsNotDone) {
  const ProcessOutput result = RunTidemill(
      Train("nothing",
            "--set run.steps=100 --set run.minutes=0.05 --set replay.drop_zero_variance=true "
            "--set reward.weights.format=0"));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no training step was made: "));
  EXPECT_THAT(Runs("list"), HasSubstr("failed"));
}

TEST_F(FirstHour, AGroupOfOneIsRefusedWhereTheObjectiveComparesWithinGroups) {
  const ProcessOutput result =
      RunTidemill(Train("one", "--set run.steps=1 --set rollout.group_size=1"));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("rollout.group_size: 1 with the objective grpo"));
  EXPECT_FALSE(fs::exists(folder_ + "/runs/one"));
}

TEST_F(FirstHour, AHubNameSaysThatThereIsNoHub) {
  const ProcessOutput result =
      RunTidemill(Train("hub", "--set model.path=Qwen/Qwen2.5-0.5B-Instruct"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("never downloaded"));
  EXPECT_THAT(
      result.output,
      HasSubstr("hf download Qwen/Qwen2.5-0.5B-Instruct --local-dir Qwen2.5-0.5B-Instruct"));
}

TEST_F(FirstHour, AScorerThatStaysScoresARun) {
  const ProcessOutput result = RunTidemill(
      Train("stays", "--set run.steps=2 --set 'reward.command=[\"python3\",\"" + SourceDir() +
                         "/examples/scorer.py\"]' --set reward.command_stays=true --set "
                         "reward.command_slots=8 --set reward.weights.command=1"),
      "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Summary(result)["steps"], 2);
  EXPECT_EQ(Summary(result)["unscorable"], 0);
}

TEST_F(FirstHour, AKilledRunGoesOnWithItsTotalsAndNoStepStandsTwice) {
  const std::string train = Train("gone",
                                  "--set run.steps=100000 --set "
                                  "learner.checkpoint_every_steps=3 --set tasks.eval=" +
                                      folder_ +
                                      "/eval.jsonl --set eval.every_steps=3 "
                                      "--set eval.samples=1");
  uint64_t tokens = 0;
  double seconds = 0;
  {
    BackgroundProgram program(train, {folder_ + "/gone.log"});
    ASSERT_TRUE(Eventually([&] {
      const auto reader = RunReader::Open(folder_ + "/runs/gone/run.db");
      const auto steps = reader.ok() ? (*reader)->Steps(7, 1) : reader.status();
      return steps.ok() && !steps->empty();
    })) << program.Log();
    program.Stop(SIGKILL);
  }
  EXPECT_THAT(Runs("list"), HasSubstr("unfinished"));
  EXPECT_THAT(Runs("show gone"), HasSubstr("run gone: unfinished"));
  const std::vector<json> ticks = Lines("gone", "tick");
  ASSERT_FALSE(ticks.empty());
  tokens = ticks.back()["generated_tokens"].get<uint64_t>();
  seconds = ticks.back()["seconds"].get<double>();
  // However far it came before it was killed.
  const uint64_t goal = Reader("gone")->Counts()->steps + 5;
  const ProcessOutput resumed =
      RunTidemill("--log-level warn train --json --no-web --resume " + folder_ +
                      "/runs/gone --set run.steps=" + std::to_string(goal),
                  "2>/dev/null");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const json summary = Summary(resumed);
  EXPECT_EQ(summary["steps"], goal);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_GT(summary["seconds"], seconds);
  EXPECT_GT(summary["generated_tokens"], tokens);
  EXPECT_EQ(summary["counters"]["steps"], goal);
  std::map<uint64_t, int> seen;
  for (const json& line : Lines("gone", "step")) {
    EXPECT_TRUE(line["step"].is_number_integer()) << line.dump();
    ++seen[line["step"].get<uint64_t>()];
  }
  EXPECT_EQ(seen.size(), goal);
  for (const auto& [step, times] : seen) EXPECT_EQ(times, 1) << "step " << step;
  EXPECT_EQ(Lines("gone", "resume").size(), 1u) << "where it went on";
  // The best of the checkpoints is marked, and its pass rate is that of an evaluation.
  EXPECT_TRUE(fs::exists(folder_ + "/runs/gone/checkpoints/best/model.safetensors"));

  const std::string before = TextOf(folder_ + "/runs/gone/summary.json");
  const ProcessOutput again =
      RunTidemill("--log-level warn train --no-web --resume " + folder_ + "/runs/gone");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("run gone is finished; to go on"));
  EXPECT_EQ(TextOf(folder_ + "/runs/gone/summary.json"), before);
}

TEST_F(FirstHour, EpisodesAreExportedAndTrainTheNextModel) {
  MustRun(Train("data", "--set run.steps=2"));
  const std::string out = folder_ + "/data.jsonl.zst", plain = folder_ + "/some.jsonl";
  MustRun("runs --folder " + folder_ + "/runs export data --out " + out);
  MustRun("runs --folder " + folder_ + "/runs export data --offset 1 --limit 3 --out " + plain);
  std::ifstream file(plain);
  std::vector<json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  ASSERT_EQ(rows.size(), 3u);
  const auto page = Reader("data")->Episodes({}, EpisodeSort::kOldest, {1, 3}).value();
  for (size_t i = 0; i < rows.size(); ++i) {
    const json& row = rows[i];
    const EpisodeDetail episode =
        Reader("data")->Episode(page.rows[i].group, page.rows[i].member).value();
    EXPECT_EQ(row["group"], page.rows[i].group);
    EXPECT_EQ(row["task"], page.rows[i].task);
    EXPECT_EQ(row["prompt_ids"].size(), page.rows[i].prompt_tokens);
    EXPECT_EQ(row["messages"][0]["role"], "user");
    const size_t tokens = row["completion_ids"].size();
    for (const char* key : {"completion_mask", "logprobs", "versions"})
      EXPECT_EQ(row[key].size(), tokens) << key;
    uint64_t written = 0;
    for (const json& one : row["completion_mask"]) written += one.get<uint64_t>();
    EXPECT_EQ(written, page.rows[i].tokens);
    EXPECT_FLOAT_EQ(row["logprobs"][0].get<float>(), episode.trajectory.turns(0).logprobs(0));
    ASSERT_TRUE(episode.verdict.has_value());
    EXPECT_EQ(row["reward"], episode.verdict->reward());
  }
  // The same in the formats of others: a line, or a row, a sequence.
  for (const auto& [format, field] :
       {std::pair{"openai", "messages"}, {"sharegpt", "conversations"}, {"atif", "steps"}}) {
    const std::string other = folder_ + "/" + format + ".jsonl";
    MustRun("runs --folder " + folder_ + "/runs export data --offset 1 --limit 3 --format " +
            format + " --out " + other);
    std::ifstream lines(other);
    size_t line = 0;
    for (std::string text; std::getline(lines, text); ++line) {
      EXPECT_EQ(json::parse(text)[field].size(), rows.at(line)["messages"].size()) << text;
    }
    EXPECT_EQ(line, rows.size());
  }
  MustRun("runs --folder " + folder_ + "/runs export data --format parquet --out " + folder_ +
          "/data.parquet");
  EXPECT_EQ(TextOf(folder_ + "/data.parquet").substr(0, 4), "PAR1");
  EXPECT_EQ(RunTidemill("runs --folder " + folder_ + "/runs export data --format csv --out " + out)
                .exit_code,
            2);
  MustRun("warmup " + out + " --model " + folder_ + "/model --out " + folder_ +
          "/next --max-steps 2 --evaluate-every 1");
  EXPECT_TRUE(fs::exists(folder_ + "/next/model.safetensors"));

  const std::string compared = Runs("compare data data");
  for (const char* row : {"reward, last 10 steps", "entropy, last 10 steps", "steps"})
    EXPECT_THAT(compared, HasSubstr(row));
  // A name that was mistyped is not an empty answer.
  for (const char* words :
       {"export data --out x.jsonl --task nosuch", "episodes data --task nosuch",
        "export data --out x.jsonl --eval nosuch"}) {
    const ProcessOutput wrong = RunTidemill("runs --folder " + folder_ + "/runs " + words);
    EXPECT_NE(wrong.exit_code, 0) << words;
    EXPECT_THAT(wrong.output, HasSubstr("\"nosuch\"")) << words;
  }
  EXPECT_NE(RunTidemill("runs --folder " + folder_ + "/nosuch list").exit_code, 0);
  // Two runs of one name are told apart by their folders.
  fs::create_directories(folder_ + "/others");
  fs::copy(folder_ + "/runs/data", folder_ + "/others/data", fs::copy_options::recursive);
  const json both = json::parse(Runs("compare data " + folder_ + "/others/data --json"));
  EXPECT_EQ(both.size(), 2u) << both.dump(2);
  EXPECT_TRUE(both.contains(folder_ + "/others/data"));
}

TEST_F(FirstHour, ACheckpointWhoseWeightsAreDamagedIsNoModel) {
  MustRun(Train("damaged", "--set run.steps=1"));
  const std::string checkpoint = folder_ + "/runs/damaged/checkpoints/step-00000001";
  const std::string weights = checkpoint + "/model.safetensors";
  std::string bytes = TextOf(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  std::ofstream(weights) << bytes;
  const std::string data = folder_ + "/damaged.jsonl";
  MustRun("runs --folder " + folder_ + "/runs export damaged --limit 20 --out " + data);
  for (const std::string& words :
       {"eval --tasks " + folder_ + "/eval.jsonl --set run.folder=" + folder_ +
            "/evals --set model.protocol=compact --model " + checkpoint,
        "model generate --ids 260 --max-tokens 1 --model " + checkpoint,
        "warmup " + data + " --max-steps 1 --out " + folder_ + "/of-damaged --model " +
            checkpoint}) {
    const ProcessOutput result = RunTidemill("--log-level error " + words);
    EXPECT_EQ(result.exit_code, 1) << words << result.output;
    EXPECT_THAT(result.output, HasSubstr(weights + ": was damaged")) << words;
  }
}

TEST_F(FirstHour, ALoraCheckpointNamesItsBaseAndGenerateSaysHowToUseIt) {
  MustRun(Train("lora", "--set run.steps=1 --set learner.lora_rank=2"));
  const std::string checkpoint = folder_ + "/runs/lora/checkpoints/step-00000001";
  const json config = json::parse(TextOf(checkpoint + "/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"], fs::absolute(folder_ + "/model").string());
  const ProcessOutput generated =
      RunTidemill("model generate --model " + checkpoint + " --ids 260 --max-tokens 1");
  EXPECT_EQ(generated.exit_code, 2);
  EXPECT_THAT(generated.output, HasSubstr("--adapter"));
  MustRun("model generate --model " + folder_ + "/model --adapter " + checkpoint +
          " --ids 260 --max-tokens 1");
  fs::create_directories(folder_ + "/pickle");
  fs::copy(folder_ + "/model", folder_ + "/pickle", fs::copy_options::recursive);
  fs::rename(folder_ + "/pickle/model.safetensors", folder_ + "/pickle/pytorch_model.bin");
  EXPECT_THAT(RunTidemill("model generate --model " + folder_ + "/pickle --ids 260").output,
              HasSubstr("convert it once with transformers"));
}

}  // namespace
}  // namespace tidemill

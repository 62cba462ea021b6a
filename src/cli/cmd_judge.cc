// tidemill judge check FILE.jsonl --config RUN.toml [--judge NAME] [--json]: how good a judge is.
// tidemill judge cases --out FILE.jsonl: labelled cases to check it with.
// tidemill judge answers RUN --out FILE.jsonl: a run's executed answers, for a learned verifier.
// tidemill judge status RUN [--json]: what judges and audits of a run did.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/judge_answers.h"
#include "cli/judge_status.h"
#include "core/files.h"
#include "judge/http_judge_port.h"
#include "judge/judge_check.h"
#include "run/torch/judge_models.h"
#include "store/run_directory.h"
#include "testbeds/testbeds.h"

namespace tidemill {
namespace {

using JudgeJson = nlohmann::ordered_json;

struct JudgeWords {
  std::string file, config, judge, run, runs = "runs", out;
  std::vector<std::string> sets;
  JudgeCaseOptions cases;
  JudgeModelShape shape;
  bool json = false;
};

JudgeJson ShareJson(const CaseShare& share) {
  return {{"value", share.value()}, {"n", share.count}, {"ci95", {share.low(), share.high()}}};
}

JudgeJson CheckJson(const std::string& judge, const JudgeCheck& check) {
  JudgeJson json = {
      {"judge", judge},
      {"accuracy", ShareJson(check.all)},
      {"unavailable", check.unavailable},
      {"auc", check.auc},
      {"auc_ci95", {check.auc - 1.96 * check.auc_error, check.auc + 1.96 * check.auc_error}},
      {"keyword_auc", check.keyword_auc},
      {"ece", check.calibration_error},
      {"agreement", check.agreement},
      {"seconds", {{"median", check.seconds_median}, {"p99", check.seconds_99}}},
      {"tokens_in", check.tokens_in},
      {"tokens_out", check.tokens_out},
      {"cost", check.cost}};
  for (const auto& [label, share] : check.by_label) json["by_label"][label] = ShareJson(share);
  for (const auto& [kind, share] : check.by_kind) json["by_kind"][kind] = ShareJson(share);
  return json;
}

void PrintShare(const std::string& name, const CaseShare& share) {
  std::printf("  %-22s %6.2f %%  (%.2f to %.2f, n %lu)\n", name.c_str(), 100 * share.value(),
              100 * share.low(), 100 * share.high(), static_cast<unsigned long>(share.count));
}

void PrintCheck(const std::string& judge, const JudgeCheck& check) {
  std::printf("judge %s\n", judge.c_str());
  PrintShare("accuracy", check.all);
  for (const auto& [label, share] : check.by_label) PrintShare("of \"" + label + "\"", share);
  for (const auto& [kind, share] : check.by_kind) PrintShare(kind + " cases", share);
  std::printf("  AUC %.4f +- %.4f (keyword rule %.4f), calibration error %.4f\n", check.auc,
              1.96 * check.auc_error, check.keyword_auc, check.calibration_error);
  std::printf("  two votes agree on %.2f %%; unavailable %lu\n", 100 * check.agreement,
              static_cast<unsigned long>(check.unavailable));
  std::printf(
      "  an answer takes %.3f s (median), %.3f s (99th percentile); %lu tokens read, %lu "
      "written, cost %.4f\n",
      check.seconds_median, check.seconds_99, static_cast<unsigned long>(check.tokens_in),
      static_cast<unsigned long>(check.tokens_out), check.cost);
}

Result<RunConfig> LoadJudges(const JudgeWords& words) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.Load(words.config, words.sets));
  if (config.reward.judges.empty()) return Invalid(words.config + " has no [[judge]]");
  return config;
}

int CheckJudge(const JudgeWords& words) {
  const Result<RunConfig> config = LoadJudges(words);
  if (!config.ok()) return Wrong(config.status());
  const auto& judges = config->reward.judges;
  auto judge = judges.begin();
  if (!words.judge.empty()) {
    judge = std::find_if(judges.begin(), judges.end(),
                         [&](const auto& keys) { return keys.name == words.judge; });
  }
  if (judge == judges.end())
    return Wrong(Invalid(words.config + " has no [[judge]] named \"" + words.judge + "\""));
  const auto cases = ReadJudgeCases(words.file);
  if (!cases.ok()) return Wrong(cases.status());
  std::vector<JudgeConfig> reached = judges;
  JudgeModels models;
  if (const Status served = models.Serve(reached, config->model.device); !served.ok())
    return Wrong(served);
  auto port = HttpJudgePort::Make(reached);
  if (!port.ok()) return Wrong(port.status());
  size_t shown = 0;
  const auto progress = [&](size_t done) {
    if (words.json || done < shown + 500) return;
    std::fprintf(stderr, "%zu of %zu cases\n", shown = done, cases->size());
  };
  const auto check = RunJudgeCheck(*judge, judges, **port, *cases, progress);
  if (!check.ok()) return Fail(check.status());
  if (words.json)
    PrintJson(CheckJson(judge->name, *check));
  else
    PrintCheck(judge->name, *check);
  return check->all.count > 0 ? 0 : 1;
}

int WriteCases(const JudgeWords& words) {
  if (const Status status = WriteJudgeCases(words.cases, words.out); !status.ok()) {
    return Fail(status);
  }
  if (words.json) PrintJson({{"out", words.out}, {"cases", words.cases.count}});
  return 0;
}

int WriteModelFiles(const JudgeWords& words) {
  const Status status = WriteJudgeModel(words.shape, words.cases.seed, words.out);
  if (!status.ok()) return Fail(status);
  if (words.json) PrintJson({{"out", words.out}});
  return 0;
}

int WriteAnswers(const JudgeAnswersOptions& options, bool json) {
  const auto written = WriteJudgeAnswers(options);
  if (!written.ok()) return Fail(written.status());
  if (json)
    PrintJson({{"out", options.out}, {"right", written->right}, {"wrong", written->wrong}});
  else
    std::printf("%s: %lu right answers, %lu wrong\n", options.out.c_str(),
                static_cast<unsigned long>(written->right),
                static_cast<unsigned long>(written->wrong));
  return 0;
}

void AddAnswers(CLI::App& judge, Exit& exit) {
  CLI::App* command = judge.add_subcommand(
      "answers", "Write a run's executed answers as examples for a learned verifier");
  auto options = std::make_shared<JudgeAnswersOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("run", options->run, "Name of the run")->required();
  command->add_option("--runs", options->runs, "Folder of the runs")->capture_default_str();
  command->add_option("--tasks", options->tasks, "Task file; default: the one of the run's config");
  command->add_option("--out", options->out, "File to write, JSONL")->required();
  command->add_option("--limit", options->limit, "Maximum number")->capture_default_str();
  command->add_flag("--heldout", options->heldout, "One task in five is kept back: only those");
  command->add_flag("--proved", options->proved,
                    "Answers that were proved or refuted as well, not only executed ones");
  command->add_flag("--demonstrations", options->demonstrations,
                    "Write prompts and answers to train with, for tidemill warmup");
  command->add_option("--template", options->form, "Template of these: compact or bare")
      ->check(CLI::IsMember({"compact", "bare"}))
      ->capture_default_str();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback([options, json, &exit] { exit.code = WriteAnswers(*options, *json); });
}

}  // namespace

void AddJudgeCommand(CLI::App& app, Exit& exit) {
  CLI::App* judge = app.add_subcommand("judge", "Check judges: models that score");
  judge->require_subcommand(1);
  auto words = std::make_shared<JudgeWords>();  // shared: the callbacks outlive this call
  CLI::App* check =
      judge->add_subcommand("check", "Ask a judge about labelled cases and compare its answers");
  check->add_option("file", words->file, "Cases, JSONL (docs/judges.md)")->required();
  check->add_option("--config", words->config, "Config with the [[judge]]")->required();
  check->add_option("--judge", words->judge, "Name of the judge; default: the first");
  AddSetOption(*check, words->sets, "Set a config key");
  check->add_flag("--json", words->json, "Print one JSON object on standard output");
  check->callback([words, &exit] { exit.code = CheckJudge(*words); });

  CLI::App* cases = judge->add_subcommand(
      "cases", "Write labelled cases whose answers are known because their programs were run");
  cases->add_option("--out", words->out, "File to write, JSONL")->required();
  cases->add_option("--count", words->cases.count, "Number of cases")->capture_default_str();
  cases->add_option("--seed", words->cases.seed, "Seed")->capture_default_str();
  cases->add_option("--misleading", words->cases.misleading, "Share of misleading cases")
      ->capture_default_str();
  cases
      ->add_option("--instructing", words->cases.instructing,
                   "Share of cases that try to instruct the judge")
      ->capture_default_str();
  cases->add_option("--task", words->cases.task, "next_state or process")
      ->check(CLI::IsMember({"next_state", "process"}))
      ->capture_default_str();
  cases->add_flag("--demonstrations", words->cases.demonstrations,
                  "Write prompts and answers to train a judge with the compact template");
  cases->add_flag("--json", words->json, "Print one JSON object on standard output");
  cases->callback([words, &exit] { exit.code = WriteCases(*words); });

  CLI::App* model = judge->add_subcommand(
      "model", "Write tokenizer and config of a small model to train as a judge, without weights");
  model->add_option("--out", words->out, "Output directory")->required();
  model->add_option("--width", words->shape.width, "Hidden size")->capture_default_str();
  model->add_option("--layers", words->shape.layers, "Layers")->capture_default_str();
  model->add_option("--heads", words->shape.heads, "Attention heads")->capture_default_str();
  model->add_option("--seed", words->cases.seed, "Seed")->capture_default_str();
  model->add_flag("--json", words->json, "Print one JSON object on standard output");
  model->callback([words, &exit] { exit.code = WriteModelFiles(*words); });

  AddAnswers(*judge, exit);
  CLI::App* status = judge->add_subcommand("status", "Show what judges and audits of a run did");
  status->add_option("run", words->run, "Name of the run")->required();
  status->add_option("--runs", words->runs, "Folder of the runs")->capture_default_str();
  status->add_flag("--json", words->json, "Print one JSON object on standard output");
  status->callback(
      [words, &exit] { exit.code = ShowJudges(words->runs, words->run, words->json); });
}

}  // namespace tidemill

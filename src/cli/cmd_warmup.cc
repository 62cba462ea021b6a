// tidemill warmup: supervised training from demonstrations, until the held-out loss stops falling.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands.h"
#include "core/blas.h"
#include "core/log.h"
#include "learner/torch/warmup.h"
#include "model/torch/device.h"
#include "run/stop_signal.h"

namespace tidemill {
namespace {

struct WarmupArguments {
  WarmupOptions options;
  std::string config;  // directory of a config.json to begin from nothing
  double minutes = 0;
  bool json = false;
};

bool ShowProgress(const WarmupProgress& progress) {
  std::fprintf(stderr,
               "%6.0f s  step %lu  epoch %lu  loss %.4f  held-out %.4f (best %.4f)  %.0f tok/s\n",
               progress.seconds, progress.step, progress.epoch, progress.train_loss,
               progress.held_out_loss, progress.best_held_out_loss, progress.tokens_per_second);
  return true;
}

int RunWarmupCommand(WarmupArguments& arguments) {
  WarmupOptions& options = arguments.options;
  options.max_seconds = arguments.minutes * 60;
  if (options.model.empty() == arguments.config.empty()) {
    return Fail(
        Invalid("give either --model (continue a model) or --from-config (train from scratch)"));
  }
  if (!arguments.config.empty()) {
    Result<ModelConfig> config = ReadModelConfig(arguments.config);
    if (!config.ok()) return Fail(config.status());
    options.config = *config;
    if (options.tokenizer.empty()) options.tokenizer = arguments.config;
  }
  if (const BlasInfo blas = CheckBlas(); !blas.warning.empty())
    LogWarn(blas.warning, {{"fix", blas.fix}});
  const Result<std::string> device = ResolveDevice(options.device);
  if (!device.ok()) return Fail(device.status().WithContext("--device"));
  options.device = *device;
  // A GPU is not filled by the few tokens a CPU is given at once.
  if (IsGpu(options.device)) options.microbatch_tokens = 32768;
  StopOnSignals(SecondSignal::kEndsProcess);
  options.stop = [asked = false]() mutable {
    if (AskedToStop() && !std::exchange(asked, true))
      LogInfo("finishing the update and saving; press Ctrl-C again to stop at once");
    return asked;
  };
  const Result<WarmupReport> report = RunWarmup(options, ShowProgress);
  if (!report.ok()) return Fail(report.status());
  if (report->unfinished) {
    std::fprintf(stderr, "interrupted after %lu updates; go on with the same words and --resume\n",
                 report->last.step);
    return kInterrupted;
  }
  if (options.patience > 0 && report->stopped == kStoppedByClock) {
    LogWarn("the time limit ended training before the held-out loss stopped falling",
            {{"minutes", arguments.minutes}, {"steps", report->last.step}});
  }
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"out", options.output},
                                         {"examples", report->examples},
                                         {"held_out", report->held_out},
                                         {"parameters", report->parameters},
                                         {"first_held_out_loss", report->first_held_out_loss},
                                         {"best_held_out_loss", report->best_held_out_loss},
                                         {"best_step", report->best_step},
                                         {"steps", report->last.step},
                                         {"seconds", report->last.seconds},
                                         {"tokens_per_second", report->last.tokens_per_second},
                                         {"stopped", report->stopped}};
    PrintJson(json);
    return 0;
  }
  std::printf(
      "%s: %lu parameters, %lu demonstrations; held-out loss %.4f after %lu steps, %.0f s (%s)\n",
      options.output.c_str(), report->parameters, report->examples, report->best_held_out_loss,
      report->best_step, report->last.seconds, report->stopped.c_str());
  return 0;
}

}  // namespace

void AddWarmupCommand(CLI::App& app, Exit& exit) {
  CLI::App* warmup = app.add_subcommand("warmup", "Supervised training from demonstrations");
  auto arguments = std::make_shared<WarmupArguments>();
  WarmupOptions& options = arguments->options;
  warmup
      ->add_option(
          "demonstrations", options.demonstrations,
          "Demonstrations (JSONL, or .zst), {\"prompt\":..,\"completion\":..} per line, or what "
          "`tidemill runs export` writes")
      ->required();
  warmup->add_option("--model", options.model, "Model directory to continue from");
  warmup->add_option("--from-config", arguments->config,
                     "Directory with config.json and tokenizer, to train from scratch");
  warmup->add_option("--tokenizer", options.tokenizer,
                     "Directory of tokenizer.json, if it is elsewhere");
  warmup->add_option("--out", options.output, "Model directory to create")->required();
  warmup->add_flag("--resume", options.resume,
                   "Continue the interrupted warmup to --out; give the same arguments");
  warmup->add_flag("--replace", options.replace,
                   "Replace the model at --out, and begin an interrupted warmup anew");
  warmup->add_option("--learning-rate", options.schedule.peak, "Peak learning rate")
      ->capture_default_str();
  warmup->add_option("--batch-tokens", options.batch_tokens, "Tokens per update")
      ->capture_default_str();
  warmup->add_option("--weight-decay", options.adamw.weight_decay, "AdamW weight decay")
      ->capture_default_str();
  warmup->add_option("--max-steps", options.max_steps, "Maximum number of updates")
      ->capture_default_str();
  warmup->add_option("--minutes", arguments->minutes, "Time limit in minutes; 0: no limit")
      ->capture_default_str();
  warmup
      ->add_option("--patience", options.patience,
                   "Evaluations without improvement before it stops; 0: never stop")
      ->capture_default_str();
  warmup
      ->add_option("--cuts", options.cuts,
                   "How often it continues from the best weights at a fifth of the learning rate "
                   "before it stops")
      ->capture_default_str();
  warmup->add_flag("--keep-last", options.keep_last,
                   "Write the last weights instead of those with the lowest held-out loss");
  warmup
      ->add_option("--evaluate-every", options.evaluate_every_steps, "Updates between evaluations")
      ->capture_default_str();
  warmup
      ->add_option("--held-out", options.held_out_fraction, "Share of the demonstrations held out")
      ->capture_default_str();
  warmup->add_option("--seed", options.seed, "Random seed of initial weights and order")
      ->capture_default_str();
  warmup->add_option("--threads", options.threads, "Threads of libtorch")->capture_default_str();
  options.device = "auto";
  warmup->add_option("--device", options.device, "cpu, cuda, cuda:N; auto: a GPU if there is one")
      ->capture_default_str();
  warmup->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  warmup->callback([arguments, &exit] { exit.code = RunWarmupCommand(*arguments); });
}

}  // namespace tidemill

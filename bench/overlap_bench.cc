#include "bench/overlap_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kGroup = 8;
// Larger batches get larger steps, as their gradients are less noisy: the root of the ratio.
constexpr double kRate = 3e-4;
constexpr double kRateBatch = 256;
// Settings of the sweep whose pass rate is lower than the best by more than this learn less.
constexpr double kAsGood = 0.03;

// Waiting added to every call of the agent: median and the longest (one call in a thousand).
struct Mix {
  const char* name;
  int median_ms, tail_ms;
};
constexpr Mix kMixes[] = {{"none", 0, 0}, {"200ms", 200, 5000}, {"1s", 1000, 30000}};

Result<Mix> FindMix(const std::string& name) {
  for (const Mix& mix : kMixes) {
    if (name == mix.name) return mix;
  }
  return Invalid("no mix \"" + name + "\"; there are none, 200ms and 1s");
}

// The sweep: sync with more and more episodes a step, async with more and more at once.
std::vector<OverlapSetting> Sweep(const std::string& mode) {
  if (mode == "sync") {
    return {{mode, 256, 256}, {mode, 512, 512}, {mode, 1024, 1024}};
  }
  return {{mode, 256, 256}, {mode, 256, 512}, {mode, 256, 1024}, {mode, 256, 2048}};
}

// Its output goes to `log`. The exit status, or -1.
int RunProcess(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Overlap {
 public:
  explicit Overlap(const OverlapOptions& options) : options_(options) {}

  Result<OverlapReport> Run();

 private:
  std::string At(const std::string& name) const { return options_.folder + "/" + name; }
  Status Call(std::vector<std::string> words, const std::string& log);
  Status Prepare();
  Status WriteConfig();
  Result<OverlapRun> Train(const OverlapSetting& setting, const Mix& mix, uint64_t seed);
  // Of this mode's settings in this mix.
  Result<OverlapSetting> Best(const Mix& mix, const std::string& mode);

  const OverlapOptions& options_;
  std::string model_;
  OverlapReport report_;
  int runs_ = 0;
};

Status Overlap::Call(std::vector<std::string> words, const std::string& log) {
  words.insert(words.begin(), options_.program);
  const int code = RunProcess(words, At(log));
  if (code == 0) return Ok();
  return Unavailable(
      fmt::format("tidemill {} ended with {}; its output is in {}", words[1], code, At(log)));
}

Status Overlap::Prepare() {
  std::error_code error;
  if (std::filesystem::exists(options_.folder)) {
    return Invalid(options_.folder + ": exists already");
  }
  std::filesystem::create_directories(options_.folder, error);
  if (error) return Unavailable(options_.folder + ": cannot be made: " + error.message());
  auto generate = [&](const char* count, const char* seed, const char* split, const char* out) {
    return Call({"tasks", "generate", "--family", "cfunc", "--count", count, "--seed", seed,
                 "--split", split, "--out", At(out), "--with-solutions", At("demos.jsonl"),
                 "--slips", "0.2", "--second-turns", "0.2"},
                "tasks.log");
  };
  TM_RETURN_IF_ERROR(generate("7000", "2", "train", "train.jsonl"));
  TM_RETURN_IF_ERROR(
      generate(std::to_string(options_.eval_tasks).c_str(), "3", "heldout", "eval.jsonl"));
  model_ = options_.model;
  if (!model_.empty()) return WriteConfig();
  std::fprintf(stderr, "warming up a policy\n");
  TM_RETURN_IF_ERROR(generate("5000", "1", "train", "demonstrated.jsonl"));
  TM_RETURN_IF_ERROR(
      Call({"tasks", "model", "--family", "cfunc", "--out", At("shape")}, "shape.log"));
  model_ = At("policy");
  TM_RETURN_IF_ERROR(
      Call({"warmup", At("demos.jsonl"), "--from-config", At("shape"), "--out", model_, "--replace",
            "--batch-tokens", "2048", "--weight-decay", "1.5", "--evaluate-every", "100",
            "--patience", "3", "--cuts", "1", "--minutes", "2"},
           "warmup.log"));
  return WriteConfig();
}

// Zero-variance groups stay in the batches: a step is then the same number of episodes in every
// mode, and sync does not have to generate a second time for what was dropped.
Status Overlap::WriteConfig() {
  std::ofstream file(At("overlap.toml"));
  file << "[model]\npath = \"" << std::filesystem::absolute(model_).string() << "\"\n"
       << "protocol = \"compact\"\n[tasks]\ntrain = \"" << At("train.jsonl") << "\"\neval = \""
       << At("eval.jsonl") << "\"\n[run]\nfolder = \"" << At("runs") << "\"\n"
       << "[rollout]\ngroup_size = " << kGroup << "\nmax_turns = 2\nmax_turn_tokens = 24\n"
       << "[replay]\ndrop_zero_variance = false\n"
       << "[learner]\nobjective = \"grpo\"\nwarmup_steps = 2\n"
       << "checkpoint_every_steps = 0\n[reward]\nall_or_nothing = true\nturn_discount = 0.3\n"
       << "[eval]\nbefore = false\nsamples = 4\nmax_turns = 1\n";
  if (!options_.config.empty()) {
    std::ifstream more(options_.config);
    if (!more) return Invalid(options_.config + ": cannot be read");
    file << more.rdbuf();
  }
  file.close();
  return file.good() ? Ok() : Unavailable(At("overlap.toml") + ": cannot be written");
}

// From the run's metrics: what had been done when the last step ended.
Status ReadMetrics(const std::string& folder, OverlapRun& run) {
  std::ifstream lines(folder + "/metrics.jsonl");
  Json before, tick;
  double first_ms = 0, last_step_ms = 0, lag = 0, ess = 0, steps = 0;
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const double time = json.value("time_ms", 0.0);
    if (json.value("kind", "") == "step") {
      last_step_ms = time;
      lag += json.value("lag_mean", 0.0);
      ess += json.value("ess", 0.0);
      ++steps;
      tick = Json();
    } else if (json.value("kind", "") == "tick") {
      if (first_ms == 0) first_ms = time - 1000 * json.value("seconds", 0.0);
      if (tick.is_null()) tick = json;  // the first after the newest step
      before = std::move(json);
    }
  }
  if (tick.is_null()) tick = before;
  if (steps == 0 || tick.is_null()) return Unavailable(folder + ": its metrics show no step");
  run.seconds = (last_step_ms - first_ms) / 1000;
  const double seconds = tick.value("seconds", 0.0);
  run.episodes_per_s = tick.value("scored", 0.0) / seconds;
  run.tokens_per_s = tick.value("generated_tokens", 0.0) / seconds;
  run.lag = lag / steps;
  run.ess = ess / steps;
  Json busy;
  for (const auto& [key, value] : tick.items()) {
    if (key.rfind("busy_", 0) != 0) continue;
    busy[key.substr(5)] = std::round(value.get<double>() * 1000) / 1000;
    if (key.rfind("busy_port_", 0) == 0 && value.get<double>() > run.busiest_share) {
      run.busiest = key.substr(10);
      run.busiest_share = value.get<double>();
    }
  }
  run.busy_json = busy.dump();
  return Ok();
}

Result<OverlapRun> Overlap::Train(const OverlapSetting& setting, const Mix& mix, uint64_t seed) {
  OverlapRun run;
  run.setting = setting;
  run.mix = mix.name;
  run.seed = seed;
  const std::string name = fmt::format("run-{}", ++runs_);
  const uint64_t ahead =
      setting.mode == "async" ? std::max<uint64_t>(1, setting.in_flight / setting.batch) : 1;
  std::vector<std::string> words = {"--log-level",      "warn",   "train",
                                    At("overlap.toml"), "--mode", setting.mode};
  const std::pair<const char*, std::string> keys[] = {
      {"run.name", name},
      {"run.seed", std::to_string(seed)},
      {"run.steps", std::to_string(std::max<uint64_t>(1, options_.episodes / setting.batch))},
      {"rollout.groups_per_step", std::to_string(setting.batch / kGroup)},
      {"learner.learning_rate",
       fmt::format("{:.6f}", kRate * std::sqrt(static_cast<double>(setting.batch) / kRateBatch))},
      {"rollout.max_in_flight", std::to_string(setting.in_flight)},
      {"staleness.max_steps", std::to_string(ahead)},
      {"staleness.hard_max_steps", std::to_string(4 * ahead + 4)},
      {"tools.wait", fmt::format("{}ms", mix.median_ms)},
      {"tools.wait_tail", fmt::format("{}ms", mix.tail_ms)}};
  for (const auto& [key, value] : keys) {
    words.push_back("--set");
    words.push_back(std::string(key) + "=" + value);
  }
  for (const std::string& set : options_.sets) {
    words.push_back("--set");
    words.push_back(set);
  }
  TM_RETURN_IF_ERROR(Call(words, name + ".log"));
  const std::string folder = At("runs/" + name);
  TM_RETURN_IF_ERROR(ReadMetrics(folder, run));
  std::ifstream file(folder + "/summary.json");
  const Json summary = Json::parse(file, nullptr, false);
  if (!summary.is_object() || !summary["eval"].contains("after")) {
    return Unavailable(folder + "/summary.json has no evaluation");
  }
  run.pass_rate = summary["eval"]["after"].value("pass_rate", 0.0);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::fprintf(
      stderr,
      "  %-5s %-8s batch %-5lu at once %-5lu seed %lu: %.1f episodes/s in %.0f s, pass rate %.3f\n",
      mix.name, setting.mode.c_str(), setting.batch, setting.in_flight, seed, run.episodes_per_s,
      run.seconds, run.pass_rate);
  return run;
}

Result<OverlapSetting> Overlap::Best(const Mix& mix, const std::string& mode) {
  std::vector<OverlapSetting> settings;
  for (const OverlapSetting& setting : options_.settings) {
    if (setting.mode == mode) settings.push_back(setting);
  }
  if (settings.size() == 1) return settings.front();
  if (settings.empty()) settings = Sweep(mode);
  std::vector<OverlapRun> runs;
  double pass_rate = 0;
  for (const OverlapSetting& setting : settings) {
    TM_ASSIGN_OR_RETURN(OverlapRun run, Train(setting, mix, options_.seeds[0]));
    pass_rate = std::max(pass_rate, run.pass_rate);
    runs.push_back(std::move(run));
  }
  const OverlapRun* best = nullptr;
  for (const OverlapRun& run : runs) {
    if (run.pass_rate < pass_rate - kAsGood) continue;
    if (best == nullptr || run.episodes_per_s > best->episodes_per_s) best = &run;
  }
  report_.sweep.insert(report_.sweep.end(), runs.begin(), runs.end());
  return best->setting;
}

Result<OverlapReport> Overlap::Run() {
  std::vector<Mix> mixes;
  for (const std::string& name : options_.mixes) {
    TM_ASSIGN_OR_RETURN(const Mix mix, FindMix(name));
    mixes.push_back(mix);
  }
  if (mixes.empty() || options_.seeds.empty()) return Invalid("a mix and a seed are needed");
  for (const std::string& mode : options_.modes) {
    if (mode != "sync" && mode != "one-step" && mode != "async") {
      return Invalid("no mode \"" + mode + "\": there are sync, one-step and async");
    }
  }
  const auto wanted = [&](const char* mode) {
    return std::find(options_.modes.begin(), options_.modes.end(), mode) != options_.modes.end();
  };
  TM_RETURN_IF_ERROR(Prepare());
  for (const Mix& mix : mixes) {
    std::vector<OverlapSetting> settings;
    if (wanted("sync") || wanted("one-step")) {
      TM_ASSIGN_OR_RETURN(const OverlapSetting sync, Best(mix, "sync"));
      if (wanted("sync")) settings.push_back(sync);
      // Trains on the batch before while the next is made: twice as many at once.
      if (wanted("one-step")) settings.push_back({"one-step", sync.batch, 2 * sync.batch});
    }
    if (wanted("async")) {
      TM_ASSIGN_OR_RETURN(const OverlapSetting async, Best(mix, "async"));
      settings.push_back(async);
    }
    for (const uint64_t seed : options_.seeds) {
      for (const OverlapSetting& setting : settings) {
        // The sweep's own runs count.
        const auto known =
            std::find_if(report_.sweep.begin(), report_.sweep.end(), [&](const OverlapRun& run) {
              return run.mix == mix.name && run.seed == seed && run.setting == setting;
            });
        if (known != report_.sweep.end()) {
          report_.runs.push_back(*known);
          continue;
        }
        TM_ASSIGN_OR_RETURN(OverlapRun run, Train(setting, mix, seed));
        report_.runs.push_back(std::move(run));
      }
    }
  }
  return report_;
}

// The same setting over all seeds.
struct Row {
  OverlapRun mean;
  double lowest = 1, highest = 0;  // pass rate
  double count = 0;
};

std::vector<Row> RowsOf(const std::vector<OverlapRun>& runs) {
  std::vector<Row> rows;
  for (const OverlapRun& run : runs) {
    auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
      return row.mean.mix == run.mix && row.mean.setting.mode == run.setting.mode;
    });
    if (it == rows.end()) {
      it = rows.insert(rows.end(), Row{.mean = run});
      it->count = 1;
    } else {
      ++it->count;
      // A running mean of everything measured.
      auto add = [&](double OverlapRun::*field) {
        it->mean.*field += (run.*field - it->mean.*field) / it->count;
      };
      for (auto field : {&OverlapRun::seconds, &OverlapRun::episodes_per_s,
                         &OverlapRun::tokens_per_s, &OverlapRun::lag, &OverlapRun::ess,
                         &OverlapRun::pass_rate, &OverlapRun::busiest_share}) {
        add(field);
      }
    }
    it->lowest = std::min(it->lowest, run.pass_rate);
    it->highest = std::max(it->highest, run.pass_rate);
  }
  return rows;
}

// Episodes a second if the busiest port had never waited.
double Bound(const OverlapRun& run) {
  return run.busiest_share > 0 ? run.episodes_per_s / run.busiest_share : 0;
}

Json RunJson(const OverlapRun& run) {
  return {{"mix", run.mix},
          {"mode", run.setting.mode},
          {"batch", run.setting.batch},
          {"in_flight", run.setting.in_flight},
          {"seed", run.seed},
          {"seconds", run.seconds},
          {"episodes_per_s", run.episodes_per_s},
          {"tokens_per_s", run.tokens_per_s},
          {"bound_episodes_per_s", Bound(run)},
          {"lag", run.lag},
          {"ess", run.ess},
          {"pass_rate", run.pass_rate},
          {"busiest", run.busiest},
          {"busiest_share", run.busiest_share},
          {"busy", Json::parse(run.busy_json)}};
}

}  // namespace

Result<OverlapReport> RunOverlapBench(const OverlapOptions& options) {
  return Overlap(options).Run();
}

std::string OverlapReport::ToJson() const {
  Json json;
  for (const OverlapRun& run : sweep) json["sweep"].push_back(RunJson(run));
  for (const OverlapRun& run : runs) json["runs"].push_back(RunJson(run));
  return json.dump();
}

std::string OverlapReport::ToText() const {
  std::string text =
      "waiting  mode      batch  at once  episodes/s  by sync  bound  busiest     tokens/s"
      "   lag   ESS  pass rate\n";
  const std::vector<Row> rows = RowsOf(runs);
  for (const Row& row : rows) {
    const OverlapRun& run = row.mean;
    double sync = 0;
    for (const Row& other : rows) {
      if (other.mean.mix == run.mix && other.mean.setting.mode == "sync") {
        sync = other.mean.episodes_per_s;
      }
    }
    text += fmt::format(
        "{:<8} {:<9} {:>5} {:>8} {:>11.1f} {:>8.2f} {:>6.0f}  {:<7}{:>3.0f}% {:>9.0f} "
        "{:>5.2f} {:>5.2f}  {:.1f} % ({:.1f} to {:.1f})\n",
        run.mix, run.setting.mode, run.setting.batch, run.setting.in_flight, run.episodes_per_s,
        sync > 0 ? run.episodes_per_s / sync : 0, Bound(run), run.busiest, 100 * run.busiest_share,
        run.tokens_per_s, run.lag, run.ess, 100 * run.pass_rate, 100 * row.lowest,
        100 * row.highest);
  }
  text += "\nsweep, first seed: episodes a second and what was learned\n";
  for (const OverlapRun& run : sweep) {
    text += fmt::format("  {:<6} {:<6} batch {:>4}, {:>4} at once: {:.1f}, pass rate {:.1f} %\n",
                        run.mix, run.setting.mode, run.setting.batch, run.setting.in_flight,
                        run.episodes_per_s, 100 * run.pass_rate);
  }
  return text;
}

}  // namespace tidemill

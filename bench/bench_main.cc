// tidemill-bench, which `tidemill bench` becomes: speed, as ratios against a peer or a limit
// measured in the same run.
#include <cstdio>
#include <filesystem>

#include "bench/allreduce_bench.h"
#include "bench/bench_options.h"
#include "bench/bench_words.h"
#include "bench/engine_bench.h"
#include "bench/int8_bench.h"
#include "bench/learner_bench.h"
#include "bench/proof_bench.h"
#include "bench/publish_bench.h"
#include "bench/remote_bench.h"
#include "bench/sandbox_bench.h"
#include "cli/program.h"
#include "core/shipped_files.h"

namespace tidemill {
namespace {

// Prints a report as text or JSON; 1 where it missed a bound.
template <typename Report>
int Print(const Result<Report>& report, bool json, bool (*holds)(const Report& report) = nullptr) {
  if (!report.ok()) return Fail(report.status());
  std::printf("%s\n", (json ? report->ToJson() : report->ToText()).c_str());
  return holds == nullptr || holds(*report) ? 0 : 1;
}

template <typename Report>
bool Holds(const Report& report) {
  return report.Holds();
}

template <typename Report>
bool MissesNothing(const Report& report) {
  return report.Misses().empty();
}

// "async:256:1024"
Result<OverlapSetting> ParseSetting(const std::string& text) {
  OverlapSetting setting;
  char mode[9] = {};
  int end = 0;
  const int read = std::sscanf(text.c_str(), "%8[a-z]:%lu:%lu%n", mode, &setting.batch,
                               &setting.in_flight, &end);
  setting.mode = mode;
  if (read != 3 || end != static_cast<int>(text.size()) || setting.batch < 8 ||
      setting.batch % 8 != 0 || setting.in_flight < setting.batch ||
      (setting.mode != "sync" && setting.mode != "async")) {
    return Invalid("--settings: \"" + text +
                   "\" must be MODE:BATCH:IN_FLIGHT with mode sync or async and a batch that is a "
                   "multiple of 8, like async:256:1024");
  }
  return setting;
}

int RunOverlap(const BenchWords& words) {
  if (words.waiting.eager || words.waiting.background) {
    return Print(RunWaitingBench(words.waiting), words.json, MissesNothing);
  }
  OverlapOptions options = words.overlap;
  for (const std::string& text : words.settings) {
    const Result<OverlapSetting> setting = ParseSetting(text);
    if (!setting.ok()) return Fail(setting.status());
    options.settings.push_back(*setting);
  }
  options.program = MainProgram();
  options.folder = std::filesystem::absolute(options.folder).string();
  return Print(RunOverlapBench(options), words.json);
}

int RunMemory(const BenchWords& words) {
  Result<MemoryBenchReport> report = RunMemoryBench(words.memory);
  if (report.ok() && words.searched > 0) report->searches = MeasureSearches(words.searched, 1000);
  return Print(report, words.json, MissesNothing);
}

struct Bench {
  const char* name;
  int (*run)(const BenchWords& words);
};

constexpr Bench kBenches[] = {
    {"bus", [](const BenchWords& w) { return Print(RunBusBench(w.bus), w.json); }},
    {"store", [](const BenchWords& w) { return Print(RunStoreBench(w.store), w.json); }},
    {"sandbox",
     [](const BenchWords& w) {
       return Print<SandboxBenchReport>(RunSandboxBench({}), w.json,
                                        [](const auto& report) { return report.Clean(); });
     }},
    {"proof", [](const BenchWords& w) { return Print(RunProofBench({}), w.json, Holds); }},
    {"learner", [](const BenchWords& w) { return Print(RunLearnerBench({}), w.json); }},
    {"allreduce", [](const BenchWords& w) { return Print(RunAllreduceBench({}), w.json); }},
    {"publish", [](const BenchWords& w) { return Print(RunPublishBench(w.publish), w.json); }},
    {"engine", [](const BenchWords& w) { return Print(RunEngineBench({}), w.json); }},
    {"int8", [](const BenchWords& w) { return Print(RunInt8Bench({}), w.json); }},
    {"remote", [](const BenchWords& w) { return Print(RunRemoteBench({}), w.json, Holds); }},
    {"overlap", RunOverlap},
    {"gateway",
     [](const BenchWords& w) { return Print(RunGatewayBench(w.gateway), w.json, MissesNothing); }},
    {"gateway-load",
     [](const BenchWords& w) { return Print(RunGatewayLoad(w.load), w.json, MissesNothing); }},
    {"agents", [](const BenchWords& w) { return Print(RunAgentsBench(w.agents), w.json, Holds); }},
    {"memory", RunMemory},
    {"disk", [](const BenchWords& w) { return Print(RunDiskBench(w.disk), w.json); }},
    {"tokenizer",
     [](const BenchWords& w) { return Print(RunTokenizerBench(w.tokenizer), w.json); }},
    {"constraint",
     [](const BenchWords& w) { return Print(RunConstraintBench(w.constraint), w.json, Holds); }},
};

int RunBench(const BenchWords& words) {
  for (const Bench& bench : kBenches) {
    if (words.name == bench.name) return bench.run(words);
  }
  return Fail(Internal("the benchmark " + words.name + " is declared and not there"));
}

void AddCommands(CLI::App& app, Exit& exit) {
  AddBenchWords(app, [&exit](const BenchWords& words) { exit.code = RunBench(words); });
}

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  return tidemill::RunProgram(argc, argv, tidemill::AddCommands);
}

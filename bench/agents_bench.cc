#include "bench/agents_bench.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "agents/agent_runner.h"
#include "gateway/plain_recorder.h"
#include "rollout/episode.h"
#include "testing/expression_fixture.h"
#include "tools/tool_executor.h"

namespace tidemill {
namespace {

constexpr Duration kBenchLimit = std::chrono::minutes(10);
constexpr double kCoresPerProgram = 0.05 / 500;

// Takes every request and answers none.
class SilentEngine final : public EnginePort {
 public:
  void Start(SequenceStart) override { ++started; }
  void Continue(SequenceId, std::vector<TokenId>, TurnParams) override {}
  void Release(SequenceId) override {}
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  uint64_t version() const override { return 1; }
  EngineStats Stats() const override { return {}; }

  std::atomic<uint64_t> started{0};

 private:
  Mailbox<EngineEvent> events_{1};
  TurnFeed feed_;
};

// CPU seconds and resident bytes of a process and all below it, by /proc.
struct Use {
  double seconds = 0;
  double bytes = 0;
};
Use UseOfTree(pid_t root) {
  struct Process {
    int parent = 0;
    double ticks = 0, pages = 0;
  };
  std::map<int, Process> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream fields(text.substr(name_end + 2));
    std::vector<std::string> words;
    for (std::string word; fields >> word;) words.push_back(word);
    if (words.size() < 22) continue;
    const int pid = std::atoi(text.c_str());
    // utime and stime are fields 14 and 15, rss 24; the first of `words` is field 3.
    processes[pid] = {std::atoi(words[1].c_str()),
                      std::atof(words[11].c_str()) + std::atof(words[12].c_str()),
                      std::atof(words[21].c_str())};
  }
  Use use;
  for (const auto& [pid, process] : processes) {
    int at = pid;
    for (int depth = 0; depth < 64 && at != root && processes.count(at) != 0; ++depth) {
      at = processes[at].parent;
    }
    if (at != root) continue;
    use.seconds += process.ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    use.bytes += process.pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return use;
}

// Of this process and of what it has waited for: boxes that are gone.
double CpuSeconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    sum += static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  }
  return sum;
}

// A gateway with agents behind it, over any engine.
struct Served {
  static Result<std::unique_ptr<Served>> Make(const ServedPolicy& policy, EnginePort& engine,
                                              const AgentProgram& program, size_t slots,
                                              const Clock& clock) {
    auto served = std::make_unique<Served>();
    served->recorder = std::make_unique<EpisodeRecorder>(policy, clock, slots,
                                                         std::make_unique<PlainRecorder>(policy));
    served->loops.Add(*served->recorder);
    TM_RETURN_IF_ERROR(served->loops.Start());
    GatewayOptions options;
    options.plan.context_tokens = kExpressionContext;
    TM_ASSIGN_OR_RETURN(served->gateway, Gateway::Start(options, policy, engine, *served->recorder,
                                                        clock, served->metrics));
    AgentRunnerOptions agents;
    agents.program = program;
    agents.slots = slots;
    TM_ASSIGN_OR_RETURN(served->agents, AgentRunner::Create(agents, *served->gateway,
                                                            *served->recorder, nullptr, clock));
    return served;
  }

  Metrics metrics;
  std::unique_ptr<EpisodeRecorder> recorder;
  LoopRunner loops;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<AgentRunner> agents;
};

class AgentsBench {
 public:
  explicit AgentsBench(const AgentsBenchOptions& options) : options_(options) {}

  Result<AgentsBenchReport> Run() {
    TM_RETURN_IF_ERROR(Prepare());
    const auto leases = ExpressionLeases(options_.tasks);
    {
      TM_ASSIGN_OR_RETURN(const auto tools, ToolExecutor::Create({}, nullptr, clock_));
      const auto engine = NewExpressionEngine(*policy_, *channel_, clock_);
      TM_ASSIGN_OR_RETURN(report_.protocol, Measure(leases, *engine, nullptr, tools.get()));
    }
    {
      const auto engine = NewExpressionEngine(*policy_, *channel_, clock_);
      TM_ASSIGN_OR_RETURN(const auto served, Served::Make(*policy_, *engine, program_, 4, clock_));
      TM_ASSIGN_OR_RETURN(report_.program, Measure(leases, *engine, served->agents.get(), nullptr));
    }
    TM_RETURN_IF_ERROR(MeasureStart());
    if (options_.waiting > 0) TM_RETURN_IF_ERROR(MeasureWaiting());
    return report_;
  }

 private:
  Status Prepare() {
    char name[] = "/tmp/tidemill-agents-bench-XXXXXX";
    if (mkdtemp(name) == nullptr) return Unavailable("no folder in /tmp can be made");
    folder_ = name;
    TM_RETURN_IF_ERROR(WriteFamilyModel("cfunc", {}, folder_).status());
    TM_ASSIGN_OR_RETURN(ServedPolicy policy, ReadServedPolicy(folder_));
    policy_ = std::make_unique<ServedPolicy>(std::move(policy));
    TM_ASSIGN_OR_RETURN(protocol_, NewCompactProtocol(policy_->tokenizer));
    std::error_code error;
    const std::string agent = std::filesystem::absolute(options_.agent, error).string();
    if (!std::filesystem::exists(agent, error)) {
      return NotFound("there is no " + agent + " (--agent names the example agent)");
    }
    program_.command = {"/usr/bin/python3", "/agent/agent.py"};
    program_.mounts = {{agent, "/agent/agent.py"}};
    program_.limits.wall = program_.limits.cpu = std::chrono::minutes(10);
    program_.model = "policy";
    return Ok();
  }

  Result<AgentsBenchReport::Path> Measure(const std::vector<v1::GroupLease>& leases,
                                          EnginePort& engine, AgentPort* agents, ToolPort* tools) {
    const double cpu = CpuSeconds();
    const Time begin = clock_.Now();
    const auto trajectories =
        RollOut(leases, *protocol_, engine, agents, tools, clock_, kBenchLimit);
    const double seconds = Seconds(clock_.Now() - begin);
    AgentsBenchReport::Path path;
    for (const auto& [name, trajectory] : trajectories) {
      if (!trajectory.stale_cause().empty()) return Unavailable(trajectory.stale_cause());
      path.turns += static_cast<uint64_t>(trajectory.turns_size());
    }
    if (trajectories.size() != 2 * leases.size()) return Timeout("episodes did not end");
    path.episodes_per_s = static_cast<double>(trajectories.size()) / seconds;
    path.cpu_ms_per_turn =
        1e3 * (CpuSeconds() - cpu) / static_cast<double>(std::max<uint64_t>(1, path.turns));
    return path;
  }

  AgentJob Job(uint32_t member) const {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease = ExpressionLeases(1)[0];
    return {group, member};
  }

  Status Await(const std::function<bool()>& holds) const {
    const Time end = clock_.Now() + kBenchLimit;
    while (!holds()) {
      if (clock_.Now() > end) return Timeout("the programs do not come to ask the model");
      std::this_thread::sleep_for(milliseconds(1));
    }
    return Ok();
  }

  Status MeasureStart() {
    SilentEngine engine;
    TM_ASSIGN_OR_RETURN(const auto served, Served::Make(*policy_, engine, program_, 16, clock_));
    std::vector<double> times;
    for (uint64_t i = 1; i <= 9; ++i) {
      std::this_thread::sleep_for(milliseconds(50));  // the pool fills
      const Time begin = clock_.Now();
      served->agents->Start(Job(static_cast<uint32_t>(i)), i);
      TM_RETURN_IF_ERROR(Await([&] { return engine.started >= i; }));
      times.push_back(Milliseconds(clock_.Now() - begin));
    }
    std::sort(times.begin(), times.end());
    report_.start_ms = times[times.size() / 2];
    return Ok();
  }

  Status MeasureWaiting() {
    SilentEngine engine;
    TM_ASSIGN_OR_RETURN(const auto served,
                        Served::Make(*policy_, engine, program_, options_.waiting, clock_));
    for (uint64_t i = 1; i <= options_.waiting; ++i) {
      served->agents->Start(Job(static_cast<uint32_t>(i)), i);
      // Not all at once: starting is not what is measured.
      TM_RETURN_IF_ERROR(Await([&] { return engine.started + 8 > i; }));
    }
    TM_RETURN_IF_ERROR(Await([&] { return engine.started >= options_.waiting; }));
    const Use before = UseOfTree(getpid());
    const Time begin = clock_.Now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.seconds));
    const Use after = UseOfTree(getpid());
    report_.waiting = options_.waiting;
    report_.waiting_cores = (after.seconds - before.seconds) / Seconds(clock_.Now() - begin);
    report_.waiting_mb =
        after.bytes / static_cast<double>(options_.waiting) / static_cast<double>(1 << 20);
    report_.waiting_cores_max = kCoresPerProgram * static_cast<double>(options_.waiting);
    return Ok();
  }

 public:
  ~AgentsBench() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }

 private:
  const AgentsBenchOptions options_;
  const RealClock clock_;
  AgentsBenchReport report_;
  std::string folder_;
  std::unique_ptr<ServedPolicy> policy_;
  std::unique_ptr<AgentProtocol> protocol_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  AgentProgram program_;
};

}  // namespace

Result<AgentsBenchReport> RunAgentsBench(const AgentsBenchOptions& options) {
  return AgentsBench(options).Run();
}

std::string AgentsBenchReport::ToText() const {
  std::string text = fmt::format(
      "the protocol   {:.1f} episodes/s, {:.1f} ms CPU a turn ({} turns)\n"
      "the program    {:.1f} episodes/s, {:.1f} ms CPU a turn ({} turns)\n"
      "start          {:.0f} ms from a job to the program's first request\n",
      protocol.episodes_per_s, protocol.cpu_ms_per_turn, protocol.turns, program.episodes_per_s,
      program.cpu_ms_per_turn, program.turns, start_ms);
  if (waiting == 0) return text;
  return text + fmt::format(
                    "waiting        {} programs take {:.3f} cores (at most {:.3f}) and {:.1f} MB "
                    "each\n{}",
                    waiting, waiting_cores, waiting_cores_max, waiting_mb,
                    Holds() ? "the bound holds" : "THE BOUND DOES NOT HOLD");
}

std::string AgentsBenchReport::ToJson() const {
  const auto path = [](const Path& one) {
    return nlohmann::ordered_json{{"episodes_per_s", one.episodes_per_s},
                                  {"cpu_ms_per_turn", one.cpu_ms_per_turn},
                                  {"turns", one.turns}};
  };
  const nlohmann::ordered_json out = {
      {"protocol", path(protocol)},     {"program", path(program)},
      {"start_ms", start_ms},           {"waiting", waiting},
      {"waiting_cores", waiting_cores}, {"waiting_cores_max", waiting_cores_max},
      {"waiting_mb", waiting_mb},       {"holds", Holds()}};
  return out.dump();
}

}  // namespace tidemill

#include "bench/sandbox_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tools/box/box_host.h"
#include "tools/box/box_pool.h"
#include "tools/box/kept_boxes.h"
#include "tools/tool_runner.h"

namespace tidemill {
namespace {

using SteadyClock = std::chrono::steady_clock;
const std::vector<std::string> kCommand = {"/bin/true"};

double MedianMs(size_t samples, const std::function<void()>& before,
                const std::function<void()>& timed) {
  std::vector<double> times;
  for (size_t i = 0; i < samples; ++i) {
    if (before) before();
    const auto start = SteadyClock::now();
    timed();
    times.push_back(Milliseconds(SteadyClock::now() - start));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(samples / 2), times.end());
  return times[samples / 2];
}

// How often `once(thread)` is done in a second by `at_once` threads.
double PerSecond(size_t at_once, double seconds, const std::function<void(size_t)>& once) {
  std::atomic<uint64_t> done{0};
  std::vector<std::thread> threads;
  const auto start = SteadyClock::now();
  const auto end =
      start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  for (size_t i = 0; i < at_once; ++i) {
    threads.emplace_back([&, i] {
      while (SteadyClock::now() < end) {
        once(i);
        done.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(done.load()) / Seconds(SteadyClock::now() - start);
}

bool Spawn(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char* environment[] = {nullptr};
  pid_t pid = -1;
  if (posix_spawn(&pid, arguments[0], nullptr, nullptr, arguments.data(), environment) != 0) {
    return false;
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

RunReport RunTrue(Box& box) {
  RunSpec spec;
  spec.command = kCommand;
  return box.Run(spec);
}

size_t CountLines(const char* path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

size_t CountChildren() {
  size_t children = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (std::string pid; file >> pid;) ++children;
  }
  return children;
}

Leftovers Count(const BoxHost& host) {
  Leftovers now;
  now.processes = static_cast<long>(CountChildren());
  now.mounts = static_cast<long>(CountLines("/proc/self/mountinfo"));
  const std::string ours = fmt::format("tidemill-{}-", getpid());
  for (const std::string& folder : host.CgroupFolders()) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with(ours)) ++now.cgroups;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++now.files;
  }
  return now;
}

v1::ToolRequest GradeRequest() {
  v1::ToolRequest request;
  request.set_tool("grade");
  const auto add = [](v1::File* file, const char* path, const char* content) {
    file->set_path(path);
    file->set_content(content);
    file->set_has_content(true);
  };
  add(request.mutable_tree()->add_files(), "solution.c", "int f(int x) { return x * x + 1; }\n");
  v1::Grading& grading = *request.mutable_grading();
  grading.add_sources("solution.c");
  add(grading.add_harness(), "main.c",
      "#include <stdio.h>\nint f(int x);\nint main(void) {\n  int x;\n"
      "  while (scanf(\"%d\", &x) == 1) {\n    printf(\"%d\\n\", f(x));\n    fflush(stdout);\n  }\n"
      "  return 0;\n}\n");
  for (const char* word : {"tcc", "solution.c", "-run", "main.c"}) grading.add_run(word);
  grading.set_mode(v1::Grading::MODE_LINES);
  for (int i = 0; i < 8; ++i) {
    v1::TestCase* test = grading.add_cases();
    test->set_input(std::to_string(i));
    test->set_expected(std::to_string(i * i + 1));
  }
  return request;
}

class Bench {
 public:
  Bench(const SandboxBenchOptions& options, BoxHost& host)
      : options_(options), host_(host), pool_(host, options.pool) {
    pool_.WaitUntilFull();
    report_.limits = host.Describe();
  }

  Status Run() {
    Latencies();
    Rates();
    LeakCheck();
    return failed_ == 0 ? Ok()
                        : Unavailable(fmt::format("{} of the commands failed", failed_.load()));
  }
  SandboxBenchReport& report() { return report_; }

 private:
  void Expect(bool ok) { failed_ += ok ? 0 : 1; }

  // One request from the opening, or the taking, of the box to its closing.
  void InNewBox(bool warm) {
    auto box = warm ? pool_.Take() : host_.Open();
    Expect(box.ok() && (*box)->Configure(BoxLimits()).ok() &&
           RunTrue(**box).outcome == v1::OUTCOME_OK);
  }

  std::unique_ptr<Box> OpenBox() {
    auto box = pool_.Take();
    Expect(box.ok() && (*box)->Configure(BoxLimits()).ok());
    return box.ok() ? std::move(*box) : nullptr;
  }

  void Latencies() {
    SandboxBenchReport& r = report_;
    r.plain_ms = MedianMs(options_.samples, nullptr, [&] { Expect(Spawn(kCommand)); });
    const std::vector<std::string> bubblewrap = host_.BubblewrapCommand(kCommand);
    r.bubblewrap_ms = MedianMs(options_.samples, nullptr, [&] { Expect(Spawn(bubblewrap)); });
    r.cold_ms = MedianMs(
        options_.samples, [&] { host_.WaitForClosed(); }, [&] { InNewBox(false); });
    r.warm_ms = MedianMs(
        options_.samples,
        [&] {
          host_.WaitForClosed();
          pool_.WaitUntilFull();
        },
        [&] { InNewBox(true); });
    const auto box = OpenBox();
    if (box == nullptr) return;
    r.kept_ms = MedianMs(options_.samples, nullptr,
                         [&] { Expect(RunTrue(*box).outcome == v1::OUTCOME_OK); });
    r.over_plain_ms = r.warm_ms - r.plain_ms;
  }

  void Rates() {
    RealClock clock;
    KeptBoxes kept(0, std::chrono::seconds(1));
    ShellBoxes shells(1, std::chrono::seconds(1));
    RootPools roots(pool_, {}, "");
    McpServers servers({});
    ToolRunner runner(pool_, roots, kept, shells, servers, nullptr, clock, ToolOptions());
    const v1::ToolRequest grade = GradeRequest();
    for (const size_t at_once : options_.at_once) {
      SandboxBenchReport::Rate rate;
      rate.at_once = at_once;
      rate.plain_per_s =
          PerSecond(at_once, options_.seconds, [&](size_t) { Expect(Spawn(kCommand)); });
      rate.boxes_per_s = PerSecond(at_once, options_.seconds, [&](size_t) { InNewBox(true); });
      std::vector<std::unique_ptr<Box>> boxes;
      for (size_t i = 0; i < at_once; ++i) boxes.push_back(OpenBox());
      rate.kept_per_s = PerSecond(at_once, options_.seconds, [&](size_t i) {
        Expect(boxes[i] != nullptr && RunTrue(*boxes[i]).outcome == v1::OUTCOME_OK);
      });
      boxes.clear();
      rate.gradings_per_s = PerSecond(at_once, options_.seconds, [&](size_t) {
        Cancellation never;
        Expect(runner.Handle(grade, never).outcome() == v1::OUTCOME_OK);
      });
      report_.rates.push_back(rate);
    }
  }

  void LeakCheck() {
    const auto settle = [&] {
      host_.WaitForClosed();
      pool_.WaitUntilFull();
    };
    settle();
    const Leftovers before = Count(host_);
    for (size_t i = 0; i < options_.requests; ++i) InNewBox(true);
    settle();
    const Leftovers after = Count(host_);
    report_.requests = options_.requests;
    report_.left = {after.processes - before.processes, after.mounts - before.mounts,
                    after.cgroups - before.cgroups, after.files - before.files};
  }

  const SandboxBenchOptions& options_;
  BoxHost& host_;
  BoxPool pool_;
  std::atomic<size_t> failed_{0};
  SandboxBenchReport report_;
};

}  // namespace

std::string SandboxBenchReport::ToText() const {
  std::string text = fmt::format("boxes with {}\n\n", limits);
  text += "/bin/true, one at a time           median ms   by plain\n";
  const auto row = [&](const char* name, double ms) {
    text += fmt::format("  {:<32} {:>9.3f} {:>10.2f}\n", name, ms, ms / plain_ms);
  };
  row("plain spawn", plain_ms);
  row("bubblewrap alone", bubblewrap_ms);
  row("a box opened for it", cold_ms);
  row("a box from a warm pool", warm_ms);
  row("a box that is open", kept_ms);
  text +=
      fmt::format("  a warm request costs {:.3f} ms more than a plain spawn\n\n", over_plain_ms);
  text += "at once     plain/s   new boxes/s   open boxes/s   gradings/s\n";
  for (const Rate& rate : rates) {
    text += fmt::format("{:>7} {:>11.0f} {:>13.0f} {:>14.0f} {:>12.0f}\n", rate.at_once,
                        rate.plain_per_s, rate.boxes_per_s, rate.kept_per_s, rate.gradings_per_s);
  }
  text += fmt::format(
      "\nafter {} requests: {:+} processes, {:+} mounts, {:+} cgroups, {:+} open files\n", requests,
      left.processes, left.mounts, left.cgroups, left.files);
  return text;
}

std::string SandboxBenchReport::ToJson() const {
  std::string text = fmt::format(
      R"({{"limits":"{}","plain_ms":{:.4f},"bubblewrap_ms":{:.4f},"cold_ms":{:.4f},"warm_ms":{:.4f},)"
      R"("kept_ms":{:.4f},"over_plain_ms":{:.4f},"rates":[)",
      limits, plain_ms, bubblewrap_ms, cold_ms, warm_ms, kept_ms, over_plain_ms);
  for (size_t i = 0; i < rates.size(); ++i) {
    const Rate& rate = rates[i];
    text += fmt::format(
        R"({}{{"at_once":{},"plain_per_s":{:.1f},"boxes_per_s":{:.1f},"kept_per_s":{:.1f},"gradings_per_s":{:.1f}}})",
        i == 0 ? "" : ",", rate.at_once, rate.plain_per_s, rate.boxes_per_s, rate.kept_per_s,
        rate.gradings_per_s);
  }
  text += fmt::format(
      R"(],"requests":{},"left":{{"processes":{},"mounts":{},"cgroups":{},"files":{}}},"clean":{}}})",
      requests, left.processes, left.mounts, left.cgroups, left.files, Clean());
  return text;
}

Result<SandboxBenchReport> RunSandboxBench(const SandboxBenchOptions& options) {
  if (options.samples == 0 || options.seconds <= 0) {
    return Invalid("samples and seconds must be positive");
  }
  auto host = BoxHost::Create({});
  if (!host.ok()) return host.status();
  Bench bench(options, **host);
  TM_RETURN_IF_ERROR(bench.Run());
  return std::move(bench.report());
}

}  // namespace tidemill

// Runs the hostile programs of this folder, and of the one TIDEMILL_HOSTILE_DIR names, in boxes of
// every kind.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/enum_name.h"
#include "testing/test_folders.h"
#include "tests/hostile/hostile_table.h"
#include "tests/hostile/outside.h"
#include "tools/tool_executor.h"

namespace tidemill {
namespace {

const std::string kFolder = SourceDir() + "/tests/hostile";
constexpr const char* kExpected = "ESCAPED what was expected";

enum class Kind { kTool, kGrading, kShell };

std::string Machine() {
  utsname name = {};
  uname(&name);
  return name.machine;
}

std::vector<HostileProgram> Programs() {
  auto programs = ReadHostilePrograms(kFolder);
  TM_CHECK(programs.ok(), programs.status().message());
  if (const char* more = getenv("TIDEMILL_HOSTILE_DIR"); more != nullptr && more[0] != '\0') {
    auto kept = ReadHostilePrograms(more);
    TM_CHECK(kept.ok(), kept.status().message());
    programs->insert(programs->end(), kept->begin(), kept->end());
  }
  std::erase_if(*programs, [](const HostileProgram& program) {
    return !program.machine.empty() && program.machine != Machine();
  });
  return *programs;
}

class Attack {
 public:
  Attack(const HostileProgram& program, const Outside& outside) : program_(&program) {
    std::string flags;
    for (const std::string& flag : program.flags) flags += flag + " ";
    build_ = fmt::format("{} -w {} {}", program.compiler, flags, outside.Defines());
    build_ += program.compile_only ? " -c -o /tmp/prog.o " : " -o /tmp/prog ";
    build_ += program.file;
    if (program.compiler.empty()) build_.clear();
    run_ = outside.Exports() + "exec ";
    run_ += program.compiler.empty() ? program.interpreter + " ./" + program.file : "/tmp/prog";
    if (program.compile_only) run_ = "exit 3";
  }

  // The box of a shell stays after the attack, for its episode.
  v1::TrajectoryId Episode() const {
    v1::TrajectoryId id;
    id.set_task(program_->file), id.set_group(1), id.set_attempt(1);
    return id;
  }

  v1::ToolRequest Request(Kind kind) const {
    v1::ToolRequest request;
    if (kind == Kind::kShell) *request.mutable_episode() = Episode();
    request.set_request_id(program_->file);
    request.set_tool(kind == Kind::kTool ? "shell" : kind == Kind::kShell ? "bash" : "grade");
    AddFile(program_->file, program_->text, request.mutable_tree()->add_files());
    AddFile("hostile.h", TextOf(kFolder + "/programs/hostile.h"),
            request.mutable_tree()->add_files());
    v1::Limits& limits = *request.mutable_limits();
    limits = program_->limits;
    if (limits.wall_ms() == 0) limits.set_wall_ms(20'000);
    if (limits.cpu_ms() == 0) limits.set_cpu_ms(8'000);
    limits.set_memory_mb(96);
    limits.set_processes(32);
    limits.set_output_kb(256);
    limits.set_disk_mb(8);
    if (kind != Kind::kGrading) {
      std::string script = build_.empty() ? run_ : build_ + " && { " + run_ + "; }";
      if (program_->compile_only) script = "exec " + build_;
      const char* name = kind == Kind::kShell ? "command" : "script";
      request.set_arguments_json(nlohmann::json{{name, script}}.dump());
    } else {
      AddGrading(limits, request.mutable_grading());
      *request.mutable_grading()->add_harness() = request.tree().files(1);
    }
    return request;
  }

  // Whether a box without cgroups promises to bound it.
  bool Bounded(bool cgroups) const { return cgroups || program_->bounded_without_cgroups; }

  // Whether it ended as the table says.
  bool EndedRight(Kind kind, const v1::ToolResult& result, bool cgroups) const {
    const std::string outcome(EnumName(result.outcome()));
    std::vector<std::string> allowed = cgroups ? program_->outcomes : program_->no_cgroups;
    // What ended well but did not answer has failed.
    if (kind == Kind::kGrading)
      std::replace(allowed.begin(), allowed.end(), std::string("ok"), std::string("failed"));
    // A command in a box that stays cannot be tried again on a machine that was too busy.
    const bool busy = kind == Kind::kShell && result.cause().find("too busy") != std::string::npos;
    return busy || (allowed.empty() && outcome != "unavailable") ||
           std::find(allowed.begin(), allowed.end(), outcome) != allowed.end();
  }

  // What it did that no box allows; empty: nothing.
  std::string Harm(const v1::ToolResult& result) const {
    const std::string all = Shown(result);
    if (result.tests_passed() != 0) return Told("it passed a test", all);
    const size_t at = all.find("ESCAPED");
    return at == std::string::npos ? "" : Told(all.substr(at, 200), all);
  }

  std::string WrongEnd(const v1::ToolResult& result) const {
    return Told(fmt::format("the outcome is {} {}", EnumName(result.outcome()), result.cause()),
                Shown(result));
  }

 private:
  // All that left the box.
  std::string Shown(const v1::ToolResult& result) const {
    std::string all = result.text() + result.stdout_bytes() + result.stderr_bytes();
    for (const v1::File& file : result.tree().files()) {
      if (file.path() != program_->file && file.path() != "hostile.h") all += file.content();
    }
    for (const v1::TestFailure& failure : result.failures()) all += failure.actual();
    return all;
  }
  std::string Told(const std::string& wrong, const std::string& all) const {
    return fmt::format("{} ({}): {}\n{}\n", program_->file, program_->tries, wrong,
                       all.substr(0, 500));
  }
  static void AddFile(const std::string& path, const std::string& text, v1::File* file) {
    file->set_path(path);
    file->set_content(text);
    file->set_has_content(true);
  }
  void AddGrading(const v1::Limits& limits, v1::Grading* grading) const {
    grading->add_sources(program_->file);
    *grading->mutable_limits() = limits;
    if (!build_.empty()) {
      for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), build_}) {
        grading->add_build(word);
      }
    }
    for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), run_}) {
      grading->add_run(word);
    }
    grading->set_mode(v1::Grading::MODE_PROCESS);
    v1::TestCase* test = grading->add_cases();
    test->set_name("hidden");
    test->set_input("1\n");
    test->set_expected(kExpected);
  }

  const HostileProgram* program_;
  std::string build_;
  std::string run_;
};

// Every program in a box of its own, some side by side; then an honest request of each kind. What
// was wrong, in words.
class Siege {
 public:
  // `loopback`: the boxes are those of agents.
  Siege(bool cgroups, const Outside& outside, bool loopback = false)
      : cgroups_(cgroups), loopback_(loopback), programs_(Programs()) {
    for (HostileProgram& program : programs_) {
      if (loopback && program.file.ends_with(".c")) {
        program.text = "#define AGENTS_BOX 1\n" + program.text;
      }
      attacks_.emplace_back(program, outside);
    }
  }

  std::string Run(const std::vector<Kind>& kinds) {
    const Status started = Start();
    if (!started.ok()) return started.ToString();
    auto neighbour = executor_->host().Open();
    if (!neighbour.ok()) return neighbour.status().ToString();
    if (!(*neighbour)->Configure({}).ok() ||
        !(*neighbour)->Put("neighbour.txt", "ESCAPED the neighbour").ok()) {
      return "the neighbour's box cannot be made";
    }
    for (const Kind kind : kinds) Storm(kind);
    RunSpec alive;
    alive.command = {"cat", "neighbour.txt"};
    if ((*neighbour)->Run(alive).out.empty()) wrong_ += "the neighbour's box was harmed\n";
    neighbour->reset();
    CheckServes();
    executor_->host().WaitForClosed();
    const std::vector<std::string> folders = executor_->host().CgroupFolders();
    executor_.reset();
    CheckNothingIsLeft(folders);
    return wrong_;
  }

 private:
  Status Start() {
    ToolExecutorOptions options;
    options.slots = options.grade_slots = 4;
    options.boxes.cgroups = cgroups_;
    options.boxes.loopback = loopback_;
    CommandTool shell;
    shell.name = "shell";
    shell.command = {"/bin/sh", "-c", "{script}"};
    options.tools.commands = {shell};
    TM_ASSIGN_OR_RETURN(executor_, ToolExecutor::Create(options, nullptr, clock_));
    executor_->completions().Attach(bell_);
    cgroups_ = executor_->host().degraded().empty();
    std::erase_if(attacks_, [this](const Attack& attack) { return !attack.Bounded(cgroups_); });
    return Ok();
  }

  // An attack that ended in another way than it should beside the others is made once more alone:
  // on a busy machine its time can be over before it gets to its limit.
  void Storm(Kind kind) {
    std::vector<size_t> all(attacks_.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<size_t> again = Wave(
        kind, all, executor_->slots(kind == Kind::kGrading ? ToolLane::kGrade : ToolLane::kAgent));
    (void)Wave(kind, again, 1);
    wrong_ += ended_wrong_;
  }

  // The attacks that ended in another way than they should.
  std::vector<size_t> Wave(Kind kind, const std::vector<size_t>& attacks, size_t most) {
    std::vector<size_t> ended_wrong;
    ended_wrong_.clear();
    size_t next = 0, under_way = 0;
    while (next < attacks.size() || under_way > 0) {
      for (; next < attacks.size() && under_way < most; ++next, ++under_way) {
        executor_->Submit(attacks_[attacks[next]].Request(kind), attacks[next]);
      }
      for (ToolCompletion& done : executor_->completions().TakeAll()) {
        --under_way;
        const Attack& attack = attacks_[done.tag];
        wrong_ += attack.Harm(done.result);
        if (!attack.EndedRight(kind, done.result, cgroups_)) {
          ended_wrong.push_back(done.tag);
          ended_wrong_ += attack.WrongEnd(done.result);
        }
        if (kind == Kind::kShell) CheckShell(attack, done.result);
      }
      const bool full = under_way == most || (next == attacks.size() && under_way > 0);
      if (full && !bell_.Wait(std::chrono::seconds(120))) {
        wrong_ += "no box answered in two minutes\n";
        return {};
      }
    }
    return ended_wrong;
  }

  // What the attack left running goes when the episode ends.
  void CheckShell(const Attack& attack, const v1::ToolResult& result) {
    executor_->Cancel(attack.Episode());
    if (executor_->shell_boxes() > executor_->slots(ToolLane::kAgent)) {
      wrong_ += result.request_id() + ": boxes of ended episodes stay\n";
    }
  }

  void CheckServes() {
    v1::ToolRequest honest;
    honest.set_request_id("honest");
    honest.set_tool("shell");
    honest.set_arguments_json(R"({"script":"echo next"})");
    executor_->Submit(honest, 0);
    std::vector<ToolCompletion> done;
    (void)Eventually([&] {
      done = executor_->completions().TakeAll();
      return !done.empty();
    });
    if (done.empty() || done[0].result.stdout_bytes() != "next\n") {
      wrong_ += "the executor does not serve any more\n";
    }
  }

  void CheckNothingIsLeft(const std::vector<std::string>& folders) {
    const std::string prefix = "tidemill-" + std::to_string(getpid()) + "-";
    for (const std::string& folder : folders) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().starts_with(prefix)) {
          wrong_ += "left: " + entry.path().string() + "\n";
        }
      }
    }
    if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) wrong_ += "a process is left\n";
  }

  bool cgroups_;
  const bool loopback_;
  std::vector<HostileProgram> programs_;
  std::deque<Attack> attacks_;
  RealClock clock_;
  Bell bell_;
  std::unique_ptr<ToolExecutor> executor_;
  std::string wrong_;
  std::string ended_wrong_;  // of the last wave
};

TEST(Hostile, EveryProgramHasALineAndEveryLineAProgram) {
  const auto programs = ReadHostilePrograms(kFolder);
  ASSERT_TRUE(programs.ok()) << programs.status().ToString();
  EXPECT_GE(programs->size(), 80u);
  std::set<std::string> listed = {"hostile.h"};
  for (const HostileProgram& program : *programs) {
    EXPECT_TRUE(listed.insert(program.file).second) << program.file << " is listed twice";
    EXPECT_NE(program.tries, "");
  }
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/programs")) {
    EXPECT_EQ(listed.count(entry.path().filename().string()), 1u) << entry.path();
  }
}

TEST(Hostile, ToolBoxesHold) {
  const Outside outside;
  EXPECT_EQ(Siege(true, outside).Run({Kind::kTool}), "");
}

TEST(Hostile, BoxesThatStayHold) {
  const Outside outside;
  EXPECT_EQ(Siege(true, outside).Run({Kind::kShell}), "");
}

TEST(Hostile, AgentsBoxesHold) {
  const Outside outside;
  EXPECT_EQ(Siege(true, outside, /*loopback=*/true).Run({Kind::kTool}), "");
}

TEST(Hostile, GradingBoxesHold) {
  const Outside outside;
  EXPECT_EQ(Siege(true, outside).Run({Kind::kGrading}), "");
}

TEST(Hostile, BoxesHoldWithoutCgroups) {
  const Outside outside;
  EXPECT_EQ(Siege(false, outside).Run({Kind::kTool}), "");
}

TEST(Hostile, BoxesOfAnOrdinaryUserHold) {
  const Outside outside;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  // In a child, because a process that gave up root does not get it back.
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string wrong = "could not become an ordinary user\n";
    if (geteuid() != 0 || (setgroups(0, nullptr) == 0 && setresgid(65534, 65534, 65534) == 0 &&
                           setresuid(65534, 65534, 65534) == 0)) {
      wrong = Siege(true, outside).Run({Kind::kTool});
    }
    (void)!write(ends[1], wrong.data(), wrong.size());
    _exit(0);
  }
  close(ends[1]);
  std::string wrong;
  char text[4096];
  for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) {
    wrong.append(text, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(wrong, "");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tidemill

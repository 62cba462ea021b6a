#include "tools/box/box.h"
#include "core/enum_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/box_fixture.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TEST_F(BoxTest, ACommandRunsAndItsOutputAndStatusComeBack) {
  const RunReport report = Shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(EnumName(report.outcome), "failed");
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_EQ(report.out, "out\n");
  EXPECT_EQ(report.err, "err\n");
  EXPECT_FALSE(report.truncated);
  EXPECT_GT(report.wall_ms, 0);
  EXPECT_GT(report.cpu_ms, 0);
  EXPECT_GT(report.peak_memory_kb, 0u);
}

// Open in this process, and not close-on-exec: a program started carelessly has it.
class PlantedDescriptor {
 public:
  PlantedDescriptor() : fd_(open("/", O_RDONLY | O_DIRECTORY)), high_(fcntl(fd_, F_DUPFD, 700)) {}
  ~PlantedDescriptor() {
    close(fd_);
    close(high_);
  }

 private:
  int fd_, high_;
};

TEST_F(BoxTest, ABoxInheritsNoDescriptor) {
  const PlantedDescriptor planted;
  // Its own folder is the fourth.
  const std::string list = "ls /proc/self/fd";
  EXPECT_EQ(Shell(list).out, "0\n1\n2\n3\n");
  auto kept = OpenBox();
  for (int run = 0; run < 2; ++run) {
    RunSpec spec;
    spec.command = {"/bin/sh", "-c", list};
    spec.input = "some";
    EXPECT_EQ(kept->Run(spec).out, "0\n1\n2\n3\n");
  }
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(kept->init_pid()) + "/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    EXPECT_NE(target, "/") << "the init has the planted descriptor " << entry.path();
  }
}

TEST_F(BoxTest, ASignalIsNamed) {
  const RunReport report = Shell("kill -SEGV $$");
  EXPECT_EQ(EnumName(report.outcome), "signal");
  EXPECT_EQ(report.exit_code, 11);
}

TEST_F(BoxTest, ACommandThatIsNotThereFailsAsInAShell) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"no-such-program"};
  const RunReport report = box->Run(spec);
  EXPECT_EQ(EnumName(report.outcome), "failed");
  EXPECT_EQ(report.exit_code, 127);
  EXPECT_THAT(report.err, HasSubstr("cannot run no-such-program"));
}

TEST_F(BoxTest, AScriptWhoseInterpreterIsNotInTheBoxNamesIt) {
  auto box = OpenBox();
  ASSERT_TRUE(box->Put("run.py", "#! /opt/nowhere/python3 -u\nprint(1)\n", true).ok());
  RunSpec spec;
  spec.command = {"./run.py"};
  RunReport report = box->Run(spec);
  EXPECT_EQ(report.exit_code, 127);
  EXPECT_EQ(report.err,
            "cannot run ./run.py: its interpreter /opt/nowhere/python3 is not in the box\n");
  // Looked up by its name it is the same.
  spec.command = {"run.py"};
  spec.environment = {"PATH=/nowhere:/workspace:/usr/bin"};
  report = box->Run(spec);
  EXPECT_THAT(report.err, HasSubstr("its interpreter /opt/nowhere/python3 is not in the box"));
  spec.command = {"./none.py"};
  EXPECT_EQ(box->Run(spec).err, "cannot run ./none.py: No such file or directory\n");
}

TEST_F(BoxTest, FilesGoInAndComeOutAndABoxKeepsThemBetweenCommands) {
  auto box = OpenBox();
  ASSERT_TRUE(box->Put("a/b/one.txt", "first").ok());
  ASSERT_TRUE(box->Put("run.sh", "#!/bin/sh\ncat a/b/one.txt > two.txt\n", true).ok());
  RunSpec spec;
  spec.command = {"./run.sh"};
  ASSERT_EQ(EnumName(box->Run(spec).outcome), "ok");
  auto two = box->Get("two.txt", 100);
  ASSERT_TRUE(two.ok()) << two.status().ToString();
  EXPECT_EQ(*two, "first");
  auto tree = box->Collect({});
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  ASSERT_EQ(tree->files_size(), 3);
  EXPECT_EQ(tree->files(0).path(), "a/b/one.txt");
  EXPECT_EQ(tree->files(1).path(), "run.sh");
  EXPECT_TRUE(tree->files(1).executable());
  EXPECT_EQ(tree->files(2).content(), "first");
  ASSERT_TRUE(box->RemoveAll().ok());
  EXPECT_EQ(box->Get("two.txt", 100).status().code(), Code::kNotFound);
  tree = box->Collect({});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->files_size(), 0);
}

TEST_F(BoxTest, PathsOutOfTheWorkspaceAreRefused) {
  auto box = OpenBox();
  for (const char* path : {"/etc/passwd", "../x", "a/../x", "a//b", "", ".", "a/./b", "a\nb"}) {
    EXPECT_EQ(box->Put(path, "x").code(), Code::kInvalid) << path;
  }
}

TEST_F(BoxTest, StandardInputArrivesWholeAndEnds) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"wc", "-c"};
  spec.input.assign(3 << 20, 'x');
  const RunReport report = box->Run(spec);
  EXPECT_EQ(EnumName(report.outcome), "ok");
  EXPECT_EQ(report.out, fmt::format("{}\n", 3 << 20));
}

TEST_F(BoxTest, ACommandThatDoesNotReadItsInputDoesNotEndTheExecutor) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"true"};
  spec.input.assign(3 << 20, 'x');
  EXPECT_EQ(EnumName(box->Run(spec).outcome), "ok");
}

TEST_F(BoxTest, TheEnvironmentIsTheBoxesOwn) {
  setenv("TIDEMILL_SECRET_OF_THE_HOST", "1", 1);
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"env"};
  spec.environment = {"EXTRA=yes"};
  const RunReport report = box->Run(spec);
  EXPECT_THAT(report.out, HasSubstr("EXTRA=yes\n"));
  EXPECT_THAT(report.out, HasSubstr("HOME=/tmp\n"));
  EXPECT_EQ(report.out.find("TIDEMILL_SECRET"), std::string::npos);
}

TEST_F(BoxTest, AClosedBoxLeavesNoProcessAndNoCgroup) {
  pid_t init, outer;
  {
    auto box = OpenBox();
    RunSpec spec;
    spec.command = {"true"};
    (void)box->Run(spec);
    init = box->init_pid();
    outer = box->outer_pid();
    EXPECT_EQ(kill(init, 0), 0);
  }
  host().WaitForClosed();
  EXPECT_EQ(kill(init, 0), -1);
  EXPECT_EQ(kill(outer, 0), -1);
  EXPECT_EQ(host().alive(), 0u);
  EXPECT_EQ(CountCgroups(), 0u);
}

TEST_F(BoxTest, AKilledBoxSaysThatItIsOurs) {
  auto box = OpenBox();
  box->Kill();
  RunSpec spec;
  spec.command = {"true"};
  const RunReport report = box->Run(spec);
  EXPECT_EQ(EnumName(report.outcome), "unavailable");
  EXPECT_NE(report.cause, "");
  EXPECT_FALSE(box->usable());
}

TEST(BoxHost, WithoutBubblewrapTheCauseIsSaid) {
  BoxHostOptions options;
  options.bubblewrap = "/nonexistent/bwrap";
  auto host = BoxHost::Create(options);
  ASSERT_FALSE(host.ok());
  EXPECT_THAT(host.status().message(), HasSubstr("bubblewrap"));
}

TEST(BoxHost, ABubblewrapThatFailsIsQuoted) {
  BoxHostOptions options;
  options.root = "/nonexistent";
  auto host = BoxHost::Create(options);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace tidemill

// What a hostile program leaves to look at besides its outcome: how much was kept, counted,
// collected and cleaned up. The programs themselves are in tests/hostile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "core/enum_name.h"
#include "testing/box_fixture.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// A box whose command means harm: afterwards the next one runs as if nothing had been.
class HostileBox : public BoxTest {
 protected:
  void TearDown() override {
    const RunReport next = Shell("echo next");
    EXPECT_EQ(next.out, "next\n") << "the executor does not serve any more: " << next.cause;
    BoxTest::TearDown();
    EXPECT_EQ(host().alive(), 0u);
    EXPECT_EQ(CountCgroups(), 0u);
  }
  static std::string Name(const RunReport& report) { return EnumName(report.outcome); }
  static BoxLimits Small() {
    BoxLimits limits;
    limits.wall = std::chrono::seconds(20);
    limits.memory_bytes = 128 << 20;
    return limits;
  }
};

TEST_F(HostileBox, MemoryBomb) {
  const RunReport report = RunC(
      "#include <stdlib.h>\n#include <string.h>\n"
      "int main(){for(;;){char*p=malloc(1<<20);if(p)memset(p,1,1<<20);}}",
      Small());
  EXPECT_EQ(Name(report), "memory_limit");
  EXPECT_LE(report.peak_memory_kb, 129u << 10);
}

TEST_F(HostileBox, AGigabyteOnStandardOutput) {
  const RunReport report = Shell("echo begin; head -c 1000000000 /dev/zero; echo end");
  EXPECT_EQ(Name(report), "output_limit");
  EXPECT_TRUE(report.truncated);
  EXPECT_TRUE(report.out.starts_with("begin\n"));
  EXPECT_THAT(report.out, HasSubstr("bytes cut"));
  EXPECT_LT(report.out.size(), 70u << 10);
}

TEST_F(HostileBox, OutputUnderTheLimitKeepsHeadAndTail) {
  const RunReport report = Shell("echo begin; head -c 500000 /dev/zero; echo; echo end");
  EXPECT_EQ(Name(report), "ok");
  EXPECT_TRUE(report.truncated);
  EXPECT_TRUE(report.out.starts_with("begin\n"));
  EXPECT_TRUE(report.out.ends_with("end\n"));
}

TEST_F(HostileBox, InfiniteLoop) {
  BoxLimits limits = Small();
  limits.cpu = milliseconds(300);
  const RunReport report = RunC("int main(){for(;;);}", limits);
  EXPECT_EQ(Name(report), "cpu_limit");
  EXPECT_GE(report.cpu_ms, 300);
  EXPECT_LT(report.cpu_ms, 1500);
}

TEST_F(HostileBox, SleepPastTheLimit) {
  BoxLimits limits;
  limits.wall = milliseconds(1500);
  const RunReport report = Shell("sleep 100", limits);
  EXPECT_EQ(Name(report), "timeout");
  EXPECT_GE(report.wall_ms, 1500);
  EXPECT_LT(report.wall_ms, 5000);
  EXPECT_FALSE(report.starved) << "a command that sleeps does not want the CPU";
}

TEST_F(HostileBox, ADaemonDiesWithItsCommand) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c", "(setsid sh -c 'sleep 60; echo late' &) ; echo started"};
  const RunReport report = box->Run(spec);
  EXPECT_EQ(Name(report), "ok");
  EXPECT_EQ(report.out, "started\n");
  EXPECT_LT(report.wall_ms, 5000);
  spec.command = {"/bin/sh", "-c", "ls -d /proc/[0-9]* | wc -l"};
  // The init, the shell, ls and wc.
  const RunReport alive = box->Run(spec);
  EXPECT_LE(std::stoi(alive.out), 4) << alive.out;
}

TEST_F(HostileBox, ADaemonDiesAtATimeout) {
  BoxLimits limits;
  limits.wall = milliseconds(200);
  pid_t init;
  {
    auto box = OpenBox(limits);
    RunSpec spec;
    spec.limits = limits;
    spec.command = {"/bin/sh", "-c", "trap '' TERM INT HUP; setsid sleep 100 & setsid sleep 100"};
    EXPECT_EQ(Name(box->Run(spec)), "timeout");
    EXPECT_FALSE(box->usable());
    init = box->init_pid();
  }
  host().WaitForClosed();
  EXPECT_EQ(kill(init, 0), -1);
}

TEST_F(HostileBox, CollectingIsBounded) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c", "head -c 2000000 /dev/zero > big; truncate -s 50000000 sparse"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  EXPECT_EQ(box->Get("big", 1000).status().code(), Code::kFull);
  EXPECT_EQ(box->Collect({1 << 20, 100}).status().code(), Code::kFull);
  EXPECT_EQ(box->Collect({100 << 20, 1}).status().code(), Code::kFull);
  spec.command = {"/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do mkdir d; cd d; i=$((i+1)); done"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  EXPECT_EQ(box->Collect({100 << 20, 100}).status().code(), Code::kFull);
}

TEST_F(HostileBox, InvalidUtf8AndNulsAreKeptAsTheyAre) {
  const RunReport report = Shell("printf 'a\\000b\\377\\376\\n'");
  EXPECT_EQ(report.out, std::string("a\0b\xff\xfe\n", 6));
}

TEST_F(HostileBox, PlantedLinksFifosAndDevicesAreNotCollected) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c",
                  "ln -s /etc/ld.so.cache link; ln -s /proc/1/environ deep; mkfifo fifo; mkdir d;"
                  "ln -s / d/root; ln -s ../.. up; echo fine > file; ln file hard;"
                  "ln -s /dev/zero zero; mknod dev c 1 5 2>/dev/null; true"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  for (const char* path : {"link", "deep", "fifo", "zero", "d/root/usr/bin/env", "up/etc", "d"}) {
    EXPECT_EQ(box->Get(path, 1 << 20).status().code(), Code::kNotFound) << path;
  }
  auto tree = box->Collect({});
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->files_size(), 2);
  EXPECT_EQ(tree->files(0).path(), "file");
  EXPECT_EQ(tree->files(1).path(), "hard");
  // Ours go over them, not through them.
  ASSERT_TRUE(box->Put("fifo", "now a file").ok());
  ASSERT_TRUE(box->Put("link", "now a file").ok());
  EXPECT_EQ(box->Get("fifo", 100).value(), "now a file");
  EXPECT_EQ(box->Get("link", 100).value(), "now a file");
}

TEST_F(HostileBox, AFolderMadeALinkDoesNotLeadOurFilesAway) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c", "mkdir /tmp/away; ln -s /tmp/away src"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  ASSERT_TRUE(box->Put("src/main.c", "ours").ok());
  spec.command = {"ls", "/tmp/away"};
  const RunReport report = box->Run(spec);
  EXPECT_EQ(Name(report), "unavailable") << "the failed Put is said: " << report.cause;
}

TEST_F(HostileBox, AWorkspaceMovedAwayIsNotMistakenForAnother) {
  auto box = OpenBox();
  ASSERT_TRUE(box->Put("ours.txt", "ours").ok());
  RunSpec spec;
  spec.command = {
      "/bin/sh", "-c",
      "cd /box && mv workspace elsewhere && mkdir workspace && echo planted > workspace/p"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  auto tree = box->Collect({});
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->files_size(), 1);
  EXPECT_EQ(tree->files(0).path(), "ours.txt");
  ASSERT_TRUE(box->RemoveAll().ok());
  spec.command = {"true"};
  EXPECT_EQ(Name(box->Run(spec)), "unavailable") << "such a box is not used again";
}

}  // namespace
}  // namespace tidemill

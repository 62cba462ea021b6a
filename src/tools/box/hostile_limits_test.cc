// Code that takes more than it is given, each kind in a box of its own: contained and named for
// what it did.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tools/box/hostile_box.h"

namespace tidemill {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST_F(HostileBox, ForkBomb) {
  EXPECT_EQ(Name(RunC("#include <unistd.h>\nint main(){for(;;)fork();}", Small())),
            "process_limit");
}

TEST_F(HostileBox, ForkBombInTheShell) {
  EXPECT_EQ(Name(Shell("f(){ f|f& }; f; sleep 20", Small())), "process_limit");
}

TEST_F(HostileBox, ThreadBomb) {
  EXPECT_EQ(Name(RunC("#include <pthread.h>\n#include <unistd.h>\nvoid*f(void*x){for(;;)pause();}\n"
                      "int main(){pthread_t t;for(;;)pthread_create(&t,0,f,0);}",
                      Small(), {"-pthread"})),
            "process_limit");
}

TEST_F(HostileBox, MemoryBomb) {
  const RunReport report = RunC(
      "#include <stdlib.h>\n#include <string.h>\n"
      "int main(){for(;;){char*p=malloc(1<<20);if(p)memset(p,1,1<<20);}}",
      Small());
  EXPECT_EQ(Name(report), "memory_limit");
  EXPECT_LE(report.peak_memory_kb, 129u << 10);
}

TEST_F(HostileBox, MemoryBombInManyProcesses) {
  EXPECT_EQ(
      Name(RunC(
          "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
          "int main(){for(int i=0;i<20;i++)if(!fork()){char*p=malloc(16<<20);memset(p,1,16<<20);"
          "for(;;)pause();}for(;;)pause();}",
          Small())),
      "memory_limit");
}

TEST_F(HostileBox, SharedMemoryThatOutlivesItsProcesses) {
  EXPECT_EQ(
      Name(RunC(
          "#include <sys/shm.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/wait.h>\n"
          "int main(){for(;;){if(!fork()){int s=shmget(IPC_PRIVATE,8<<20,0600);char*p=shmat(s,0,0);"
          "memset(p,1,8<<20);_exit(0);}wait(0);}}",
          Small())),
      "memory_limit");
}

TEST_F(HostileBox, SocketBuffersFullOfDataNobodyReads) {
  EXPECT_EQ(
      Name(RunC(
          "#include <fcntl.h>\n#include <string.h>\n#include <sys/socket.h>\n#include <unistd.h>\n"
          "static char b[65536];int main(){for(int i=0;i<8;i++)if(!fork())break;for(;;){int s[2];"
          "if(socketpair(AF_UNIX,SOCK_STREAM,0,s)!=0)pause();fcntl(s[0],F_SETFL,O_NONBLOCK);"
          "while(write(s[0],b,sizeof b)>0);}}",
          Small())),
      "memory_limit");
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

TEST_F(HostileBox, ManyShortProcessesWhoseTimeNobodyCounts) {
  BoxLimits limits = Small();
  limits.cpu = milliseconds(300);
  EXPECT_EQ(
      Name(RunC(
          "#include <signal.h>\n#include <unistd.h>\nint main(){signal(SIGCHLD,SIG_IGN);"
          "for(;;){if(!fork()){for(volatile int i=0;i<10000000;i++);_exit(0);}usleep(20000);}}",
          limits)),
      "cpu_limit");
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

TEST_F(HostileBox, FillingTheWorkspaceTmpAndShm) {
  BoxLimits limits;
  limits.disk_bytes = 8 << 20;
  for (const char* where : {"file", "/tmp/file", "/dev/shm/file"}) {
    const RunReport report =
        Shell(fmt::format("head -c 100000000 /dev/zero > {0}; ls -l {0}", where), limits);
    EXPECT_EQ(Name(report), "disk_limit") << where << report.err;
  }
  // In pieces smaller than the largest file.
  const RunReport report =
      Shell("for i in 1 2 3 4 5; do head -c 3000000 /dev/zero > /tmp/$i; done", limits);
  EXPECT_EQ(Name(report), "disk_limit");
}

TEST_F(HostileBox, MillionsOfSmallFiles) {
  BoxLimits limits = Small();
  limits.disk_bytes = 16 << 20;
  EXPECT_EQ(
      Name(
          RunC("#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(){char n[32];"
               "for(int i=0;;i++){sprintf(n,\"f%d\",i);int "
               "f=open(n,O_CREAT|O_WRONLY,0600);if(f<0)pause();"
               "close(f);}}",
               limits)),
      "disk_limit");
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

TEST_F(HostileBox, ClosingItsOwnOutput) {
  const RunReport report = Shell("exec >&- 2>&- <&-; sleep 0.2; exit 7");
  EXPECT_EQ(Name(report), "failed");
  EXPECT_EQ(report.exit_code, 7);
}

TEST_F(HostileBox, InvalidUtf8AndNulsAreKeptAsTheyAre) {
  const RunReport report = Shell("printf 'a\\000b\\377\\376\\n'");
  EXPECT_EQ(report.out, std::string("a\0b\xff\xfe\n", 6));
}

TEST_F(HostileBox, ACompileThatIncludesDevZero) {
  auto box = OpenBox(Small());
  ASSERT_TRUE(box->Put("main.c", "#include \"/dev/zero\"\nint main(){return 0;}\n").ok());
  RunSpec spec;
  spec.limits = Small();
  spec.limits.cpu = std::chrono::seconds(2);
  for (const char* compiler : {"gcc", "tcc"}) {
    if (!box->usable()) {
      box = OpenBox(Small());
      ASSERT_TRUE(box->Put("main.c", "#include \"/dev/zero\"\nint main(){return 0;}\n").ok());
    }
    spec.command = {compiler, "-c", "main.c"};
    EXPECT_THAT(Name(box->Run(spec)), AnyOf("failed", "cpu_limit", "memory_limit", "timeout"));
  }
}

TEST_F(HostileBox, TemplatesThatRecurseForEver) {
  BoxLimits limits = Small();
  limits.cpu = std::chrono::seconds(3);
  auto box = OpenBox(limits);
  ASSERT_TRUE(box->Put("main.cc",
                       "template<int N,int M> struct A{static constexpr int v="
                       "A<N+1,M>::v+A<N,M+1>::v;};\nint x=A<0,0>::v;\n")
                  .ok());
  RunSpec spec;
  spec.command = {"g++", "-ftemplate-depth=100000000", "-c", "main.cc"};
  spec.limits = limits;
  EXPECT_THAT(Name(box->Run(spec)), AnyOf("failed", "cpu_limit", "memory_limit"));
}

}  // namespace
}  // namespace tidemill

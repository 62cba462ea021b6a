// Where no cgroup may be written, and where the executor is not root.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/enum_name.h"
#include "tools/box/box.h"
#include "tools/box/box_host.h"

namespace tidemill {
namespace {

RunReport RunIn(BoxHost& host, const std::vector<std::string>& command, const std::string& source,
                const BoxLimits& limits) {
  auto box = host.Open();
  TM_CHECK(box.ok(), box.status().message());
  Status status = (*box)->Configure(limits);
  TM_CHECK(status.ok(), status.message());
  RunSpec spec;
  if (!source.empty()) {
    (void)(*box)->Put("main.c", source);
    spec.command = {"gcc", "-w", "-o", "/tmp/prog", "main.c"};
    const RunReport built = (*box)->Run(spec);
    TM_CHECK(built.outcome == v1::OUTCOME_OK, built.err + built.cause);
  }
  spec.command = command;
  spec.limits = limits;
  return (*box)->Run(spec);
}

// Every limit is contained and named, and the result says that it is less exact.
std::string TryLimits(BoxHost& host) {
  BoxLimits limits;
  limits.memory_bytes = 96 << 20;
  limits.processes = 24;
  limits.cpu = milliseconds(300);
  limits.disk_bytes = 4 << 20;
  std::string wrong;
  const auto expect = [&](const char* what, const RunReport& report,
                          std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      if (EnumName(report.outcome) == name && report.degraded) return;
    }
    wrong += fmt::format("{}: {} {}{} degraded {}\n", what, EnumName(report.outcome), report.cause,
                         report.err, report.degraded);
  };
  const std::vector<std::string> prog = {"/tmp/prog"};
  expect("true", RunIn(host, {"true"}, "", limits), {"ok"});
  BoxLimits more = limits;
  more.cpu = std::chrono::seconds(20);
  // Refused memory is a null pointer here, so a bomb ends by its own doing at the latest.
  expect("memory",
         RunIn(host, prog,
               "#include <stdlib.h>\n#include <string.h>\nint main(){for(;;){"
               "char*p=malloc(1<<20);memset(p,1,1<<20);}}",
               more),
         {"memory_limit", "signal"});
  expect("many",
         RunIn(host, prog,
               "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(){"
               "for(int "
               "i=0;i<10;i++)if(!fork()){memset(malloc(16<<20),1,16<<20);for(;;)pause();}for(;;)"
               "pause();}",
               more),
         {"memory_limit"});
  expect("forks", RunIn(host, prog, "#include <unistd.h>\nint main(){for(;;)fork();}", more),
         {"process_limit"});
  expect("cpu", RunIn(host, prog, "int main(){for(;;);}", limits), {"cpu_limit"});
  expect("disk", RunIn(host, {"/bin/sh", "-c", "head -c 9000000 /dev/zero > x"}, "", limits),
         {"disk_limit"});
  more.wall = milliseconds(200);
  expect("sleep", RunIn(host, {"sleep", "50"}, "", more), {"timeout"});
  host.WaitForClosed();
  if (host.alive() != 0) wrong += "boxes are left\n";
  return wrong;
}

TEST(DegradedBox, LimitsAreContainedAndMarkedWithoutCgroups) {
  BoxHostOptions options;
  options.cgroups = false;
  auto host = BoxHost::Create(options);
  ASSERT_TRUE(host.ok()) << host.status().ToString();
  EXPECT_NE((*host)->degraded(), "");
  EXPECT_EQ(TryLimits(**host), "");
}

TEST(DegradedBox, AnOrdinaryUserHasBoxesToo) {
  // In a child, because a process that gave up root does not get it back.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string wrong;
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresgid(65534, 65534, 65534) != 0 ||
                           setresuid(65534, 65534, 65534) != 0)) {
      wrong = "could not become an ordinary user\n";
    } else {
      auto host = BoxHost::Create({});
      if (!host.ok()) {
        wrong = host.status().ToString();
      } else if ((*host)->degraded().empty()) {
        // Cgroups are delegated to this user: the limits are exact, which other tests try.
        auto box = (*host)->Open();
        if (!box.ok()) wrong = box.status().ToString();
      } else {
        wrong = TryLimits(**host);
      }
    }
    (void)!write(ends[1], wrong.data(), wrong.size());
    _exit(wrong.empty() ? 0 : 1);
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

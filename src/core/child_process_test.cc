#include "core/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/fd.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(ChildProcess, InheritsNoDescriptor) {
  const TemporaryDirectory folder;
  const Fd planted(open("/", O_RDONLY | O_DIRECTORY));  // not close-on-exec
  const Fd high(fcntl(planted.get(), F_DUPFD, 700));
  const std::string list = folder / "list";
  auto child = StartChild({"/bin/sh", "-c", "ls /proc/self/fd > " + list});
  ASSERT_TRUE(child.ok()) << child.status().ToString();
  int status = 0;
  ASSERT_EQ(waitpid(*child, &status, 0), *child);
  EXPECT_EQ(HowItEnded(status), "exited with status 0");
  EXPECT_EQ(TextOf(list), "0\n1\n2\n3\n");
}

TEST(Descriptors, SealedOnesAreAllCloseOnExec) {
  const Fd planted(open("/", O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(fcntl(planted.get(), F_GETFD), 0);
  SealDescriptors();
  EXPECT_EQ(fcntl(planted.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(STDERR_FILENO, F_GETFD), 0) << "the standard streams are inherited";
}

TEST(Descriptors, AMissingStandardStreamIsFilled) {
  const Fd kept(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
  close(STDIN_FILENO);
  FillStandardStreams();
  EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), 0);
  dup2(kept.get(), STDIN_FILENO);
}

}  // namespace
}  // namespace tidemill

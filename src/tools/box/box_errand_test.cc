// What is done with a box's files while a command runs in it, and commands that are talked to by
// pipes of another's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "testing/box_fixture.h"
#include "tools/box/box.h"

namespace tidemill {
namespace {

v1::File Written(const std::string& path, const std::string& content) {
  v1::File file;
  file.set_path(path);
  file.set_content(content);
  file.set_has_content(true);
  return file;
}

// Runs `script` on a thread of its own, for errands meanwhile.
class RunningCommand {
 public:
  RunningCommand(Box& box, const std::string& script)
      : thread_([this, &box, script] {
          RunSpec spec;
          spec.command = {"/bin/sh", "-c", script};
          spec.errands = &errands_;
          report = box.Run(spec);
        }) {}
  ~RunningCommand() { Join(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // Waits until the errand is done.
  void Do(BoxErrands::Errand errand) {
    std::promise<void> done;
    errands_.Add([&](Box& box) {
      errand(box);
      done.set_value();
    });
    done.get_future().wait();
  }

  RunReport report;  // after Join

 private:
  BoxErrands errands_;
  std::thread thread_;
};

TEST_F(BoxTest, FilesAreReadAndWrittenWhileACommandRuns) {
  auto box = OpenBox();
  ASSERT_TRUE(box->Put("kept.txt", "kept").ok());
  RunningCommand command(*box,
                         "ln -s /etc link; echo mine > own.txt; while [ ! -e go ]; do sleep 0.01; "
                         "done; cat sub/new.txt; [ -e kept.txt ] || echo gone");
  v1::Tree seen;
  command.Do([&](Box& running) {
    while (seen.files_size() < 2) {
      auto tree = running.Collect({});
      ASSERT_TRUE(tree.ok()) << tree.status().ToString();
      seen = *tree;
    }
  });
  EXPECT_EQ(seen.files(0).path(), "kept.txt");
  EXPECT_EQ(seen.files(1).path(), "own.txt");
  command.Do([](Box& running) {
    EXPECT_TRUE(running.Edit(Written("sub/new.txt", "from outside\n")).ok());
    v1::File removed;
    removed.set_path("kept.txt");
    EXPECT_TRUE(running.Edit(removed).ok());
    EXPECT_EQ(running.Edit(removed).code(), Code::kInvalid);  // it is not there any more
    const Status through_link = running.Edit(Written("link/hosts", "x"));
    EXPECT_EQ(through_link.code(), Code::kInvalid);
    EXPECT_NE(through_link.message().find("link/hosts"), std::string::npos);
    EXPECT_TRUE(running.Edit(Written("go", "")).ok());
  });
  command.Join();
  EXPECT_EQ(command.report.outcome, v1::OUTCOME_OK) << command.report.cause;
  EXPECT_EQ(command.report.out, "from outside\ngone\n");
}

TEST_F(BoxTest, AnErrandThatCrossesTheEndOfTheCommandLosesNeither) {
  for (int round = 0; round < 20; ++round) {
    auto box = OpenBox();
    BoxErrands errands;
    for (int i = 0; i < 3; ++i) {
      errands.Add([](Box& running) { EXPECT_TRUE(running.Collect({}).ok()); });
    }
    RunSpec spec;
    spec.command = {"/bin/true"};
    spec.errands = &errands;
    EXPECT_EQ(box->Run(spec).outcome, v1::OUTCOME_OK);
    for (const auto& errand : errands.TakeAll()) errand(*box);
    EXPECT_TRUE(box->usable());
  }
}

TEST_F(BoxTest, ACommandIsTalkedToByPipesOfAnothers) {
  auto box = OpenBox();
  int in[2], out[2];
  ASSERT_TRUE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
  CommandPipes theirs{Fd(in[0]), Fd(out[1])};
  Fd to(in[1]), from(out[0]);
  RunReport report;
  std::thread runner([&] {
    RunSpec spec;
    spec.command = {"/bin/sh", "-c", "while read line; do echo \"got $line\"; done; exit 4"};
    spec.pipes = &theirs;
    report = box->Run(spec);
  });
  std::string heard;
  for (const char* line : {"one\n", "two\n"}) {
    ASSERT_EQ(write(to.get(), line, 4), 4);
    const size_t wanted = heard.size() + 8;
    while (heard.size() < wanted) {
      char bytes[64];
      const ssize_t got = read(from.get(), bytes, sizeof bytes);
      ASSERT_GT(got, 0);
      heard.append(bytes, static_cast<size_t>(got));
    }
  }
  to.Reset();
  runner.join();
  EXPECT_EQ(heard, "got one\ngot two\n");
  EXPECT_EQ(report.exit_code, 4);
}

}  // namespace
}  // namespace tidemill

// For tests: an executor with real boxes, and requests in one line.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "core/enum_name.h"
#include "store/blobs.h"
#include "testing/test_kit.h"
#include "tools/tool_executor.h"

namespace tidemill {

using Texts = std::initializer_list<std::pair<const char*, std::string>>;

inline v1::Tree TreeOf(Texts files) {
  v1::Tree tree;
  for (const auto& [path, content] : files) {
    v1::File* file = tree.add_files();
    file->set_path(path);
    file->set_content(content);
    file->set_has_content(true);
  }
  return tree;
}

inline v1::ToolRequest Request(const std::string& tool, Texts files,
                               const std::string& arguments = "") {
  static int next = 0;
  v1::ToolRequest request;
  request.set_tool(tool);
  request.set_request_id("request-" + std::to_string(next++));
  request.set_arguments_json(arguments);
  *request.mutable_tree() = TreeOf(files);
  v1::TrajectoryId& episode = *request.mutable_episode();
  episode.set_task("task"), episode.set_group(1), episode.set_attempt(1);
  return request;
}

// "inputs -> expected" of a function f(int) that main() asks for line by line.
inline v1::Grading LineGrading(const std::string& compiler = "tcc") {
  v1::Grading grading;
  grading.add_sources("solution.c");
  *grading.add_harness() = TreeOf({{"main.c",
                                    "#include <stdio.h>\nint f(int x);\nint main(void) {\n"
                                    "  int x;\n  while (scanf(\"%d\", &x) == 1) {\n"
                                    "    printf(\"%d\\n\", f(x));\n    fflush(stdout);\n  }\n"
                                    "  return 0;\n}\n"}})
                               .files(0);
  for (const char* word : {compiler.c_str(), "-o", "prog", "solution.c", "main.c"}) {
    grading.add_build(word);
  }
  grading.add_run("./prog");
  grading.set_mode(v1::Grading::MODE_LINES);
  for (int i = 0; i < 8; ++i) {
    v1::TestCase* test = grading.add_cases();
    test->set_name("case " + std::to_string(i));
    test->set_input(std::to_string(17 * i + 3));
    test->set_expected(std::to_string((17 * i + 3) * (17 * i + 3) + 1));
  }
  return grading;
}

inline v1::ToolRequest GradeRequest(const std::string& solution, const v1::Grading& grading) {
  v1::ToolRequest request = Request("grade", {{"solution.c", solution}});
  *request.mutable_grading() = grading;
  return request;
}

class ToolTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ToolExecutorOptions options;
    options.slots = 2;
    options.grade_slots = 2;
    options.tools.commands = Commands();
    blobs_ = NewMemoryBlobs();
    auto created = ToolExecutor::Create(options, blobs_.get(), clock_);
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    executor_ = std::move(*created);
    waker_ = std::make_unique<Bell>();
    executor_->completions().Attach(*waker_);
  }
  static void TearDownTestSuite() {
    executor_.reset();
    waker_.reset();
    blobs_.reset();
  }
  void SetUp() override { ASSERT_NE(executor_, nullptr) << "no executor"; }

  static std::vector<CommandTool> Commands() {
    CommandTool shell;
    shell.name = "shell";
    shell.command = {"/bin/sh", "-c", "{script}"};
    CommandTool only;
    only.name = "only_a";
    only.command = {"ls"};
    only.files = {"a.txt"};
    only.changes = false;
    CommandTool tap;
    tap.name = "tap";
    tap.command = {"/bin/sh", "-c",
                   "echo ok 1 - first; echo not ok 2 - second; echo noise; "
                   "printf 'not ok 3 - \\377\\n'; exit 1"};
    tap.parser = CommandTool::Parser::kTests;
    return {shell, only, tap};
  }

  static ToolExecutor& executor() { return *executor_; }
  static BlobStore& blobs() { return *blobs_; }
  static Bell& waker() { return *waker_; }

  static v1::ToolResult Call(v1::ToolRequest request) {
    executor_->Submit(std::move(request), next_tag_++);
    return Await();
  }
  static v1::ToolResult Await() {
    for (;;) {
      std::vector<ToolCompletion> done = executor_->completions().TakeAll();
      for (ToolCompletion& one : done) early_.push_back(std::move(one.result));
      if (!early_.empty()) {
        v1::ToolResult result = std::move(early_.front());
        early_.pop_front();
        return result;
      }
      TM_CHECK(waker_->Wait(std::chrono::seconds(60)), "no tool answered in a minute");
    }
  }
  static std::string Name(const v1::ToolResult& result) { return EnumName(result.outcome()); }

  static inline uint64_t next_tag_ = 1;

 private:
  static inline RealClock clock_;
  static inline std::unique_ptr<BlobStore> blobs_;
  static inline std::unique_ptr<Bell> waker_;
  static inline std::unique_ptr<ToolExecutor> executor_;
  static inline std::deque<v1::ToolResult> early_;
};

}  // namespace tidemill

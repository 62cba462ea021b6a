// Tasks that come as folders and repositories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tasks/import/dockerfile.h"
#include "tasks/import/task_import.h"
#include "tasks/task_file.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Put(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

void MakeHarborTask(const std::string& folder) {
  Put(folder + "/task.toml",
      "version = \"1.0\"\n[metadata]\ndifficulty = \"easy\"\ntags = [\"files\"]\n"
      "[verifier]\ntimeout_sec = 120.0\n[agent]\ntimeout_sec = 900\n"
      "[environment]\nbuild_timeout_sec = 60\ncpus = 1\nmemory = \"2G\"\nstorage_mb = 100\n");
  Put(folder + "/instruction.md", "Write hello to out.txt.\n");
  Put(folder + "/environment/Dockerfile",
      "# the image\nFROM python:3.11\nWORKDIR /app\nENV MODE=fast\nCOPY data/ ./data/\n"
      "COPY main.py .\nRUN echo built > built.txt && \\\n    true\n");
  Put(folder + "/environment/data/x.txt", "x");
  Put(folder + "/environment/main.py", "print(1)\n");
  Put(folder + "/tests/test.sh",
      "pytest /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt");
  Put(folder + "/tests/test_outputs.py", "def test_out():\n    assert True\n");
  Put(folder + "/solution/solve.sh", "echo hello > out.txt\n");
}

std::vector<std::string> PathsOf(const v1::Task& task) {
  std::vector<std::string> paths;
  for (const v1::File& file : task.files()) paths.push_back(file.path());
  return paths;
}

ImportOptions WithHooks() {
  ImportOptions options;
  options.root = "host";
  options.hooks.run = [](std::vector<v1::File> files, const ImportHooks::Step& step) {
    v1::File file;
    file.set_path("ran.txt");
    file.set_content(step.command + "|" + step.environment[0] + "|" + step.folder);
    file.set_has_content(true);
    files.push_back(file);
    return Result<std::vector<v1::File>>(std::move(files));
  };
  return options;
}

TEST(Harbor, AFolderBecomesATaskGradedByItsScript) {
  TemporaryDirectory folder;
  MakeHarborTask(folder / "hello");
  const auto imported = ImportTasks("harbor", folder.path(), WithHooks());
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  ASSERT_EQ(imported->tasks.size(), 1u) << imported->skipped[0];
  const v1::Task& task = imported->tasks[0].task;
  EXPECT_EQ(task.id(), "hello");
  EXPECT_EQ(task.prompt(), "Write hello to out.txt.\n");
  EXPECT_THAT(PathsOf(task), ElementsAre("data/x.txt", "main.py", "ran.txt"));
  EXPECT_EQ(task.files(2).content(), "echo built > built.txt && true|MODE=fast|");
  EXPECT_THAT(task.grading().run(), ElementsAre("env", "MODE=fast", "bash", "tests/test.sh"));
  EXPECT_EQ(task.grading().report(), v1::Grading::REPORT_NUMBER);
  EXPECT_EQ(task.grading().report_file(), "logs/verifier/reward.txt");
  EXPECT_EQ(task.grading().limits().wall_ms(), 120'000u);
  EXPECT_EQ(task.grading().limits().memory_mb(), 2048u);
  EXPECT_FALSE(task.grading().trusted()) << "its Python tests can carry a canary";
  EXPECT_THAT(task.solution().command(), ElementsAre("bash", "-c", "echo hello > out.txt\n"));
  EXPECT_THAT(task.metadata_json(), HasSubstr("easy"));
  // It can be written and read again.
  ASSERT_TRUE(WriteTaskFile(folder / "out.jsonl", {task}).ok());
  const auto read = ReadTaskFile(folder / "out.jsonl");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->front().SerializeAsString(), task.SerializeAsString());
}

TEST(Harbor, AnUnknownFieldIsNamed) {
  TemporaryDirectory folder;
  MakeHarborTask(folder / "hello");
  Put(folder / "hello/task.toml", "version = \"1.0\"\n[verifier]\ntimeout = 3\n");
  EXPECT_THAT(ImportTasks("harbor", folder / "hello", WithHooks()).status().message(),
              HasSubstr("verifier.timeout: unknown field"));
}

TEST(Harbor, WhatADockerfileCannotHaveIsRefusedByInstructionAndLine) {
  TemporaryDirectory folder;
  const auto refused = [&](const std::string& dockerfile) {
    MakeHarborTask(folder / "hello");
    Put(folder / "hello/environment/Dockerfile", dockerfile);
    return ImportTasks("harbor", folder / "hello", WithHooks()).status().message();
  };
  EXPECT_THAT(refused("FROM a\nEXPOSE 80\n"),
              HasSubstr("Dockerfile:2: EXPOSE: cannot be honoured"));
  EXPECT_THAT(refused("FROM a\n\nCOPY main.py /usr/bin/\n"),
              HasSubstr("Dockerfile:3: COPY /usr/bin/: only /app can be written"));
  EXPECT_THAT(refused("FROM a\nCOPY ../../etc/passwd .\n"), HasSubstr("there is no such file"));
  EXPECT_THAT(refused("FROM a\nCOPY --from=b x .\n"), HasSubstr("Dockerfile:2: COPY"));
  EXPECT_THAT(refused("FROM a AS b\n"), HasSubstr("Dockerfile:1: FROM"));
  EXPECT_THAT(refused("RUN true\n"), HasSubstr("must begin with FROM"));
  ImportOptions options = WithHooks();
  options.root.clear();
  MakeHarborTask(folder / "hello");
  EXPECT_THAT(ImportTasks("harbor", folder / "hello", options).status().message(),
              HasSubstr("Dockerfile:2: FROM python:3.11: give its root file system"));
}

TEST(Swebench, ARowBecomesATaskOverAMirrorWithItsTestsAsHarness) {
  TemporaryDirectory folder;
  const std::string repo = folder / "me__lib";
  const std::string git = "git -C " + repo + " -c user.name=a -c user.email=a@b ";
  ASSERT_EQ(std::system(("git init -q " + repo).c_str()), 0);
  Put(repo + "/lib.py", "def f():\n    return 1\n");
  Put(repo + "/tests/test_lib.py", "def test_old():\n    pass\n");
  ASSERT_EQ(std::system((git + "add -A && " + git + "commit -qm 1 && " + git + "tag base").c_str()),
            0);
  Put(folder / "rows.jsonl",
      R"({"instance_id":"me__lib-1","repo":"me/lib","base_commit":"base","patch":"the fix",)"
      R"("test_patch":"--- a/tests/test_lib.py\n+++ b/tests/test_lib.py\n@@ ..","hints_text":"",)"
      R"("problem_statement":"f is wrong","version":"1","created_at":"x",)"
      R"("FAIL_TO_PASS":"[\"tests/test_lib.py::test_new\"]","PASS_TO_PASS":["tests/test_lib.py::test_old"]})"
      "\n");
  ImportOptions options;
  options.mirrors = folder.path();
  options.hooks.apply_patch = [](std::vector<v1::File> files, const std::string& diff) {
    EXPECT_THAT(diff, HasSubstr("+++ b/tests"));
    EXPECT_EQ(files.size(), 1u);
    files[0].set_content(files[0].content() + "def test_new(): pass\n");
    return Result<std::vector<v1::File>>(std::move(files));
  };
  const auto imported = ImportTasks("swebench", folder / "rows.jsonl", options);
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  ASSERT_EQ(imported->tasks.size(), 1u) << imported->skipped[0];
  const v1::Task& task = imported->tasks[0].task;
  EXPECT_EQ(task.workspace().commit(), "base");
  EXPECT_THAT(task.grading().run(), ElementsAre("python3", "-m", "pytest", "-q",
                                                "--junitxml={report}", "tests/test_lib.py"));
  EXPECT_THAT(task.grading().fail_to_pass(), ElementsAre("tests/test_lib.py::test_new"));
  EXPECT_THAT(task.grading().harness(0).content(), HasSubstr("test_new"));
  EXPECT_EQ(task.solution().patch(), "the fix");
  options.mirrors = folder / "nothing";
  EXPECT_THAT(ImportTasks("swebench", folder / "rows.jsonl", options).status().message(),
              HasSubstr("contains no task"));
}

TEST(Dockerfile, LinesGoOnAndQuotesHoldWordsTogether) {
  const auto steps =
      ParseDockerfile("FROM x\nENV A=\"b c\" D=e\nENV OLD value\nRUN a && \\\n# no\n  b\n");
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  ASSERT_EQ(steps->size(), 4u);
  EXPECT_THAT((*steps)[1].words, ElementsAre("A=b c", "D=e"));
  EXPECT_THAT((*steps)[2].words, ElementsAre("OLD=value"));
  EXPECT_THAT((*steps)[3].words, ElementsAre("a && b"));
  EXPECT_EQ((*steps)[3].line, 4u);
}

}  // namespace
}  // namespace tidemill

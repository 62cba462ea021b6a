#include "testbeds/project.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "testbeds/project_task.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

std::vector<ProjectProblem> Problems(const ProjectOptions& options) {
  auto made = GenerateProjects(options);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

TEST(Project, TheSameSeedGivesTheSameTasks) {
  const ProjectOptions options{.count = 60, .seed = 5, .projects = 3, .change_after = 10};
  const auto once = ProjectTasks(Problems(options), options);
  const auto again = ProjectTasks(Problems(options), options);
  ASSERT_EQ(once.size(), 60u);
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].SerializeAsString(), again[i].SerializeAsString());
  }
}

TEST(Project, OnlyTheBoundHelperPasses) {
  for (const ProjectProblem& problem : Problems({.count = 200, .seed = 6, .projects = 4})) {
    const int right = problem.binding[static_cast<size_t>(problem.want.operation)];
    for (int helper = 0; helper < kProjectHelpers; ++helper) {
      EXPECT_EQ(PassesProject(problem, ProjectAnswer(problem.want, helper)), helper == right)
          << ProjectWords(problem.want) << " by h" << helper;
    }
    EXPECT_FALSE(PassesProject(problem, "a+b"));
    EXPECT_FALSE(PassesProject(problem, ""));
  }
}

TEST(Project, HalfOfTheNamesAreBoundAnewAfterTheChange) {
  const auto problems = Problems({.count = 40, .seed = 7, .projects = 2, .change_after = 10});
  for (size_t project = 0; project < 2; ++project) {
    const ProjectBinding& before = problems[project].binding;
    EXPECT_EQ(problems[18 + project].binding, before);
    const ProjectBinding& after = problems[20 + project].binding;
    int changed = 0;
    for (size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i];
    EXPECT_EQ(changed, kProjectHelpers / 2);
    EXPECT_EQ(std::set<uint8_t>(after.begin(), after.end()).size(), size_t{kProjectHelpers});
  }
}

TEST(Project, AnAnswerIsReadBack) {
  const auto call = ReadProjectAnswer("h3(a,b)*7");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->helper, 3);
  EXPECT_EQ(call->outer, '*');
  EXPECT_EQ(call->constant, 7);
  for (const char* wrong : {"h8(a,b)", "h1(b,a)", "h1(a,b)+", "h1(a,b)/2", "h1(a,b)+2x", "h1"}) {
    EXPECT_FALSE(ReadProjectAnswer(wrong)) << wrong;
  }
}

// The helpers of the harness are C text; those of the generator are C++. A compiler decides.
TEST(Project, TheHarnessComputesWhatTheTestsExpect) {
  if (std::system("command -v tcc >/dev/null 2>&1") != 0) GTEST_SKIP() << "no tcc here";
  const TemporaryDirectory folder;
  const ProjectOptions options{.count = 24, .seed = 8, .projects = 2};
  const auto problems = Problems(options);
  const auto tasks = ProjectTasks(problems, options);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const v1::Grading& grading = tasks[i].grading();
    const ProjectWant& want = problems[i].want;
    const std::string answer =
        ProjectAnswer(want, problems[i].binding[static_cast<size_t>(want.operation)]);
    std::ofstream(folder.path() + "/f.c")
        << tasks[i].answer_prefix() << answer << tasks[i].answer_suffix();
    std::ofstream(folder.path() + "/main.c") << grading.harness(0).content();
    std::ofstream input(folder.path() + "/in");
    std::string expected;
    for (const v1::TestCase& test : grading.cases()) {
      input << test.input() << "\n";
      expected += test.expected() + "\n";
    }
    input.close();
    const std::string at = folder.path();
    ASSERT_EQ(std::system(("cd " + at + " && tcc f.c -run main.c < in > out").c_str()), 0);
    std::stringstream printed;
    printed << std::ifstream(folder.path() + "/out").rdbuf();
    EXPECT_EQ(printed.str(), expected) << tasks[i].prompt();
  }
}

TEST(Project, APromptIsReadBack) {
  Random random(10);
  for (int i = 0; i < 200; ++i) {
    const ProjectWant want = DrawWant(random, i % kProjectHelpers);
    const auto read = ReadProjectPrompt(ProjectPrompt(want));
    ASSERT_TRUE(read) << ProjectPrompt(want);
    EXPECT_EQ(ProjectPrompt(*read), ProjectPrompt(want));
    EXPECT_EQ(read->operation, want.operation);
    EXPECT_EQ(read->constant, want.constant);
  }
  for (const char* wrong :
       {"", "largest", "hamming distance", "hamming distance times 10\nreturn "}) {
    EXPECT_FALSE(ReadProjectPrompt(wrong)) << wrong;
  }
}

TEST(Project, OptionsThatCannotBeMetAreNamed) {
  EXPECT_EQ(GenerateProjects({.count = 0}).status().code(), Code::kInvalid);
  EXPECT_EQ(GenerateProjects({.count = 3, .projects = 4}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill

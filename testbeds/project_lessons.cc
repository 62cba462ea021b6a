#include "testbeds/project_lessons.h"

#include <algorithm>
#include <array>

#include "testbeds/cfunc.h"

namespace tidemill {
namespace {

constexpr double kStale = 0.12;   // of loose cases: from before a change
constexpr double kOrdered = 0.7;  // prompts with the operation's own cases nearest to the task
constexpr double kPlain = 0.4;    // prompts without a constant, beyond those that have none anyway
constexpr int kLessonCasesMax = 32;

int AnyOperation(Random& random) {
  return static_cast<int>(random.Below(kProjectHelpers));
}

// Shorter than a task on average: more lessons for the same work.
ProjectWant LessonWant(Random& random, int operation) {
  ProjectWant want = DrawWant(random, operation);
  if (random.Chance(kPlain)) want.outer = 0;
  return want;
}

// Another than this one.
int AnotherHelper(int right, Random& random) {
  const int drawn = static_cast<int>(random.Below(kProjectHelpers - 1));
  return drawn < right ? drawn : drawn + 1;
}

std::string CaseText(const ProjectCase& one) {
  return ProjectPrompt(one.want) + ProjectAnswer(one.want, one.helper) +
         (one.right ? kCfuncEnd : kCfuncFail);
}

// The cases that memory shows of a partly known project.
std::vector<ProjectCase> TidyCases(const ProjectLessons& lessons, const ProjectBinding& binding,
                                   int asked, Random& random) {
  std::vector<ProjectCase> cases;
  const double known = random.Uniform();
  const double failed = random.Uniform();
  for (int operation = 0; operation < kProjectHelpers; ++operation) {
    const int helper = binding[static_cast<size_t>(operation)];
    if (operation == asked) {
      if (!random.Chance(lessons.known_share)) continue;
      cases.push_back({LessonWant(random, asked), helper, true});
    } else if (random.Chance(known)) {
      const bool fails = random.Chance(failed);
      cases.push_back({LessonWant(random, fails ? asked : operation), helper, !fails});
    }
  }
  random.Shuffle(cases);
  if (random.Chance(kOrdered)) {
    std::stable_partition(cases.begin(), cases.end(),
                          [&](const ProjectCase& one) { return one.want.operation != asked; });
  }
  return cases;
}

// Anything that may have been tried, also before a change.
std::vector<ProjectCase> LooseCases(const ProjectLessons& lessons, const ProjectBinding& binding,
                                    int asked, Random& random) {
  std::vector<ProjectCase> cases(random.Below(static_cast<uint64_t>(lessons.most_cases) + 1));
  const double right = random.Uniform();
  for (ProjectCase& one : cases) {
    const int operation = random.Chance(0.4) ? asked : AnyOperation(random);
    const int bound = binding[static_cast<size_t>(operation)];
    one.want = LessonWant(random, operation);
    one.right = random.Chance(operation == asked ? right / 2 : right);
    one.helper = one.right != random.Chance(kStale) ? bound : AnotherHelper(bound, random);
  }
  return cases;
}

Demonstration Demonstrate(const ProjectLessons& lessons, Random& random) {
  const ProjectBinding binding = DrawBinding(random);
  const int asked = AnyOperation(random);
  const auto draw = random.Chance(lessons.loose_share) ? LooseCases : TidyCases;
  std::vector<ProjectCase> cases = draw(lessons, binding, asked, random);
  const size_t most = static_cast<size_t>(lessons.most_cases);
  if (cases.size() > most) cases.erase(cases.begin(), cases.end() - lessons.most_cases);
  Demonstration made;
  for (const ProjectCase& one : cases) made.prompt += CaseText(one);
  const ProjectWant want = LessonWant(random, asked);
  const std::vector<int> possible = PossibleHelpers(cases, asked);
  made.prompt += ProjectPrompt(want);
  made.completion = ProjectAnswer(want, possible[random.Below(possible.size())]) + kCfuncEnd;
  return made;
}

}  // namespace

std::vector<int> PossibleHelpers(const std::vector<ProjectCase>& cases, int operation) {
  std::array<bool, kProjectHelpers> failed{}, taken{};
  int right = -1;
  for (const ProjectCase& one : cases) {
    const auto helper = static_cast<size_t>(one.helper);
    if (one.want.operation != operation) {
      taken[helper] = taken[helper] || one.right;
    } else if (one.right) {
      right = one.helper;
      failed[helper] = false;
    } else {
      failed[helper] = true;
      if (right == one.helper) right = -1;
    }
  }
  if (right >= 0) return {right};
  std::vector<int> open, unfailed, all;
  for (int helper = 0; helper < kProjectHelpers; ++helper) {
    const auto at = static_cast<size_t>(helper);
    all.push_back(helper);
    if (!failed[at]) unfailed.push_back(helper);
    if (!failed[at] && !taken[at]) open.push_back(helper);
  }
  if (!open.empty()) return open;
  return unfailed.empty() ? all : unfailed;
}

Result<std::vector<Demonstration>> DemonstrateProjects(const ProjectLessons& lessons) {
  if (lessons.count == 0 || lessons.count > kProjectCountMax) {
    return Invalid("count must be from 1 to " + std::to_string(kProjectCountMax) + ", got " +
                   std::to_string(lessons.count));
  }
  if (lessons.most_cases < 1 || lessons.most_cases > kLessonCasesMax) {
    return Invalid("cases must be from 1 to " + std::to_string(kLessonCasesMax) + ", got " +
                   std::to_string(lessons.most_cases));
  }
  Random random = Random(lessons.seed).Split("project lessons");
  std::vector<Demonstration> made;
  made.reserve(lessons.count);
  for (uint64_t i = 0; i < lessons.count; ++i) made.push_back(Demonstrate(lessons, random));
  return made;
}

}  // namespace tidemill

// How cases of a project are read: the rule, and demonstrations that teach it to a policy.
//
//   a project and a time -> the cases that memory would show -> what they leave possible -> answer
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/status.h"
#include "testbeds/project.h"
#include "testbeds/testbeds.h"

namespace tidemill {

// One attempt.
struct ProjectCase {
  ProjectWant want;
  int helper = 0;
  bool right = false;
};

// The helpers that a reader who makes no mistake takes to be equally likely, in ascending order;
// one at least. The cases stand as in a prompt, the last nearest to the task. A right case of the
// operation decides; of several the last does, unless its helper failed behind it. Otherwise the
// helpers that failed are out, and those that do other operations. Where that leaves none, cases of
// other operations are not believed.
std::vector<int> PossibleHelpers(const std::vector<ProjectCase>& cases, int operation);

struct ProjectLessons {
  uint64_t count = 0;
  uint64_t seed = 0;
  int most_cases = 8;         // in a prompt
  double known_share = 0.5;   // prompts with a right case of the operation that is asked for
  double loose_share = 0.25;  // prompts with any cases, also with some that contradict each other
};

// Prompts with right and failed cases, each of a project drawn for it, and an answer that follows
// the rule. One task each: the words of further tasks are chance, and a policy that has to learn to
// write them learns the rule late or never. A case stands in the prompt as the protocol "compact"
// writes it. Most prompts have what memory shows: one case at most for each helper, none that says
// nothing about the operation.
Result<std::vector<Demonstration>> DemonstrateProjects(const ProjectLessons& lessons);

}  // namespace tidemill

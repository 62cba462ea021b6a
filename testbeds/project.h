// The built-in family of tasks "project": use the right helper function of a project. Experience
// alone tells which one that is.
//
// A project has eight helpers h0 .. h7(a, b). Which operation each computes is a permutation drawn
// for the project and written nowhere. A task says in words what is wanted, and an answer is one
// call, perhaps with a constant behind it:
//   largest common factor times 3\nreturn h5(a,b)*3<|end|>
// Every operation needs a loop, so no expression of the answer's grammar computes it without its
// helper. Who knows nothing of the project is right once in eight times. In the middle of a
// project's tasks half of the names can be bound anew: what was right before misleads then.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/status.h"

namespace tidemill {

inline constexpr int kProjectHelpers = 8;
inline constexpr int kProjectPhrasings = 2;  // of each operation; they share no word that tells
inline constexpr int kProjectConstantMax = 9;
inline constexpr int kProjectHidden = 12;    // tests of a task
inline constexpr int kProjectInputMax = 30;  // inputs are from 0
inline constexpr uint64_t kProjectCountMax = 1'000'000;

// binding[operation] is the number of the helper that computes it.
using ProjectBinding = std::array<uint8_t, kProjectHelpers>;

// The subject of a task.
struct ProjectWant {
  int operation = 0;
  int phrasing = 0;
  char outer = 0;    // '+', '-', '*', or 0: nothing behind the call
  int constant = 0;  // 1 to kProjectConstantMax with an outer operator
};

struct ProjectProblem {
  ProjectWant want;
  uint64_t project = 0;
  ProjectBinding binding{};                 // as it is when the task is asked
  std::vector<std::pair<int, int>> inputs;  // of the hidden tests
};

struct ProjectOptions {
  uint64_t count = 0;
  uint64_t seed = 0;
  uint64_t projects = 1;  // the tasks are dealt out to them, one after the other
  // After so many tasks of a project half of its names are bound anew; 0: never.
  uint64_t change_after = 0;
};

// The operation's result for a and b, both from 0 to kProjectInputMax.
int ProjectOperation(int operation, int a, int b);
// A C function with the helper's name.
std::string ProjectHelperSource(int operation, int helper);

ProjectBinding DrawBinding(Random& random);
// Half of the names change places with each other; none of these keeps its operation.
ProjectBinding RebindHalf(const ProjectBinding& binding, Random& random);
ProjectWant DrawWant(Random& random, int operation);

// kInvalid: options no set can meet, in words. Tasks of a project are in their order.
Result<std::vector<ProjectProblem>> GenerateProjects(const ProjectOptions& options);

// "largest common factor times 3"
std::string ProjectWords(const ProjectWant& want);
inline constexpr char kProjectReturn[] = "\nreturn ";
std::string ProjectPrompt(const ProjectWant& want);
// The subject of a prompt. Nothing: it is no prompt of the family.
std::optional<ProjectWant> ReadProjectPrompt(std::string_view text);
// "h5(a,b)*3"
std::string ProjectAnswer(const ProjectWant& want, int helper);

// An answer of the grammar, read back. Nothing: it is something else.
struct ProjectCall {
  int helper = 0;
  char outer = 0;
  int constant = 0;
};
std::optional<ProjectCall> ReadProjectAnswer(std::string_view text);
// Whether the answer passes the hidden tests. What is not of the grammar does not: a policy that
// was taught it writes nothing else, and the box decides about what does.
bool PassesProject(const ProjectProblem& problem, std::string_view answer);

}  // namespace tidemill

// Patterns of paths in a workspace: "tests/*.py", "**/conftest.py", "!Makefile".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

// "?" is one character, "*" any number of them, both within one part of the path; "**" is any
// number of whole parts, none included. Takes time proportional to the product of the two lengths.
bool MatchesPattern(std::string_view pattern, std::string_view path);

// The last pattern that matches decides; one that begins with "!" says no.
template <typename Patterns>
bool MatchesLast(const Patterns& patterns, std::string_view path) {
  bool matches = false;
  for (const auto& one : patterns) {
    const std::string_view pattern = one;
    const bool negated = pattern.starts_with('!');
    if (MatchesPattern(negated ? pattern.substr(1) : pattern, path)) matches = !negated;
  }
  return matches;
}

// Files that decide how tests are run or found, and leftovers of builds: where a grading is a
// command, an agent's version of them does not enter its box.
const std::vector<std::string>& OwnFilePatterns();

// Whether pytest and unittest take the file for tests: test_x.py, x_test.py, tests.py.
bool IsPythonTest(std::string_view path);

}  // namespace tidemill

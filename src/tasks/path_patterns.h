// Patterns of paths in a workspace: "tests/*.py", "**/conftest.py", "!Makefile".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

// "?" is one character, "*" any number of them, both within one part of the path; "**" is any
// number of whole parts, none included. Takes time proportional to the product of the two lengths.
bool MatchesPattern(std::string_view pattern, std::string_view path);

// The last pattern that matches decides; one that begins with "!" says no. `unless` where none
// does.
template <typename Patterns>
bool MatchesLast(const Patterns& patterns, std::string_view path, bool unless = false) {
  bool matches = unless;
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

// The module of Python's library, of pytest or of its plug-ins that the file would be: argparse for
// "tests/argparse.py" and for "argparse/__init__.py"; empty: none.
std::string_view RunnersModule(std::string_view path);

// Whether only the task provides the file where a grading is a command: its patterns say so, or,
// where they say nothing, it would stand in front of a module that the runner imports. In a package
// it does not: there it has another name. Nor does one that the grading names among its sources.
// `has` tells whether a file of a path is there.
template <typename Grading, typename Has>
bool IsTasksOwn(const Grading& grading, std::string_view path, Has has) {
  bool own = false;
  const auto& sources = grading.sources();
  const bool named = std::find(sources.begin(), sources.end(), path) != sources.end();
  if (!named && !RunnersModule(path).empty()) {
    const auto above = [](std::string_view one) {
      const size_t slash = one.rfind('/');
      return slash == std::string_view::npos ? std::string_view() : one.substr(0, slash);
    };
    const bool is_package = path.ends_with("/__init__.py");
    const std::string folder(is_package ? above(above(path)) : above(path));
    own = folder.empty() || !has(folder + "/__init__.py");
  }
  return MatchesLast(grading.own_files(), path, own);
}

// Whether pytest and unittest take the file for tests: test_x.py, x_test.py, tests.py.
bool IsPythonTest(std::string_view path);

}  // namespace tidemill

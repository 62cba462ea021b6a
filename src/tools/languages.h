// The tools' knowledge of C, C++ and Python: which files are sources, how they are built, linted
// and tested.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/box/box.h"
#include "tools/tool_options.h"
#include "tools/workspace.h"

namespace tidemill {

enum class Language { kC, kCxx, kPython, kOther };

// By the end of the name; headers are kOther.
Language LanguageOf(std::string_view path);

bool IsHeader(std::string_view path);

// Every source file, those of tests left out.
std::vector<std::string> SourceFiles(const Workspace& workspace);

// One command for C and C++ together, one for Python. A program is linked to `output` where one of
// the sources has a main(); otherwise the sources are compiled only.
std::vector<std::vector<std::string>> CompileCommands(const std::vector<std::string>& sources,
                                                      const Workspace& workspace,
                                                      const ToolOptions& options,
                                                      const std::string& output);

// The files a linter may read: the sources, and headers whose names cannot be mistaken for part of
// a remark. No configuration of the agent's.
Workspace LintFiles(const std::vector<std::string>& sources, const Workspace& workspace);

// One language after the other: the compiler must accept the sources, since a linter says little of
// what it cannot read; then the linter looks at what the compiler sees. Every command runs in "/",
// where no file of the agent's is found by chance.
struct LintStep {
  std::vector<std::string> command;
  bool is_cppcheck = false;  // its remarks end with " [ID]"
  // The preprocessor's output for `source` goes to this file of the workspace; empty: this step is
  // another.
  std::string preprocessed{};
  std::string source{};
};
std::vector<LintStep> LintSteps(const std::vector<std::string>& sources,
                                const ToolOptions& options);

// Empty: the file has something for a linter to look at. Otherwise the path of one that has not:
// nothing but white space and comments.
std::string NothingToLint(const std::vector<std::string>& sources, const Workspace& workspace);

// A file named test_* or *_test.*, built with every other source that has no main(), and run: it
// passes with exit status 0.
struct TestProgram {
  std::string name;
  std::vector<std::vector<std::string>> build;
  std::vector<std::string> run;
};
std::vector<TestProgram> FindTestPrograms(const Workspace& workspace, const ToolOptions& options);

// Fills in outcome, compiled, tests and failures. True: the machine was too busy.
bool RunTestPrograms(const std::vector<TestProgram>& programs, const BoxLimits& limits,
                     size_t failures_max, Box& box, v1::ToolResult* result);

// File, line and message of Python's complaints about syntax.
std::vector<v1::Diagnostic> ParsePythonErrors(std::string_view text);

}  // namespace tidemill

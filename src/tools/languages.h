// What the tools know about C, C++ and Python: which files are sources, how they are built, linted
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

// Every source file, those of tests left out.
std::vector<std::string> SourceFiles(const Workspace& workspace);

// One command for C and C++ together, one for Python. A program is linked to `output` where one of
// the sources has a main(); otherwise the sources are compiled only.
std::vector<std::vector<std::string>> CompileCommands(const std::vector<std::string>& sources,
                                                      const Workspace& workspace,
                                                      const ToolOptions& options,
                                                      const std::string& output);

std::vector<std::vector<std::string>> LintCommands(const std::vector<std::string>& sources,
                                                   const ToolOptions& options);

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

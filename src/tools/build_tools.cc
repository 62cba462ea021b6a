// compile, lint, run_tests and configured commands.
#include <fmt/format.h>

#include <algorithm>

#include "tools/arguments.h"
#include "tools/definitions.h"
#include "tools/diagnostics.h"
#include "tools/grader.h"
#include "tools/languages.h"
#include "tools/staying_tool.h"
#include "tools/tool_runner.h"
#include "tools/tool_text.h"

namespace tidemill {
namespace {

void AddDiagnostics(std::vector<v1::Diagnostic> diagnostics, v1::ToolResult* result) {
  for (v1::Diagnostic& d : diagnostics) *result->add_diagnostics() = std::move(d);
}

// The files a call names, or every source file. Headers are left out where the tool looks at them
// with the sources that include them.
Result<std::vector<std::string>> NamedSources(const std::string& arguments_json,
                                              const Workspace& workspace,
                                              bool with_headers = false) {
  TM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(arguments_json));
  TM_ASSIGN_OR_RETURN(auto named, arguments.Texts("files"));
  if (!named) {
    TM_ASSIGN_OR_RETURN(named, arguments.Texts("file"));
  }
  if (!named) return SourceFiles(workspace);
  if (named->empty()) return Invalid("\"files\" names no file");
  std::vector<std::string> sources;
  for (const std::string& path : *named) {
    if (workspace.find(path) == workspace.end()) {
      return Invalid(fmt::format("there is no file \"{}\"", path));
    }
    if (with_headers && IsHeader(path)) continue;
    if (LanguageOf(path) == Language::kOther) {
      return Invalid(fmt::format("\"{}\" is not a C, C++ or Python source file", path));
    }
    sources.push_back(path);
  }
  return sources;
}

// "ok NAME" and "not ok NAME", with or without numbers and dashes.
void CountTests(std::string_view output, size_t failures_max, v1::ToolResult* result) {
  uint32_t passed = 0, total = 0;
  while (!output.empty()) {
    const size_t end = output.find('\n');
    std::string_view line = output.substr(0, end);
    output.remove_prefix(end == std::string_view::npos ? output.size() : end + 1);
    const bool failed = line.starts_with("not ok");
    if (!failed && !(line.starts_with("ok") && (line.size() == 2 || line[2] == ' '))) continue;
    ++total;
    passed += failed ? 0 : 1;
    if (!failed || static_cast<size_t>(result->failures_size()) >= failures_max) continue;
    line.remove_prefix(6);
    while (!line.empty() &&
           std::string_view(" -0123456789").find(line[0]) != std::string_view::npos) {
      line.remove_prefix(1);
    }
    result->add_failures()->set_name(CutText(line, 200));
  }
  result->set_tests_passed(passed);
  result->set_tests_total(total);
}

// Runs a compiler or linter; what it found goes into the result.
RunReport RunForDiagnostics(Box& box, const std::vector<std::string>& command,
                            const BoxLimits& limits, v1::ToolResult* result) {
  RunSpec spec;
  spec.command = command;
  spec.limits = limits;
  RunReport report = RunProgram(box, spec);
  TakeReport(report, result);
  AddDiagnostics(ParseDiagnostics(report.err + report.out), result);
  AddDiagnostics(ParsePythonErrors(report.err), result);
  return report;
}

// More than any source with its headers has.
constexpr uint64_t kPreprocessedMax = uint64_t{32} << 20;

// A source that says nothing to the compiler says nothing to a linter either.
Status CheckPreprocessed(Box& box, const LintStep& step) {
  const auto text = box.Get(step.preprocessed, kPreprocessedMax);
  if (!text.ok()) return Invalid("the linter did not see everything");
  if (DefinesSomething(*text, "/workspace/")) return Ok();
  return Invalid("\"" + step.source + "\" defines nothing: the compiler sees declarations at most");
}

// The same for one step of lint.
RunReport RunLinter(Box& box, const LintStep& step, const BoxLimits& limits,
                    v1::ToolResult* result) {
  RunSpec spec;
  spec.command = step.command;
  spec.folder = "/";
  spec.limits = limits;
  RunReport report = RunProgram(box, spec);
  TakeReport(report, result);
  std::vector<v1::Diagnostic> remarks = ParseDiagnostics(report.err + report.out);
  bool whole = !report.truncated;
  if (step.is_cppcheck) whole = !TakeCppcheckIds(&remarks) && whole;
  for (v1::Diagnostic& remark : ParsePythonErrors(report.err)) remarks.push_back(std::move(remark));
  for (v1::Diagnostic& remark : remarks) {
    constexpr std::string_view kWorkspace = "/workspace/";
    if (remark.file().starts_with(kWorkspace)) remark.mutable_file()->erase(0, kWorkspace.size());
  }
  AddDiagnostics(std::move(remarks), result);
  if (report.outcome == v1::OUTCOME_OK && !step.preprocessed.empty()) {
    const Status defines = CheckPreprocessed(box, step);
    if (!defines.ok()) Refuse(defines, result);
  }
  if (report.outcome == v1::OUTCOME_OK && !whole) {
    result->set_outcome(v1::OUTCOME_FAILED);
    result->set_cause("the linter did not see everything");
  }
  return report;
}

}  // namespace

void ToolRunner::Compile(Call& call) {
  auto sources = NamedSources(call.request.arguments_json(), call.workspace);
  if (!sources.ok()) return Refuse(sources.status(), call.result);
  if (sources->empty()) return Refuse(Invalid("there is no source file"), call.result);
  const auto commands = CompileCommands(*sources, call.workspace, options_, "/tmp/a.out");
  InBox(call, call.workspace, call.limits, /*fresh=*/false, [&](Box& box, v1::ToolResult* result) {
    for (const std::vector<std::string>& command : commands) {
      const RunReport report = RunForDiagnostics(box, command, call.limits, result);
      if (report.starved) return true;
      if (report.outcome != v1::OUTCOME_OK) break;
    }
    result->set_compiled(result->outcome() == v1::OUTCOME_OK);
    return false;
  });
  call.result->set_text(CompileText(*call.result, call.limits, call.text_limit));
}

// OUTCOME_OK only where every linter ran to its end over files with something in them.
void ToolRunner::Lint(Call& call) {
  auto sources = NamedSources(call.request.arguments_json(), call.workspace, /*with_headers=*/true);
  if (!sources.ok()) return Refuse(sources.status(), call.result);
  if (sources->empty()) return Refuse(Invalid("there is no source file"), call.result);
  if (const std::string empty = NothingToLint(*sources, call.workspace); !empty.empty()) {
    return Refuse(Invalid(fmt::format("\"{}\" has no code", empty)), call.result);
  }
  const Workspace files = LintFiles(*sources, call.workspace);
  InBox(call, files, call.limits, /*fresh=*/false, [&](Box& box, v1::ToolResult* result) {
    for (const LintStep& step : LintSteps(*sources, options_)) {
      const RunReport report = RunLinter(box, step, call.limits, result);
      if (report.starved) return true;
      if (result->outcome() != v1::OUTCOME_OK) break;
    }
    return false;
  });
  call.result->set_text(LintText(*call.result, call.limits, call.text_limit));
}

std::optional<std::vector<std::string>> ToolRunner::Interpret(const Call& call) const {
  const v1::Grading& grading = call.request.grading();
  if (!options_.interpret || grading.sources_size() != 1) return std::nullopt;
  const auto source = call.workspace.find(grading.sources(0));
  if (source == call.workspace.end()) return std::nullopt;
  return options_.interpret(grading, source->second.content);
}

void ToolRunner::RunTests(Call& call) {
  const v1::Grading* grading = &call.request.grading();
  BoxLimits limits = call.limits;
  if (grading->mode() == v1::Grading::MODE_COMMAND) return GradeByCommand(call, true);
  if (grading->cases().empty()) {
    // No cases came with the request: the test programs of the workspace are the tests.
    const std::vector<TestProgram> programs = FindTestPrograms(call.workspace, options_);
    if (programs.empty()) {
      return Refuse(Invalid("there are no tests: neither cases nor files named test_*, *_test.*"),
                    call.result);
    }
    InBox(call, call.workspace, limits, /*fresh=*/false, [&](Box& box, v1::ToolResult* result) {
      return RunTestPrograms(programs, limits, options_.failures_max, box, result);
    });
    call.result->set_text(TestsText(*call.result, limits, call.text_limit));
    return;
  }
  if (grading->mode() == v1::Grading::MODE_PYTHON) return GradePythonAnswer(call, true);
  GradeOptions options;
  options.limits = limits = LimitsFrom(grading->limits(), call.limits);
  options.reveal = true;
  options.failures_max = options_.failures_max;
  Status status = CheckGrading(*grading);
  if (status.ok()) status = CheckLimits(limits);
  if (!status.ok()) return Refuse(status, call.result);
  auto files = GradingFiles(*grading, call.workspace, blobs_);
  if (!files.ok()) return Refuse(files.status(), call.result);
  if (const auto answers = Interpret(call)) {
    GradeAnswers(*grading, options, *answers, call.result);
  } else {
    InBox(call, *files, limits, /*fresh=*/false, [&](Box& box, v1::ToolResult* result) {
      return GradeInBox(*grading, options, box, result);
    });
  }
  call.result->set_text(TestsText(*call.result, limits, call.text_limit));
}

// What goes wrong with the program is ours: the call is unavailable, with the reason.
void ToolRunner::AskTool(Call& call, const CommandTool& tool) {
  const auto question = ToolQuestion(call.request, tool, call.workspace);
  if (!question.ok()) return Refuse(question.status(), call.result);
  Result<std::string> line = Unavailable("the tool " + tool.name + " is not run here");
  if (options_.ask) line = options_.ask(tool.name, *question);
  Status taken = line.status();
  if (taken.ok()) taken = TakeToolAnswer(*line, tool, call.workspace, call.result);
  if (!taken.ok()) {
    call.result->set_outcome(v1::OUTCOME_UNAVAILABLE);
    call.result->set_cause(taken.message());
    return;
  }
  call.result->set_text(CutText(call.result->text(), call.text_limit));
}

// The tool's own error is the agent's result, and so are arguments that the server refuses.
void ToolRunner::AskServer(Call& call, McpServer& server) {
  const std::string& text = call.request.arguments_json();
  const auto checked = Arguments::Parse(text);
  if (!checked.ok()) return Refuse(checked.status(), call.result);
  const RpcJson arguments = text.empty() ? RpcJson::object() : RpcJson::parse(text);
  const auto answer = server.Call(call.request.tool(), arguments);
  if (!answer.ok()) return Refuse(answer.status(), call.result);
  call.result->set_text(CutText(answer->text, call.text_limit));
  call.result->set_outcome(answer->failed ? v1::OUTCOME_FAILED : v1::OUTCOME_OK);
}

void ToolRunner::RunCommand(Call& call, const CommandTool& tool) {
  if (tool.stays) return AskTool(call, tool);
  auto arguments = Arguments::Parse(call.request.arguments_json());
  if (!arguments.ok()) return Refuse(arguments.status(), call.result);
  auto command = tool.FillIn(arguments->words());
  if (!command.ok()) return Refuse(command.status(), call.result);
  const BoxLimits limits =
      LimitsFrom(call.request.limits(), LimitsFrom(tool.limits, options_.limits));
  Workspace files;
  for (const auto& [path, file] : call.workspace) {
    if (tool.files.empty() ||
        std::find(tool.files.begin(), tool.files.end(), path) != tool.files.end()) {
      files[path] = file;
    }
  }
  InBox(call, files, limits, /*fresh=*/false, [&](Box& box, v1::ToolResult* result) {
    RunSpec spec;
    spec.command = *command;
    spec.limits = limits;
    const RunReport report = RunProgram(box, spec);
    TakeReport(report, result);
    if (tool.parser == CommandTool::Parser::kDiagnostics) {
      AddDiagnostics(ParseDiagnostics(report.out + report.err), result);
    } else if (tool.parser == CommandTool::Parser::kTests) {
      CountTests(report.out, options_.failures_max, result);
    }
    if (!tool.changes || !box.usable()) return report.starved;
    auto tree = box.Collect(options_.collect);
    if (tree.status().code() == Code::kFull) {
      result->set_outcome(v1::OUTCOME_DISK_LIMIT);
      result->set_cause(tree.status().message());
    } else if (!tree.ok()) {
      Refuse(tree.status(), result);
    } else {
      for (const auto& [path, file] : files) call.workspace.erase(path);
      for (const v1::File& file : tree->files()) {
        call.workspace[file.path()] = {file.content(), file.executable()};
      }
    }
    return report.starved;
  });
  v1::ToolResult& result = *call.result;
  if (tool.parser == CommandTool::Parser::kDiagnostics && result.diagnostics_size() > 0) {
    result.set_text(LintText(result, limits, call.text_limit));
  } else if (tool.parser == CommandTool::Parser::kTests && result.tests_total() > 0) {
    result.set_compiled(true);
    result.set_text(TestsText(result, limits, call.text_limit));
  } else {
    result.set_text(CommandText(result, limits, call.text_limit));
  }
}

}  // namespace tidemill

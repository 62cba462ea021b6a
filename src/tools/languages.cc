#include "tools/languages.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/text.h"
#include "tools/diagnostics.h"
#include "tools/tool_runner.h"

namespace tidemill {
namespace {

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsTest(std::string_view path) {
  const std::string_view name = BaseName(path);
  const std::string_view stem = name.substr(0, name.rfind('.'));
  return name.starts_with("test_") || stem.ends_with("_test") || stem == "test" || stem == "tests";
}

// Whether the text defines main(), as far as a glance can tell: a wrong guess gives a linker error
// the agent can read.
bool HasMain(std::string_view text) {
  for (size_t at = text.find("main"); at != std::string_view::npos;
       at = text.find("main", at + 1)) {
    const auto is_word = [&](size_t i) {
      return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_';
    };
    if ((at > 0 && is_word(at - 1)) || (at + 4 < text.size() && is_word(at + 4))) continue;
    size_t next = at + 4;
    while (next < text.size() && (text[next] == ' ' || text[next] == '\n' || text[next] == '\t'))
      ++next;
    if (next < text.size() && text[next] == '(') return true;
  }
  return false;
}

bool DefinesMain(const Workspace& workspace, const std::string& path) {
  const auto found = workspace.find(path);
  return found != workspace.end() && HasMain(found->second.content);
}

// The command for C and C++ sources; `output` empty: compile only.
std::vector<std::string> NativeCommand(const std::vector<std::string>& sources,
                                       const ToolOptions& options, const std::string& output) {
  const bool cxx = std::any_of(sources.begin(), sources.end(), [](const std::string& path) {
    return LanguageOf(path) == Language::kCxx;
  });
  std::vector<std::string> command = {cxx ? options.cxx_compiler : options.c_compiler, "-Wall"};
  const bool tcc = command[0] == "tcc";
  if (!tcc) {
    command.insert(command.end(), {"-Wextra", "-O1", "-fdiagnostics-color=never",
                                   "-fno-diagnostics-show-caret", "-pthread"});
  }
  if (output.empty()) {
    command.emplace_back("-c");
  } else {
    command.insert(command.end(), {"-o", output});
  }
  for (const std::string& path : sources) {
    if (cxx) {
      command.insert(command.end(), {"-x", LanguageOf(path) == Language::kC ? "c" : "c++"});
    }
    // A name that begins with a dash would be an option.
    command.push_back("./" + path);
  }
  if (!output.empty()) {
    if (cxx) command.insert(command.end(), {"-x", "none"});
    command.emplace_back("-lm");
  }
  return command;
}

std::vector<std::string> Of(const std::vector<std::string>& sources, bool python) {
  std::vector<std::string> chosen;
  for (const std::string& path : sources) {
    if ((LanguageOf(path) == Language::kPython) == python) chosen.push_back(path);
  }
  return chosen;
}

// Isolated: a py_compile.py of the agent's is not the module that is run.
std::vector<std::string> PythonCompile(const std::vector<std::string>& paths,
                                       const ToolOptions& options) {
  std::vector<std::string> command = {options.python, "-I", "-m", "py_compile"};
  command.insert(command.end(), paths.begin(), paths.end());
  return command;
}

// Fails where none of the files defines or does anything: imports, constants and what never runs.
constexpr const char* kPythonDoes = R"py(
import ast, sys


def does(statement):
    if isinstance(statement, (ast.Pass, ast.Import, ast.ImportFrom)):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if isinstance(statement, ast.If) and isinstance(statement.test, ast.Constant):
        return any(map(does, statement.body if statement.test.value else statement.orelse))
    return True


for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        if any(map(does, ast.parse(file.read()).body)):
            sys.exit(0)
sys.exit('%s:1: error: it defines nothing and does nothing' % sys.argv[1])
)py";

std::vector<std::string> PythonDoes(const std::vector<std::string>& paths,
                                    const ToolOptions& options) {
  std::vector<std::string> command = {options.python, "-I", "-c", kPythonDoes};
  command.insert(command.end(), paths.begin(), paths.end());
  return command;
}

std::vector<std::string> Here(std::vector<std::string> paths) {
  for (std::string& path : paths) path.insert(0, "./");
  return paths;
}

constexpr const char* kInBox = "/workspace/";

bool IsPlain(std::string_view path) {
  return std::all_of(path.begin(), path.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+./").find(c) != std::string_view::npos;
  });
}

// Whether there is more than white space and comments. A comment mark inside a string is taken for
// a comment, which nothing honest depends on.
bool HasCode(std::string_view text, Language language) {
  for (size_t at = 0; at < text.size();) {
    const auto skip_past = [&](std::string_view end) {
      const size_t found = text.find(end, at + 2);
      at = found == std::string_view::npos ? text.size() : found + end.size();
    };
    const std::string_view rest = text.substr(at);
    if (std::isspace(static_cast<unsigned char>(rest[0])) != 0 || rest[0] == ';') {
      ++at;
    } else if (language == Language::kPython && rest[0] == '#') {
      const size_t end = text.find('\n', at);
      at = end == std::string_view::npos ? text.size() : end;
    } else if (language != Language::kPython && rest.starts_with("//")) {
      skip_past("\n");
    } else if (language != Language::kPython && rest.starts_with("/*")) {
      skip_past("*/");
    } else {
      return true;
    }
  }
  return false;
}

// Compiles to nowhere, asks for the compiler's own macros, and lints under them. Every
// configuration of the preprocessor is looked at: what takes too long for that is at its limit.
void AddNativeLint(const std::vector<std::string>& paths, Language language,
                   const ToolOptions& options, std::vector<LintStep>* steps) {
  const bool cxx = language == Language::kCxx;
  const std::string& compiler = cxx ? options.cxx_compiler : options.c_compiler;
  if (compiler == "tcc") {
    for (const std::string& path : paths) {
      steps->push_back({{compiler, "-w", "-c", "-o", "/tmp/lint.o", path}});
    }
  } else {
    steps->push_back({{compiler, "-w", "-fsyntax-only", "-fdiagnostics-color=never",
                       "-fno-diagnostics-show-caret"}});
    for (const std::string& path : paths) steps->back().command.push_back(path);
  }
  for (const std::string& path : paths) {
    const std::string seen = ".tidemill-lint-" + std::to_string(steps->size()) + ".i";
    steps->push_back({.command = {compiler, "-w", "-E", "-o", kInBox + seen, path},
                      .preprocessed = seen,
                      .source = path.substr(std::string_view(kInBox).size())});
  }
  steps->push_back(
      {{compiler, "-dM", "-E", "-o", "/tmp/predefined.h", "-x", cxx ? "c++" : "c", "/dev/null"}});
  // No inline suppressions: the one who is judged does not choose what is seen.
  steps->push_back({{"cppcheck", "--quiet", "--force", "--include=/tmp/predefined.h",
                     "--enable=warning,style,performance,portability,information",
                     "--template={file}:{line}:{column}: {severity}: {message} [{id}]"},
                    true});
  for (const std::string& path : paths) steps->back().command.push_back(path);
}

}  // namespace

Language LanguageOf(std::string_view path) {
  const auto ends = [&](std::string_view end) { return path.ends_with(end); };
  if (ends(".c")) return Language::kC;
  if (ends(".cc") || ends(".cpp") || ends(".cxx") || ends(".C")) return Language::kCxx;
  return ends(".py") ? Language::kPython : Language::kOther;
}

bool IsHeader(std::string_view path) {
  for (const std::string_view end :
       {".h", ".hh", ".hpp", ".hxx", ".H", ".inc", ".ipp", ".inl", ".tpp", ".tcc", ".def"}) {
    if (path.ends_with(end)) return true;
  }
  return false;
}

std::vector<std::string> SourceFiles(const Workspace& workspace) {
  std::vector<std::string> sources;
  for (const auto& [path, file] : workspace) {
    if (LanguageOf(path) != Language::kOther && !IsTest(path)) sources.push_back(path);
  }
  return sources;
}

std::vector<std::vector<std::string>> CompileCommands(const std::vector<std::string>& sources,
                                                      const Workspace& workspace,
                                                      const ToolOptions& options,
                                                      const std::string& output) {
  std::vector<std::vector<std::string>> commands;
  const std::vector<std::string> native = Of(sources, false), python = Of(sources, true);
  if (!native.empty()) {
    const bool program = std::any_of(native.begin(), native.end(), [&](const std::string& path) {
      return DefinesMain(workspace, path);
    });
    commands.push_back(NativeCommand(native, options, program ? output : ""));
  }
  if (!python.empty()) commands.push_back(PythonCompile(Here(python), options));
  return commands;
}

Workspace LintFiles(const std::vector<std::string>& sources, const Workspace& workspace) {
  Workspace files;
  for (const auto& [path, file] : workspace) {
    const bool named = std::find(sources.begin(), sources.end(), path) != sources.end();
    if (named || (IsHeader(path) && IsPlain(path))) files[path] = file;
  }
  return files;
}

std::vector<LintStep> LintSteps(const std::vector<std::string>& sources,
                                const ToolOptions& options) {
  std::vector<LintStep> steps;
  for (const Language language : {Language::kC, Language::kCxx}) {
    std::vector<std::string> paths;
    for (const std::string& path : sources) {
      if (LanguageOf(path) == language) paths.push_back(kInBox + path);
    }
    if (!paths.empty()) AddNativeLint(paths, language, options, &steps);
  }
  std::vector<std::string> python = Of(sources, true);
  for (std::string& path : python) path.insert(0, kInBox);
  if (!python.empty()) steps.push_back({PythonCompile(python, options)});
  if (!python.empty()) steps.push_back({PythonDoes(python, options)});
  return steps;
}

std::string NothingToLint(const std::vector<std::string>& sources, const Workspace& workspace) {
  for (const std::string& path : sources) {
    const auto found = workspace.find(path);
    const std::string name = "/" + path;
    if (name.ends_with("/__init__.py") && sources.size() > 1) continue;  // may be empty
    if (found == workspace.end() || !HasCode(found->second.content, LanguageOf(path))) return path;
  }
  return {};
}

std::vector<TestProgram> FindTestPrograms(const Workspace& workspace, const ToolOptions& options) {
  std::vector<std::string> parts;
  for (const std::string& path : SourceFiles(workspace)) {
    if (LanguageOf(path) != Language::kPython && !DefinesMain(workspace, path))
      parts.push_back(path);
  }
  std::vector<TestProgram> programs;
  for (const auto& [path, file] : workspace) {
    if (!IsTest(path) || LanguageOf(path) == Language::kOther) continue;
    TestProgram program;
    program.name = path;
    if (LanguageOf(path) == Language::kPython) {
      program.run = {options.python, "./" + path};
    } else {
      const std::string output = "/tmp/test" + std::to_string(programs.size());
      std::vector<std::string> sources = parts;
      sources.push_back(path);
      program.build = {NativeCommand(sources, options, output)};
      program.run = {output};
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

bool RunTestPrograms(const std::vector<TestProgram>& programs, const BoxLimits& limits,
                     size_t failures_max, Box& box, v1::ToolResult* result) {
  uint32_t passed = 0;
  bool built_any = false;
  int exit_code = 0;
  v1::Outcome outcome = v1::OUTCOME_OK;
  for (const TestProgram& program : programs) {
    RunReport report;
    report.outcome = v1::OUTCOME_OK;
    RunSpec spec;
    spec.limits = limits;
    if (!box.usable()) report.outcome = outcome;
    for (const auto& command : program.build) {
      if (report.outcome != v1::OUTCOME_OK) break;
      spec.command = command;
      report = RunProgram(box, spec);
      for (v1::Diagnostic& d : ParseDiagnostics(report.err)) {
        *result->add_diagnostics() = std::move(d);
      }
    }
    built_any = built_any || report.outcome == v1::OUTCOME_OK;
    if (report.outcome == v1::OUTCOME_OK) {
      spec.command = program.run;
      report = RunProgram(box, spec);
    }
    TakeReport(report, result);
    if (report.starved || report.outcome == v1::OUTCOME_UNAVAILABLE) return report.starved;
    if (report.outcome == v1::OUTCOME_OK) {
      ++passed;
      continue;
    }
    const bool ended_badly =
        report.outcome == v1::OUTCOME_FAILED || report.outcome == v1::OUTCOME_SIGNAL;
    if (outcome == v1::OUTCOME_OK) exit_code = report.exit_code;
    if (outcome == v1::OUTCOME_OK) outcome = ended_badly ? v1::OUTCOME_FAILED : report.outcome;
    if (static_cast<size_t>(result->failures_size()) < failures_max) {
      v1::TestFailure* failure = result->add_failures();
      failure->set_name(program.name);
      failure->set_actual(CutText(ToUtf8(report.err + report.out), 400));
    }
  }
  result->set_compiled(built_any);
  result->set_tests_passed(passed);
  result->set_tests_total(static_cast<uint32_t>(programs.size()));
  result->set_outcome(outcome);
  result->set_exit_code(exit_code);
  return false;
}

std::vector<v1::Diagnostic> ParsePythonErrors(std::string_view text) {
  std::vector<v1::Diagnostic> found;
  constexpr std::string_view kFile = "File \"";
  v1::Diagnostic pending;
  while (!text.empty() && found.size() < 200) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t file = line.find(kFile);
    const size_t quote = file == std::string_view::npos ? file : line.find("\", line ", file);
    if (quote != std::string_view::npos) {
      uint32_t number = 0;
      const std::string_view digits = line.substr(quote + 8);
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      pending.set_file(ToUtf8(line.substr(file + kFile.size(), quote - file - kFile.size())));
      pending.set_line(number);
    } else if (!pending.file().empty() && !line.empty() && line[0] != ' ') {
      pending.set_severity("error");
      pending.set_message(ToUtf8(line.substr(0, 500)));
      found.push_back(pending);
      pending.Clear();
    }
  }
  return found;
}

}  // namespace tidemill

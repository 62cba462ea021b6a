#include "tools/command_grader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "tasks/path_patterns.h"
#include "tools/diagnostics.h"
#include "tools/other_values.h"
#include "tools/test_report.h"
#include "tools/tool_runner.h"

namespace tidemill {
namespace {

constexpr uint32_t kRewardSteps = 1000;  // a reward between 0 and 1 as a count of tests
constexpr size_t kOutputShownMax = 2000;

// Fails under pytest and unittest, and only if the ways in which tests fail still work: a check
// that was patched so that it never fails makes this test pass, which gives the patch away.
constexpr std::string_view kPythonCanary = R"(

def _tidemill_@():
    import unittest
    case = unittest.TestCase()

    def fails(check, *values):
        try:
            check(*values)
        except AssertionError:
            return True
        return False

    checks = [
        fails(case.fail),
        fails(case.assertEqual, 1, 2),
        fails(case.assertEqual, [1], [2]),
        fails(case.assertEqual, 'a', 'b'),
        fails(case.assertNotEqual, 1, 1),
        fails(case.assertTrue, False),
        fails(case.assertFalse, True),
        fails(case.assertIs, None, 1),
        fails(case.assertIsNone, 1),
        fails(case.assertIsNotNone, None),
        fails(case.assertIn, 1, []),
        fails(case.assertNotIn, 1, [1]),
        fails(case.assertIsInstance, 1, str),
        fails(case.assertGreater, 1, 2),
        fails(case.assertLess, 2, 1),
        fails(case.assertGreaterEqual, 1, 2),
        fails(case.assertLessEqual, 2, 1),
        fails(case.assertAlmostEqual, 1.0, 2.0),
        fails(case.assertListEqual, [1], [2]),
        fails(case.assertDictEqual, {1: 1}, {}),
        fails(case.assertRaises, ValueError, int),
    ]
    if False not in checks:
        one, two = 1, 2
        assert one == two
)";

constexpr std::string_view kFunctionCanary = R"(

def test_tidemill_@():
    _tidemill_@()
)";

constexpr std::string_view kCaseCanary = R"(

import unittest as _tidemill_unittest_@


class TestTidemill@(_tidemill_unittest_@.TestCase):
    def test_tidemill_@(self):
        _tidemill_@()
)";

std::string PythonCanary(CanaryKind kind, const std::string& nonce) {
  std::string text(kPythonCanary);
  text += kind == CanaryKind::kCase ? kCaseCanary : kFunctionCanary;
  for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at)) {
    text.replace(at, 1, nonce);
  }
  return text;
}

std::string ReportPath(const v1::Grading& grading, const std::string& nonce) {
  return grading.report_file().empty() ? ".tidemill-" + nonce + "/report" : grading.report_file();
}

// Made by a changed test that passes.
std::string PassedPath(const std::string& nonce) {
  return ".tidemill-" + nonce + "/passed";
}

bool HasReport(const v1::Grading& grading) {
  return grading.report() != v1::Grading::REPORT_UNSPECIFIED &&
         grading.report() != v1::Grading::REPORT_EXIT;
}

std::vector<std::string> Filled(const google::protobuf::RepeatedPtrField<std::string>& words,
                                const std::string& report) {
  constexpr std::string_view kPlace = "{report}";
  std::vector<std::string> out;
  for (std::string word : words) {
    for (size_t at = word.find(kPlace); at != std::string::npos;
         at = word.find(kPlace, at + report.size())) {
      word.replace(at, kPlace.size(), report);
    }
    out.push_back(std::move(word));
  }
  return out;
}

void AddFailure(const std::string& name, std::string actual, size_t max, v1::ToolResult* result) {
  if (static_cast<size_t>(result->failures_size()) >= max) return;
  v1::TestFailure* failure = result->add_failures();
  failure->set_name(CutText(name, 200));
  failure->set_actual(CutText(ToUtf8(actual), kOutputShownMax));
}

// Counts what the report says of the tests that matter.
void Count(const v1::Grading& grading, const TestReport& report, size_t failures_max,
           v1::ToolResult* result) {
  if (report.reward) {
    const bool whole = *report.reward == 0 || *report.reward == 1;
    result->set_tests_total(whole ? 1 : kRewardSteps);
    result->set_tests_passed(
        static_cast<uint32_t>(std::lround(*report.reward * result->tests_total())));
    return;
  }
  const auto count = [&](const std::string& name, bool passed) {
    result->set_tests_total(result->tests_total() + 1);
    result->set_tests_passed(result->tests_passed() + (passed ? 1 : 0));
    if (!passed) AddFailure(name, "", failures_max, result);
  };
  if (grading.fail_to_pass().empty() && grading.pass_to_pass().empty()) {
    for (const auto& [name, passed] : report.tests) count(name, passed);
    return;
  }
  for (const auto* names : {&grading.fail_to_pass(), &grading.pass_to_pass()}) {
    for (const std::string& name : *names) count(name, report.Passed(name));
  }
}

// How many tests a run without a report stands for.
uint32_t Expected(const v1::Grading& grading) {
  return std::max(1u,
                  static_cast<uint32_t>(grading.fail_to_pass_size() + grading.pass_to_pass_size()));
}

bool NonceFailed(const TestReport& report, const std::string& nonce) {
  for (const auto& [name, passed] : report.tests) {
    if (!passed && name.find(nonce) != std::string::npos) return true;
  }
  return false;
}

// Where the expected values are others: whether one of the changed tests passes as it did before.
// The agent's own tests may.
bool ChangedTestPasses(const CommandRun& run) {
  for (const std::string& path : run.changed) {
    const std::string stem = "." + path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    const std::string module = stem.substr(0, stem.size() - 3) + ".";
    for (const std::string& name : run.passed) {
      const bool of_it = ("." + PlainTestName(name)).find(module) != std::string::npos;
      if (of_it && run.passed_before.count(name) != 0) return true;
    }
  }
  return false;
}

// The verdict on the files that the command left.
void JudgeRun(CommandRun& run, Box& box, const RunReport& ended, v1::ToolResult* result) {
  const v1::Grading& grading = run.grading;
  const bool good = ended.outcome == v1::OUTCOME_OK;
  if (!HasReport(grading)) {
    // Where the exit status is all there is, one test that fails hides those that pass.
    const bool passed =
        !run.changed.empty() && box.usable() && box.Get(PassedPath(run.nonce), 1).ok();
    run.held = !good && !passed;
    result->set_tests_total(1);
    result->set_tests_passed(good ? 1 : 0);
    if (!good) {
      AddFailure(grading.run(0), ended.out + ended.err, run.options.failures_max, result);
    }
    return;
  }
  const bool finished = good || ended.outcome == v1::OUTCOME_FAILED;
  Result<TestReport> report = Invalid("the command did not end by itself");
  if (finished && box.usable()) {
    const auto text = box.Get(ReportPath(grading, run.nonce), kReportBytesMax);
    report = text.ok() ? ParseTestReport(grading.report(), *text)
                       : Result<TestReport>(Invalid("the command wrote no report"));
  }
  if (!report.ok()) {
    run.held = true;
    result->set_tests_total(Expected(grading));
    AddFailure("report", report.status().message() + "\n" + ended.out + ended.err,
               run.options.failures_max, result);
    return;
  }
  Count(grading, *report, run.options.failures_max, result);
  for (const auto& [name, passed] : report->tests) {
    if (passed) run.passed.insert(name);
  }
  const bool all = result->tests_passed() == result->tests_total();
  const bool own = grading.canary().empty() && !report->reward;
  if (own && !run.changed.empty()) {
    run.held = !ChangedTestPasses(run);
  } else {
    run.held = own ? NonceFailed(*report, run.nonce) : !all;
  }
}

}  // namespace

Status CheckCommandGrading(const v1::Grading& grading) {
  if (grading.run().empty()) return Invalid("the grading has no command to run");
  return Ok();
}

Result<Workspace> CommandGradingFiles(const v1::Grading& grading, const Workspace& agents,
                                      BlobStore* blobs) {
  Workspace files;
  TM_ASSIGN_OR_RETURN(Workspace ours, LoadWorkspace(v1::Tree(), grading.harness(), blobs));
  // A folder of ours is no package because the agent says so: runners may look into it by itself.
  const auto has = [&](const std::string& path) {
    if (ours.count(path) != 0) return true;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const auto first = ours.lower_bound(folder);
    const bool is_ours = first != ours.end() && first->first.starts_with(folder);
    return !is_ours && agents.count(path) != 0;
  };
  const auto& sources = grading.sources();
  for (const auto& [path, file] : agents) {
    const bool named =
        sources.empty() || std::find(sources.begin(), sources.end(), path) != sources.end();
    // A report that the agent left is one that no test wrote.
    const bool report = path == grading.report_file();
    if (named && !report && !IsTasksOwn(grading, path, has)) files[path] = file;
  }
  for (auto& [path, file] : ours) {
    // A file of the agent's where a folder of ours must be, or the other way round, makes way.
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      files.erase(path.substr(0, slash));
    }
    const std::string below = path + "/";
    for (auto it = files.lower_bound(below); it != files.end() && it->first.starts_with(below);) {
      it = files.erase(it);
    }
    files[path] = std::move(file);
  }
  return files;
}

std::vector<std::string> PythonTestsOf(const v1::Grading& grading) {
  std::vector<std::string> paths;
  for (const v1::File& file : grading.harness()) {
    if (IsPythonTest(file.path())) paths.push_back(file.path());
  }
  return paths;
}

Result<std::vector<CanaryKind>> CanariesOf(const v1::Grading& grading, BlobStore* blobs) {
  if (grading.trusted()) return std::vector<CanaryKind>();
  if (!grading.canary().empty()) return std::vector<CanaryKind>{CanaryKind::kAuthors};
  TM_ASSIGN_OR_RETURN(const Workspace ours, LoadWorkspace(v1::Tree(), grading.harness(), blobs));
  bool cases = false, functions = false;
  for (const auto& [path, file] : ours) {
    if (!IsPythonTest(path)) continue;
    const std::string text = "\n" + file.content;
    const bool has_cases = text.find("unittest") != std::string::npos;
    cases = cases || has_cases;
    functions = functions || !has_cases || text.find("\ndef test") != std::string::npos ||
                text.find("\nasync def test") != std::string::npos;
  }
  std::vector<CanaryKind> kinds;
  if (functions) kinds.push_back(CanaryKind::kFunction);
  if (cases) kinds.push_back(CanaryKind::kCase);
  if (!kinds.empty()) kinds.push_back(CanaryKind::kOtherValues);
  return kinds;
}

Status LayCanary(CanaryKind kind, const v1::Grading& grading, const std::string& nonce,
                 BlobStore* blobs, Workspace* files) {
  if (kind == CanaryKind::kAuthors) {
    TM_ASSIGN_OR_RETURN(Workspace canary, LoadWorkspace(v1::Tree(), grading.canary(), blobs));
    for (auto& [path, file] : canary) (*files)[path] = std::move(file);
    return Ok();
  }
  if (kind == CanaryKind::kOtherValues) return Ok();  // the box changes them
  for (const std::string& path : PythonTestsOf(grading)) {
    (*files)[path].content += PythonCanary(kind, nonce);
  }
  return Ok();
}

bool RunGradingCommand(CommandRun& run, Box& box, v1::ToolResult* result) {
  if (!run.changed.empty()) {
    RunSpec change;
    change.limits = run.options.limits;
    change.command =
        OtherValuesCommand(run.changed, run.nonce, "/workspace/" + PassedPath(run.nonce));
    const RunReport changed = box.Run(change);
    if (changed.starved) return true;
    if (changed.outcome == v1::OUTCOME_UNAVAILABLE) {
      TakeReport(changed, result);
      return false;
    }
    // No Python of the box can read them: then only the other canaries tell.
    if (changed.outcome != v1::OUTCOME_OK) {
      result->set_outcome(v1::OUTCOME_OK);
      run.held = true;
      return false;
    }
  }
  const std::string report = ReportPath(run.grading, run.nonce);
  const std::string inside = "/workspace/" + report;
  // So that its folder is there.
  Status status = box.Put(report + ".begun", "");
  if (!status.ok()) {
    Refuse(Unavailable(status.message()), result);
    return false;
  }
  RunSpec spec;
  spec.limits = run.options.limits;
  spec.environment = {"TIDEMILL_REPORT=" + inside, "PYTHONDONTWRITEBYTECODE=1",
                      "PYTHONNOUSERSITE=1"};
  result->set_compiled(true);
  for (const auto* words : {&run.grading.build(), &run.grading.run()}) {
    if (words->empty()) continue;
    spec.command = Filled(*words, inside);
    const RunReport ended = RunProgram(box, spec);
    TakeReport(ended, result);
    if (ended.outcome == v1::OUTCOME_UNAVAILABLE) return false;
    if (ended.starved) return true;
    const bool last = words == &run.grading.run();
    if (!last && ended.outcome == v1::OUTCOME_OK) continue;
    if (last) {
      JudgeRun(run, box, ended, result);
    } else {
      run.held = true;
      result->set_compiled(false);
      result->set_tests_total(Expected(run.grading));
      AddFailure("build", ended.out + ended.err, run.options.failures_max, result);
    }
    break;
  }
  if (result->outcome() == v1::OUTCOME_OK && result->tests_passed() < result->tests_total()) {
    result->set_outcome(v1::OUTCOME_FAILED);
  }
  return false;
}

}  // namespace tidemill

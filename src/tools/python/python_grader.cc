#include "tools/python/python_grader.h"

#include <fmt/format.h>

#include "core/enum_name.h"
#include "core/text.h"
#include "tools/diagnostics.h"
#include "tools/tool_runner.h"
#include "tools/tool_text.h"

namespace tidemill {
namespace {

constexpr size_t kValueShownMax = 400;

void AddSyntaxError(const v1::Grading& grading, const PythonReport& report,
                    v1::ToolResult* result) {
  v1::Diagnostic* diagnostic = result->add_diagnostics();
  diagnostic->set_file(grading.sources(0));
  diagnostic->set_line(static_cast<uint32_t>(report.syntax_line));
  diagnostic->set_severity("error");
  diagnostic->set_message(CutText(ToUtf8(report.load_error), kValueShownMax));
}

// The text of a case that got no answer.
std::string NoAnswer(const PythonReport& report) {
  if (!report.load_error.empty()) return CutText(ToUtf8(report.load_error), kValueShownMax);
  return fmt::format("[no answer: {}]", EnumName(report.outcome));
}

void JudgeCase(const v1::TestCase& test, size_t index, const PythonReport& report,
               const GradeOptions& options, v1::ToolResult* result) {
  const bool answered = index < report.answers.size();
  if (answered && !report.answers[index].value.empty() &&
      report.answers[index].value == test.expected()) {
    result->set_tests_passed(result->tests_passed() + 1);
    return;
  }
  if (static_cast<size_t>(result->failures_size()) >= options.failures_max) return;
  v1::TestFailure* failure = result->add_failures();
  failure->set_name(test.name());
  if (options.reveal && test.name().empty()) failure->set_input(test.input());
  failure->set_actual(answered ? CutText(ToUtf8(report.answers[index].shown), kValueShownMax)
                               : NoAnswer(report));
}

}  // namespace

bool GradePython(const v1::Grading& grading, const GradeOptions& options, const Workspace& files,
                 PythonNursery& nursery, v1::ToolResult* result) {
  result->set_tests_total(static_cast<uint32_t>(grading.cases_size()));
  PythonExam exam;
  exam.limits = options.limits;
  const auto source = files.find(grading.sources(0));
  if (source != files.end()) exam.code = source->second.content;
  for (const v1::TestCase& test : grading.cases()) exam.inputs.push_back(test.input());
  const Result<PythonReport> held = nursery.Hold(exam);
  if (!held.ok()) {
    Refuse(held.status(), result);
    return false;
  }
  const PythonReport& report = *held;
  result->set_wall_ms(report.wall_ms);
  result->set_cpu_ms(report.cpu_ms);
  result->set_peak_memory_kb(report.peak_memory_kb);
  result->set_exit_code(report.exit_code);
  result->set_compiled(report.syntax_line == 0);
  if (report.syntax_line > 0) AddSyntaxError(grading, report, result);
  for (int i = 0; i < grading.cases_size(); ++i) {
    JudgeCase(grading.cases(i), static_cast<size_t>(i), report, options, result);
  }
  const bool wrong = result->tests_passed() < result->tests_total();
  result->set_outcome(report.outcome == v1::OUTCOME_OK && wrong ? v1::OUTCOME_FAILED
                                                                : report.outcome);
  return report.starved;
}

void ToolRunner::GradePythonAnswer(Call& call, bool reveal) {
  const v1::Grading& grading = call.request.grading();
  auto options = GradeWith(call, CheckGrading(grading));
  if (!options.ok()) return Refuse(options.status(), call.result);
  options->reveal = reveal;
  auto files = GradingFiles(grading, call.workspace, blobs_);
  if (!files.ok()) return Refuse(files.status(), call.result);
  if (GradePython(grading, *options, *files, nursery_, call.result)) {
    call.result->Clear();
    (void)GradePython(grading, *options, *files, nursery_, call.result);
  }
  call.result->set_text(TestsText(*call.result, options->limits, call.text_limit));
}

}  // namespace tidemill

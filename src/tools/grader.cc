#include "tools/grader.h"

#include <fmt/format.h>

#include <vector>

#include "core/enum_name.h"
#include "core/text.h"
#include "tools/diagnostics.h"
#include "tools/tool_runner.h"

namespace tidemill {
namespace {

constexpr size_t kShownMax = 400;  // bytes of one value of a failure

std::string_view TrimRight(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  return line;
}

// The next line without the white space at its end, taken off `text`.
std::string_view TakeTrimmedLine(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return TrimRight(line);
}

std::string_view WithoutLastNewlines(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// One line in, one line out. The next input is written only after the answer to the last was read,
// whether it was right or not, so that a program learns nothing but the inputs.
class LineExam final : public Conversation {
 public:
  explicit LineExam(const v1::Grading& grading) : grading_(grading) {}

  bool Begin(std::string* input) override { return Ask(input); }

  bool Heard(std::string_view output, std::string* input) override {
    if (broken_) return false;
    line_.append(output);
    const size_t end = line_.find('\n');
    if (end == std::string::npos) return true;
    answers_.push_back(line_.substr(0, end));
    // Answers to what was not asked yet: it does not speak the protocol.
    broken_ = end + 1 < line_.size();
    line_.clear();
    return !broken_ && Ask(input);
  }

  const std::vector<std::string>& answers() const { return answers_; }

 private:
  bool Ask(std::string* input) {
    const int next = static_cast<int>(answers_.size());
    if (next >= grading_.cases_size()) return false;
    *input += WithoutLastNewlines(grading_.cases(next).input());
    *input += '\n';
    return true;
  }

  const v1::Grading& grading_;
  std::string line_;
  std::vector<std::string> answers_;
  bool broken_ = false;
};

class Examiner {
 public:
  // `box` may be null where nothing is run.
  Examiner(const v1::Grading& grading, const GradeOptions& options, Box* box,
           v1::ToolResult* result)
      : grading_(grading), options_(options), box_(box), result_(result) {}

  bool Run() {
    result_->set_tests_total(static_cast<uint32_t>(grading_.cases_size()));
    if (!Build()) return starved_;
    result_->set_compiled(true);
    if (grading_.mode() == v1::Grading::MODE_LINES) {
      AskLines();
    } else {
      AskProcesses();
    }
    return starved_;
  }

  void Judge(const std::vector<std::string>& answers) {
    result_->set_tests_total(static_cast<uint32_t>(grading_.cases_size()));
    result_->set_compiled(true);
    RunReport report;
    report.outcome = v1::OUTCOME_OK;
    JudgeLines(answers, report);
    Conclude(report.outcome);
  }

 private:
  bool Build() {
    if (grading_.build().empty()) return true;
    RunSpec spec;
    spec.command.assign(grading_.build().begin(), grading_.build().end());
    spec.limits = options_.limits;
    spec.keep_bytes = 16 * 1024;
    const RunReport report = RunProgram(*box_, spec);
    TakeReport(report, result_);
    starved_ = report.starved;
    for (v1::Diagnostic& d : ParseDiagnostics(report.err + report.out, 50)) {
      *result_->add_diagnostics() = std::move(d);
    }
    return report.outcome == v1::OUTCOME_OK;
  }

  // Where building is part of the run ("tcc solution.c -run main.c", an interpreter), a compiler's
  // complaints before the first answer mean that it did not compile.
  void NoteComplaints(const RunReport& report, bool answered) {
    if (!grading_.build().empty() || answered || report.outcome != v1::OUTCOME_FAILED) return;
    std::vector<v1::Diagnostic> complaints = ParseDiagnostics(report.err, 50);
    if (CountSeverity(complaints, "error") == 0) return;
    result_->set_compiled(false);
    result_->clear_diagnostics();
    for (v1::Diagnostic& d : complaints) *result_->add_diagnostics() = std::move(d);
  }

  void AskLines() {
    LineExam exam(grading_);
    RunSpec spec;
    spec.command.assign(grading_.run().begin(), grading_.run().end());
    spec.limits = options_.limits;
    spec.keep_bytes = 4096;
    spec.conversation = &exam;
    const RunReport report = RunProgram(*box_, spec);
    TakeReport(report, result_);
    starved_ = report.starved;
    JudgeLines(exam.answers(), report);
    NoteComplaints(report, !exam.answers().empty());
    Conclude(report.outcome);
  }

  void JudgeLines(const std::vector<std::string>& answers, const RunReport& report) {
    for (int i = 0; i < grading_.cases_size(); ++i) {
      const size_t index = static_cast<size_t>(i);
      const bool answered = index < answers.size();
      std::string answer = answered ? answers[index] : std::string();
      // The newline ended the answer; where it was written down as part of it, it is.
      if (answered && grading_.cases(i).expected().ends_with('\n')) answer += '\n';
      Judge(grading_.cases(i), answered, answer, report);
    }
  }

  void AskProcesses() {
    BoxLimits left = options_.limits;
    RunReport last;
    last.outcome = v1::OUTCOME_OK;
    v1::Outcome outcome = v1::OUTCOME_OK;
    for (const v1::TestCase& test : grading_.cases()) {
      if (!box_->usable() || left.wall <= Duration(0) || left.cpu <= Duration(0)) {
        Judge(test, false, "", last);
        continue;
      }
      RunSpec spec;
      spec.command.assign(grading_.run().begin(), grading_.run().end());
      spec.input = test.input();
      spec.limits = left;
      spec.keep_bytes = 2 * test.expected().size() + 8192;
      last = RunProgram(*box_, spec);
      TakeReport(last, result_);
      starved_ = starved_ || last.starved;
      if (last.outcome == v1::OUTCOME_UNAVAILABLE) return;
      left.wall -= std::chrono::duration_cast<Duration>(
          std::chrono::duration<double, std::milli>(last.wall_ms));
      left.cpu -= std::chrono::duration_cast<Duration>(
          std::chrono::duration<double, std::milli>(last.cpu_ms));
      if (outcome == v1::OUTCOME_OK) outcome = last.outcome;
      NoteComplaints(last, !last.out.empty());
      Judge(test, last.outcome == v1::OUTCOME_OK && !last.truncated, last.out, last);
    }
    Conclude(outcome);
  }

  void Judge(const v1::TestCase& test, bool answered, const std::string& actual,
             const RunReport& report) {
    if (answered && SameOutput(actual, test.expected(), grading_.compare())) {
      result_->set_tests_passed(result_->tests_passed() + 1);
      return;
    }
    if (static_cast<size_t>(result_->failures_size()) >= options_.failures_max) return;
    v1::TestFailure* failure = result_->add_failures();
    failure->set_name(test.name());
    if (options_.reveal) {
      failure->set_input(CutText(ToUtf8(test.input()), kShownMax));
      failure->set_expected(CutText(ToUtf8(test.expected()), kShownMax));
    }
    std::string shown = CutText(ToUtf8(actual), kShownMax);
    if (!answered) {
      shown += fmt::format("[no answer: {}", EnumName(report.outcome));
      if (report.outcome == v1::OUTCOME_FAILED || report.outcome == v1::OUTCOME_SIGNAL) {
        shown += fmt::format(" {}", report.exit_code);
      }
      shown += "]";
    }
    failure->set_actual(shown);
  }

  // A program that ended well but answered wrongly has failed, and one whose every answer was right
  // before it ended badly has not passed unharmed: its outcome stays what it was.
  void Conclude(v1::Outcome outcome) {
    if (outcome == v1::OUTCOME_OK && result_->tests_passed() < result_->tests_total()) {
      outcome = v1::OUTCOME_FAILED;
    }
    result_->set_outcome(outcome);
  }

  const v1::Grading& grading_;
  const GradeOptions& options_;
  Box* box_;
  v1::ToolResult* result_;
  bool starved_ = false;
};

}  // namespace

bool SameOutput(std::string_view actual, std::string_view expected, v1::Grading::Compare compare) {
  if (compare == v1::Grading::COMPARE_EXACT) return actual == expected;
  // Lines that are empty at the end do not count; all others do.
  for (;;) {
    const bool more = !actual.empty() || !expected.empty();
    if (!more) return true;
    if (TakeTrimmedLine(&actual) != TakeTrimmedLine(&expected)) return false;
  }
}

Status CheckGrading(const v1::Grading& grading) {
  if (grading.cases().empty()) return Invalid("the grading has no cases");
  const bool python = grading.mode() == v1::Grading::MODE_PYTHON;
  if (python && grading.sources_size() != 1) {
    return Invalid("a Python grading needs exactly one source, the module with the answer");
  }
  if (!python && grading.run().empty()) return Invalid("the grading has no command to run");
  if (!python && grading.mode() != v1::Grading::MODE_LINES) return Ok();
  for (const v1::TestCase& test : grading.cases()) {
    if (WithoutLastNewlines(test.input()).find('\n') != std::string_view::npos) {
      return Invalid(
          fmt::format("case \"{}\": its input has several lines, which cannot be asked one at "
                      "a time",
                      test.name()));
    }
  }
  return Ok();
}

Result<Workspace> GradingFiles(const v1::Grading& grading, const Workspace& agents,
                               BlobStore* blobs) {
  Workspace files;
  for (const std::string& path : grading.sources()) {
    const auto found = agents.find(path);
    if (found != agents.end()) files[path] = found->second;
  }
  TM_ASSIGN_OR_RETURN(Workspace ours, LoadWorkspace(v1::Tree(), grading.harness(), blobs));
  for (auto& [path, file] : ours) files[path] = std::move(file);
  return files;
}

bool GradeInBox(const v1::Grading& grading, const GradeOptions& options, Box& box,
                v1::ToolResult* result) {
  return Examiner(grading, options, &box, result).Run();
}

void GradeAnswers(const v1::Grading& grading, const GradeOptions& options,
                  const std::vector<std::string>& answers, v1::ToolResult* result) {
  Examiner(grading, options, nullptr, result).Judge(answers);
}

}  // namespace tidemill

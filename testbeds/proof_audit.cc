#include "testbeds/proof_audit.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <span>
#include <sstream>

#include "reward/proof_port.h"

namespace tidemill {

double ThreadCpuMs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::string ProofQuestionFor(const v1::Grading& grading, const std::string& answer) {
  v1::ScoreRequest request;
  *request.mutable_grading() = grading;
  v1::File& file = *request.mutable_tree()->add_files();
  file.set_path(grading.sources(0));
  file.set_content(answer);
  file.set_has_content(true);
  return MakeQuestion({.kind = Need::Kind::kCommand, .name = kProofQuestion}, request, {});
}

Result<double> BoxCpuMs(BoxHost& host, const v1::Grading& grading, const std::string& answer) {
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Box> box, host.Open());
  RunSpec spec;
  spec.limits = LimitsFrom(grading.limits(), BoxLimits());
  TM_RETURN_IF_ERROR(box->Configure(spec.limits));
  TM_RETURN_IF_ERROR(box->Put(grading.sources(0), answer, false));
  for (const v1::File& file : grading.harness()) {
    TM_RETURN_IF_ERROR(box->Put(file.path(), file.content(), false));
  }
  for (const v1::TestCase& test : grading.cases()) spec.input += test.input() + "\n";
  spec.command.assign(grading.run().begin(), grading.run().end());
  const RunReport report = box->Run(spec);
  if (report.outcome != v1::OUTCOME_OK) return Unavailable("the box failed: " + report.err);
  return report.cpu_ms;
}

double ShareAt(std::vector<double>& values, double share) {
  const auto place = static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

namespace {

constexpr size_t kBatch = 200;
constexpr size_t kTimedBoxes = 20;
constexpr size_t kShownMax = 20;

// One answer with its verdict and what the box gave.
struct Judged {
  const PolicyAnswer* answer = nullptr;
  Proof proof;
  bool runs = false;  // it compiled and came to its end
  bool alike = false;
  bool passes = false;                     // on the inputs of the hidden tests
  long long reference = 0, candidate = 0;  // at the counterexample

  // An answer that may crash its program has a program to itself.
  bool alone() const {
    const bool undefined = !proof.inputs.empty() && !proof.candidate.returns;
    return proof.verdict == ProofVerdict::kUnknown || proof.method == kNoCMethod || undefined;
  }
};

constexpr char kAuditMain[] = R"(
int printf(const char*, ...);
int main(void) {
  int i, j, a, b;
  for (i = 0; i < (int)(sizeof audit_c / sizeof *audit_c); i++) {
    int same = 1, passes = 1;
    for (a = audit_low[i]; a <= audit_high[i]; a++)
      for (b = audit_low[i]; b <= audit_high[i]; b++)
        if (audit_c[i](a, b) != audit_r[i](a, b)) same = 0;
    for (j = audit_first[i]; j < audit_first[i + 1]; j += 2) {
      a = audit_tests[j];
      b = audit_tests[j + 1];
      if (audit_c[i](a, b) != audit_r[i](a, b)) passes = 0;
    }
    a = audit_a[i];
    b = audit_b[i];
    printf("%d %d %d %d\n", same, passes, audit_r[i](a, b), audit_c[i](a, b));
  }
  return 0;
}
)";

std::string AuditProgram(std::span<Judged*> batch) {
  std::string out, c, r, low, high, a, b, tests, first = "0";
  size_t count = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const v1::Grading& grading = *batch[i]->answer->grading;
    const std::string n = std::to_string(i);
    out += "#define f audit_r" + n + "\n" + grading.specification().source() + "\n#undef f\n";
    out += "#define f audit_c" + n + "\n" + batch[i]->answer->text + "\n#undef f\n";
    r += "audit_r" + n + ",";
    c += "audit_c" + n + ",";
    low += std::to_string(grading.specification().low()) + ",";
    high += std::to_string(grading.specification().high()) + ",";
    const auto& inputs = batch[i]->proof.inputs;
    a += (inputs.size() == 2 ? std::to_string(inputs[0].value) : "0") + ",";
    b += (inputs.size() == 2 ? std::to_string(inputs[1].value) : "0") + ",";
    for (const v1::TestCase& test : grading.cases()) {
      std::istringstream input(test.input());
      int x = 0, y = 0;
      if (!(input >> x >> y)) continue;
      tests += fmt::format("{},{},", x, y);
      count += 2;
    }
    first += "," + std::to_string(count);
  }
  const std::string type = "static int (*const ";
  return out + type + "audit_c[])(int, int) = {" + c + "};\n" + type + "audit_r[])(int, int) = {" +
         r + "};\nstatic const int audit_low[] = {" + low + "}, audit_high[] = {" + high +
         "}, audit_a[] = {" + a + "}, audit_b[] = {" + b + "}, audit_first[] = {" + first +
         "}, audit_tests[] = {" + tests + "0};\n" + kAuditMain;
}

// False: the program of all of them did not come to its end.
Result<bool> RunBatch(BoxHost& host, std::span<Judged*> batch) {
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Box> box, host.Open());
  RunSpec spec;
  spec.limits.cpu = std::chrono::seconds(5);
  spec.limits.wall = std::chrono::seconds(60);
  spec.keep_bytes = 64 * (kBatch + 1);
  spec.command = {"tcc", "-run", "all.c"};
  TM_RETURN_IF_ERROR(box->Configure(spec.limits));
  TM_RETURN_IF_ERROR(box->Put("all.c", AuditProgram(batch), false));
  const RunReport report = box->Run(spec);
  if (report.outcome == v1::OUTCOME_UNAVAILABLE)
    return Unavailable("a box failed: " + report.cause);
  if (report.outcome != v1::OUTCOME_OK) return false;
  std::istringstream out(report.out);
  for (Judged* one : batch) {
    if (!(out >> one->alike >> one->passes >> one->reference >> one->candidate)) return false;
    one->runs = true;
  }
  return true;
}

// A program that fails is halved until the answer that breaks it is alone.
Status RunAll(BoxHost& host, std::span<Judged*> batch) {
  if (batch.empty()) return Ok();
  TM_ASSIGN_OR_RETURN(const bool ran, RunBatch(host, batch));
  if (ran || batch.size() == 1) return Ok();
  for (Judged* one : batch) one->runs = false;
  TM_RETURN_IF_ERROR(RunAll(host, batch.first(batch.size() / 2)));
  return RunAll(host, batch.subspan(batch.size() / 2));
}

std::string Shown(const Judged& one, const char* what) {
  return fmt::format("{}: {}: {}; the box: {}\n{}", what, VerdictName(one.proof.verdict),
                     one.proof.Text(),
                     !one.runs   ? "it does not compile or does not end well"
                     : one.alike ? "the same on every input"
                                 : fmt::format("reference {}, answer {} at the counterexample",
                                               one.reference, one.candidate),
                     one.answer->text);
}

// Whether the box shows what the refutation says.
bool IsConfirmed(const Judged& one) {
  if (one.proof.method == kNoCMethod) return !one.runs;
  // Undefined: it may crash, or give any value.
  if (!one.proof.candidate.returns) return true;
  return one.runs && one.reference == one.proof.reference.value &&
         one.candidate == one.proof.candidate.value;
}

void Count(const Judged& one, ProofAuditReport& report) {
  const uint64_t times = one.answer->times;
  const bool alike = one.runs && one.alike;
  report.answers += times;
  ++report.distinct;
  report.cells[static_cast<size_t>(one.proof.verdict)][alike ? 0 : 1] += times;
  const auto complain = [&](uint64_t& counter, const char* what) {
    ++counter;
    if (report.shown.size() < kShownMax) report.shown.push_back(Shown(one, what));
  };
  if (one.proof.verdict == ProofVerdict::kProved && !alike)
    complain(report.unexplained, "disagreement");
  if (one.proof.verdict != ProofVerdict::kRefuted) return;
  const bool no_c = one.proof.method == kNoCMethod;
  const bool undefined = !no_c && !one.proof.candidate.returns;
  report.no_c += no_c;
  report.undefined += undefined;
  report.counterexamples += !no_c;
  report.lucky += !no_c && !undefined && one.runs && one.passes;
  if (alike && !undefined) complain(report.unexplained, "disagreement");
  if (!IsConfirmed(one)) complain(report.unconfirmed, "not confirmed");
}

Status TimeBoxes(BoxHost& host, const std::vector<Judged>& all, ProofAuditReport& report) {
  std::vector<double> times;
  for (size_t i = 0; i < all.size() && times.size() < kTimedBoxes; ++i) {
    if (!all[i].runs) continue;
    TM_ASSIGN_OR_RETURN(const double ms,
                        BoxCpuMs(host, *all[i].answer->grading, all[i].answer->text));
    times.push_back(ms);
  }
  if (!times.empty()) report.box_ms = ShareAt(times, 0.5);
  return Ok();
}

}  // namespace

Result<ProofAuditReport> AuditProofs(const std::vector<PolicyAnswer>& answers) {
  if (answers.empty()) return NotFound("there are no answers to look at");
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<BoxHost> host, BoxHost::Create({}));
  ProofAuditReport report;
  std::vector<double> times;
  std::vector<Judged> all(answers.size());
  std::vector<Judged*> together;
  for (size_t i = 0; i < answers.size(); ++i) {
    const PolicyAnswer& answer = answers[i];
    const std::string question = ProofQuestionFor(*answer.grading, answer.text);
    const double start = ThreadCpuMs();
    (void)AnswerProofQuestion(question);
    times.push_back(ThreadCpuMs() - start);
    all[i].answer = &answer;
    all[i].proof = ProveAnswer(answer.grading->specification(), answer.text);
    if (!all[i].alone()) together.push_back(&all[i]);
  }
  for (double ms : times) report.mean_ms += ms / static_cast<double>(times.size());
  report.median_ms = ShareAt(times, 0.5);
  report.percentile99_ms = ShareAt(times, 0.99);
  for (size_t i = 0; i < together.size(); i += kBatch) {
    const size_t count = std::min(kBatch, together.size() - i);
    TM_RETURN_IF_ERROR(RunAll(*host, std::span(together).subspan(i, count)));
  }
  for (Judged& one : all) {
    if (!one.alone()) continue;
    Judged* single[] = {&one};
    TM_RETURN_IF_ERROR(RunAll(*host, single));
  }
  for (const Judged& one : all) Count(one, report);
  TM_RETURN_IF_ERROR(TimeBoxes(*host, all, report));
  return report;
}

double ProofAuditReport::coverage() const {
  return answers == 0
             ? 0
             : 1 - static_cast<double>(cells[2][0] + cells[2][1]) / static_cast<double>(answers);
}

bool ProofAuditReport::Holds() const {
  return unexplained == 0 && unconfirmed == 0 && coverage() >= 0.98;
}

std::string ProofAuditReport::ToText() const {
  std::string text = fmt::format(
      "{} answers, {} distinct\n"
      "             same as the reference   different, in a box on every input\n"
      "  proved     {:>21}   {:>9}\n  refuted    {:>21}   {:>9}\n  unknown    {:>21}   {:>9}\n"
      "of the distinct ones: {} refuted by a counterexample, {} of them undefined, {} not "
      "confirmed "
      "in a box; {} no C; {} refuted that pass their hidden tests\n"
      "disagreements without a reason: {}\ndecided: {:.2f} %\n"
      "CPU a verdict: median {:.4f} ms, 99th percentile {:.4f} ms, mean {:.4f} ms; in a box {:.2f} "
      "ms, {:.0f} times as much{}",
      answers, distinct, cells[0][0], cells[0][1], cells[1][0], cells[1][1], cells[2][0],
      cells[2][1], counterexamples, undefined, unconfirmed, no_c, lucky, unexplained,
      100 * coverage(), median_ms, percentile99_ms, mean_ms, box_ms, box_to_proof(),
      Holds() ? "" : "\na bound was missed (docs/verifiers.md)");
  for (const std::string& one : shown) text += "\n" + one;
  return text;
}

std::string ProofAuditReport::ToJson() const {
  return fmt::format(
      R"({{"answers": {}, "distinct": {}, "proved": {{"alike": {}, "different": {}}}, )"
      R"("refuted": {{"alike": {}, "different": {}}}, "unknown": {{"alike": {}, "different": {}}}, )"
      R"("counterexamples": {}, "undefined": {}, "unconfirmed": {}, "no_c": {}, "lucky": {}, )"
      R"("unexplained": {}, "coverage": {}, "median_ms": {}, "percentile99_ms": {}, )"
      R"("mean_ms": {}, "box_ms": {}, "box_to_proof": {}, "holds": {}}})",
      answers, distinct, cells[0][0], cells[0][1], cells[1][0], cells[1][1], cells[2][0],
      cells[2][1], counterexamples, undefined, unconfirmed, no_c, lucky, unexplained, coverage(),
      median_ms, percentile99_ms, mean_ms, box_ms, box_to_proof(), Holds());
}

}  // namespace tidemill

#include "bench/proof_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reward/proof_port.h"
#include "testbeds/cfunc.h"
#include "testbeds/cfunc_task.h"
#include "testbeds/proof_audit.h"
#include "tools/box/box_host.h"

namespace tidemill {
namespace {

constexpr int kSlips = 3;

// The same in other words: what a sum or a product's order, or a comparison's, does not change.
Expr Rewritten(Expr expr) {
  for (Expr& operand : expr.operands) operand = Rewritten(std::move(operand));
  if (expr.op == '+' || expr.op == '*') std::swap(expr.operands[0], expr.operands[1]);
  return expr;
}

bool BehavesAlike(const Expr& a, const Expr& b) {
  for (int x = -kCfuncHiddenBound; x <= kCfuncHiddenBound; ++x) {
    for (int y = -kCfuncHiddenBound; y <= kCfuncHiddenBound; ++y) {
      if (EvalExpr(a, x, y) != EvalExpr(b, x, y)) return false;
    }
  }
  return true;
}

struct BenchAnswer {
  v1::Task task;
  std::string text;
  bool is_right = false;
};

std::vector<BenchAnswer> DrawAnswers(const std::vector<CfuncProblem>& problems, uint64_t seed) {
  Random random = Random(seed).Split("answers");
  std::vector<BenchAnswer> answers;
  for (const CfuncProblem& problem : problems) {
    const v1::Task task = CfuncTask(problem, "t");
    std::vector<Expr> tried = {problem.expr, Rewritten(problem.expr)};
    for (int i = 0; i < kSlips; ++i) tried.push_back(MutateExpr(problem.expr, random));
    for (const Expr& expr : tried) {
      answers.push_back({task, task.answer_prefix() + ExprText(expr) + task.answer_suffix(),
                         BehavesAlike(problem.expr, expr)});
    }
  }
  return answers;
}

}  // namespace

Result<ProofBenchReport> RunProofBench(const ProofBenchOptions& options) {
  CfuncOptions family;
  family.count = options.problems;
  family.seed = options.seed;
  TM_ASSIGN_OR_RETURN(const std::vector<CfuncProblem> problems, GenerateCfunc(family));
  const std::vector<BenchAnswer> answers = DrawAnswers(problems, options.seed);
  ProofBenchReport report;
  std::vector<double> times;
  for (const BenchAnswer& answer : answers) {
    const std::string question = ProofQuestionFor(answer.task.grading(), answer.text);
    const double start = ThreadCpuMs();
    const CommandAnswer verdict = AnswerProofQuestion(question);
    times.push_back(ThreadCpuMs() - start);
    report.mean_ms += times.back() / static_cast<double>(answers.size());
    ++report.answers;
    ++(!verdict.has_score ? report.unknown : verdict.score > 0 ? report.proved : report.refuted);
    report.wrong += verdict.has_score && (verdict.score > 0) != answer.is_right;
  }
  report.median_ms = ShareAt(times, 0.5);
  report.percentile99_ms = ShareAt(times, 0.99);
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<BoxHost> host, BoxHost::Create({}));
  std::vector<double> boxed;
  for (uint64_t i = 0; i < options.boxed; ++i) {
    const size_t at = i * 5 % answers.size();
    TM_ASSIGN_OR_RETURN(const double ms,
                        BoxCpuMs(*host, answers[at].task.grading(), answers[at].text));
    boxed.push_back(ms);
  }
  report.box_ms = ShareAt(boxed, 0.5);
  report.box_to_proof = report.box_ms / report.mean_ms;
  return report;
}

bool ProofBenchReport::Holds() const {
  return wrong == 0 && unknown * 50 <= answers && median_ms <= 0.1 && percentile99_ms <= 5 &&
         box_to_proof >= 50;
}

std::string ProofBenchReport::ToText() const {
  return fmt::format(
      "{} answers: {} proved, {} refuted, {} unknown, {} wrong\n"
      "CPU a verdict: median {:.4f} ms, 99th percentile {:.4f} ms, mean {:.4f} ms\n"
      "the same in a box: {:.2f} ms of CPU, {:.0f} times as much{}",
      answers, proved, refuted, unknown, wrong, median_ms, percentile99_ms, mean_ms, box_ms,
      box_to_proof, Holds() ? "" : "\na bound was missed (docs/verifiers.md)");
}

std::string ProofBenchReport::ToJson() const {
  return fmt::format(R"({{"answers": {}, "proved": {}, "refuted": {}, "unknown": {}, "wrong": {}, )"
                     R"("median_ms": {}, "percentile99_ms": {}, "mean_ms": {}, "box_ms": {}, )"
                     R"("box_to_proof": {}, "holds": {}}})",
                     answers, proved, refuted, unknown, wrong, median_ms, percentile99_ms, mean_ms,
                     box_ms, box_to_proof, Holds());
}

}  // namespace tidemill

#include "tests/proof/judgement.h"

#include "reward/verifiers/c_machine.h"

namespace tidemill {
namespace {

// What the sanitizer does not see, or a compiler does not do. gcc computes (short)(x * y) without
// checks where it needs only the lower bits.
bool IsInvisible(const std::string& undefined, const COracleOptions& options) {
  for (const char* what : {"uninitialised", "without return", "constant", "never ends"}) {
    if (undefined.find(what) != std::string::npos) return true;
  }
  return options.compiler.find("clang") == std::string::npos &&
         undefined.find("overflow") != std::string::npos;
}

std::string Inputs(size_t index, const COracleOptions& options) {
  const auto width = static_cast<size_t>(options.high - options.low + 1);
  return "f(" + std::to_string(options.low + static_cast<int>(index / width)) + ", " +
         std::to_string(options.low + static_cast<int>(index % width)) + ")";
}

// Then nothing is known.
bool IsTooLong(const COracleAnswer& answer, size_t i) {
  return answer.status[i] == COracleAnswer::kTooLong;
}

std::string WrongProof(const COracleAnswer& reference, const COracleAnswer& candidate,
                       const COracleOptions& options) {
  for (size_t i = 0; i < reference.status.size(); ++i) {
    if (IsTooLong(reference, i) || IsTooLong(candidate, i)) continue;
    if (reference.status[i] == COracleAnswer::kReturned &&
        candidate.status[i] == COracleAnswer::kReturned &&
        reference.value[i] == candidate.value[i]) {
      continue;
    }
    return "proved, but at " + Inputs(i, options) + " the reference gave " +
           std::to_string(reference.value[i]) + " (status " + std::to_string(reference.status[i]) +
           ") and the candidate " + std::to_string(candidate.value[i]) + " (status " +
           std::to_string(candidate.status[i]) + ")";
  }
  return "";
}

}  // namespace

std::string WhatIsWrong(const Proof& proof, const COracleAnswer& reference,
                        const COracleAnswer& candidate, const COracleOptions& options) {
  if (proof.verdict == ProofVerdict::kUnknown) return "";
  if (proof.verdict == ProofVerdict::kProved) return WrongProof(reference, candidate, options);
  const int64_t width = options.high - options.low + 1;
  const auto at = static_cast<size_t>((proof.inputs[0].value - options.low) * width +
                                      (proof.inputs[1].value - options.low));
  const std::string claim = proof.Text() + "; ";
  if (IsTooLong(reference, at) || IsTooLong(candidate, at)) return "";
  if (!proof.reference.returns || reference.status[at] != COracleAnswer::kReturned ||
      reference.value[at] != proof.reference.value) {
    return claim + "but the reference gave " + std::to_string(reference.value[at]) + " (status " +
           std::to_string(reference.status[at]) + ")";
  }
  const bool returned = candidate.status[at] == COracleAnswer::kReturned;
  if (proof.candidate.returns && returned && candidate.value[at] == proof.candidate.value &&
      proof.candidate.value != proof.reference.value) {
    return "";
  }
  if (!proof.candidate.returns && (!returned || IsInvisible(proof.candidate.undefined, options)))
    return "";
  return claim + "but the candidate gave " + std::to_string(candidate.value[at]) + " (status " +
         std::to_string(candidate.status[at]) + ")";
}

std::string CompareRuns(const std::string& text, const COracleAnswer& answer,
                        const COracleOptions& options, bool& undecided) {
  const auto program = ParseC(text, "f");
  undecided = !program.ok();
  if (!program.ok()) {
    return program.status().code() == Code::kUnavailable ? "" : program.status().message();
  }
  const auto code = CompileC(*program);
  undecided = !code.ok();
  if (!code.ok()) return "";
  CMachine machine(*code);
  size_t i = 0;
  for (int64_t a = options.low; a <= options.high; ++a) {
    for (int64_t b = options.low; b <= options.high; ++b, ++i) {
      const int64_t input[] = {a, b};
      const CRun run = machine.Run(input, 10'000'000);
      if (run.read_unset || IsTooLong(answer, i)) continue;
      if (run.end == CRun::End::kUndefined &&
          IsInvisible(std::string(UndefinedText(run.undefined)), options)) {
        continue;
      }
      const bool returned = answer.status[i] == COracleAnswer::kReturned;
      if (run.end == CRun::End::kReturned ? returned && run.value == answer.value[i] : !returned) {
        continue;
      }
      return Inputs(i, options) + ": the machine says end " +
             std::to_string(static_cast<int>(run.end)) + ", value " + std::to_string(run.value) +
             ", " + std::string(UndefinedText(run.undefined)) + " at line " +
             std::to_string(run.line) + "; the compiler's code gave " +
             std::to_string(answer.value[i]) + " (status " + std::to_string(answer.status[i]) + ")";
    }
  }
  return "";
}

}  // namespace tidemill

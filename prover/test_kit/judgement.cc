#include "prover/test_kit/judgement.h"

#include "prover/c_machine.h"

namespace tidemill {
namespace {

// Undefined behaviour that the sanitizer does not see, or a compiler does not do.
bool IsInvisible(const std::string& undefined, const OracleSight& sight) {
  for (const char* what : {"uninitialised", "without return", "constant", "never ends"}) {
    if (undefined.find(what) != std::string::npos) return true;
  }
  return !sight.sees_overflow && undefined.find("overflow") != std::string::npos;
}

// Of one function on one input, and how many inputs of a function may need more.
constexpr uint64_t kStepsMax = 1'000'000;
constexpr uint64_t kUnfinishedMax = 5;

// Then nothing is known.
bool IsTooLong(const COracleAnswer& answer, size_t i) {
  return answer.status[i] == COracleAnswer::kTooLong;
}

bool Returned(const COracleAnswer& answer, size_t i) {
  return answer.status[i] == COracleAnswer::kReturned;
}

std::string WrongProof(const JudgedPair& answers, bool in_range) {
  const auto& [reference, candidate] = answers;
  const size_t inputs = in_range ? reference.InRange() : reference.status.size();
  for (size_t i = 0; i < inputs; ++i) {
    if (IsTooLong(reference, i) || IsTooLong(candidate, i)) continue;
    if (Returned(reference, i) && Returned(candidate, i) &&
        reference.value[i] == candidate.value[i]) {
      continue;
    }
    return "proved, but the reference " + reference.Text(i) + " and the candidate " +
           candidate.Text(i);
  }
  return "";
}

}  // namespace

std::string WhatIsWrong(const Proof& proof, const JudgedPair& answers, const OracleSight& sight,
                        bool in_range) {
  if (proof.verdict == ProofVerdict::kUnknown) return "";
  if (proof.verdict == ProofVerdict::kProved) return WrongProof(answers, in_range);
  const auto& [reference, candidate] = answers;
  const std::string claim = proof.Text() + "; but ";
  const auto place = reference.Find(proof.inputs[0].value, proof.inputs[1].value);
  if (!place) return claim + "nobody ran this input";
  const size_t at = *place;
  if (IsTooLong(reference, at) || IsTooLong(candidate, at)) return "";
  if (!proof.reference.returns || !Returned(reference, at) ||
      reference.value[at] != proof.reference.value) {
    return claim + "the reference " + reference.Text(at);
  }
  if (proof.candidate.returns && Returned(candidate, at) &&
      candidate.value[at] == proof.candidate.value &&
      proof.candidate.value != proof.reference.value) {
    return "";
  }
  if (!proof.candidate.returns &&
      (!Returned(candidate, at) || IsInvisible(proof.candidate.undefined, sight))) {
    return "";
  }
  return claim + "the candidate " + candidate.Text(at);
}

RunComparison CompareRuns(const std::string& text, const COracleAnswer& answer,
                          const OracleSight& sight) {
  RunComparison out;
  const auto program = ParseC(text, "f");
  out.outside = !program.ok();
  if (!program.ok()) {
    if (program.status().code() != Code::kUnavailable) out.difference = program.status().message();
    return out;
  }
  const auto code = CompileC(*program);
  out.outside = !code.ok();
  if (!code.ok()) return out;
  CMachine machine(*code);
  for (size_t i = 0; i < answer.status.size(); ++i) {
    const IntPair pair = answer.Input(i);
    const int64_t input[] = {pair[0], pair[1]};
    const CRun run = machine.Run(input, kStepsMax);
    const bool undefined = run.end == CRun::End::kUndefined;
    if (run.end != CRun::End::kReturned && !undefined && ++out.unfinished == kUnfinishedMax) {
      out.skipped += answer.status.size() - i;
      break;
    }
    if ((run.end != CRun::End::kReturned && !undefined) || run.read_unset || IsTooLong(answer, i) ||
        (undefined && IsInvisible(std::string(UndefinedText(run.undefined)), sight))) {
      ++out.skipped;
      continue;
    }
    if (run.end == CRun::End::kReturned ? Returned(answer, i) && run.value == answer.value[i]
                                        : !Returned(answer, i)) {
      ++out.compared;
      out.undefined += undefined ? 1 : 0;
      continue;
    }
    out.difference = "the machine says end " + std::to_string(static_cast<int>(run.end)) +
                     ", value " + std::to_string(run.value) + ", " +
                     std::string(UndefinedText(run.undefined)) + " at line " +
                     std::to_string(run.line) + "; the compiler's code " + answer.Text(i);
    break;
  }
  return out;
}

}  // namespace tidemill

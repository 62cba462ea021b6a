#include "prover/prover.h"

#include <algorithm>

#include "prover/c_ast.h"
#include "prover/c_machine.h"
#include "prover/input_space.h"
#include "prover/input_trial.h"
#include "prover/normal_form.h"
#include "prover/z3_proof.h"

namespace tidemill {
namespace {

std::string NumberText(int64_t value, bool is_unsigned) {
  return is_unsigned ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
}

// One side of the question.
struct Side {
  CProgram program;
  CCode code;
  const CFunction& function() const { return program.functions[program.entry]; }
};

Result<Side> ReadSide(std::string_view text, const std::string& function) {
  Side side;
  TM_ASSIGN_OR_RETURN(side.program, ParseC(text, function));
  TM_ASSIGN_OR_RETURN(side.code, CompileC(side.program));
  return side;
}

// The function to compare: what both define, if that is one, or "f".
Result<std::string> ChooseFunction(const ProofTexts& texts) {
  auto reference = FunctionsOfC(texts.reference);
  if (!reference.ok()) return reference.status().WithContext(texts.reference_name);
  auto candidate = FunctionsOfC(texts.candidate);
  if (!candidate.ok()) return candidate.status().WithContext(texts.candidate_name);
  std::vector<std::string> both;
  for (const std::string& name : *reference) {
    if (name == "main") continue;
    if (std::find(candidate->begin(), candidate->end(), name) != candidate->end()) {
      both.push_back(name);
    }
  }
  if (both.size() == 1) return both[0];
  if (std::find(both.begin(), both.end(), "f") != both.end()) return std::string("f");
  std::string names;
  for (const std::string& name : both) names += (names.empty() ? "" : ", ") + name;
  return Invalid(both.empty() ? "the two files define no function of the same name"
                              : "say --function: both files define " + names);
}

// Why the two cannot be compared; empty: they can.
std::string WhyIncomparable(const CFunction& reference, const CFunction& candidate) {
  if (!reference.result.is_int()) return "the function returns " + TypeText(reference.result);
  bool same = reference.parameters == candidate.parameters && reference.result == candidate.result;
  for (uint32_t i = 0; i < reference.parameters; ++i) {
    const CType& type = reference.variables[i].type;
    if (!type.is_int()) return "parameter " + reference.variables[i].name + " is a pointer";
    same = same && type == candidate.variables[i].type;
  }
  return same ? "" : "the two functions have different parameters or results";
}

InputSpace SpaceOf(const CFunction& function, const ProofOptions& options) {
  InputSpace space;
  for (uint32_t i = 0; i < function.parameters; ++i) {
    const CIntType type = function.variables[i].type.base;
    InputInterval interval{function.variables[i].name, type, LowestOf(type), HighestOf(type)};
    if (options.has_range) {
      interval.low = std::max(interval.low, options.low);
      const bool all_positive = type.bits == 64 && !type.is_signed;
      interval.high = all_positive ? options.high : std::min(interval.high, options.high);
    }
    space.push_back(std::move(interval));
  }
  return space;
}

// A range may have no value of a type: -9:-1 for an unsigned parameter.
Status CheckSpace(const CFunction& function, const ProofOptions& options) {
  for (uint32_t i = 0; i < function.parameters && options.has_range; ++i) {
    const CIntType type = function.variables[i].type.base;
    const bool unbounded = type.bits == 64 && !type.is_signed;
    if (options.high >= LowestOf(type) && (unbounded || options.low <= HighestOf(type))) continue;
    return Invalid("the range has no value for the parameter \"" + function.variables[i].name +
                   "\" of type " + TypeText(function.variables[i].type));
  }
  return Ok();
}

class EquivalenceProof {
 public:
  EquivalenceProof(const Side& reference, const Side& candidate, const ProofOptions& options)
      : options_(options),
        reference_(reference.program),
        candidate_(candidate.program),
        space_(SpaceOf(reference.function(), options)),
        trial_(reference.code, candidate.code, reference.function().result.base, options) {}

  Proof Run() {
    const uint64_t count = CountInputs(space_);
    const bool few = count <= options_.inputs_max;
    for (const Input& input : ProbeInputs(space_, few ? kCornerProbes : options_.probes)) {
      if (!trial_.Try(input)) return Refuted(input, "probe");
    }
    if (!trial_.open() && HaveSameForm()) return Filled(ProofVerdict::kProved, "algebra");
    if (few) return TryAll();
    if (trial_.open()) return Unknown("probe");
    return options_.z3_rlimit == 0 ? Unknown("") : AskAboutAll();
  }

 private:
  static constexpr size_t kCornerProbes = 64;

  bool HaveSameForm() const {
    const auto reference = NormalFormOf(reference_, space_);
    if (!reference) return false;
    const auto candidate = NormalFormOf(candidate_, space_);
    return candidate && *reference == *candidate;
  }

  Proof TryAll() {
    Input input;
    for (const InputInterval& interval : space_) input.push_back(interval.low);
    do {
      if (!trial_.Try(input)) return Refuted(input, "exhaustive");
      if (trial_.exhausted()) return Unknown("exhaustive");
    } while (NextInput(space_, input));
    if (trial_.open()) return Unknown("exhaustive");
    return Filled(ProofVerdict::kProved, "exhaustive");
  }

  // A counterexample of Z3 is tried before it counts.
  Proof AskAboutAll() {
    std::string why;
    for (const bool defined : {false, true}) {
      const Z3Answer answer = AskZ3(reference_, candidate_, space_, options_, defined);
      if (answer.kind == Z3Answer::Kind::kProved && !defined) {
        return Filled(ProofVerdict::kProved, "z3");
      }
      if (answer.kind == Z3Answer::Kind::kInput && !trial_.Try(answer.input)) {
        return Refuted(answer.input, "z3");
      }
      why = answer.kind == Z3Answer::Kind::kInput ? "a loop goes on for longer than it was followed"
                                                  : answer.why;
      if (answer.kind != Z3Answer::Kind::kInput) break;
    }
    Proof proof = Unknown("z3");
    if (!trial_.open() && !why.empty()) proof.reason = why;
    return proof;
  }

  Proof Filled(ProofVerdict verdict, std::string method) const {
    Proof proof;
    proof.verdict = verdict;
    proof.method = std::move(method);
    proof.inputs_tried = trial_.inputs();
    proof.steps = trial_.steps();
    return proof;
  }

  void AddInputs(const Input& input, Proof& proof) const {
    for (size_t i = 0; i < input.size(); ++i) {
      const CIntType type = space_[i].type;
      proof.inputs.push_back({space_[i].name, input[i], type.bits == 64 && !type.is_signed});
    }
  }

  Proof Refuted(const Input& input, std::string method) const {
    Proof proof = Filled(ProofVerdict::kRefuted, std::move(method));
    AddInputs(input, proof);
    proof.reference = trial_.reference();
    proof.candidate = trial_.candidate();
    return proof;
  }

  Proof Unknown(std::string method) const {
    Proof proof = Filled(ProofVerdict::kUnknown, std::move(method));
    if (trial_.open()) {
      AddInputs(trial_.open()->input, proof);
      proof.reason = trial_.open()->why;
    } else if (trial_.exhausted()) {
      proof.reason =
          "trying every input takes more than " + std::to_string(options_.steps_max) + " steps";
    } else {
      proof.reason = "there are too many inputs to try";
    }
    return proof;
  }

  const ProofOptions& options_;
  const CProgram& reference_;
  const CProgram& candidate_;
  const InputSpace space_;
  InputTrial trial_;
};

Proof UnknownProof(std::string reason) {
  Proof proof;
  proof.reason = std::move(reason);
  return proof;
}

}  // namespace

std::string_view VerdictName(ProofVerdict verdict) {
  switch (verdict) {
    case ProofVerdict::kProved:
      return "proved";
    case ProofVerdict::kRefuted:
      return "refuted";
    case ProofVerdict::kUnknown:
      break;
  }
  return "unknown";
}

std::string ProofOutcome::Text() const {
  if (returns) return "returns " + NumberText(value, is_unsigned);
  return "is undefined (" + undefined + ")";
}

std::string ProofArgument::Text() const {
  return name + "=" + NumberText(value, is_unsigned);
}

std::string Proof::Text() const {
  std::string call = function + "(";
  for (const ProofArgument& argument : inputs) {
    if (call.back() != '(') call += ", ";
    call += argument.Text();
  }
  call += ")";
  switch (verdict) {
    case ProofVerdict::kProved:
      return function + " does the same as the reference";
    case ProofVerdict::kRefuted:
      if (inputs.empty()) return reason;
      return call + ": the reference " + reference.Text() + ", the candidate " + candidate.Text();
    case ProofVerdict::kUnknown:
      break;
  }
  return inputs.empty() ? reason : call + ": " + reason;
}

Result<Proof> ProveEquivalent(const ProofTexts& texts, const ProofOptions& options) {
  ProofOptions chosen = options;
  if (chosen.function.empty()) {
    auto function = ChooseFunction(texts);
    if (!function.ok() && function.status().code() != Code::kUnavailable) return function.status();
    if (!function.ok()) return UnknownProof(function.status().message());
    chosen.function = *function;
  }
  auto reference = ReadSide(texts.reference, chosen.function);
  auto candidate = ReadSide(texts.candidate, chosen.function);
  for (const auto* side : {&reference, &candidate}) {
    if (side->ok()) continue;
    const Status fault = side->status().WithContext(side == &reference ? texts.reference_name
                                                                       : texts.candidate_name);
    if (fault.code() != Code::kUnavailable) return fault;
  }
  Proof proof;
  if (!reference.ok() || !candidate.ok()) {
    const bool first = !reference.ok();
    const Status& fault = first ? reference.status() : candidate.status();
    proof = UnknownProof(
        fault.WithContext(first ? texts.reference_name : texts.candidate_name).message());
  } else {
    const std::string why = WhyIncomparable(reference->function(), candidate->function());
    if (why.empty()) TM_RETURN_IF_ERROR(CheckSpace(reference->function(), chosen));
    proof =
        why.empty() ? EquivalenceProof(*reference, *candidate, chosen).Run() : UnknownProof(why);
  }
  proof.function = chosen.function;
  return proof;
}

}  // namespace tidemill

#include "prover/z3_proof.h"

#include "prover/c_symbolic.h"

namespace tidemill {
namespace {

Z3Answer Z3Unknown(std::string why) {
  Z3Answer answer;
  answer.why = std::move(why);
  return answer;
}

z3::expr Inside(z3::context& context, const InputInterval& interval, const z3::expr& value) {
  const unsigned bits = interval.type.bits;
  const auto number = [&](int64_t n) {
    return context.bv_val(static_cast<uint64_t>(n), 64).extract(bits - 1, 0).simplify();
  };
  const z3::expr low = number(interval.low), high = number(interval.high);
  if (interval.type.is_signed) return low <= value && value <= high;
  return z3::ule(low, value) && z3::ule(value, high);
}

Z3Answer Ask(const CProgram& reference, const CProgram& candidate, const InputSpace& space,
             const ProofOptions& options, bool defined) {
  z3::context context;
  z3::solver solver(context, "QF_BV");
  z3::params params(context);
  params.set("rlimit", static_cast<unsigned>(std::min<uint64_t>(options.z3_rlimit, ~0u)));
  solver.set(params);
  std::vector<z3::expr> parameters;
  for (size_t i = 0; i < space.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    parameters.push_back(context.bv_const(name.c_str(), space[i].type.bits));
    solver.add(Inside(context, space[i], parameters.back()));
  }
  SymbolicLimits limits;
  limits.unroll = options.unroll;
  const auto first = SymbolicRun(context, reference, limits).Run(parameters);
  const auto second = SymbolicRun(context, candidate, limits).Run(parameters);
  if (!first || !second) {
    return Z3Unknown(
        "too many inputs to try, and too much for formulas (pointers, large arrays, "
        "long loops)");
  }
  const z3::expr differs = first->value != second->value;
  if (defined) {
    solver.add(!first->undefined && !first->unfinished && !second->unfinished);
    solver.add(second->undefined || differs);
  } else {
    solver.add(first->undefined || first->unfinished || second->undefined || second->unfinished ||
               differs);
  }
  Z3Answer answer;
  const z3::check_result result = solver.check();
  if (result == z3::unknown) return Z3Unknown("Z3 found no answer within its limit of work");
  if (result == z3::unsat) {
    answer.kind = Z3Answer::Kind::kProved;
    return answer;
  }
  answer.kind = Z3Answer::Kind::kInput;
  const z3::model model = solver.get_model();
  for (size_t i = 0; i < space.size(); ++i) {
    const z3::expr value = model.eval(parameters[i], true);
    answer.input.push_back(
        ConvertedTo(space[i].type, static_cast<int64_t>(value.get_numeral_uint64())));
  }
  return answer;
}

}  // namespace

Z3Answer AskZ3(const CProgram& reference, const CProgram& candidate, const InputSpace& space,
               const ProofOptions& options, bool defined) {
  try {
    return Ask(reference, candidate, space, options, defined);
  } catch (const z3::exception& error) {
    return Z3Unknown(std::string("Z3 failed: ") + error.msg());
  }
}

}  // namespace tidemill

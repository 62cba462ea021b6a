// The C front end: text -> tokens -> tree -> code, and a few steps of it. Whatever comes in,
// nothing may crash, and what runs stays within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "prover/c_ast.h"
#include "prover/c_machine.h"
#include "prover/prover.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)FunctionsOfC(text);
  const auto program = ParseC(text, "f");
  if (!program.ok()) {
    const Code code = program.status().code();
    if (code != Code::kInvalid && code != Code::kUnavailable) std::abort();
    return 0;
  }
  const auto code = CompileC(*program);
  if (!code.ok()) return 0;
  const CFunction& function = program->functions[program->entry];
  for (uint32_t i = 0; i < function.parameters; ++i) {
    if (!function.variables[i].type.is_int()) return 0;  // nothing calls it so
  }
  constexpr uint64_t kSteps = 2000;
  CMachine machine(*code);
  for (const int64_t value : {0, 1, -3}) {
    const std::vector<int64_t> input(function.parameters, value);
    if (machine.Run(input, kSteps).steps > kSteps) std::abort();
    (void)machine.Repeats(input, kSteps);
  }
  return 0;
}

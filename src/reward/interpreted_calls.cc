#include "reward/interpreted_calls.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "prover/c_lexer.h"
#include "prover/c_machine.h"
#include "tasks/cfunc_task.h"

namespace tidemill {
namespace {

constexpr char kCalled[] = "f";
constexpr uint64_t kCallStepsMax = 100'000;
constexpr size_t kSourceMax = 4096;

// Two ints with a blank between them.
bool ReadInputs(const std::string& input, std::array<int64_t, 2>& values) {
  const char* at = input.data();
  const char* end = at + input.size();
  for (int64_t& value : values) {
    int32_t read = 0;
    const auto [next, error] = std::from_chars(at, end, read);
    if (error != std::errc()) return false;
    value = read;
    at = next;
    if (&value == values.data() && (at == end || *at++ != ' ')) return false;
  }
  return at == end;
}

// Words that mean the same to every compiler, and no call but the function's own head: what a
// header or a library would have to say is not known here.
bool IsPlain(const std::vector<CToken>& tokens) {
  static constexpr std::string_view kHeads[] = {"if", "while", "for", "switch", "return", "sizeof"};
  size_t called = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].Is("#") || tokens[i].kind == CToken::Kind::kString) return false;
    if (tokens[i].kind != CToken::Kind::kName) continue;
    if (tokens[i].text.find('_') != std::string_view::npos) return false;
    if (!tokens[i + 1].Is("(")) continue;
    if (std::find(std::begin(kHeads), std::end(kHeads), tokens[i].text) != std::end(kHeads))
      continue;
    if (!tokens[i].Is(kCalled) || ++called > 1) return false;
  }
  return true;
}

bool TakesTwoInts(const CProgram& program) {
  const CFunction& function = program.functions[program.entry];
  const CType integer = IntType(kCInt);
  return program.functions.size() == 1 && program.statics.empty() && function.parameters == 2 &&
         function.result == integer && function.variables[0].type == integer &&
         function.variables[1].type == integer;
}

}  // namespace

std::optional<std::vector<std::string>> InterpretCalls(const v1::Grading& grading,
                                                       const std::string& source) {
  if (source.size() > kSourceMax || !TestsCallF(grading)) return std::nullopt;
  const auto tokens = LexC(source);
  if (!tokens.ok() || !IsPlain(*tokens)) return std::nullopt;
  const auto program = ParseC(source, kCalled);
  if (!program.ok() || !TakesTwoInts(*program)) return std::nullopt;
  const auto code = CompileC(*program);
  if (!code.ok()) return std::nullopt;
  CMachine machine(*code);
  std::vector<std::string> lines;
  for (const v1::TestCase& test : grading.cases()) {
    std::array<int64_t, 2> inputs{};
    if (!ReadInputs(test.input(), inputs)) return std::nullopt;
    const CRun run = machine.Run(inputs, kCallStepsMax);
    if (run.end != CRun::End::kReturned || run.read_unset) return std::nullopt;
    lines.push_back(std::to_string(run.value));
  }
  return lines;
}

}  // namespace tidemill

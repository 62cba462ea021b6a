#include "reward/interpreted_calls.h"

#include <array>
#include <charconv>

#include "prover/prover.h"
#include "tasks/calls_f.h"

namespace tidemill {
namespace {

constexpr char kCalled[] = "f";
constexpr uint64_t kCallStepsMax = 100'000;
constexpr size_t kSourceMax = 4096;
constexpr size_t kInputs = 2;

// Two ints with a blank between them.
bool ReadInputs(const std::string& input, std::array<int64_t, kInputs>& values) {
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

}  // namespace

std::optional<std::vector<std::string>> InterpretCalls(const v1::Grading& grading,
                                                       const std::string& source) {
  if (source.size() > kSourceMax || !TestsCallF(grading)) return std::nullopt;
  auto function = InterpretedC::Read(source, kCalled);
  if (!function.ok() || !function->IsPlain(kInputs)) return std::nullopt;
  std::vector<std::string> lines;
  for (const v1::TestCase& test : grading.cases()) {
    std::array<int64_t, kInputs> inputs{};
    if (!ReadInputs(test.input(), inputs)) return std::nullopt;
    const std::optional<int64_t> value = function->Call(inputs, kCallStepsMax);
    if (!value) return std::nullopt;
    lines.push_back(std::to_string(*value));
  }
  return lines;
}

}  // namespace tidemill

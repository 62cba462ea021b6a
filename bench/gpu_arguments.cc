#include "bench/gpu_arguments.h"

#include <charconv>
#include <functional>
#include <map>

namespace tidemill {
namespace {

template <typename Number>
bool ParseNumber(const std::string& word, Number least, Number& to) {
  const char* end = word.data() + word.size();
  Number number{};
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stopped != end || number < least) return false;
  to = number;
  return true;
}

bool ParseChoice(const std::string& word, const char* no, const char* yes, bool& to) {
  to = word == yes;
  return to || word == no;
}

}  // namespace

Result<GpuArguments> ParseGpuArguments(std::span<char* const> words) {
  GpuArguments made;
  std::string shape = "0.5b";
  int64_t rank = 0;
  double tflop = 0;
  using Setter = std::function<bool(const std::string&)>;
  const std::map<std::string, Setter> options = {
      {"--shape", [&](const std::string& word) { return !(shape = word).empty(); }},
      {"--rank", [&](const std::string& word) { return ParseNumber<int64_t>(word, 0, rank); }},
      {"--moments",
       [&](const std::string& word) {
         return ParseChoice(word, "float32", "int8", made.moments_in_blocks);
       }},
      {"--state",
       [&](const std::string& word) {
         return ParseChoice(word, "gpu", "host", made.state_on_host);
       }},
      {"--budget",
       [&](const std::string& word) { return ParseNumber<int64_t>(word, 1, made.token_budget); }},
      {"--recompute",
       [&](const std::string& word) { return ParseChoice(word, "no", "yes", made.recompute); }},
      {"--reserve",
       [&](const std::string& word) {
         return ParseNumber<int>(word, 0, made.reserve_multiprocessors);
       }},
      {"--product-tflop",
       [&](const std::string& word) { return ParseNumber<double>(word, 0, tflop); }}};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (const auto option = options.find(word); option != options.end()) {
      if (++i == words.size()) return Invalid(word + " needs a value");
      if (!option->second(words[i])) return Invalid(word + " cannot be " + words[i]);
    } else if (word.starts_with("--")) {
      return Invalid("there is no option " + word);
    } else if (made.bench.empty()) {
      made.bench = word;
    } else if (int number = 0; ParseNumber(word, 0, number)) {
      made.numbers.push_back(number);
    } else {
      return Invalid(word + " is no number");
    }
  }
  if (made.numbers.empty()) return Invalid("a benchmark and its numbers are missing");
  made.product_most = tflop * 1e12;
  TM_ASSIGN_OR_RETURN(made.policy, PolicyOfShape(shape, rank));
  return made;
}

}  // namespace tidemill

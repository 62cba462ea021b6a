#include "testbeds/project.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace tidemill {
namespace {

struct Operation {
  std::array<const char*, kProjectPhrasings> phrasings;
  const char* body;  // C, of a function of int a and int b
};

// clang-format off
constexpr std::array<Operation, kProjectHelpers> kOperations = {{
    {{"greatest common divisor", "largest common factor"},
     "while (b) { int t = a % b; a = b; b = t; } return a;"},
    {{"least common multiple", "smallest shared multiple"},
     "if (!a || !b) return 0; int m = a; while (m % b) m += a; return m;"},
    {{"number of differing bits", "hamming distance"},
     "int n = 0; for (int x = a ^ b; x; x >>= 1) n += x & 1; return n;"},
    {{"digit sum of the product", "cross total after multiplying"},
     "int n = 0; for (int x = a * b; x; x /= 10) n += x % 10; return n;"},
    {{"count of primes between", "prime numbers in the range"},
     "int n = 0, l = a < b ? a : b, h = a < b ? b : a; for (int x = l < 2 ? 2 : l; x <= h; ++x) {"
     " int p = 1; for (int d = 2; d * d <= x; ++d) if (x % d == 0) p = 0; n += p; } return n;"},
    {{"rounded down hypotenuse", "whole length of the vector"},
     "int n = 0; while ((n + 1) * (n + 1) <= a * a + b * b) ++n; return n;"},
    {{"power modulo 97", "remainder of repeated multiplication"},
     "int n = 1; for (int i = 0; i < b; ++i) n = n * a % 97; return n;"},
    {{"divisors of the sum", "how many divide both together"},
     "int n = 0; for (int d = 1; d <= a + b; ++d) n += (a + b) % d == 0; return n;"},
}};
// clang-format on

constexpr std::array<std::pair<char, const char*>, 3> kOuter = {
    {{'+', " plus "}, {'-', " minus "}, {'*', " times "}}};

int CountPrimes(int a, int b) {
  int count = 0;
  for (int x = std::max(2, std::min(a, b)); x <= std::max(a, b); ++x) {
    bool prime = true;
    for (int d = 2; d * d <= x; ++d) prime = prime && x % d != 0;
    count += prime;
  }
  return count;
}

int Outer(char outer, int value, int constant) {
  if (outer == '+') return value + constant;
  if (outer == '-') return value - constant;
  if (outer == '*') return value * constant;
  return value;
}

int OperationOf(const ProjectBinding& binding, int helper) {
  return static_cast<int>(std::find(binding.begin(), binding.end(), helper) - binding.begin());
}

}  // namespace

int ProjectOperation(int operation, int a, int b) {
  switch (operation) {
    case 0:
      return std::gcd(a, b);
    case 1:
      return std::lcm(a, b);
    case 2:
      return __builtin_popcount(static_cast<unsigned>(a ^ b));
    case 3: {
      int sum = 0;
      for (int x = a * b; x > 0; x /= 10) sum += x % 10;
      return sum;
    }
    case 4:
      return CountPrimes(a, b);
    case 5: {
      int root = 0;
      while ((root + 1) * (root + 1) <= a * a + b * b) ++root;
      return root;
    }
    case 6: {
      int power = 1;
      for (int i = 0; i < b; ++i) power = power * a % 97;
      return power;
    }
    default: {
      int count = 0;
      for (int d = 1; d <= a + b; ++d) count += (a + b) % d == 0;
      return count;
    }
  }
}

std::string ProjectHelperSource(int operation, int helper) {
  return "int h" + std::to_string(helper) + "(int a, int b) { " +
         kOperations[static_cast<size_t>(operation)].body + " }\n";
}

ProjectBinding DrawBinding(Random& random) {
  ProjectBinding binding;
  std::iota(binding.begin(), binding.end(), uint8_t{0});
  random.Shuffle(binding);
  return binding;
}

ProjectBinding RebindHalf(const ProjectBinding& binding, Random& random) {
  std::array<size_t, kProjectHelpers> order;
  std::iota(order.begin(), order.end(), size_t{0});
  random.Shuffle(order);
  // A rotation of four moves every one of them.
  ProjectBinding changed = binding;
  constexpr size_t kHalf = kProjectHelpers / 2;
  for (size_t i = 0; i < kHalf; ++i) changed[order[i]] = binding[order[(i + 1) % kHalf]];
  return changed;
}

ProjectWant DrawWant(Random& random, int operation) {
  ProjectWant want;
  want.operation = operation;
  want.phrasing = static_cast<int>(random.Below(kProjectPhrasings));
  if (const uint64_t outer = random.Below(kOuter.size() + 1); outer > 0) {
    want.outer = kOuter[outer - 1].first;
    want.constant = static_cast<int>(random.Between(1, kProjectConstantMax));
  }
  return want;
}

Result<std::vector<ProjectProblem>> GenerateProjects(const ProjectOptions& options) {
  if (options.count == 0 || options.count > kProjectCountMax) {
    return Invalid("count must be from 1 to " + std::to_string(kProjectCountMax) + ", got " +
                   std::to_string(options.count));
  }
  if (options.projects == 0 || options.projects > options.count) {
    return Invalid("projects must be from 1 to the number of tasks, got " +
                   std::to_string(options.projects));
  }
  const Random random = Random(options.seed).Split("project");
  std::vector<Random> draws;
  std::vector<ProjectBinding> bindings;
  for (uint64_t i = 0; i < options.projects; ++i) {
    draws.push_back(random.Split(i));
    bindings.push_back(DrawBinding(draws.back()));
  }
  std::vector<ProjectProblem> problems(options.count);
  for (uint64_t i = 0; i < options.count; ++i) {
    ProjectProblem& problem = problems[i];
    problem.project = i % options.projects;
    Random& draw = draws[problem.project];
    if (options.change_after > 0 && i / options.projects == options.change_after) {
      bindings[problem.project] = RebindHalf(bindings[problem.project], draw);
    }
    problem.binding = bindings[problem.project];
    problem.want = DrawWant(draw, static_cast<int>(draw.Below(kProjectHelpers)));
    for (int test = 0; test < kProjectHidden; ++test) {
      const int a = static_cast<int>(draw.Between(0, kProjectInputMax));
      problem.inputs.emplace_back(a, static_cast<int>(draw.Between(0, kProjectInputMax)));
    }
  }
  return problems;
}

std::string ProjectWords(const ProjectWant& want) {
  const Operation& operation = kOperations[static_cast<size_t>(want.operation)];
  std::string words = operation.phrasings[static_cast<size_t>(want.phrasing)];
  for (const auto& [outer, word] : kOuter) {
    if (want.outer == outer) words += word + std::to_string(want.constant);
  }
  return words;
}

std::string ProjectPrompt(const ProjectWant& want) {
  return ProjectWords(want) + kProjectReturn;
}

std::optional<ProjectWant> ReadProjectPrompt(std::string_view text) {
  for (int operation = 0; operation < kProjectHelpers; ++operation) {
    for (int phrasing = 0; phrasing < kProjectPhrasings; ++phrasing) {
      ProjectWant want{.operation = operation, .phrasing = phrasing};
      const std::string_view phrase =
          kOperations[static_cast<size_t>(operation)].phrasings[static_cast<size_t>(phrasing)];
      if (text.substr(0, phrase.size()) != phrase) continue;
      if (ProjectPrompt(want) == text) return want;
      for (const auto& [outer, word] : kOuter) {
        for (int constant = 1; constant <= kProjectConstantMax; ++constant) {
          want.outer = outer;
          want.constant = constant;
          if (ProjectPrompt(want) == text) return want;
        }
      }
    }
  }
  return std::nullopt;
}

std::string ProjectAnswer(const ProjectWant& want, int helper) {
  std::string answer = "h" + std::to_string(helper) + "(a,b)";
  if (want.outer != 0) answer += want.outer + std::to_string(want.constant);
  return answer;
}

std::optional<ProjectCall> ReadProjectAnswer(std::string_view text) {
  constexpr std::string_view kArguments = "(a,b)";
  if (text.size() < 7 || text[0] != 'h' || text.substr(2, kArguments.size()) != kArguments) {
    return std::nullopt;
  }
  ProjectCall call;
  call.helper = text[1] - '0';
  if (call.helper < 0 || call.helper >= kProjectHelpers) return std::nullopt;
  text.remove_prefix(7);
  if (text.empty()) return call;
  call.outer = text[0];
  if (std::string_view("+-*").find(call.outer) == std::string_view::npos) return std::nullopt;
  const auto [end, error] =
      std::from_chars(text.data() + 1, text.data() + text.size(), call.constant);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (call.constant < 0 || call.constant > 999) return std::nullopt;
  return call;
}

bool PassesProject(const ProjectProblem& problem, std::string_view answer) {
  const std::optional<ProjectCall> call = ReadProjectAnswer(answer);
  if (!call) return false;
  const int operation = OperationOf(problem.binding, call->helper);
  return std::all_of(problem.inputs.begin(), problem.inputs.end(), [&](const auto& input) {
    const auto& [a, b] = input;
    return Outer(call->outer, ProjectOperation(operation, a, b), call->constant) ==
           Outer(problem.want.outer, ProjectOperation(problem.want.operation, a, b),
                 problem.want.constant);
  });
}

}  // namespace tidemill

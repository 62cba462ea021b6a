#include "testbeds/cfunc.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tidemill {
namespace {

// Draws of a level without a new behaviour after which the level is taken to have no more.
constexpr int kExhaustedAfter = 2000;
// Draws of the same level and split without any usable problem: the options cannot be met.
constexpr int kHopelessAfter = 100'000;

bool ShowableOutput(int value) {
  return std::abs(value) <= kCfuncOutputMax;
}

bool FirstBranch(const Expr& expr, const CfuncExample& example) {
  return EvalExpr(expr.operands[0], example.a, example.b) <
         EvalExpr(expr.operands[1], example.a, example.b);
}

// Brings at least a third of the shown examples to each side of a comparison, as far as the varied
// ones can: an author who tests a choice tests both outcomes.
void BalanceBranches(const Expr& expr, std::vector<CfuncExample>& pool) {
  if (expr.op != '?') return;
  const int least = kCfuncShown / 3;
  for (const bool wanted : {false, true}) {
    int have = 0;
    for (int i = 0; i < kCfuncShown; ++i) have += FirstBranch(expr, pool[i]) == wanted;
    size_t next = kCfuncShown;
    for (int i = kCfuncCommon; i < kCfuncShown && have < least; ++i) {
      if (FirstBranch(expr, pool[i]) == wanted) continue;
      while (next < pool.size() && FirstBranch(expr, pool[next]) != wanted) ++next;
      if (next == pool.size()) break;
      std::swap(pool[i], pool[next]);
      ++have;
    }
  }
}

bool IsCommon(int a, int b) {
  return std::any_of(kCfuncCommonInputs.begin(), kCfuncCommonInputs.end(),
                     [&](const ProbeInput& input) { return input.a == a && input.b == b; });
}

// All examples that may be shown: those of the common inputs, then the others in an order drawn at
// random. Empty: one of the common inputs has an output that cannot be shown.
std::vector<CfuncExample> ShowableExamples(const Expr& expr, Random& random) {
  std::vector<CfuncExample> others;
  for (int a = kCfuncInputMin; a <= kCfuncInputMax; ++a) {
    for (int b = kCfuncInputMin; b <= kCfuncInputMax; ++b) {
      const int value = EvalExpr(expr, a, b);
      if (ShowableOutput(value) && !IsCommon(a, b)) others.push_back({a, b, value});
    }
  }
  random.Shuffle(others);
  std::vector<CfuncExample> pool;
  for (const ProbeInput& input : kCfuncCommonInputs) {
    const int value = EvalExpr(expr, input.a, input.b);
    if (!ShowableOutput(value)) return {};
    pool.push_back({input.a, input.b, value});
  }
  pool.insert(pool.end(), others.begin(), others.end());
  return pool;
}

// False: too few examples can be shown.
bool ChooseExamples(CfuncProblem& problem, Random& random) {
  std::vector<CfuncExample> pool = ShowableExamples(problem.expr, random);
  if (pool.size() < kCfuncShown + kCfuncFurther) return false;
  BalanceBranches(problem.expr, pool);
  const auto further = pool.begin() + kCfuncShown;
  std::sort(pool.begin() + kCfuncCommon, further,
            [](const auto& x, const auto& y) { return std::pair(x.a, x.b) < std::pair(y.a, y.b); });
  problem.shown.assign(pool.begin(), further);
  problem.further.assign(further, further + kCfuncFurther);
  std::unordered_set<int> taken;
  while (problem.hidden.size() < kCfuncHidden) {
    const int a = static_cast<int>(random.Between(-kCfuncHiddenBound, kCfuncHiddenBound));
    const int b = static_cast<int>(random.Between(-kCfuncHiddenBound, kCfuncHiddenBound));
    if (!taken.insert(a * 100 + b).second) continue;
    problem.hidden.push_back({a, b, EvalExpr(problem.expr, a, b)});
  }
  return true;
}

// Draws problems of one level from its own stream of random numbers.
class LevelSource {
 public:
  // `seen` holds the behaviours of the levels before, which are not drawn again as harder than they
  // are.
  LevelSource(int level, CfuncSplit split, Random random, std::unordered_set<uint64_t>& seen)
      : level_(level), split_(split), random_(random), seen_(seen) {}

  // Nothing: this level has no usable problem in this split.
  std::optional<CfuncProblem> Next() {
    for (int draws = 0; draws < kHopelessAfter; ++draws) {
      CfuncProblem problem;
      problem.expr = DrawExpr(level_, random_);
      problem.behaviour = RememberedBehaviour(problem.expr);
      problem.level = level_;
      if (SplitOf(problem.behaviour) != split_) continue;
      if (!exhausted_ && seen_.contains(problem.behaviour)) {
        exhausted_ = ++draws_without_news_ >= kExhaustedAfter;
        continue;
      }
      if (!ChooseExamples(problem, random_)) continue;
      draws_without_news_ = 0;
      seen_.insert(problem.behaviour);
      return problem;
    }
    return std::nullopt;
  }

 private:
  // Small levels draw the same text again and again; probing it a thousand times each would take
  // most of the time.
  uint64_t RememberedBehaviour(const Expr& expr) {
    const auto [known, is_new] = behaviours_.try_emplace(ExprText(expr), 0);
    if (is_new) known->second = BehaviourOf(expr);
    return known->second;
  }

  const int level_;
  const CfuncSplit split_;
  Random random_;
  std::unordered_set<uint64_t>& seen_;
  std::unordered_map<std::string, uint64_t> behaviours_;  // by text
  int draws_without_news_ = 0;
  bool exhausted_ = false;
};

Status CheckOptions(const CfuncOptions& options) {
  if (options.count == 0 || options.count > kCfuncCountMax) {
    return Invalid("count must be from 1 to " + std::to_string(kCfuncCountMax) + ", got " +
                   std::to_string(options.count));
  }
  if (options.level_weights.empty() || options.level_weights.size() > kCfuncLevelMax) {
    return Invalid("level_weights needs 1 to " + std::to_string(kCfuncLevelMax) + " weights, got " +
                   std::to_string(options.level_weights.size()));
  }
  double sum = 0;
  for (const double weight : options.level_weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return Invalid("level_weights must be finite numbers of 0 or more");
    }
    sum += weight;
  }
  if (!(sum > 0)) return Invalid("level_weights must not all be 0");
  return Ok();
}

// How many problems of each level: the weights' shares, the remainder to the largest fractions.
std::vector<uint64_t> Quotas(const CfuncOptions& options) {
  const auto& weights = options.level_weights;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> quotas(weights.size());
  std::vector<std::pair<double, size_t>> fractions;
  uint64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(options.count) * weights[i] / sum;
    quotas[i] = static_cast<uint64_t>(exact);
    given += quotas[i];
    if (weights[i] > 0) fractions.emplace_back(static_cast<double>(quotas[i]) - exact, i);
  }
  std::sort(fractions.begin(), fractions.end());
  for (size_t i = 0; given < options.count; ++given, ++i) {
    ++quotas[fractions[i % fractions.size()].second];
  }
  return quotas;
}

// An answer a careless author would give, and the first example it fails; nothing if none is found.
struct WrongAnswer {
  Expr expr;
  CfuncExample failing;
};

std::optional<WrongAnswer> DrawWrongAnswer(const CfuncProblem& problem, Random& random) {
  for (int tries = 0; tries < 20; ++tries) {
    WrongAnswer wrong{.expr = MutateExpr(problem.expr, random), .failing = {}};
    if (random.Chance(0.5)) wrong.expr = MutateExpr(wrong.expr, random);
    for (const auto* examples : {&problem.further, &problem.shown}) {
      for (const CfuncExample& example : *examples) {
        if (EvalExpr(wrong.expr, example.a, example.b) == example.value) continue;
        wrong.failing = example;
        return wrong;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

CfuncSplit SplitOf(uint64_t behaviour) {
  return behaviour % kCfuncHeldoutShare == 0 ? CfuncSplit::kHeldout : CfuncSplit::kTrain;
}

Result<std::vector<CfuncProblem>> GenerateCfunc(const CfuncOptions& options) {
  TM_RETURN_IF_ERROR(CheckOptions(options));
  const Random random = Random(options.seed).Split("cfunc");
  const std::vector<uint64_t> quotas = Quotas(options);
  std::vector<CfuncProblem> problems;
  problems.reserve(options.count);
  std::unordered_set<uint64_t> seen;
  for (size_t i = 0; i < quotas.size(); ++i) {
    const int level = static_cast<int>(i) + 1;
    LevelSource source(level, options.split, random.Split(static_cast<uint64_t>(level)), seen);
    for (uint64_t drawn = 0; drawn < quotas[i]; ++drawn) {
      std::optional<CfuncProblem> problem = source.Next();
      if (!problem) {
        return Invalid("difficulty " + std::to_string(level) + " has no task in this split");
      }
      problems.push_back(std::move(*problem));
    }
  }
  Random order = random.Split("order");
  order.Shuffle(problems);
  return problems;
}

std::string CfuncSignature() {
  std::string out = "int f(int a,int b) at";
  for (const ProbeInput& input : kCfuncCommonInputs) {
    out += " (" + std::to_string(input.a) + "," + std::to_string(input.b) + ")";
  }
  return out + " is";
}

std::string CfuncCallText(int a, int b) {
  return " f(" + std::to_string(a) + "," + std::to_string(b) + ") is";
}

std::string CfuncValueText(int value) {
  return " " + std::to_string(value);
}

std::string CfuncExampleText(const CfuncExample& example) {
  return CfuncCallText(example.a, example.b) + CfuncValueText(example.value);
}

std::string CfuncPrompt(const CfuncProblem& problem) {
  std::string out = CfuncSignature();
  for (int i = 0; i < kCfuncShown; ++i) {
    const CfuncExample& example = problem.shown[static_cast<size_t>(i)];
    out += i < kCfuncCommon ? CfuncValueText(example.value) : CfuncExampleText(example);
  }
  return out + kCfuncReturn;
}

std::string CfuncFeedback(const CfuncExample& failing) {
  return kCfuncFail + CfuncExampleText(failing) + kCfuncReturn;
}

std::vector<Demonstration> DemonstrateCfunc(const std::vector<CfuncProblem>& problems,
                                            const CfuncAuthor& author, uint64_t seed) {
  Random random = Random(seed).Split("cfunc demonstrations");
  std::vector<Demonstration> out;
  out.reserve(problems.size());
  for (const CfuncProblem& problem : problems) {
    Demonstration demonstration{.prompt = CfuncPrompt(problem),
                                .completion = ExprText(problem.expr) + kCfuncEnd};
    if (random.Chance(author.second_turn_share)) {
      if (const auto wrong = DrawWrongAnswer(problem, random)) {
        demonstration.prompt += ExprText(wrong->expr) + kCfuncEnd + CfuncFeedback(wrong->failing);
      }
    }
    if (random.Chance(author.slip_share)) {
      if (const auto wrong = DrawWrongAnswer(problem, random)) {
        demonstration.completion = ExprText(wrong->expr) + kCfuncEnd;
      }
    }
    out.push_back(std::move(demonstration));
  }
  return out;
}

}  // namespace tidemill

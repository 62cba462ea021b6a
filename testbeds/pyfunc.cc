#include "testbeds/pyfunc.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/random.h"
#include "tasks/import/import_rows.h"
#include "testbeds/pyfunc_ops.h"

namespace tidemill {
namespace {

constexpr size_t kProbes = 40;
constexpr uint64_t kProbeSeed = 0x70796675;               // never changes: it decides the splits
constexpr int kTriesWithoutNew = 20'000;                  // then behaviours may come again
constexpr size_t kLargest = 60;                           // characters of a value in an assertion
constexpr double kShareOfOne = 0.17, kShareOfTwo = 0.61;  // of chains; the rest has three

struct ChainPart {
  const PyfuncOp* op = nullptr;
  int64_t constant = 0;
};

struct Chain {
  bool text = false;  // of a string, else of a list
  std::vector<ChainPart> steps;
  ChainPart ending;
};

std::string Filled(std::string_view pattern, int64_t constant) {
  std::string out(pattern);
  const size_t at = out.find("{}");
  if (at != std::string::npos) out.replace(at, 2, std::to_string(constant));
  return out;
}

ChainPart DrawPart(std::span<const PyfuncOp> ops, Random& random) {
  const PyfuncOp& op = ops[random.Below(ops.size())];
  return {&op, random.Between(op.low, op.high)};
}

Chain DrawChain(Random& random) {
  Chain chain;
  chain.text = random.Chance(0.35);
  const double share = random.Uniform();
  size_t left = share < kShareOfOne ? 1 : (share < kShareOfOne + kShareOfTwo ? 2 : 3);
  const auto steps = chain.text ? TextSteps() : ListSteps();
  const auto endings = chain.text ? TextEndings() : ListEndings();
  // The first ending changes nothing.
  if (random.Chance(0.35)) {
    chain.ending = {&endings[0], 0};
  } else {
    chain.ending = DrawPart(endings.subspan(1), random);
    --left;
  }
  for (size_t i = 0; i < left; ++i) chain.steps.push_back(DrawPart(steps, random));
  return chain;
}

PyfuncValue Apply(const Chain& chain, PyfuncValue value) {
  for (const ChainPart& step : chain.steps) value = step.op->apply(value, step.constant);
  return chain.ending.op->apply(value, chain.ending.constant);
}

PyfuncValue DrawInput(bool text, Random& random) {
  if (!text) {
    std::vector<int64_t> numbers(static_cast<size_t>(random.Between(2, 8)));
    for (int64_t& n : numbers) n = random.Between(-9, 19);
    return numbers;
  }
  std::string out;
  const int64_t words = random.Between(1, 4);
  for (int64_t i = 0; i < words; ++i) {
    if (i > 0) out += ' ';
    const int64_t letters = random.Between(2, 6);
    for (int64_t j = 0; j < letters; ++j) {
      const char c = "aaeioubcdfghlmnprstyz"[random.Below(21)];
      out += random.Chance(0.2) ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return out;
}

// The chain's behaviour as a number; 0: too little to be a task (nearly always the same value, or
// its input).
uint64_t BehaviourOfChain(const Chain& chain) {
  Random random(kProbeSeed);
  std::string all = chain.text ? "t" : "l";
  std::map<std::string, int> counts;
  int unchanged = 0;
  for (size_t i = 0; i < kProbes; ++i) {
    const PyfuncValue input = DrawInput(chain.text, random);
    const std::string output = PyfuncLiteral(Apply(chain, input));
    unchanged += output == PyfuncLiteral(input) ? 1 : 0;
    ++counts[output];
    all += output + "\n";
  }
  int most = 0;
  for (const auto& [output, count] : counts) most = std::max(most, count);
  if (most > static_cast<int>(kProbes) * 7 / 10 || unchanged > static_cast<int>(kProbes) / 2) {
    return 0;
  }
  return StableHash(all) | 1;
}

bool HeldOut(uint64_t behaviour) {
  return MixHash(behaviour, kProbeSeed) % kPyfuncHeldoutShare == 0;
}

std::string Question(const Chain& chain, const std::string& name, Random& random) {
  const std::string what = chain.text ? "a string" : "a list of integers";
  std::string steps;
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    steps += (i > 0 ? ", then " : "") + Filled(chain.steps[i].op->words, chain.steps[i].constant);
  }
  const std::string ending = Filled(chain.ending.op->words, chain.ending.constant);
  const std::string call = "`" + name + "(x)`";
  const std::string middle = steps.empty() ? "" : steps + ", and ";
  switch (random.Below(3)) {
    case 0:
      return "Write " + call + " in Python: given " + what + ", " + middle + "return " + ending +
             ".";
    case 1:
      return "Write a Python function " + call + ". Its argument is " + what + ". It must " +
             middle + "return " + ending + ".";
    default:
      return "Define a function " + call + " in Python. Take " + what + ", " + middle + "return " +
             ending + ".";
  }
}

std::string Solution(const Chain& chain, const std::string& name) {
  std::string code = "def " + name + "(x):\n";
  for (const ChainPart& step : chain.steps) {
    code += "    x = " + Filled(step.op->python, step.constant) + "\n";
  }
  return code + "    return " + Filled(chain.ending.op->python, chain.ending.constant) + "\n";
}

// Inputs with values short enough to read and not all alike; empty: the chain has none.
std::vector<std::string> DrawAssertions(const Chain& chain, const std::string& name,
                                        Random& random) {
  std::vector<std::string> out;
  std::set<std::string> inputs, outputs;
  for (int tries = 0; tries < 200 && out.size() < kPyfuncTests; ++tries) {
    const PyfuncValue input = DrawInput(chain.text, random);
    const std::string in = PyfuncLiteral(input), value = PyfuncLiteral(Apply(chain, input));
    if (value.size() > kLargest || !inputs.insert(in).second) continue;
    outputs.insert(value);
    out.push_back("assert " + name + "(" + in + ") == " + value);
  }
  if (out.size() < kPyfuncTests || outputs.size() < 2) return {};
  return out;
}

}  // namespace

Result<std::vector<PyfuncTask>> GeneratePyfunc(const PyfuncOptions& options) {
  if (options.count < 1 || options.count > kPyfuncCountMax) {
    return Invalid("--count must be from 1 to " + std::to_string(kPyfuncCountMax) + ", got " +
                   std::to_string(options.count));
  }
  constexpr std::string_view kNames[] = {"f", "solve", "g", "work", "convert", "answer"};
  Random random = Random(options.seed).Split(options.heldout ? "heldout" : "train");
  std::set<uint64_t> seen;
  std::vector<PyfuncTask> tasks;
  int without_new = 0;
  while (tasks.size() < options.count) {
    const Chain chain = DrawChain(random);
    const uint64_t behaviour = BehaviourOfChain(chain);
    if (behaviour == 0 || HeldOut(behaviour) != options.heldout) continue;
    if (!seen.insert(behaviour).second && ++without_new < kTriesWithoutNew) continue;
    without_new = 0;
    const std::string name(kNames[random.Below(std::size(kNames))]);
    PythonTaskParts parts;
    parts.assertions = DrawAssertions(chain, name, random);
    if (parts.assertions.empty()) continue;
    parts.id = "pyfunc-" + std::to_string(options.seed) + (options.heldout ? "h" : "t") +
               std::to_string(tasks.size());
    parts.tag = "pyfunc";
    parts.text = Question(chain, name, random) + "\nYour code should pass this test:\n" +
                 parts.assertions.front();
    ImportOptions limits;
    limits.cpu_ms = options.cpu_ms;
    TM_ASSIGN_OR_RETURN(v1::Task task, PythonTask(parts, limits));
    task.set_difficulty(static_cast<double>(chain.steps.size()) +
                        (chain.ending.op->python == "x" ? 0 : 1));
    tasks.push_back({{std::move(task), Solution(chain, name)}, behaviour});
  }
  return tasks;
}

}  // namespace tidemill

#include "prover/test_kit/proof_soak.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "prover/c_machine.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct CountField {
  const char* name;
  uint64_t ProofSoakCounts::*field;
};

constexpr CountField kCountFields[] = {
    {"pairs", &ProofSoakCounts::pairs},
    {"drawn", &ProofSoakCounts::drawn},
    {"proved", &ProofSoakCounts::proved},
    {"refuted", &ProofSoakCounts::refuted},
    {"unknown", &ProofSoakCounts::unknown},
    {"no_reference", &ProofSoakCounts::no_reference},
    {"wide_proved", &ProofSoakCounts::wide_proved},
    {"wide_refuted", &ProofSoakCounts::wide_refuted},
    {"formula_proved", &ProofSoakCounts::formula_proved},
    {"formula_refuted", &ProofSoakCounts::formula_refuted},
    {"formula_unknown", &ProofSoakCounts::formula_unknown},
    {"outside", &ProofSoakCounts::outside},
    {"compared", &ProofSoakCounts::compared},
    {"undefined", &ProofSoakCounts::undefined},
    {"skipped", &ProofSoakCounts::skipped},
    {"disputed", &ProofSoakCounts::disputed},
    {"wrong", &ProofSoakCounts::wrong},
};

// Of all sizes, and the ends of the type.
std::vector<IntPair> WideInputs(Random random, size_t count) {
  static constexpr int kEnds[] = {INT_MIN, INT_MIN + 1, INT_MAX, INT_MAX - 1, -1, 0, 1, 255, 65536};
  const auto draw = [&]() -> int {
    if (random.Chance(0.3)) return kEnds[random.Below(std::size(kEnds))];
    const auto size = static_cast<int>(random.Between(1, 31));
    const auto magnitude = static_cast<int>(random.Next() >> (64 - size));
    return random.Chance(0.5) ? magnitude : -magnitude;
  };
  std::vector<IntPair> inputs;
  while (inputs.size() < count) {
    const int a = draw();
    inputs.push_back({a, draw()});
  }
  return inputs;
}

// The helpers as compilers get them: their sanitizers do not look into the library's abs.
std::string SharedText() {
  return "static int oracle_abs(int x) { return x < 0 ? -x : x; }\n#define abs oracle_abs\n" +
         RandomCHelpers();
}

// Whether the function returns on every input of the range, whatever is read first.
bool IsDefined(const std::string& text, const COracleOptions& range) {
  const auto program = ParseC(text, "f");
  if (!program.ok()) return false;
  const auto code = CompileC(*program);
  if (!code.ok()) return false;
  CMachine machine(*code);
  for (int64_t a = range.low; a <= range.high; ++a) {
    for (int64_t b = range.low; b <= range.high; ++b) {
      const int64_t input[] = {a, b};
      const CRun run = machine.Run(input, 100'000);
      if (run.end != CRun::End::kReturned || run.read_unset) return false;
    }
  }
  return true;
}

}  // namespace

double ProofSoakCounts::UnknownShare() const {
  const uint64_t all = proved + refuted + unknown;
  return all == 0 ? 0 : static_cast<double>(unknown) / static_cast<double>(all);
}

std::string ProofSoakCounts::ToText() const {
  char out[1024];
  const auto n = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  std::snprintf(
      out, sizeof out,
      "%llu functions in %llu pairs: %llu proved, %llu refuted, %llu unknown (%.1f %%), %llu "
      "unknown because the reference is undefined or a result depends on the order of evaluation; "
      "over all ints %llu proved, %llu refuted; by formulas alone %llu proved, %llu refuted, %llu "
      "unknown; %llu functions outside the subset; %llu results compared, %llu of them undefined, "
      "%llu skipped; %llu pairs on which the compilers disagree; %llu wrong",
      n(2 * pairs), n(pairs), n(proved), n(refuted), n(unknown), 100 * UnknownShare(),
      n(no_reference), n(wide_proved), n(wide_refuted), n(formula_proved), n(formula_refuted),
      n(formula_unknown), n(outside), n(compared), n(undefined), n(skipped), n(disputed), n(wrong));
  return out;
}

std::string ProofSoakCounts::ToJson() const {
  Json json;
  for (const auto& [name, field] : kCountFields) json[name] = this->*field;
  return json.dump();
}

Result<ProofSoakCounts> ProofSoakCounts::FromJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  ProofSoakCounts counts;
  for (const auto& [name, field] : kCountFields) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_number_unsigned()) {
      return Invalid(std::string("no count \"") + name + "\" in " + text);
    }
    counts.*field = json[name].get<uint64_t>();
  }
  return counts;
}

ProofSoak::ProofSoak(const ProofSoakOptions& options, Report report)
    : options_(options), report_(std::move(report)) {}

ProofOptions ProofSoak::InRange() const {
  ProofOptions options;
  options.has_range = true;
  options.low = options_.oracle.low;
  options.high = options_.oracle.high;
  return options;
}

ProofSoak::Pair ProofSoak::Draw() {
  RandomCOptions options;
  options.loops_and_arrays = options_.loops_and_arrays;
  for (;;) {
    const uint64_t number = counts_.drawn++;
    const Random random = Random(options_.seed).Split(number);
    options.changed = static_cast<int>(number % 4);
    Pair pair{DrawRandomC(random, options), {}, {}, {}, {}};
    if (options_.loops_and_arrays &&
        !IsDefined(RandomCHelpers() + pair.texts.reference, options_.oracle)) {
      continue;
    }
    pair.more = WideInputs(random.Split("inputs"), options_.wide_inputs);
    return pair;
  }
}

Result<Proof> ProofSoak::Prove(const RandomC& texts, const ProofOptions& options) const {
  const std::string reference = RandomCHelpers() + texts.reference;
  const std::string candidate = RandomCHelpers() + texts.candidate;
  ProofOptions chosen = options;
  chosen.function = "f";
  return ProveEquivalent({reference, candidate}, chosen);
}

Status ProofSoak::Decide(Pair& pair, bool with_formulas) {
  TM_ASSIGN_OR_RETURN(pair.proof, Prove(pair.texts, InRange()));
  if (options_.wide_inputs > 0) {
    ProofOptions wide;
    wide.z3_rlimit = 0;
    wide.probes = 60;
    TM_ASSIGN_OR_RETURN(pair.wide, Prove(pair.texts, wide));
    if (pair.wide.verdict == ProofVerdict::kRefuted) {
      pair.more.push_back({static_cast<int>(pair.wide.inputs[0].value),
                           static_cast<int>(pair.wide.inputs[1].value)});
    }
  }
  if (with_formulas) {
    ProofOptions formulas = InRange();
    formulas.inputs_max = formulas.probes = 0;
    formulas.z3_rlimit = 300'000;
    TM_ASSIGN_OR_RETURN(pair.formulas, Prove(pair.texts, formulas));
    counts_.formula_proved += pair.formulas.verdict == ProofVerdict::kProved;
    counts_.formula_refuted += pair.formulas.verdict == ProofVerdict::kRefuted;
    counts_.formula_unknown += pair.formulas.verdict == ProofVerdict::kUnknown;
  }
  return Ok();
}

void ProofSoak::Count(const Pair& pair, const JudgedPair& answers) {
  ++counts_.pairs;
  counts_.proved += pair.proof.verdict == ProofVerdict::kProved;
  counts_.refuted += pair.proof.verdict == ProofVerdict::kRefuted;
  counts_.wide_proved += pair.wide.verdict == ProofVerdict::kProved;
  counts_.wide_refuted += pair.wide.verdict == ProofVerdict::kRefuted;
  if (pair.proof.verdict != ProofVerdict::kUnknown) return;
  const auto& states = answers.reference.status;
  const auto range = states.begin() + static_cast<std::ptrdiff_t>(answers.reference.InRange());
  const bool is_defined =
      std::all_of(states.begin(), range, [](uint8_t s) { return s == COracleAnswer::kReturned; });
  const bool has_order = pair.proof.reason.find("order of evaluation") == std::string::npos;
  // With loops and arrays every reference is defined and every unknown counts.
  const bool counts = options_.loops_and_arrays || (is_defined && has_order);
  counts ? ++counts_.unknown : ++counts_.no_reference;
}

std::string ProofSoak::Against(const Pair& pair, const JudgedPair& answers,
                               const OracleSight& sight, bool counts) {
  for (const auto& [text, answer] : {std::pair(&pair.texts.reference, &answers.reference),
                                     std::pair(&pair.texts.candidate, &answers.candidate)}) {
    const RunComparison runs = CompareRuns(RandomCHelpers() + *text, *answer, sight);
    if (counts) {
      counts_.outside += runs.outside ? 1 : 0;
      counts_.compared += runs.compared;
      counts_.undefined += runs.undefined;
      counts_.skipped += runs.skipped;
    }
    if (!runs.difference.empty()) return runs.difference;
  }
  std::string wrong = WhatIsWrong(pair.proof, answers, sight);
  if (wrong.empty()) wrong = WhatIsWrong(pair.wide, answers, sight, false);
  if (wrong.empty()) wrong = WhatIsWrong(pair.formulas, answers, sight);
  return wrong;
}

void ProofSoak::Tell(const std::string& what, const Pair& pair) {
  report_(what + "\n--- reference\n" + pair.texts.reference + "--- candidate\n" +
          pair.texts.candidate);
}

void ProofSoak::Judge(const Pair& pair, const JudgedPair& answers) {
  Count(pair, answers);
  if (Against(pair, answers, OracleSight::Of(options_.oracle), true).empty()) return;
  std::vector<COracleQuestion> questions = {{pair.texts.reference, pair.more},
                                            {pair.texts.candidate, pair.more}};
  COracleOptions alone = options_.oracle;
  alone.shared = SharedText();
  alone.functions_a_process = 1;
  auto first = AskCompiler(questions, alone);
  std::string wrong = first.status().message();
  if (first.ok()) {
    wrong = Against(pair, {(*first)[0], (*first)[1]}, OracleSight::Of(alone), false);
  }
  if (wrong.empty()) return;
  // Each sanitizer has blind spots (clang: ++t[4], the upper half of a long shift count; gcc:
  // overflow that a conversion or a factor of 0 hides; both: constants, and where pointers go).
  // What one of them calls undefined is, when constants are hidden from it, and nothing excuses a
  // claim that none sees.
  for (COracleQuestion& question : questions) question.text = WithHiddenConstants(question.text);
  std::vector<COracleAnswer> seen;
  const bool clang = alone.compiler.find("clang") != std::string::npos;
  for (const char* compiler : {alone.compiler.c_str(), clang ? "gcc" : "clang-16"}) {
    COracleOptions options = alone;
    options.compiler = compiler;
    options.address = seen.empty();
    const auto now = AskCompiler(questions, options);
    if (!now.ok()) continue;  // not installed
    if (seen.empty()) seen = *now;
    for (size_t i = 0; i < seen.size(); ++i) seen[i].AddUndefined((*now)[i]);
  }
  const std::string still = seen.empty() ? "no compiler takes the functions with hidden constants"
                                         : Against(pair, {seen[0], seen[1]}, OracleSight(), false);
  ++(still.empty() ? counts_.disputed : counts_.wrong);
  Tell(still.empty() ? "DISPUTED: " + wrong : "WRONG: " + wrong + "\n" + still, pair);
}

Status ProofSoak::RunBatch(size_t pairs) {
  std::vector<Pair> drawn;
  std::vector<COracleQuestion> questions;
  for (size_t i = 0; i < pairs; ++i) {
    Pair pair = Draw();
    const uint64_t number = counts_.pairs + i;
    const bool formulas = options_.formulas_every > 0 && number % options_.formulas_every == 0;
    if (const Status fault = Decide(pair, formulas); !fault.ok()) {
      ++counts_.wrong;
      Tell("WRONG: " + fault.message(), pair);
    }
    questions.push_back({pair.texts.reference, pair.more});
    questions.push_back({pair.texts.candidate, pair.more});
    drawn.push_back(std::move(pair));
  }
  COracleOptions oracle = options_.oracle;
  oracle.shared = SharedText();
  TM_ASSIGN_OR_RETURN(const auto answers, AskCompiler(questions, oracle));
  for (size_t i = 0; i < drawn.size(); ++i) Judge(drawn[i], {answers[2 * i], answers[2 * i + 1]});
  return Ok();
}

}  // namespace tidemill

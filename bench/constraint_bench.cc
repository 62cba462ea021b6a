#include "bench/constraint_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "bench/constraint_step.h"
#include "core/random.h"
#include "engine/constraint/constraint.h"
#include "engine/cpu/controlled_draw.h"
#include "model/tokenizer.h"

namespace tidemill {
namespace {

constexpr int kFields = 40;

// What the tokens are: a tokenizer's, or made-up words.
struct BenchVocabulary {
  std::optional<Tokenizer> tokenizer;
  std::vector<std::string> words;
  std::shared_ptr<const TokenVocabulary> tokens;
  TokenId end = 0;
};

std::vector<std::string> MakeWords(int32_t count, uint64_t seed) {
  static constexpr const char* kSyllables[] = {
      "ba", "con", "de",  "er",  "fi", "gra", "hel", "in", "jo",  "kel", "la",  "mo",
      "ne", "or",  "pre", "qui", "re", "sta", "ter", "un", "val", "wor", "xen", "zip"};
  static constexpr const char* kEnds[] = {"", "", "", "\"", "\",", "\":", "{", "}", "_", "1"};
  Random random(seed);
  std::set<std::string> words;
  for (int byte = 0; byte < 256; ++byte) words.emplace(1, static_cast<char>(byte));
  while (static_cast<int32_t>(words.size()) < count) {
    std::string word = random.Below(2) == 0 ? " " : "";
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
      word += kSyllables[random.Below(std::size(kSyllables))];
    }
    words.insert(word + kEnds[random.Below(std::size(kEnds))]);
  }
  return {words.begin(), words.end()};
}

nlohmann::ordered_json FortyFields() {
  static constexpr const char* kKinds[] = {
      R"({"type":"string"})",
      R"({"type":"integer","minimum":0,"maximum":100000})",
      R"({"type":"number"})",
      R"({"enum":["red","green","blue"]})",
      R"({"type":"array","items":{"type":"string"},"maxItems":5})",
      R"({"type":"string","format":"date-time"})",
      R"({"type":"string","maxLength":80})",
      R"({"anyOf":[{"type":"string"},{"type":"null"}]})"};
  nlohmann::ordered_json schema = {{"type", "object"}};
  for (int i = 0; i < kFields; ++i) {
    const std::string name = "field_number_" + std::to_string(i);
    schema["properties"][name] = nlohmann::ordered_json::parse(kKinds[i % 8]);
    if (i % 3 != 0) schema["required"].push_back(name);
  }
  return schema;
}

double ThreadMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

Result<BenchVocabulary> MakeVocabulary(const ConstraintBenchOptions& options) {
  BenchVocabulary made;
  if (!options.model_dir.empty()) {
    TM_ASSIGN_OR_RETURN(made.tokenizer, Tokenizer::Read(options.model_dir));
    made.end = made.tokenizer->vocab_size();
    made.tokens = std::make_shared<const TokenVocabulary>(
        TokenVocabulary::Of(*made.tokenizer, {made.end}, {}, made.end + 1));
    return made;
  }
  made.words = MakeWords(options.vocabulary - 1, options.seed);
  made.end = options.vocabulary - 1;
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (size_t i = 0; i < made.words.size(); ++i) {
    texts.emplace_back(made.words[i], static_cast<TokenId>(i));
  }
  made.tokens = std::make_shared<const TokenVocabulary>(
      std::move(texts), std::vector<TokenId>{made.end}, made.end + 1);
  return made;
}

// Texts drawn at random under the constraint; the time of their masks, and of draws among them.
class Texts {
 public:
  Texts(const ConstraintBenchOptions& options, int32_t vocabulary)
      : options_(options), random_(options.seed), logits_(static_cast<size_t>(vocabulary)) {
    for (float& logit : logits_) logit = static_cast<float>(random_.Below(2000)) / 100 - 10;
  }

  void Draw(const std::shared_ptr<const Constraint>& constraint, ConstraintBenchReport& report) {
    for (int text = 0; text < options_.texts; ++text) {
      ConstraintMatcher matcher(constraint);
      for (int i = 0; i < options_.tokens; ++i) {
        double start = ThreadMs();
        DrawControls controls;
        controls.mask = matcher.Mask();
        const double mask_ms = ThreadMs() - start;
        report.worst_mask_ms = std::max(report.worst_mask_ms, mask_ms);
        masks_ms_ += mask_ms;
        Drawn drawn;
        const uint64_t seed = random_.Next();
        const auto draw = [&](const DrawControls* with) {
          start = ThreadMs();
          DrawControlled(BestCpuKernels(), logits_, {}, with, seed, 1, scratch_, drawn);
          return ThreadMs() - start;
        };
        plain_ms_ += draw(nullptr);
        held_ms_ += draw(&controls);
        start = ThreadMs();
        matcher.Take(drawn.id);
        masks_ms_ += ThreadMs() - start;
        ++report.draws;
        if (drawn.id + 1 == static_cast<TokenId>(logits_.size())) break;
      }
    }
    const auto draws = static_cast<double>(std::max<size_t>(report.draws, 1));
    report.mask_us = 1e3 * masks_ms_ / draws;
    report.plain_draw_us = 1e3 * plain_ms_ / draws;
    report.held_draw_us = 1e3 * held_ms_ / draws;
  }

 private:
  const ConstraintBenchOptions& options_;
  Random random_;
  std::vector<float> logits_;
  SamplerScratch scratch_;
  double masks_ms_ = 0, plain_ms_ = 0, held_ms_ = 0;
};

}  // namespace

Result<ConstraintBenchReport> RunConstraintBench(const ConstraintBenchOptions& options) {
  ConstraintBenchReport report;
  double start = ThreadMs();
  TM_ASSIGN_OR_RETURN(const BenchVocabulary vocabulary, MakeVocabulary(options));
  report.vocabulary_ms = ThreadMs() - start;
  report.vocabulary = vocabulary.end + 1;
  const ConstraintPart part{.kind = ConstraintPart::Kind::kSchema, .schema = FortyFields()};
  std::shared_ptr<const Constraint> constraint;
  for (int i = 0; i < 3; ++i) {  // the best of three
    ConstraintCompiler compiler(vocabulary.tokens);
    start = ThreadMs();
    TM_ASSIGN_OR_RETURN(constraint, compiler.Compile(part));
    const double took = ThreadMs() - start;
    report.compile_ms = i == 0 ? took : std::min(report.compile_ms, took);
  }
  Texts(options, report.vocabulary).Draw(constraint, report);
  if (options.steps) {
    ConstraintCompiler compiler(vocabulary.tokens);  // its automaton is new
    TM_ASSIGN_OR_RETURN(constraint, compiler.Compile(part));
    TM_ASSIGN_OR_RETURN(const ConstraintStepReport step,
                        MeasureConstraintStep(constraint, {.seed = options.seed}));
    report.plain_step_ms = step.plain_ms;
    report.held_step_ms = step.held_ms;
  }
  return report;
}

std::string ConstraintBenchReport::ToText() const {
  std::string steps;
  if (plain_step_ms > 0) {
    steps = fmt::format(
        "a step of 64 sequences {:.1f} ms, under the schema {:.1f} ms: {:.1f} %, at "
        "most {:.0f} %\n",
        plain_step_ms, held_step_ms, 100 * held_step_ms / plain_step_ms, 100 * kStepMax);
  }
  return fmt::format(
             "vocabulary of {} tokens: {:.0f} ms, once for a model\n"
             "schema of 40 fields compiled: {:.1f} ms, at most {:.0f}\n"
             "{} draws: masks {:.1f} us each, the slowest {:.2f} ms\n"
             "a draw without constraint {:.1f} us, under a mask {:.1f} us\n",
             vocabulary, vocabulary_ms, compile_ms, kCompileMsMax, draws, mask_us, worst_mask_ms,
             plain_draw_us, held_draw_us) +
         steps;
}

std::string ConstraintBenchReport::ToJson() const {
  return nlohmann::ordered_json{{"vocabulary", vocabulary},       {"vocabulary_ms", vocabulary_ms},
                                {"compile_ms", compile_ms},       {"mask_us", mask_us},
                                {"worst_mask_ms", worst_mask_ms}, {"plain_draw_us", plain_draw_us},
                                {"held_draw_us", held_draw_us},   {"draws", draws},
                                {"plain_step_ms", plain_step_ms}, {"held_step_ms", held_step_ms}}
      .dump();
}

}  // namespace tidemill

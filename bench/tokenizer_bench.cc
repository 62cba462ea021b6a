#include "bench/tokenizer_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"
#include "model/tokenizer_writer.h"

namespace tidemill {
namespace {

// Code and prose whose words are drawn from many syllables, so that a cache of words does not hold
// it all.
std::string MakeText(size_t bytes, uint64_t seed) {
  static constexpr const char* kSyllables[] = {
      "ba", "con", "de",  "er",  "fi", "gra", "hel", "in", "jo",  "kel", "la",  "mo",
      "ne", "or",  "pre", "qui", "re", "sta", "ter", "un", "val", "wor", "xen", "zip"};
  static constexpr const char* kFrames[] = {"    int ",  " = ", "(",    ") {\n", ";\n",   " + ",
                                            "\n\nfor (", "[i]", " < ",  " ",     " ",     " ",
                                            ", ",        ". ",  "->",   "::",    "_",     " // ",
                                            " \"",       "\" ", "\n\t", " 10",   " 0x3f", " — "};
  std::mt19937_64 random(seed);
  std::string text;
  text.reserve(bytes + 64);
  while (text.size() < bytes) {
    for (uint64_t n = 1 + random() % 4; n > 0; --n)
      text += kSyllables[random() % std::size(kSyllables)];
    text += kFrames[random() % std::size(kFrames)];
  }
  return text;
}

Result<Tokenizer> BenchTokenizer(const TokenizerBenchOptions& options) {
  if (!options.model_dir.empty()) return Tokenizer::Read(options.model_dir);
  TokenizerSpec spec = ByteTokenizerSpec({"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  TM_RETURN_IF_ERROR(LearnMerges(MakeText(64 << 10, options.seed + 1), 4096, spec));
  TM_ASSIGN_OR_RETURN(const std::string json, TokenizerJson(spec));
  return Tokenizer::Parse(json, "learnt tokenizer");
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The best of three, in MB for each second of this thread's own processor time.
template <typename F>
double Speed(size_t bytes, F&& work) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double start = ThreadSeconds();
    work();
    best = std::max(best, static_cast<double>(bytes) / 1e6 / (ThreadSeconds() - start));
  }
  return best;
}

}  // namespace

Result<TokenizerBenchReport> RunTokenizerBench(const TokenizerBenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, BenchTokenizer(options));
  const std::string text = MakeText(options.text_bytes, options.seed);
  std::vector<PreTokenStage> stages(1);
  TM_ASSIGN_OR_RETURN(stages[0].pattern, TextRegex::FromOniguruma(kQwenPattern));
  const PreTokenizer splitter(std::move(stages));

  TokenizerBenchReport result;
  result.text_bytes = text.size();
  std::vector<TokenId> ids;
  result.encode_mb_per_s =
      Speed(text.size(), [&] { ids = tokenizer.Encode(text, SpecialTokens::kAsText); });
  size_t pieces = 0;
  bool split = true;
  result.split_mb_per_s = Speed(text.size(), [&] {
    split = splitter.Split(text, [&](std::string_view) { return ++pieces > 0; });
  });
  if (!split) return Internal("the pattern gave up on the text");
  std::string back;
  result.decode_mb_per_s = Speed(text.size(), [&] { back = tokenizer.Decode(ids); });
  if (back != text || pieces == 0) return Internal("the text did not come back from its tokens");
  result.tokens = ids.size();
  result.encode_to_split = result.encode_mb_per_s / result.split_mb_per_s;
  return result;
}

std::string TokenizerBenchReport::ToText() const {
  return fmt::format(
      "encoding {} bytes into {} tokens: {:.1f} MB/s; decoding: {:.1f} MB/s\n"
      "splitting alone: {:.1f} MB/s; ratio {:.2f}\n",
      text_bytes, tokens, encode_mb_per_s, decode_mb_per_s, split_mb_per_s, encode_to_split);
}

std::string TokenizerBenchReport::ToJson() const {
  return nlohmann::ordered_json{
      {"text_bytes", text_bytes},           {"tokens", tokens},
      {"encode_mb_per_s", encode_mb_per_s}, {"split_mb_per_s", split_mb_per_s},
      {"decode_mb_per_s", decode_mb_per_s}, {"encode_to_split", encode_to_split}}
      .dump();
}

}  // namespace tidemill

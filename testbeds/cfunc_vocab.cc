#include "testbeds/cfunc_vocab.h"

#include <nlohmann/json.hpp>

#include "model/tokenizer_writer.h"
#include "testbeds/cfunc.h"
#include "testbeds/small_model.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBytes = 256;

std::string Utf8(uint32_t code_point) {
  // The byte-level alphabet ends at U+0143, so two bytes are enough.
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// How byte-level vocabularies spell each byte: printable ones as themselves, the others as the code
// points from U+0100 on.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> alphabet(kBytes);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    alphabet[byte] = Utf8(printable ? byte : next++);
  }
  return alphabet;
}

Json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

int VocabularySize(size_t lexemes) {
  return kBytes + static_cast<int>(lexemes);
}

Status CheckShape(const FamilyModelShape& shape) {
  const auto wrong = [](const std::string& what) { return Invalid("the model's shape: " + what); };
  if (shape.hidden_size < 8 || shape.hidden_size > 4096) {
    return wrong("hidden size must be from 8 to 4096");
  }
  if (shape.heads < 1 || shape.hidden_size % (2 * shape.heads) != 0) {
    return wrong("hidden size must be an even multiple of the number of heads");
  }
  if (shape.layers < 1 || shape.layers > 64) return wrong("layers must be from 1 to 64");
  if (shape.intermediate_size < 8 || shape.intermediate_size > 16384) {
    return wrong("intermediate size must be from 8 to 16384");
  }
  if (shape.context < 64 || shape.context > 65536) return wrong("context must be from 64 to 65536");
  return Ok();
}

}  // namespace

std::vector<std::string> CfuncLexemes() {
  std::vector<std::string> lexemes = {kCfuncEnd, kCfuncFail, CfuncSignature(), kCfuncReturn};
  for (int a = kCfuncInputMin; a <= kCfuncInputMax; ++a) {
    for (int b = kCfuncInputMin; b <= kCfuncInputMax; ++b) lexemes.push_back(CfuncCallText(a, b));
  }
  for (int value = -kCfuncOutputMax; value <= kCfuncOutputMax; ++value) {
    lexemes.push_back(CfuncValueText(value));
  }
  return lexemes;
}

std::string LexemeTokenizerJson(const std::vector<std::string>& lexemes) {
  Json vocabulary = Json::object();
  const std::vector<std::string> alphabet = ByteAlphabet();
  for (int byte = 0; byte < kBytes; ++byte) vocabulary[alphabet[byte]] = byte;
  Json added = Json::array();
  int id = kBytes;
  for (const std::string& lexeme : lexemes) {
    added.push_back({{"id", id},
                     {"content", lexeme},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", id < kBytes + kCfuncSpecialLexemes}});
    ++id;
  }
  Json out;
  out["version"] = "1.0";
  out["truncation"] = nullptr;
  out["padding"] = nullptr;
  out["added_tokens"] = std::move(added);
  out["normalizer"] = nullptr;
  out["pre_tokenizer"] = ByteLevel();
  out["post_processor"] = nullptr;
  out["decoder"] = ByteLevel();
  out["model"] = BpeModelJson(std::move(vocabulary), Json::array(), /*ignore_merges=*/false);
  return out.dump(1);
}

namespace {

// A conversation as the protocol "compact" writes it: the task, answers with their end, and for
// each failed example its name and the opening of the next attempt, the task's last line.
constexpr char kCompactTemplate[] = R"jinja({%- for m in messages -%}
{%- if m.role == 'assistant' -%}{{ m.content }}<|end|>
{%- elif loop.first -%}{{ m.content }}
{%- else -%}<|fail|>{{ m.content }}
{%- if '\n' in messages[0].content -%}{{ '\n' + messages[0].content.rsplit('\n', 1)[1] }}{%- endif -%}
{%- endif -%}
{%- endfor -%})jinja";

}  // namespace

int64_t LexemeParameterCount(size_t lexemes, const FamilyModelShape& shape) {
  const int64_t width = shape.hidden_size;
  const int64_t attention = 4 * width * width + 3 * width;
  const int64_t feed_forward = 3 * width * shape.intermediate_size;
  return VocabularySize(lexemes) * width + shape.layers * (attention + feed_forward + 2 * width) +
         width;
}

Status WriteLexemeModelFiles(const std::string& dir, const std::vector<std::string>& lexemes,
                             const FamilyModelShape& shape) {
  TM_RETURN_IF_ERROR(CheckShape(shape));
  return WriteSmallModel({.tokenizer = LexemeTokenizerJson(lexemes),
                          .chat_template = kCompactTemplate,
                          .end = kCfuncEnd,
                          .end_id = kBytes,
                          .vocabulary = VocabularySize(lexemes.size()),
                          .width = shape.hidden_size,
                          .feed_forward = shape.intermediate_size,
                          .layers = shape.layers,
                          .heads = shape.heads,
                          .context = shape.context},
                         dir);
}

}  // namespace tidemill

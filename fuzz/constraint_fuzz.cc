// Schemas, patterns and grammars from outside. The first byte chooses the kind, the second how a
// text is drawn under what came of it; the rest is the constraint. Whatever compiles must always
// offer a token, and every offered token must be taken.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/constraint/constraint.h"

namespace {

using tidemill::ConstraintPart;
using tidemill::TokenId;
using tidemill::TokenVocabulary;

constexpr TokenId kEnd = 300;
constexpr int kSteps = 24;
constexpr size_t kNesting = 128;  // of JSON, as the gateway bounds it

std::shared_ptr<const TokenVocabulary> Vocabulary() {
  static std::string bytes(256, ' ');
  static const char* const kWords[] = {"\":", "\",\"", "{\"", "}]", "true", "ab", "12", "\\u"};
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (int i = 0; i < 256; ++i) {
    bytes[static_cast<size_t>(i)] = static_cast<char>(i);
    texts.emplace_back(std::string_view(bytes).substr(static_cast<size_t>(i), 1), i);
  }
  TokenId next = 256;
  for (const char* word : kWords) texts.emplace_back(word, next++);
  return std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<TokenId>{kEnd},
                                                 kEnd + 1);
}

bool NestsTooDeep(std::string_view text) {
  size_t depth = 0;
  for (const char c : text) {
    if ((c == '{' || c == '[') && ++depth > kNesting) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  static const std::shared_ptr<const TokenVocabulary> vocabulary = Vocabulary();
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  ConstraintPart part;
  switch (data[0] % 3) {
    case 0:
      if (NestsTooDeep(text)) return 0;
      part.kind = ConstraintPart::Kind::kSchema;
      part.schema = nlohmann::ordered_json::parse(text, nullptr, false);
      if (part.schema.is_discarded()) return 0;
      break;
    case 1:
      part.kind = ConstraintPart::Kind::kRegex;
      part.text = text;
      break;
    default:
      part.kind = ConstraintPart::Kind::kGrammar;
      part.text = text;
      break;
  }
  tidemill::ConstraintCompiler compiler(vocabulary, {.states = 5000});
  const auto made = compiler.Compile(part);
  if (!made.ok()) {
    if (made.status().message().empty()) std::abort();
    return 0;
  }
  tidemill::ConstraintMatcher matcher(*made);
  uint32_t draw = data[1];
  for (int i = 0; i < kSteps; ++i) {
    std::vector<TokenId> ids;
    matcher.Mask()->AppendIds(kEnd + 1, ids);
    if (ids.empty()) std::abort();
    draw = draw * 1664525 + 1013904223;
    const TokenId id = ids[(draw >> 8) % ids.size()];
    matcher.Take(id);
    if (id == kEnd) break;
    if (matcher.astray()) std::abort();
  }
  return 0;
}

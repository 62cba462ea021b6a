#include "model/tokenizer_writer.h"

#include <map>
#include <set>
#include <unordered_map>

#include "model/json_fields.h"
#include "model/pre_tokenizer.h"
#include "model/unicode.h"

namespace tidemill {

const char kQwenPattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char kLlama3Pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<uint32_t, uint32_t>;

// Added tokens are matched as text, so theirs is not spelt in the byte alphabet.
Status CheckAdded(const TokenizerSpec& spec) {
  std::set<TokenId> behind;
  for (const AddedToken& token : spec.added) {
    const std::string what = "added token \"" + token.content + "\" ";
    if (token.content.empty() || ValidUtf8Prefix(token.content) != token.content.size()) {
      return Invalid(what + "must be text");
    }
    if (token.id < 0) return Invalid(what + "has no id");
    const auto index = static_cast<size_t>(token.id);
    if (index >= spec.tokens.size()) {
      if (!behind.insert(token.id).second) return Invalid(what + "has the id of another");
    } else if (spec.tokens[index] != token.content) {
      return Invalid(what + "has the id of another token");
    }
  }
  if (!behind.empty() &&
      static_cast<size_t>(*behind.rbegin()) + 1 != spec.tokens.size() + behind.size()) {
    return Invalid("the ids of added tokens must follow those of the tokens without a gap");
  }
  return Ok();
}

Result<Json> ModelJson(const TokenizerSpec& spec) {
  std::set<std::string> added;
  for (const AddedToken& token : spec.added) added.insert(token.content);
  Json::object_t vocab;  // filled without looking for a key that is there already
  std::set<std::string> names;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& bytes = spec.tokens[id];
    std::string spelling = added.contains(bytes) ? bytes : BytesToAlphabet(bytes);
    if (bytes.empty()) return Invalid("token " + std::to_string(id) + " is empty");
    if (!names.insert(spelling).second) return Invalid("token \"" + spelling + "\" appears twice");
    vocab.emplace_back(std::move(spelling), id);
  }
  Json merges = Json::array();
  for (const auto& [left, right] : spec.merges) {
    for (const std::string& part : {left, right, left + right}) {
      if (!names.contains(BytesToAlphabet(part))) {
        return Invalid("merge part \"" + BytesToAlphabet(part) + "\" is not a token");
      }
    }
    merges.push_back({BytesToAlphabet(left), BytesToAlphabet(right)});
  }
  return BpeModelJson(std::move(vocab), std::move(merges), spec.ignore_merges);
}

Json AddedJson(const std::vector<AddedToken>& added) {
  Json list = Json::array();
  for (const AddedToken& token : added) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

// A distinct pre-token of the corpus as ids, and how often it occurs.
struct Word {
  std::vector<uint32_t> ids;
  uint64_t count = 0;
};

Result<std::vector<Word>> CountWords(std::string_view corpus, const TokenizerSpec& spec) {
  std::unordered_map<std::string, uint32_t> byte_ids;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].size() == 1) byte_ids[spec.tokens[id]] = static_cast<uint32_t>(id);
  }
  std::string text = Utf8Lossy(corpus);
  if (spec.nfc) {
    if (std::optional<std::string> composed = ToNfc(text)) text = std::move(*composed);
  }
  std::vector<PreTokenStage> stages(1);
  TM_ASSIGN_OR_RETURN(stages[0].pattern, TextRegex::FromOniguruma(spec.pattern));
  std::map<std::string, uint64_t, std::less<>> counts;
  const bool split = PreTokenizer(std::move(stages)).Split(text, [&](std::string_view piece) {
    const auto it = counts.find(piece);
    if (it != counts.end()) {
      ++it->second;
    } else {
      counts.emplace(piece, 1);
    }
    return true;
  });
  if (!split) return Invalid("the pattern takes too many steps on the corpus");
  std::vector<Word> words;
  for (const auto& [piece, count] : counts) {
    Word word{{}, count};
    for (const char byte : piece) {
      const auto id = byte_ids.find(std::string(1, byte));
      if (id == byte_ids.end()) return Invalid("every byte must be a token to learn merges");
      word.ids.push_back(id->second);
    }
    words.push_back(std::move(word));
  }
  return words;
}

void MergeIn(Word& word, Pair pair, uint32_t result) {
  size_t out = 0;
  for (size_t i = 0; i < word.ids.size(); ++out) {
    const bool here =
        i + 1 < word.ids.size() && word.ids[i] == pair.first && word.ids[i + 1] == pair.second;
    word.ids[out] = here ? result : word.ids[i];
    i += here ? 2 : 1;
  }
  word.ids.resize(out);
}

}  // namespace

TokenizerSpec ByteTokenizerSpec(const std::vector<std::string>& special_tokens) {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) spec.tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::string& content : special_tokens) {
    AddedToken token;
    token.id = static_cast<TokenId>(spec.tokens.size());
    token.content = content;
    token.special = true;
    spec.tokens.push_back(content);
    spec.added.push_back(std::move(token));
  }
  return spec;
}

Status LearnMerges(std::string_view corpus, size_t vocab_size, TokenizerSpec& spec) {
  for (const AddedToken& token : spec.added) {
    if (token.id < 0 || static_cast<size_t>(token.id) >= spec.tokens.size()) {
      return Invalid("added token \"" + token.content + "\" must lie among the tokens");
    }
  }
  TM_ASSIGN_OR_RETURN(std::vector<Word> words, CountWords(corpus, spec));
  std::set<std::string> known(spec.tokens.begin(), spec.tokens.end());
  while (spec.tokens.size() < vocab_size) {
    std::map<Pair, uint64_t> counts;
    for (const Word& word : words) {
      for (size_t i = 0; i + 1 < word.ids.size(); ++i) {
        counts[{word.ids[i], word.ids[i + 1]}] += word.count;
      }
    }
    Pair best;
    uint64_t best_count = 1;
    for (const auto& [pair, count] : counts) {
      // What is spelt like a token that is there already would be that token twice.
      if (count > best_count &&
          !known.contains(spec.tokens[pair.first] + spec.tokens[pair.second])) {
        best = pair;
        best_count = count;
      }
    }
    if (best_count == 1) break;
    const auto result = static_cast<uint32_t>(spec.tokens.size());
    spec.merges.emplace_back(spec.tokens[best.first], spec.tokens[best.second]);
    spec.tokens.push_back(spec.tokens[best.first] + spec.tokens[best.second]);
    known.insert(spec.tokens.back());
    for (Word& word : words) MergeIn(word, best, result);
  }
  return Ok();
}

Json BpeModelJson(Json vocab, Json merges, bool ignore_merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", ignore_merges},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

Result<std::string> TokenizerJson(const TokenizerSpec& spec) {
  TM_RETURN_IF_ERROR(CheckAdded(spec));
  TM_ASSIGN_OR_RETURN(const Json model, ModelJson(spec));
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", spec.pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", AddedJson(spec.added)},
      {"normalizer", spec.nfc ? Json{{"type", "NFC"}} : Json(nullptr)},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", true},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model", model}};
  try {
    return DumpJson(json);
  } catch (const nlohmann::json::exception&) {
    return Invalid("the pattern is not UTF-8");
  }
}

}  // namespace tidemill

// tokenizer.json: what is supported is read, what is not is refused by name.
#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "model/json_fields.h"
#include "model/tokenizer_impl.h"
#include "model/unicode.h"

namespace tidemill {
namespace {

constexpr size_t kStagesMax = 16;
constexpr size_t kAddedMax = 1 << 20;
constexpr size_t kAddedBytesMax = 4096;
// The byte-level pre-tokenizer's own pattern, from GPT-2.
constexpr std::string_view kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

class TokenizerReader {
 public:
  TokenizerReader(const nlohmann::json& root, std::string where)
      : root_(root), where_(std::move(where)) {}

  Result<TokenizerParts> Read() {
    TM_RETURN_IF_ERROR(Normalizer());
    TM_RETURN_IF_ERROR(PreTokenizers());
    TM_RETURN_IF_ERROR(Decoder());
    TM_RETURN_IF_ERROR(Model());
    TM_RETURN_IF_ERROR(AddedTokens());
    TM_RETURN_IF_ERROR(TokenBytes());
    return std::move(parts_);
  }

 private:
  Status Wrong(const std::string& what) const { return Invalid(where_ + what); }
  // A field of the root that is an object or null.
  const nlohmann::json* Part(const char* key) const {
    const auto it = root_.find(key);
    return it == root_.end() || it->is_null() ? nullptr : &*it;
  }
  static std::string TypeOf(const nlohmann::json& part) {
    if (!part.is_object()) return DescribeJson(part);
    const auto it = part.find("type");
    return it != part.end() && it->is_string() ? it->get<std::string>() : "without a type";
  }
  // `part`, or the members of a Sequence of them in order, however deep.
  Status Flatten(const nlohmann::json& part, const char* list_key, const char* what,
                 std::vector<const nlohmann::json*>& out, size_t depth = 0) const {
    if (TypeOf(part) != "Sequence") {
      out.push_back(&part);
      return out.size() <= kStagesMax ? Ok() : Wrong(std::string(what) + " has too many parts");
    }
    const auto list = part.find(list_key);
    if (list == part.end() || !list->is_array() || depth > kStagesMax) {
      return Wrong(std::string(what) + ": a Sequence needs a list \"" + list_key + "\"");
    }
    for (const nlohmann::json& member : *list) {
      TM_RETURN_IF_ERROR(Flatten(member, list_key, what, out, depth + 1));
    }
    return Ok();
  }

  Status Normalizer() {
    const nlohmann::json* part = Part("normalizer");
    if (part == nullptr) return Ok();
    std::vector<const nlohmann::json*> members;
    TM_RETURN_IF_ERROR(Flatten(*part, "normalizers", "\"normalizer\"", members));
    for (const nlohmann::json* member : members) {
      if (TypeOf(*member) != "NFC") {
        return Wrong("\"normalizer\" " + TypeOf(*member) + " is not supported; NFC is");
      }
      parts_.nfc = true;
    }
    return Ok();
  }

  Status AddSplit(const nlohmann::json& member) {
    JsonFields fields(member, where_ + "\"pre_tokenizer\" Split: ");
    PreTokenStage stage;
    const nlohmann::json* pattern = fields.Find("pattern");
    const std::string behavior = fields.MaybeString("behavior").value_or("");
    const bool invert = fields.MaybeBool("invert").value_or(false);
    if (behavior == "Removed") {
      (invert ? stage.keep_gaps : stage.keep_matches) = false;
    } else if (behavior != "Isolated") {
      fields.Fail("behavior", "\"" + behavior + "\" is not supported; Isolated and Removed are");
    }
    const bool known = pattern != nullptr && pattern->is_object() && pattern->size() == 1 &&
                       (pattern->contains("Regex") || pattern->contains("String")) &&
                       pattern->begin()->is_string();
    if (!known) fields.Fail("pattern", "must be {\"Regex\": ..} or {\"String\": ..}");
    TM_RETURN_IF_ERROR(fields.status());
    std::string text = pattern->begin()->get<std::string>();
    if (pattern->contains("String")) text = Literal(text);
    Result<TextRegex> regex = TextRegex::FromOniguruma(text);
    if (!regex.ok()) return regex.status().WithContext(where_ + "\"pre_tokenizer\" Split");
    stage.pattern = std::move(regex).value();
    parts_.stages.push_back(std::move(stage));
    return Ok();
  }

  // A pattern that matches `text` itself.
  static std::string Literal(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (std::string_view("\\^$.|?*+()[]{}-&#").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    return out;
  }

  Status AddPattern(std::string_view pattern, bool add_prefix_space) {
    PreTokenStage stage;
    TM_ASSIGN_OR_RETURN(stage.pattern, TextRegex::FromOniguruma(pattern));
    stage.add_prefix_space = add_prefix_space;
    parts_.stages.push_back(std::move(stage));
    return Ok();
  }

  Status AddByteLevel(const nlohmann::json& member) {
    JsonFields fields(member, where_ + "\"pre_tokenizer\" ByteLevel: ");
    const bool prefix = fields.MaybeBool("add_prefix_space").value_or(true);
    const bool use_regex = fields.MaybeBool("use_regex").value_or(true);
    TM_RETURN_IF_ERROR(fields.status());
    if (use_regex) return AddPattern(kByteLevelPattern, prefix);
    if (prefix) {
      PreTokenStage stage;
      stage.add_prefix_space = true;
      parts_.stages.push_back(std::move(stage));
    }
    return Ok();
  }

  Status AddDigits(const nlohmann::json& member) {
    JsonFields fields(member, where_ + "\"pre_tokenizer\" Digits: ");
    const bool individual = fields.MaybeBool("individual_digits").value_or(false);
    TM_RETURN_IF_ERROR(fields.status());
    return AddPattern(individual ? "\\p{N}" : "\\p{N}+", false);
  }

  Status PreTokenizers() {
    const nlohmann::json* part = Part("pre_tokenizer");
    if (part == nullptr) {
      return Wrong("\"pre_tokenizer\" is missing; one that ends with ByteLevel is needed");
    }
    std::vector<const nlohmann::json*> members;
    TM_RETURN_IF_ERROR(Flatten(*part, "pretokenizers", "\"pre_tokenizer\"", members));
    for (size_t i = 0; i < members.size(); ++i) {
      const std::string type = TypeOf(*members[i]);
      if ((type == "ByteLevel") != (i + 1 == members.size())) {
        return Wrong("\"pre_tokenizer\" must end with ByteLevel, and have it nowhere else");
      }
      if (type == "Split") {
        TM_RETURN_IF_ERROR(AddSplit(*members[i]));
      } else if (type == "Digits") {
        TM_RETURN_IF_ERROR(AddDigits(*members[i]));
      } else if (type == "ByteLevel") {
        TM_RETURN_IF_ERROR(AddByteLevel(*members[i]));
      } else {
        return Wrong("\"pre_tokenizer\" " + type +
                     " is not supported; Split, Digits and ByteLevel are");
      }
    }
    return members.empty() ? Wrong("\"pre_tokenizer\" is an empty Sequence") : Ok();
  }

  Status Decoder() {
    const nlohmann::json* part = Part("decoder");
    if (part == nullptr) return Wrong("\"decoder\" is missing; ByteLevel is needed");
    std::vector<const nlohmann::json*> members;
    TM_RETURN_IF_ERROR(Flatten(*part, "decoders", "\"decoder\"", members));
    if (members.size() != 1 || TypeOf(*members.front()) != "ByteLevel") {
      return Wrong("\"decoder\" " + TypeOf(members.empty() ? *part : *members.front()) +
                   " is not supported; ByteLevel is");
    }
    return Ok();
  }

  Status Model() {
    const nlohmann::json* model = Part("model");
    if (model == nullptr || !model->is_object()) return Wrong("\"model\" is missing");
    JsonFields fields(*model, where_ + "\"model\": ");
    const std::string type = fields.MaybeString("type").value_or("BPE");
    if (type != "BPE") fields.Fail("type", "\"" + type + "\" is not supported; BPE is");
    if (fields.MaybeBool("byte_fallback").value_or(false)) {
      fields.Fail("byte_fallback", "is not supported: byte-level tokens need none");
    }
    if (fields.MaybeNumber("dropout", 0.0, 1.0).value_or(0.0) > 0.0) {
      fields.Fail("dropout", "is not supported: encoding would be random");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!fields.MaybeString(key).value_or("").empty()) fields.Fail(key, "is not supported");
    }
    parts_.vocabulary.ignore_merges = fields.MaybeBool("ignore_merges").value_or(false);
    parts_.vocabulary.fuse_unknown = fields.MaybeBool("fuse_unk").value_or(false);
    const std::optional<std::string> unknown = fields.MaybeString("unk_token");
    TM_RETURN_IF_ERROR(fields.status());
    TM_RETURN_IF_ERROR(Vocabulary(*model));
    if (unknown) {
      const auto it = ids_.find(*unknown);
      if (it == ids_.end()) return Wrong("\"model\": \"unk_token\" is not in the vocabulary");
      parts_.vocabulary.unknown_id = it->second;
    }
    return Merges(*model);
  }

  // Ids may have holes, but not be so far out that a short file asks for much memory.
  Result<TokenId> ReadId(const nlohmann::json& value, size_t tokens,
                         const std::string& what) const {
    const uint64_t limit = 65536 + 16 * static_cast<uint64_t>(tokens);
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= limit ||
        value.get<uint64_t>() > uint64_t{std::numeric_limits<TokenId>::max()}) {
      return Wrong(what + " must be a token id below " + std::to_string(limit) + ", got " +
                   DescribeJson(value));
    }
    return static_cast<TokenId>(value.get<uint64_t>());
  }

  Status Vocabulary(const nlohmann::json& model) {
    const auto vocab = model.find("vocab");
    if (vocab == model.end() || !vocab->is_object()) {
      return Wrong("\"model\": \"vocab\" must be an object");
    }
    parts_.vocabulary.byte_ids.fill(-1);
    ids_.reserve(vocab->size());
    for (const auto& [spelling, value] : vocab->items()) {
      const std::string what = "\"vocab\" " + DescribeJson(nlohmann::json(spelling));
      TM_ASSIGN_OR_RETURN(const TokenId id, ReadId(value, vocab->size(), what));
      if (!spellings_.emplace(id, spelling).second) {
        return Wrong(what + ": id " + std::to_string(id) + " appears twice");
      }
      ids_.emplace(spelling, id);
      std::optional<std::string> bytes = AlphabetToBytes(spelling);
      if (!bytes) continue;  // never made by merging bytes
      if (bytes->size() == 1) {
        parts_.vocabulary.byte_ids[static_cast<uint8_t>(bytes->front())] = id;
      }
      parts_.vocabulary.ids.emplace(std::move(*bytes), id);
    }
    return Ok();
  }

  // "left right", or ["left", "right"]. False: neither.
  static bool ReadPair(const nlohmann::json& merge, std::string& left, std::string& right) {
    if (merge.is_array()) {
      if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return false;
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
      return true;
    }
    if (!merge.is_string()) return false;
    const std::string& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return false;
    left = text.substr(0, space);
    right = text.substr(space + 1);
    return true;
  }

  Status Merges(const nlohmann::json& model) {
    const auto merges = model.find("merges");
    if (merges == model.end() || !merges->is_array()) {
      return Wrong("\"model\": \"merges\" must be a list");
    }
    parts_.merges.reserve(merges->size());
    for (const nlohmann::json& merge : *merges) {
      if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version"))
        continue;
      std::string left;
      std::string right;
      const std::string what = "\"merges\" " + std::to_string(parts_.merges.size()) + ": ";
      if (!ReadPair(merge, left, right)) {
        return Wrong(what + "must be \"left right\" or [\"left\", \"right\"], got " +
                     DescribeJson(merge));
      }
      TokenId ids[3];
      const std::string spellings[3] = {left, right, left + right};
      for (size_t i = 0; i < 3; ++i) {
        const auto it = ids_.find(spellings[i]);
        if (it == ids_.end()) {
          return Wrong(what + DescribeJson(nlohmann::json(spellings[i])) +
                       " is not in the vocabulary");
        }
        ids[i] = it->second;
      }
      parts_.merges.push_back({{ids[0], ids[1]}, ids[2]});
    }
    return Ok();
  }

  Status AddedTokens() {
    const nlohmann::json* list = Part("added_tokens");
    if (list == nullptr) return Ok();
    if (!list->is_array() || list->size() > kAddedMax) {
      return Wrong("\"added_tokens\" must be a list");
    }
    for (const nlohmann::json& entry : *list) {
      const std::string what = "\"added_tokens\" " + std::to_string(parts_.added.size()) + ": ";
      if (!entry.is_object()) return Wrong(what + "must be an object");
      JsonFields fields(entry, where_ + what);
      AddedToken token;
      token.content = fields.MaybeString("content").value_or("");
      token.special = fields.MaybeBool("special").value_or(false);
      token.normalized = fields.MaybeBool("normalized").value_or(!token.special);
      token.lstrip = fields.MaybeBool("lstrip").value_or(false);
      token.rstrip = fields.MaybeBool("rstrip").value_or(false);
      token.single_word = fields.MaybeBool("single_word").value_or(false);
      if (token.content.empty() || token.content.size() > kAddedBytesMax) {
        fields.Fail("content", "must be a string that is neither empty nor very long");
      }
      if (!fields.Has("id")) fields.Fail("id", "is missing");
      TM_RETURN_IF_ERROR(fields.status());
      TM_ASSIGN_OR_RETURN(token.id,
                          ReadId(entry["id"], ids_.size() + list->size(), what + "\"id\""));
      TM_RETURN_IF_ERROR(PlaceAdded(token, what));
      parts_.added.push_back(std::move(token));
    }
    return Ok();
  }

  // An added token may be in the vocabulary, under the same id; else its id must be free.
  Status PlaceAdded(const AddedToken& token, const std::string& what) {
    const auto known = ids_.find(token.content);
    const auto holder = spellings_.find(token.id);
    if ((known != ids_.end() && known->second != token.id) ||
        (holder != spellings_.end() && holder->second != token.content)) {
      return Wrong(what + DescribeJson(nlohmann::json(token.content)) + " and id " +
                   std::to_string(token.id) + " are not each other's in the vocabulary");
    }
    if (!added_.insert(token.content).second) {
      return Wrong(what + DescribeJson(nlohmann::json(token.content)) + " appears twice");
    }
    spellings_.emplace(token.id, token.content);
    ids_.emplace(token.content, token.id);
    return Ok();
  }

  // A token whose spelling has a character that stands for no byte means its own UTF-8.
  Status TokenBytes() {
    TokenId last = -1;
    for (const auto& [id, spelling] : spellings_) last = std::max(last, id);
    if (last < 0) return Wrong("\"model\": \"vocab\" is empty");
    parts_.token_bytes.resize(static_cast<size_t>(last) + 1);
    for (auto& [id, spelling] : spellings_) {
      std::optional<std::string> bytes = AlphabetToBytes(spelling);
      parts_.token_bytes[static_cast<size_t>(id)] = bytes ? std::move(*bytes) : spelling;
    }
    return Ok();
  }

  const nlohmann::json& root_;
  std::string where_;
  TokenizerParts parts_;
  std::unordered_map<std::string, TokenId> ids_;  // by spelling
  std::unordered_map<TokenId, std::string> spellings_;
  std::set<std::string> added_;
};

}  // namespace

Result<TokenizerParts> ParseTokenizerParts(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(json, name));
  return TokenizerReader(root, std::string(name) + ": ").Read();
}

}  // namespace tidemill

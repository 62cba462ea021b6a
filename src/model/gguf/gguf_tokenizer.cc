#include "model/gguf/gguf_tokenizer.h"

#include <algorithm>

#include "model/json_fields.h"
#include "model/tokenizer.h"
#include "model/tokenizer_writer.h"
#include "model/unicode.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTekkenPattern[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// How a text is cut before merging, by the names of tokenizer.ggml.pre.
struct PreTokenizerKind {
  std::string_view name;
  bool digits = false;            // each digit alone, first
  const char* pattern = nullptr;  // none: GPT-2's, which is the byte level's own
  bool nfc = false;
  bool ignore_merges = false;
};

constexpr PreTokenizerKind kPreTokenizers[] = {
    {.name = "gpt-2"},
    {.name = "phi-2"},
    {.name = "olmo"},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "command-r", .digits = true},
    {.name = "codeshell", .digits = true},
    {.name = "qwen2", .pattern = kQwenPattern, .nfc = true},
    {.name = "deepseek-r1-qwen", .pattern = kQwenPattern, .nfc = true},
    {.name = "llama-bpe", .pattern = kLlama3Pattern, .ignore_merges = true},
    {.name = "llama3", .pattern = kLlama3Pattern, .ignore_merges = true},
    {.name = "llama-v3", .pattern = kLlama3Pattern, .ignore_merges = true},
    {.name = "smaug-bpe", .pattern = kLlama3Pattern},
    {.name = "tekken", .pattern = kTekkenPattern, .ignore_merges = true},
};

// tokenizer.ggml.token_type.
enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

class GgufTokenizerReader {
 public:
  GgufTokenizerReader(GgufMetadata& metadata, const ModelConfig& config, const std::string& name)
      : metadata_(metadata), config_(config), name_(name) {}

  Result<GgufTokenizerFiles> Read() {
    TM_RETURN_IF_ERROR(Kind());
    TM_RETURN_IF_ERROR(ReadTokens());
    const std::vector<std::string_view> merges = metadata_.Texts("tokenizer.ggml.merges");
    begins_with_bos_ = metadata_.MaybeBool("tokenizer.ggml.add_bos_token").value_or(false);
    TM_RETURN_IF_ERROR(metadata_.status());
    GgufTokenizerFiles files;
    try {
      files.tokenizer = DumpJson(TokenizerFile(merges));
      TM_ASSIGN_OR_RETURN(const Json tokenizer_config, ConfigFile());
      files.tokenizer_config = DumpJson(tokenizer_config);
      files.generation_config = DumpJson(GenerationFile());
    } catch (const nlohmann::json::exception&) {
      return Invalid(name_ + ": a token, a merge or the chat template is not UTF-8");
    }
    const auto read_back = Tokenizer::Parse(files.tokenizer, name_ + ": the tokenizer");
    if (!read_back.ok()) return read_back.status();
    return files;
  }

 private:
  Status Kind() {
    const std::string model = metadata_.MaybeText("tokenizer.ggml.model").value_or("");
    if (model != "gpt2") {
      return Invalid(name_ + ": tokenizer.ggml.model \"" + model +
                     "\" is not supported; gpt2 (byte-level BPE) is");
    }
    const std::string pre = metadata_.MaybeText("tokenizer.ggml.pre").value_or("");
    std::string known;
    for (const PreTokenizerKind& kind : kPreTokenizers) {
      if (kind.name == pre) {
        kind_ = &kind;
        return Ok();
      }
      known += (known.empty() ? "" : ", ") + std::string(kind.name);
    }
    return Invalid(name_ + ": tokenizer.ggml.pre " +
                   (pre.empty() ? "is missing (the file's converter was too old)"
                                : "\"" + pre + "\" is not supported") +
                   "; known are " + known);
  }

  Status ReadTokens() {
    tokens_ = metadata_.Texts("tokenizer.ggml.tokens");
    types_ = metadata_.Ints("tokenizer.ggml.token_type");
    TM_RETURN_IF_ERROR(metadata_.status());
    if (tokens_.empty() || tokens_.size() > static_cast<size_t>(config_.vocab_size)) {
      return Invalid(name_ + ": tokenizer.ggml.tokens has " + std::to_string(tokens_.size()) +
                     " tokens, the embedding has " + std::to_string(config_.vocab_size) + " rows");
    }
    if (types_.empty()) types_.assign(tokens_.size(), kNormal);
    if (types_.size() != tokens_.size()) {
      return Invalid(name_ + ": tokenizer.ggml.token_type has " + std::to_string(types_.size()) +
                     " entries for " + std::to_string(tokens_.size()) + " tokens");
    }
    // Rows that only fill up the embedding have names, but are no tokens.
    while (!types_.empty() && types_.back() == kUnused) {
      types_.pop_back();
      tokens_.pop_back();
    }
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] < kNormal || types_[id] > kByte) {
        return Invalid(name_ + ": token " + std::to_string(id) + " has the unknown type " +
                       std::to_string(types_[id]));
      }
    }
    return Ok();
  }

  bool IsAdded(size_t id) const {
    return types_[id] == kControl || types_[id] == kUserDefined || types_[id] == kUnknown;
  }

  Json AddedTokensList() const {
    Json list = Json::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!IsAdded(id)) continue;
      list.push_back({{"id", id},
                      {"content", tokens_[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", types_[id] != kUserDefined}});
    }
    return list;
  }

  Json PreTokenizerJson() const {
    const Json bytes = {{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", kind_->pattern == nullptr}};
    Json stages = Json::array();
    if (kind_->digits) stages.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (kind_->pattern != nullptr) {
      stages.push_back({{"type", "Split"},
                        {"pattern", {{"Regex", kind_->pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}});
    }
    stages.push_back(bytes);
    return {{"type", "Sequence"}, {"pretokenizers", stages}};
  }

  // The tokens that readers which add tokens put in front of a text.
  Json PostProcessor() const {
    if (!begins_with_bos_ || !TokenText(config_.bos_token_id)) return nullptr;
    const std::string bos = *TokenText(config_.bos_token_id);
    const Json begin = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
    const auto sequence = [](const char* id) {
      return Json{{"Sequence", {{"id", id}, {"type_id", id[0] - 'A'}}}};
    };
    return {{"type", "TemplateProcessing"},
            {"single", Json::array({begin, sequence("A")})},
            {"pair", Json::array({begin, sequence("A"), sequence("B")})},
            {"special_tokens",
             {{bos,
               {{"id", bos},
                {"ids", Json::array({*config_.bos_token_id})},
                {"tokens", Json::array({bos})}}}}}};
  }

  Json TokenizerFile(const std::vector<std::string_view>& merges) const {
    Json::object_t vocab;  // filled without looking for a key: the reader refuses what comes twice
    for (size_t id = 0; id < tokens_.size(); ++id) vocab.emplace_back(std::string(tokens_[id]), id);
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", AddedTokensList()},
            {"normalizer", kind_->nfc ? Json{{"type", "NFC"}} : Json(nullptr)},
            {"pre_tokenizer", PreTokenizerJson()},
            {"post_processor", PostProcessor()},
            {"decoder",
             {{"type", "ByteLevel"},
              {"add_prefix_space", true},
              {"trim_offsets", true},
              {"use_regex", true}}},
            {"model", BpeModelJson(std::move(vocab), merges, kind_->ignore_merges)}};
  }

  std::optional<std::string> TokenText(std::optional<int32_t> id) const {
    if (!id || static_cast<size_t>(*id) >= tokens_.size()) return std::nullopt;
    return std::string(tokens_[static_cast<size_t>(*id)]);
  }
  std::optional<int32_t> EndId() const {
    if (config_.eos_token_ids.empty()) return std::nullopt;
    return config_.eos_token_ids.front();
  }

  Result<Json> ConfigFile() {
    Json json = {{"add_bos_token", begins_with_bos_}, {"add_prefix_space", false}};
    const auto put = [&](const char* key, std::optional<int32_t> id) {
      const std::optional<std::string> text = TokenText(id);
      json[key] = text ? Json(*text) : Json(nullptr);
    };
    put("bos_token", config_.bos_token_id);
    put("eos_token", EndId());
    put("pad_token", config_.pad_token_id);
    const auto unknown =
        metadata_.MaybeInt("tokenizer.ggml.unknown_token_id", 0, config_.vocab_size - 1);
    put("unk_token", unknown ? std::optional(static_cast<int32_t>(*unknown)) : std::nullopt);
    if (const auto chat = metadata_.MaybeText("tokenizer.chat_template")) {
      json["chat_template"] = *chat;
    }
    json["clean_up_tokenization_spaces"] = false;
    json["model_max_length"] = config_.max_position_embeddings;
    json["tokenizer_class"] = "PreTrainedTokenizerFast";
    TM_RETURN_IF_ERROR(metadata_.status());
    return json;
  }

  Json GenerationFile() const {
    const auto id = [](std::optional<int32_t> value) { return value ? Json(*value) : Json(); };
    const auto& ends = config_.eos_token_ids;
    Json json = {{"_from_model_config", true}};
    if (config_.bos_token_id) json["bos_token_id"] = id(config_.bos_token_id);
    if (!ends.empty()) json["eos_token_id"] = ends.size() == 1 ? Json(ends.front()) : Json(ends);
    if (config_.pad_token_id) json["pad_token_id"] = id(config_.pad_token_id);
    return json;
  }

  GgufMetadata& metadata_;
  const ModelConfig& config_;
  const std::string& name_;
  const PreTokenizerKind* kind_ = nullptr;
  std::vector<std::string_view> tokens_;
  std::vector<int32_t> types_;
  bool begins_with_bos_ = false;
};

}  // namespace

Result<GgufTokenizerFiles> GgufTokenizer(GgufMetadata& metadata, const ModelConfig& config,
                                         const std::string& name) {
  return GgufTokenizerReader(metadata, config, name).Read();
}

}  // namespace tidemill

#include "gateway/served_policy.h"

#include <algorithm>
#include <filesystem>

#include "gateway/served_files.h"
#include "model/model_config.h"
#include "model/tokenizer_config.h"

namespace tidemill {
namespace {

std::string DirectoryName(const std::string& dir) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  return name.empty() || name == "/" ? "policy" : name;
}

void AddEndId(std::vector<TokenId>& ids, std::optional<TokenId> id) {
  if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
}

// What the author's files name, and the token that closes a turn of the template.
std::vector<TokenId> EndIds(const GenerationConfig& generation, const ModelConfig& config,
                            const ServedPolicy& policy) {
  std::vector<TokenId> ids = generation.eos_token_ids;
  for (const TokenId id : config.eos_token_ids) AddEndId(ids, id);
  if (!policy.chat) return ids;
  if (policy.chat->eos_token) {
    AddEndId(ids, policy.tokenizer.AddedTokenId(*policy.chat->eos_token));
  }
  for (const std::string_view token : {"<|im_end|>", "<|eot_id|>"}) {
    if (policy.chat->chat.source().find(token) == std::string_view::npos) continue;
    AddEndId(ids, policy.tokenizer.AddedTokenId(token));
  }
  return ids;
}

}  // namespace

Result<ServedPolicy> ReadServedPolicy(const std::string& dir) {
  return ReadServedPolicyWith(dir, dir);
}

Result<ServedPolicy> ReadServedPolicyWith(const std::string& dir, const std::string& words) {
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  TM_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Read(words));
  Result<GenerationConfig> generation = ReadGenerationConfig(words);
  if (!generation.ok() && generation.status().code() != Code::kNotFound) return generation.status();
  ServedPolicy policy{.name = DirectoryName(dir),
                      .tokenizer = std::move(tokenizer),
                      .chat = std::nullopt,
                      .no_chat_reason = "",
                      .format = {},
                      .generation = generation.ok() ? *generation : GenerationConfig{},
                      .end_ids = {},
                      .context_tokens = config.max_position_embeddings};
  Result<ModelTemplate> chat = ReadModelTemplate(words);
  if (chat.ok()) {
    policy.chat = std::move(*chat);
    const ChatTemplate& source = policy.chat->tool_use ? *policy.chat->tool_use : policy.chat->chat;
    policy.format = DetectOutputFormat(source.source());
  } else if (chat.status().code() == Code::kNotFound) {
    policy.no_chat_reason = chat.status().message();
  } else {
    return chat.status();
  }
  policy.end_ids = EndIds(policy.generation, config, policy);
  return policy;
}

Result<Rendered> RenderConversation(const ServedPolicy& policy, const ChatRequest& request,
                                    int64_t wall_ms) {
  if (!policy.chat) {
    return Invalid("the model has no chat template, so only /v1/completions is answered: " +
                   policy.no_chat_reason);
  }
  RenderInput input;
  input.messages = request.messages;
  if (!request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::kNone) {
    input.tools = request.tools;
  }
  input.kwargs = request.template_kwargs;
  input.add_generation_prompt = true;
  input.now = LocalTime(wall_ms / 1000);
  return policy.chat->Render(std::move(input));
}

}  // namespace tidemill

#include "gateway/served_policy.h"

#include <filesystem>

#include "gateway/served_files.h"
#include "model/model_config.h"

namespace tidemill {
namespace {

std::string DirectoryName(const std::string& dir) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  return name.empty() || name == "/" ? "policy" : name;
}

}  // namespace

Result<ServedPolicy> ReadServedPolicy(const std::string& dir) {
  return ReadServedPolicyWith(dir, dir, {});
}

Result<ServedPolicy> ReadServedPolicyWith(const std::string& dir, const std::string& words,
                                          const ServedWords& served) {
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  TM_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Read(words));
  TM_ASSIGN_OR_RETURN(ModelChat chat, ReadModelChat(std::move(tokenizer), words,
                                                    {.model_dir = dir,
                                                     .tool_format = served.tool_format,
                                                     .template_file = served.template_file}));
  return ServedPolicy{std::move(chat), served.name.empty() ? DirectoryName(dir) : served.name,
                      config.max_position_embeddings};
}

RenderInput ConversationOf(const ChatRequest& request, int64_t wall_ms) {
  RenderInput input;
  input.messages = request.messages;
  if (!request.tools.empty() && request.tool_choice.kind != ToolChoice::Kind::kNone) {
    input.tools = request.tools;
  }
  input.kwargs = request.template_kwargs;
  input.add_generation_prompt = true;
  input.now = LocalTime(wall_ms / 1000);
  return input;
}

}  // namespace tidemill

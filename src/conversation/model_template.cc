#include "conversation/model_template.h"

#include "conversation/tools_as_text.h"
#include "core/files.h"
#include "model/tokenizer_config.h"

namespace tidemill {
namespace {

constexpr size_t kTemplateBytesMax = size_t{4} << 20;

// ChatML, with tools and calls as Hermes and Qwen write them.
std::string ChatMlSource() {
  return std::string(kContentMacro) + R"({%- set first = messages[0] if messages else {} -%}
{%- set system = text(first.content) if first.role == 'system' else '' -%}
{%- if tools -%}
<|im_start|>system
{% if system %}{{ system }}

{% endif -%}
)" + std::string(kToolsText) +
         R"(<|im_end|>
{% elif first.role == 'system' -%}
<|im_start|>system
{{ system }}<|im_end|>
{% endif -%}
{%- for message in messages -%}
  {%- if message.role == 'system' and loop.first -%}
  {%- elif message.role == 'tool' -%}
    {%- if loop.first or loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif -%}
    {{ '\n<tool_response>\n' }}{{ text(message.content) }}{{ '\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\n' }}{% endif -%}
  {%- else -%}
    {{ '<|im_start|>' + message.role + '\n' }})" +
         std::string(kAssistantText) + R"({{ '<|im_end|>\n' }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";
}

}  // namespace

Result<Rendered> ModelTemplate::Render(RenderInput input) const {
  if (!input.bos_token) input.bos_token = bos_token;
  if (!input.eos_token) input.eos_token = eos_token;
  const bool tools = input.tools.is_array() && !input.tools.empty();
  return tools && tool_use ? tool_use->Render(input) : chat.Render(input);
}

Result<ModelTemplate> ReadModelTemplate(const std::string& dir, const std::string& file) {
  TM_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(dir));
  if (!file.empty()) {
    TM_ASSIGN_OR_RETURN(config.chat_template, ReadFileBounded(file, kTemplateBytesMax));
    config.tool_template.clear();
  }
  std::string source = config.chat_template.empty() ? config.tool_template : config.chat_template;
  const bool fallback = source.empty();
  if (fallback) {
    TM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Read(dir));
    if (!tokenizer.AddedTokenId("<|im_start|>") || !tokenizer.AddedTokenId("<|im_end|>")) {
      return NotFound(dir +
                      ": no chat template (chat_template.jinja, or chat_template in "
                      "tokenizer_config.json), and the tokenizer has no <|im_start|> and "
                      "<|im_end|> for ChatML");
    }
    source = ChatMlSource();
  }
  TM_ASSIGN_OR_RETURN(ChatTemplate chat,
                      ChatTemplate::Parse(source, file.empty() ? "chat_template" : file));
  ModelTemplate out{.chat = std::move(chat),
                    .tool_use = std::nullopt,
                    .bos_token = std::move(config.bos_token),
                    .eos_token = std::move(config.eos_token),
                    .fallback = fallback};
  if (!config.tool_template.empty() && !config.chat_template.empty()) {
    TM_ASSIGN_OR_RETURN(ChatTemplate tools,
                        ChatTemplate::Parse(config.tool_template, "chat_template tool_use"));
    out.tool_use = std::move(tools);
  }
  return out;
}

std::vector<TokenId> EncodeRendered(const Tokenizer& tokenizer, const Rendered& rendered) {
  return tokenizer.EncodeGuarded(rendered.text, rendered.outside);
}

}  // namespace tidemill

#include "policy/model_template.h"

#include "policy/tokenizer_config.h"

namespace tidemill {
namespace {

// ChatML, with tools and calls as Hermes and Qwen write them.
constexpr std::string_view kChatMl = R"({%- macro text(content) -%}
  {%- if content is string -%}{{ content }}
  {%- elif content is iterable -%}{% for part in content %}{{ part.text or '' }}{% endfor %}
  {%- endif -%}
{%- endmacro -%}
{%- set first = messages[0] if messages else {} -%}
{%- set system = text(first.content) if first.role == 'system' else '' -%}
{%- if tools -%}
<|im_start|>system
{% if system %}{{ system }}

{% endif -%}
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}

</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
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
    {{ '<|im_start|>' + message.role + '\n' }}{{ text(message.content) }}
    {%- for call in message.tool_calls or [] -%}
      {%- set function = call.function or call -%}
      {%- if not loop.first or text(message.content) %}{{ '\n' }}{% endif -%}
      {{ '<tool_call>\n{"name": ' }}{{ function.name | tojson }}{{ ', "arguments": ' }}
      {%- if function.arguments is string %}{{ function.arguments }}
      {%- else %}{{ function.arguments | tojson }}{% endif -%}
      {{ '}\n</tool_call>' }}
    {%- endfor -%}
    {{ '<|im_end|>\n' }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";

}  // namespace

Result<Rendered> ModelTemplate::Render(RenderInput input) const {
  if (!input.bos_token) input.bos_token = bos_token;
  if (!input.eos_token) input.eos_token = eos_token;
  const bool tools = input.tools.is_array() && !input.tools.empty();
  return tools && tool_use ? tool_use->Render(input) : chat.Render(input);
}

Result<ModelTemplate> ReadModelTemplate(const std::string& dir) {
  TM_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(dir));
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
    source = kChatMl;
  }
  TM_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Parse(source, "chat_template"));
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

#include "conversation/tools_as_text.h"

#include <utility>

namespace tidemill {

const std::string_view kContentMacro = R"({%- macro text(content) -%}
  {%- if content is string -%}{{ content }}
  {%- elif content is iterable -%}{% for part in content %}{{ part.text or '' }}{% endfor %}
  {%- endif -%}
{%- endmacro -%})";

const std::string_view kToolsText = R"(# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}

</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>)";

const std::string_view kAssistantText = R"({{ text(message.content) }}
{%- for call in message.tool_calls or [] -%}
  {%- set function = call.function or call -%}
  {%- if not loop.first or text(message.content) %}{{ '\n' }}{% endif -%}
  {{ '<tool_call>\n{"name": ' }}{{ function.name | tojson }}{{ ', "arguments": ' }}
  {%- if function.arguments is string %}{{ function.arguments }}
  {%- else %}{{ function.arguments | tojson }}{% endif -%}
  {{ '}\n</tool_call>' }}
{%- endfor -%})";

namespace {

using TextJson = nlohmann::ordered_json;

ChatTemplate Parsed(const std::string& source) {
  auto parsed = ChatTemplate::Parse(source, "tools as text");
  TM_CHECK(parsed.ok(), parsed.status().message());
  return std::move(*parsed);
}

Result<std::string> DescriptionOf(const TextJson& tools) {
  static const ChatTemplate kTemplate = Parsed(std::string(kToolsText));
  TM_ASSIGN_OR_RETURN(Rendered text, kTemplate.Render({.tools = tools}));
  return std::move(text.text);
}

// The content of a message, its calls behind it.
Result<std::string> TextOfMessage(const TextJson& message) {
  static const ChatTemplate kTemplate =
      Parsed(std::string(kContentMacro) + "{%- set message = messages[0] -%}" +
             std::string(kAssistantText));
  TM_ASSIGN_OR_RETURN(Rendered text, kTemplate.Render({.messages = TextJson::array({message})}));
  return std::move(text.text);
}

std::string RoleOf(const TextJson& message) {
  return message.is_object() && message.contains("role") && message["role"].is_string()
             ? message["role"].get<std::string>()
             : "";
}

TextJson UserMessage(std::string content) {
  return {{"role", "user"}, {"content", std::move(content)}};
}

// The messages without calls and results.
Result<TextJson> PlainMessages(const MessageRules& rules, const TextJson& messages) {
  TextJson plain = TextJson::array();
  bool behind_results = false;
  for (const TextJson& message : messages) {
    const std::string role = RoleOf(message);
    const bool result = role == "tool";
    const bool joins = behind_results && (result || (role == "user" && !rules.users_in_a_row));
    if (result || joins) {
      TM_ASSIGN_OR_RETURN(std::string text, TextOfMessage(message));
      if (result) text = "<tool_response>\n" + text + "\n</tool_response>";
      if (joins) {
        plain.back()["content"] = plain.back()["content"].get<std::string>() + "\n" + text;
      } else {
        plain.push_back(UserMessage(std::move(text)));
      }
    } else if (role == "assistant" && message.contains("tool_calls")) {
      TM_ASSIGN_OR_RETURN(std::string text, TextOfMessage(message));
      TextJson& said = plain.emplace_back(message);
      said["content"] = std::move(text);
      said.erase("tool_calls");
    } else {
      plain.push_back(message);
    }
    behind_results = result;
  }
  return plain;
}

// Puts `text` before or behind what the message says.
Status Extend(TextJson& message, const std::string& text, bool before) {
  TM_ASSIGN_OR_RETURN(const std::string said, TextOfMessage(message));
  const std::string between = said.empty() ? "" : "\n\n";
  message["content"] = before ? text + between + said : said + between + text;
  return Ok();
}

}  // namespace

Status WriteToolsAsText(const MessageRules& rules, RenderInput& input) {
  if (!input.messages.is_array()) return Ok();  // the template says what is wrong
  TM_ASSIGN_OR_RETURN(input.messages, PlainMessages(rules, input.messages));
  const TextJson tools = std::exchange(input.tools, nullptr);
  if (!tools.is_array() || tools.empty()) return Ok();
  TM_ASSIGN_OR_RETURN(std::string text, DescriptionOf(tools));
  TextJson& messages = input.messages;
  const std::string first = messages.empty() ? "" : RoleOf(messages[0]);
  if (first == "system") return Extend(messages[0], text, /*before=*/false);
  if (!rules.system_role && first == "user") return Extend(messages[0], text, /*before=*/true);
  const std::string role = rules.system_role ? "system" : "user";
  messages.insert(messages.begin(), TextJson{{"role", role}, {"content", std::move(text)}});
  return Ok();
}

}  // namespace tidemill

#include "tests/agents/scripted_answers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

// Tools with which agents run commands, the more particular first.
constexpr std::array kShells = {"exec_command",
                                "shell_command",
                                "run_shell_command",
                                "run_commands",
                                "execute_command",
                                "run_terminal_command",
                                "Bash",
                                "bash",
                                "exec",
                                "shell",
                                "execute_bash",
                                "run",
                                "python"};

std::string Between(const std::string& text, const std::string& open, const std::string& close,
                    size_t from = 0) {
  const size_t begin = text.find(open, from);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(close, begin + open.size());
  return end == std::string::npos ? ""
                                  : text.substr(begin + open.size(), end - begin - open.size());
}

// The last turn of the prompt with that role, or "".
std::string LastTurn(const std::string& prompt, const std::string& role) {
  const std::string open = "<|im_start|>" + role + "\n";
  const size_t at = prompt.rfind(open);
  return at == std::string::npos ? "" : Between(prompt, open, "<|im_end|>", at);
}

// What came after the last answer in the prompt, which ends with an open turn.
std::string SinceLastAnswer(const std::string& prompt) {
  constexpr std::string_view kOpen = "<|im_start|>assistant\n";
  const size_t open = prompt.rfind(kOpen);
  if (open == std::string::npos || open == 0) return "";
  const size_t last = prompt.rfind(kOpen, open - 1);
  return last == std::string::npos ? "" : prompt.substr(last, open - last);
}

// The first block of tools in the prompt, a line each.
std::vector<Json> ToolsOf(const std::string& prompt) {
  std::vector<Json> tools;
  constexpr std::string_view kOpen = "<tools>\n";
  for (size_t at = prompt.find(kOpen); at != std::string::npos && tools.empty();
       at = prompt.find(kOpen, at + 1)) {
    std::istringstream lines(prompt.substr(at + kOpen.size()));
    for (std::string line; std::getline(lines, line);) {
      // The end may stand behind the last one.
      Json tool = Json::parse(line.substr(0, line.rfind("</tools>")), nullptr, false);
      if (!tool.is_object()) break;
      if (tool.contains("function")) tools.push_back(tool["function"]);
    }
  }
  return tools;
}

Json Value(const std::string& name, const Json& schema, const std::string& command) {
  const bool is_command =
      name == "command" || name == "cmd" || name == "commands" || name == "code" || name == "c";
  std::string type = "string";
  if (schema.contains("type")) {
    const Json& given = schema["type"];
    type = given.is_array() ? given.at(0).get<std::string>() : given.get<std::string>();
  }
  if (type == "array") {
    if (!is_command) return Json::array();
    if (name == "commands") return Json::array({command});
    return Json::array({"bash", "-lc", command});
  }
  if (type == "boolean") return false;
  if (type == "integer" || type == "number") return 60000;
  if (type == "object") return Json::object();
  if (schema.contains("enum") && !schema["enum"].empty()) return schema["enum"][0];
  return is_command ? command : "hello in C";
}

Json Arguments(const Json& tool, const std::string& command) {
  Json arguments = Json::object();
  if (!tool.contains("parameters")) return arguments;
  const Json& schema = tool["parameters"];
  const Json properties = schema.contains("properties") ? schema["properties"] : Json::object();
  const Json required = schema.contains("required") ? schema["required"] : Json::array();
  for (const auto& [name, property] : properties.items()) {
    const bool needed = std::find(required.begin(), required.end(), Json(name)) != required.end();
    const bool command_like = name == "command" || name == "cmd" || name == "commands";
    if (needed || command_like) arguments[name] = Value(name, property, command);
  }
  return arguments;
}

std::string CallText(const std::string& name, const Json& arguments) {
  return "<tool_call>\n{\"name\": " + Json(name).dump() + ", \"arguments\": " + arguments.dump() +
         "}\n</tool_call>";
}

// "NAME {..} and NAME {..}"
std::string CallsFrom(std::string words) {
  std::string out;
  while (!words.empty()) {
    const size_t cut = std::min(words.find(" and "), words.size());
    const std::string one = words.substr(0, cut);
    words.erase(0, std::min(words.size(), cut + 5));
    const size_t space = std::min(one.find(' '), one.size());
    const std::string body = space < one.size() ? one.substr(space + 1) : "{}";
    const Json arguments = Json::parse(body, nullptr, false);
    out += (out.empty() ? "" : "\n") +
           CallText(one.substr(0, space), arguments.is_object() ? arguments : Json::object());
  }
  return out;
}

// What the user asked for in so many words, or "".
std::string Asked(const std::string& user) {
  const auto after = [&](std::string_view word) {
    return user.rfind(word, 0) == 0 ? user.substr(word.size()) : std::string();
  };
  if (const std::string text = after("say "); !text.empty()) return text;
  if (const std::string calls = after("call "); !calls.empty()) return CallsFrom(calls);
  if (const std::string both = after("think "); !both.empty()) {
    const size_t then = std::min(both.find(" then "), both.size());
    const std::string text = then < both.size() ? both.substr(then + 6) : "";
    return "<think>\n" + both.substr(0, then) + "\n</think>\n\n" + text;
  }
  if (const std::string count = after("long "); !count.empty()) {
    std::string words;
    for (int i = std::atoi(count.c_str()); i > 0; --i) words += "word ";
    return words;
  }
  return "";
}

// Some agents end only with a call of their own.
constexpr const char* kSubmit = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

// Agents that read commands and files out of the text; "" for others.
std::string AnswerInText(const std::string& prompt, const std::string& user,
                         const std::string& command) {
  constexpr const char* kFence = "```mswea_bash_command";
  if (prompt.find(kFence) != std::string::npos) {
    const bool ran = user.find("<returncode>") != std::string::npos;
    const std::string run = ran ? std::string("echo ") + kSubmit : command;
    return "I run it.\n\n" + std::string(kFence) + "\n" + run + "\n```";
  }
  if (prompt.find("*file listing*") != std::string::npos) {
    const bool wrong = user.find("error:") == std::string::npos;  // so that there is a second turn
    return std::string("I write the file.\n\nhello.c\n```\n#include <stdio.h>\nint main(void) { ") +
           (wrong ? "puts(\"hello\")" : "puts(\"hello\");") + " return 0; }\n```\n";
  }
  return "";
}

}  // namespace

std::string ScriptedAnswer(const std::string& prompt, const std::string& command) {
  const std::string user = LastTurn(prompt, "user");
  // Some agents put a message of their own behind the result.
  const bool tool_answered =
      SinceLastAnswer(prompt).find("\n<tool_response>\n") != std::string::npos ||
      user.rfind("Observation:", 0) == 0;
  if (const std::string asked = Asked(user); !asked.empty()) return asked;
  const bool submits = tool_answered && prompt.find(kSubmit) != std::string::npos;
  const std::vector<Json> tools = ToolsOf(prompt);
  if (tools.empty()) {
    if (const std::string text = AnswerInText(prompt, user, command); !text.empty()) return text;
  }
  for (const Json& tool : tools) {
    const std::string name = tool["name"];
    if (tool_answered && (name == "final_answer" || name == "submit")) {
      return CallText(name, {{"answer", "Done"}});
    }
  }
  for (const char* shell : kShells) {
    for (const Json& tool : tools) {
      if (tool["name"] != shell || (tool_answered && !submits)) continue;
      const std::string run = submits ? std::string("echo ") + kSubmit : command;
      return CallText(shell, Arguments(tool, run));
    }
  }
  return "Done: hello.c is there, it compiles and prints hello.";
}

std::string ScriptedCalls(const std::string& prompt, const std::string& steps) {
  const Json calls = Json::parse(steps, nullptr, false);
  if (!calls.is_array()) return "The script of calls is no list.";
  // The results so far; the words of the template name a call, and no result.
  size_t step = 0;
  constexpr std::string_view kResult = "\n<tool_response>\n";
  for (size_t at = prompt.find(kResult); at != std::string::npos; at = prompt.find(kResult, at + 1))
    ++step;
  if (step >= calls.size()) return "Done.";
  const std::string wanted = calls[step]["tool"];
  for (const Json& tool : ToolsOf(prompt)) {
    const std::string name = tool["name"];
    const bool ours = name.find("tidemill") != std::string::npos;
    if (ours && name.ends_with("_" + wanted)) return CallText(name, calls[step]["arguments"]);
  }
  return "There is no tool " + wanted + ".";
}

const char* ScriptedTemplate() {
  return R"({%- if tools -%}
<|im_start|>system
{% if messages and messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}<tools>
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}
</tools><|im_end|>
{% elif messages and messages[0].role == 'system' -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- for message in messages -%}
  {%- if message.role == 'system' and loop.first -%}
  {%- elif message.role == 'tool' -%}
    {%- if loop.first or loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif -%}
    {{ '\n<tool_response>\n' }}{{ message.content }}{{ '\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\n' }}{% endif -%}
  {%- else -%}
    {{ '<|im_start|>' + message.role + '\n' }}
    {%- if message.reasoning_content %}{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{% endif -%}
    {{ message.content }}
    {%- for call in message.tool_calls or [] -%}
      {{ '\n<tool_call>\n{"name": ' }}{{ call.function.name | tojson }}{{ ', "arguments": ' }}
      {{- call.function.arguments | tojson }}{{ '}\n</tool_call>' }}
    {%- endfor -%}
    {{ '<|im_end|>\n' }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";
}

}  // namespace tidemill

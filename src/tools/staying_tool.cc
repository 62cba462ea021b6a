#include "tools/staying_tool.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/paths.h"
#include "core/text.h"
#include "tools/arguments.h"

namespace tidemill {
namespace {

using AskedJson = nlohmann::ordered_json;

constexpr size_t kShownBytes = 200;

AskedJson SchemaOf(const CommandTool& tool) {
  if (tool.parameters.empty()) return {{"type", "object"}, {"properties", AskedJson::object()}};
  return AskedJson::parse(tool.parameters, nullptr, /*allow_exceptions=*/false);
}

bool HasType(const AskedJson& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return true;
}

// As far as a schema is about an object's own members: the rest is the program's to check.
Status CheckArguments(const AskedJson& arguments, const AskedJson& schema) {
  for (const AskedJson& name : schema.value("required", AskedJson::array())) {
    if (arguments.contains(name.get<std::string>())) continue;
    return Invalid("the argument \"" + name.get<std::string>() + "\" is missing");
  }
  const AskedJson properties = schema.value("properties", AskedJson::object());
  for (const auto& [name, value] : arguments.items()) {
    if (!properties.contains(name)) {
      return Invalid("there is no argument \"" + Beginning(name, kShownBytes) + "\"");
    }
    const AskedJson& said = properties[name];
    const AskedJson type = said.is_object() ? said.value("type", AskedJson()) : AskedJson();
    if (type.is_string() && !HasType(value, type.get<std::string>())) {
      return Invalid("the argument \"" + name + "\" must be of type " + type.get<std::string>());
    }
  }
  return Ok();
}

Status TakeFiles(const AskedJson& files, Workspace& workspace) {
  if (!files.is_object()) return Unavailable("\"files\" of its answer must be an object");
  for (const auto& [path, content] : files.items()) {
    const Status right = CheckPath(path);
    if (!right.ok()) return Unavailable("\"files\" of its answer: " + right.message());
    if (!content.is_string() && !content.is_null()) {
      return Unavailable("\"files\" of its answer: " + path + " must be a text or null");
    }
  }
  for (const auto& [path, content] : files.items()) {
    if (content.is_null()) {
      workspace.erase(path);
    } else {
      workspace[path].content = content.get<std::string>();
    }
  }
  return Ok();
}

}  // namespace

Status CheckStaying(const CommandTool& tool) {
  if (!tool.stays) {
    if (tool.parameters.empty()) return Ok();
    return Invalid("\"parameters\" needs stays = true; else they are the {x} of the command");
  }
  if (tool.parser != CommandTool::Parser::kText) {
    return Invalid("\"parser\" is of commands that run in the box, not of one that stays");
  }
  const AskedJson schema = SchemaOf(tool);
  if (!schema.is_object() || !schema.value("properties", AskedJson::object()).is_object()) {
    return Invalid("\"parameters\" must be a JSON schema of an object, got " +
                   Beginning(tool.parameters, kShownBytes));
  }
  const AskedJson required = schema.value("required", AskedJson::array());
  const bool names =
      required.is_array() &&
      std::all_of(required.begin(), required.end(), [](const auto& x) { return x.is_string(); });
  if (names) return Ok();
  return Invalid("\"required\" of \"parameters\" must be a list of names");
}

Result<std::string> ToolQuestion(const v1::ToolRequest& request, const CommandTool& tool,
                                 const Workspace& workspace) {
  // Its bounds in size and depth.
  TM_RETURN_IF_ERROR(Arguments::Parse(request.arguments_json()).status());
  AskedJson arguments = AskedJson::object();
  if (!request.arguments_json().empty()) arguments = AskedJson::parse(request.arguments_json());
  TM_RETURN_IF_ERROR(CheckArguments(arguments, SchemaOf(tool)));
  AskedJson question = {{"tool", tool.name},
                        {"arguments", std::move(arguments)},
                        {"task", request.episode().task()},
                        {"group", request.episode().group()},
                        {"member", request.episode().member()},
                        {"files", AskedJson::object()}};
  for (const auto& [path, file] : workspace) {
    const bool named = tool.files.empty() ||
                       std::find(tool.files.begin(), tool.files.end(), path) != tool.files.end();
    if (named && IsUtf8(file.content)) question["files"][path] = file.content;
  }
  return question.dump(-1, ' ', false, AskedJson::error_handler_t::replace);
}

Status TakeToolAnswer(const std::string& line, const CommandTool& tool, Workspace& workspace,
                      v1::ToolResult* result) {
  const AskedJson answer = AskedJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("text") || !answer["text"].is_string()) {
    return Unavailable("an answer of the tool " + tool.name + " needs a \"text\", got " +
                       Beginning(line, kShownBytes));
  }
  if (answer.contains("failed") && !answer["failed"].is_boolean()) {
    return Unavailable("\"failed\" in an answer of the tool " + tool.name +
                       " must be true or false");
  }
  if (answer.contains("files") && tool.changes) {
    TM_RETURN_IF_ERROR(TakeFiles(answer["files"], workspace).WithContext("the tool " + tool.name));
  }
  result->set_text(answer["text"].get<std::string>());
  result->set_outcome(answer.value("failed", false) ? v1::OUTCOME_FAILED : v1::OUTCOME_OK);
  return Ok();
}

}  // namespace tidemill

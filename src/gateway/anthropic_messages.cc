// POST /v1/messages and /v1/messages/count_tokens: the request.
#include <fmt/format.h>

#include <limits>
#include <map>

#include "gateway/control_fields.h"
#include "gateway/reasoning_seal.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

// Those that are not shown from the start, by name.
using DeferredTools = std::map<std::string, WireJson>;

class MessagesTools {
 public:
  MessagesTools(WireParse& parse, ChatRequest& request, DeferredTools& deferred)
      : parse_(parse), request_(request), deferred_(deferred), list_(parse) {}

  bool Has(const std::string& name) const { return list_.Has(name); }

  void Read(const WireJson& value, const WirePlace& at) {
    bool hidden = false;
    WireJson tool = Make(value, at, list_, hidden);
    if (tool.is_null() || parse_.failed()) return;
    if (hidden) {
      const std::string name = tool["function"]["name"];
      deferred_[name] = std::move(tool);
    } else {
      request_.tools.push_back(std::move(tool));
    }
  }

  // One that is defined in the middle of a conversation; it may be there again later.
  WireJson Define(const WireJson& value, const WirePlace& at) {
    ToolList alone(parse_);
    bool hidden = false;
    return Make(value, at, alone, hidden);
  }

 private:
  // Null: ignored, or an error.
  WireJson Make(const WireJson& value, const WirePlace& at, ToolList& list, bool& hidden) {
    if (CheckedType(parse_, value, at, "tools[]", "custom").empty()) return nullptr;
    const WireObject tool(parse_, value, at, "tools[custom]");
    tool.Require("input_schema");
    hidden = tool.Bool("defer_loading").value_or(false);
    const std::string name = tool.RequiredString("name");
    if (tool.Bool("strict").value_or(false)) request_.strict_tools.insert(name);
    return list.Make(name, tool.String("description"), tool.Object("input_schema"), at);
  }

  WireParse& parse_;
  ChatRequest& request_;
  DeferredTools& deferred_;
  ToolList list_;
};

// Reads the messages, each of which may become several.
class MessagesInput {
 public:
  MessagesInput(WireParse& parse, WireJson& messages, const DeferredTools& deferred,
                MessagesTools& tools)
      : parse_(parse), messages_(messages), deferred_(deferred), tools_(tools) {}

  // `last_user`: the index of the last message of the user.
  void Read(const WireJson& value, const WirePlace& at, size_t last_user) {
    const std::string role =
        value.is_object() && value.contains("role") && value["role"].is_string()
            ? value["role"].get<std::string>()
            : "";
    const WireObject message(parse_, value, at,
                             role == "assistant" ? "messages[assistant]"
                             : role == "system"  ? "messages[system]"
                                                 : "messages[]");
    message.RequiredString("role");
    message.Require("content");
    if (role == "assistant") return Assistant(message);
    if (role == "system") return System(message, at.index < last_user);
    if (role == "user") return User(message);
    message.Fail("role", fmt::format("must be user, assistant or system, got {}", ShownWire(role)));
  }

 private:
  // Calls `each(type, block, place)` for the blocks; a string is one block of text.
  template <typename Each>
  void Blocks(const WireObject& message, std::string_view key, Each each) {
    const WireJson* content = message.Find(key);
    if (content == nullptr) return;
    const WirePlace at = message.PlaceOf(key);
    if (content->is_string()) return each("string", *content, at);
    if (!content->is_array()) {
      parse_.Fail(at,
                  fmt::format("must be a string or a list of blocks, got {}", ShownWire(*content)),
                  "invalid_type");
      return;
    }
    message.List(key, parse_.limits().parts, [&](const WireJson& block, const WirePlace& place) {
      const std::string type = CheckedType(parse_, block, place, "content[]", "");
      if (!type.empty()) each(type, block, place);
    });
  }

  void Misplaced(const std::string& type, const WirePlace& at) {
    parse_.Fail(at, fmt::format("a block of type {} does not belong here", ShownWire(type)));
  }

  std::string Text(const std::string& type, const WireJson& block, const WirePlace& at) {
    if (type == "string") return block.get<std::string>();
    const WireObject text(parse_, block, at, "content[text]");
    text.Require("text");
    return text.String("text").value_or("");
  }

  void User(const WireObject& message) {
    std::string text;
    bool first = true;
    size_t blocks = 0;
    const auto flush = [&] {
      if (!first) messages_.push_back(CanonicalMessage("user", std::move(text)));
      text.clear();
      first = true;
    };
    Blocks(message, "content",
           [&](const std::string& type, const WireJson& block, const WirePlace& at) {
             ++blocks;
             if (type == "tool_result") {
               flush();
               Result(block, at);
             } else if (type == "text" || type == "string") {
               JoinText(text, Text(type, block, at), first, JoinParts::kLines);
               first = false;
             } else {
               Misplaced(type, at);
             }
           });
    flush();
    if (blocks == 0 && !parse_.failed()) message.Fail("content", "must not be empty");
  }

  void Result(const WireJson& block, const WirePlace& at) {
    const WireObject result(parse_, block, at, "content[tool_result]");
    std::string text;
    bool first = true;
    Blocks(result, "content",
           [&](const std::string& type, const WireJson& part, const WirePlace& place) {
             if (type == "tool_reference") {
               JoinText(text, Reference(part, place), first, JoinParts::kLines);
             } else if (type == "text" || type == "string") {
               JoinText(text, Text(type, part, place), first, JoinParts::kLines);
             } else {
               Misplaced(type, place);
             }
             first = false;
           });
    WireJson message = CanonicalMessage("tool", std::move(text));
    message["tool_call_id"] = result.RequiredString("tool_use_id");
    if (result.Bool("is_error").value_or(false)) message["is_error"] = true;
    messages_.push_back(std::move(message));
  }

  // A deferred tool is shown where it is named, so that what was rendered before stays as it was.
  std::string Reference(const WireJson& block, const WirePlace& at) {
    const WireObject reference(parse_, block, at, "content[tool_reference]");
    return Definition(reference.RequiredString("tool_name"), reference.PlaceOf("tool_name"));
  }

  std::string Definition(const std::string& name, const WirePlace& at) {
    const auto found = deferred_.find(name);
    if (found != deferred_.end()) return DumpWire(found->second);
    if (!tools_.Has(name)) parse_.Fail(at, fmt::format("there is no tool {}", ShownWire(name)));
    return fmt::format("The tool {} is available.", ShownWire(name));
  }

  void Assistant(const WireObject& message) {
    std::string content;
    std::string reasoning;
    WireJson calls = WireJson::array();
    Blocks(message, "content",
           [&](const std::string& type, const WireJson& block, const WirePlace& at) {
             if (type == "text" || type == "string") {
               content += Text(type, block, at);
             } else if (type == "thinking") {
               const WireObject thinking(parse_, block, at, "content[thinking]");
               std::string text = thinking.String("thinking").value_or("");
               if (text.empty()) {
                 text = OpenReasoning(thinking.String("signature").value_or("")).value_or("");
               }
               reasoning += text;
             } else if (type == "tool_use") {
               const WireObject use(parse_, block, at, "content[tool_use]");
               const WireJson* input = use.Object("input");
               calls.push_back(CanonicalCall(use.RequiredString("id"), use.RequiredString("name"),
                                             input == nullptr ? "" : DumpWire(*input),
                                             parse_.limits()));
             } else {
               Misplaced(type, at);
             }
           });
    messages_.push_back(
        CanonicalAssistant(std::move(content), std::move(reasoning), std::move(calls)));
  }

  void System(const WireObject& message, bool user_spoke_later) {
    const std::string clear_at = message.String("clear_at").value_or("never");
    if (clear_at != "never" && clear_at != "next_user_message") {
      message.Fail("clear_at", R"(must be "never" or "next_user_message")");
    }
    std::string text;
    bool first = true;
    Blocks(message, "content",
           [&](const std::string& type, const WireJson& block, const WirePlace& at) {
             if (type == "tool_addition" || type == "tool_removal") {
               JoinText(text, ToolChange(type, block, at), first, JoinParts::kLines);
             } else if (type == "text" || type == "string") {
               JoinText(text, Text(type, block, at), first, JoinParts::kLines);
             } else {
               Misplaced(type, at);
             }
             first = false;
           });
    if (clear_at == "next_user_message" && user_spoke_later) return;
    if (!first) messages_.push_back(CanonicalMessage("system", std::move(text)));
  }

  std::string ToolChange(const std::string& type, const WireJson& block, const WirePlace& at) {
    const WireObject change(parse_, block, at, "content[tool_change]");
    change.Require("tool");
    if (parse_.failed()) return {};
    const WirePlace tool_at = change.PlaceOf("tool");
    const WireJson& value = *change.Find("tool");
    const std::string kind = CheckedType(parse_, value, tool_at, "content[tool_change].tool", "");
    if (kind.empty()) return {};
    const WireObject tool(parse_, value, tool_at, "content[tool_change].tool");
    if (kind == "tool_definition") {
      tool.Require("definition");
      if (parse_.failed()) return {};
      return "This tool is available from now on: " +
             DumpWire(tools_.Define(*tool.Find("definition"), tool.PlaceOf("definition")));
    }
    const std::string name = tool.RequiredString("name");
    if (type == "tool_removal") return fmt::format("The tool {} is gone.", ShownWire(name));
    return "This tool is available from now on: " + Definition(name, tool.PlaceOf("name"));
  }

  WireParse& parse_;
  WireJson& messages_;
  const DeferredTools& deferred_;
  MessagesTools& tools_;
};

void ReadSystem(const WireObject& body, ChatRequest& request) {
  const WireJson* value = body.Find("system");
  if (value == nullptr) return;
  WireParse& parse = body.parse();
  std::string text;
  bool first = true;
  if (value->is_string()) {
    text = value->get<std::string>();
    first = text.empty();
  } else {
    body.List("system", parse.limits().parts, [&](const WireJson& block, const WirePlace& at) {
      if (CheckedType(parse, block, at, "system[]", "").empty()) return;
      const WireObject fields(parse, block, at, "system[]");
      fields.Require("text");
      const std::string part = fields.String("text").value_or("");
      if (part.starts_with(kBillingBlock)) return;
      JoinText(text, part, first, JoinParts::kLines);
      first = false;
    });
  }
  if (!first) request.messages.push_back(CanonicalMessage("system", std::move(text)));
}

void ReadMessagesToolChoice(const WireObject& body, ChatRequest& request) {
  const WireJson* value = body.Object("tool_choice");
  if (value == nullptr) return;
  WireParse& parse = body.parse();
  const WirePlace at = body.PlaceOf("tool_choice");
  const std::string type = CheckedType(parse, *value, at, "tool_choice", "");
  const WireObject choice(parse, *value, at, "tool_choice");
  if (type == "any") request.tool_choice.kind = ToolChoice::Kind::kRequired;
  if (type == "none") request.tool_choice.kind = ToolChoice::Kind::kNone;
  if (type == "tool") {
    request.tool_choice = {ToolChoice::Kind::kNamed, choice.RequiredString("name")};
  }
  request.parallel_tool_calls = !choice.Bool("disable_parallel_tool_use").value_or(false);
}

void ReadMessagesThinking(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  if (const WireJson* value = body.Object("thinking")) {
    const WirePlace at = body.PlaceOf("thinking");
    const std::string type = CheckedType(parse, *value, at, "thinking", "");
    const WireObject thinking(parse, *value, at, "thinking");
    if (type == "enabled" || type == "disabled") SetThinking(request, type == "enabled");
    request.hide_reasoning = thinking.String("display").value_or("") == "omitted";
  }
  if (const WireJson* value = body.Object("output_config")) {
    const WireObject config(parse, *value, body.PlaceOf("output_config"), "output_config");
    if (const auto effort = config.String("effort")) SetEffort(request, *effort);
    ReadFormat(config, "format", "output_config.format", request);
  }
}

void ReadMessagesOptions(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  if (const WireJson* value = body.Object("metadata")) {
    const WireObject metadata(parse, *value, body.PlaceOf("metadata"), "metadata");
    AddHint(metadata, "user_id", "metadata.user_id", request);
  }
  if (const WireJson* value = body.Object("context_management")) {
    const WireObject management(parse, *value, body.PlaceOf("context_management"),
                                "context_management");
    management.List("edits", 64, [&](const WireJson& edit, const WirePlace& at) {
      CheckedType(parse, edit, at, "context_management.edits[]", "");
    });
  }
}

// The index of the last message of the user; 0: there is none.
size_t LastUserMessage(const WireJson* messages) {
  if (messages == nullptr || !messages->is_array()) return 0;
  for (size_t i = messages->size(); i-- > 0;) {
    const WireJson& message = (*messages)[i];
    if (message.is_object() && message.contains("role") && message["role"] == "user") return i;
  }
  return 0;
}

}  // namespace

void ReadMessagesBody(const WireObject& body, ChatRequest& request) {
  WireParse& parse = body.parse();
  request.model = body.RequiredString("model");
  request.stream = body.Bool("stream").value_or(false);
  request.return_token_ids = body.Bool("return_token_ids").value_or(false);
  if (parse.api() == Api::kMessages) body.Require("max_tokens");
  request.sampling.max_tokens = body.Int("max_tokens", 1, std::numeric_limits<int32_t>::max());
  ReadSampling(body, request.sampling);
  ReadStops(body, "stop_sequences", request.sampling);
  ReadTemplateKwargs(body, request);
  ReadMessagesThinking(body, request);
  ReadMessagesOptions(body, request);
  ReadFormat(body, "output_format", "output_format", request);

  DeferredTools deferred;
  MessagesTools tools(parse, request, deferred);
  body.List("tools", parse.limits().tools,
            [&](const WireJson& tool, const WirePlace& at) { tools.Read(tool, at); });
  ReadMessagesToolChoice(body, request);
  if (!parse.failed()) CheckToolChoice(body, request);

  ReadSystem(body, request);
  body.Require("messages");
  const size_t last_user = LastUserMessage(body.Find("messages"));
  MessagesInput input(parse, request.messages, deferred, tools);
  body.List("messages", parse.limits().messages, [&](const WireJson& message, const WirePlace& at) {
    input.Read(message, at, last_user);
  });
  if (parse.failed()) return;
  if (request.messages.empty()) return body.Fail("messages", "must hold at least one message");
  if (request.messages.back()["role"] == "assistant") {
    TakePrefill(body, request);
    if (parse.failed()) return;
  }
  NameToolMessages(request.messages);
}

}  // namespace tidemill

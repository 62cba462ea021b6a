#include "conversation/model_chat.h"

#include <algorithm>

#include "conversation/tools_as_text.h"
#include "core/log.h"
#include "core/text.h"
#include "model/model_config.h"

namespace tidemill {
namespace {

using ChatJson = nlohmann::ordered_json;

// Words of a conversation that finds out what a template shows.
constexpr std::string_view kProbeText = "tidemill-probe-text";
constexpr std::string_view kProbeTool = "tidemill_probe_tool";
constexpr std::string_view kProbeValue = "tidemill-probe-value";
constexpr uint64_t kProbeSteps = 1'000'000;  // a few messages need no more
constexpr std::string_view kProbeResult = "tidemill-probe-result";

// The text of a conversation; empty: the template refuses it.
std::string Probe(const ModelTemplate& chat, ChatJson messages, ChatJson tools, bool open) {
  const auto rendered = chat.Render({.messages = std::move(messages),
                                     .tools = std::move(tools),
                                     .add_generation_prompt = open,
                                     .limits = {.steps_max = kProbeSteps}});
  return rendered.ok() ? rendered->text : "";
}

bool Has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

bool ShowsTools(const ModelTemplate& chat) {
  const ChatJson tools = ChatJson::array(
      {{{"type", "function"},
        {"function",
         {{"name", kProbeTool},
          {"description", "Probes."},
          {"parameters", {{"type", "object"}, {"properties", {{"of", {{"type", "string"}}}}}}}}}}});
  const ChatJson question = SaidBy("user", kProbeText);
  if (!Has(Probe(chat, ChatJson::array({question}), tools, true), kProbeTool)) return false;
  ChatJson call = SaidBy("assistant", "");
  call["tool_calls"] = ChatJson::array(
      {{{"id", "call00001"},
        {"type", "function"},
        {"function", {{"name", kProbeTool}, {"arguments", {{"of", kProbeValue}}}}}}});
  ChatJson result = SaidBy("tool", kProbeResult);
  result["tool_call_id"] = "call00001";
  result["name"] = kProbeTool;
  const std::string text = Probe(chat, ChatJson::array({question, call, result}), tools, true);
  return Has(text, kProbeValue) && Has(text, kProbeResult);
}

// The special token that the template writes behind an answer, if there is one.
std::optional<TokenId> TurnEnd(const Tokenizer& tokenizer, const ModelTemplate& chat) {
  const std::string text =
      Probe(chat, ChatJson::array({SaidBy("user", "a"), SaidBy("assistant", kProbeText)}), nullptr,
            false);
  const size_t at = text.rfind(kProbeText);
  if (at == std::string::npos) return std::nullopt;
  const std::vector<TokenId> behind = tokenizer.Encode(
      std::string_view(text).substr(at + kProbeText.size()), SpecialTokens::kRecognise);
  if (behind.empty() || !tokenizer.IsSpecial(behind.front())) return std::nullopt;
  return behind.front();
}

void AddEndId(std::vector<TokenId>& ids, std::optional<TokenId> id) {
  if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
}

// The names "hermes" and so on choose how calls are read; the template still describes the tools,
// unless Hermes' calls are wanted from one that does not.
Status ChooseFormat(std::string_view name, ModelChat& out) {
  if (name == "auto") return Ok();
  TM_ASSIGN_OR_RETURN(out.format.tools, ToolFormatByName(name));
  const bool described =
      out.tool_source == ToolSource::kNotShown && out.format.tools == ToolFormat::kHermesJson;
  if (!described) out.tool_source = ToolSource::kTemplate;
  return Ok();
}

}  // namespace

ChatJson SaidBy(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", ToUtf8(content)}};
}

ModelChat MakeModelChat(Tokenizer tokenizer, ModelTemplate chat, GenerationConfig generation) {
  ModelChat out{.tokenizer = std::move(tokenizer),
                .chat = std::move(chat),
                .generation = std::move(generation)};
  const ModelTemplate& shown = *out.chat;
  out.format = DetectOutputFormat((shown.tool_use ? *shown.tool_use : shown.chat).source());
  if (!ShowsTools(shown)) {
    out.tool_source = ToolSource::kNotShown;
  } else if (out.format.tools == ToolFormat::kNone) {
    out.tool_source = ToolSource::kNotRead;
  }
  if (out.tool_source != ToolSource::kTemplate) out.format.tools = ToolFormat::kHermesJson;
  const ChatJson user = SaidBy("user", "a");
  out.system_role =
      Has(Probe(shown, ChatJson::array({SaidBy("system", kProbeText), user}), nullptr, true),
          kProbeText);
  out.users_in_a_row = Has(
      Probe(shown, ChatJson::array({user, SaidBy("user", kProbeText)}), nullptr, true), kProbeText);
  AddEndId(out.end_ids, TurnEnd(out.tokenizer, shown));
  for (const TokenId id : out.generation.eos_token_ids) AddEndId(out.end_ids, id);
  if (shown.eos_token) AddEndId(out.end_ids, out.tokenizer.AddedTokenId(*shown.eos_token));
  return out;
}

Result<ModelChat> ReadModelChat(Tokenizer tokenizer, const std::string& dir,
                                const ModelChatOptions& options) {
  Result<GenerationConfig> generation = ReadGenerationConfig(dir);
  if (!generation.ok() && generation.status().code() != Code::kNotFound) return generation.status();
  Result<ModelTemplate> chat = ReadModelTemplate(dir, options.template_file);
  const bool wanted = !options.template_file.empty();
  if (!chat.ok() && (wanted || chat.status().code() != Code::kNotFound)) return chat.status();
  GenerationConfig author = generation.ok() ? *generation : GenerationConfig{};
  ModelChat out = chat.ok() ? MakeModelChat(std::move(tokenizer), std::move(*chat), author)
                            : ModelChat{.tokenizer = std::move(tokenizer),
                                        .no_chat_reason = chat.status().message(),
                                        .generation = author,
                                        .end_ids = author.eos_token_ids};
  // Whoever needs the shape says what is wrong with it.
  const auto config = ReadModelConfig(options.model_dir.empty() ? dir : options.model_dir);
  if (config.ok()) {
    for (const TokenId id : config->eos_token_ids) AddEndId(out.end_ids, id);
  }
  TM_RETURN_IF_ERROR(ChooseFormat(options.tool_format, out).WithContext("gateway.tool_format"));
  return out;
}

std::string ToolNote(const ModelChat& chat) {
  if (!chat.chat) return "there are no tools: " + chat.no_chat_reason;
  const std::string format =
      "calls are read as \"" + std::string(ToolFormatName(chat.format.tools)) + "\"";
  switch (chat.tool_source) {
    case ToolSource::kTemplate:
      return chat.chat->fallback ? "no chat template: ChatML shows the tools, " + format
                                 : "the chat template shows the tools, " + format;
    case ToolSource::kNotShown:
      return "the chat template does not show tools: a general description is added, " + format;
    case ToolSource::kNotRead:
      return "the chat template writes calls in a format that is not read: a general description "
             "of the tools is shown instead, " +
             format;
  }
  return "";
}

void LogTools(const ModelChat& chat) {
  const std::string note = ToolNote(chat);
  LogOnce(note, LogLevel::kInfo, note);
}

Result<Rendered> RenderChat(const ModelChat& chat, RenderInput input) {
  if (!chat.chat) {
    return Invalid("the model has no chat template, so only /v1/completions is answered: " +
                   chat.no_chat_reason);
  }
  if (chat.tool_source != ToolSource::kTemplate) {
    TM_RETURN_IF_ERROR(WriteToolsAsText(
        {.system_role = chat.system_role, .users_in_a_row = chat.users_in_a_row}, input));
  }
  return chat.chat->Render(std::move(input));
}

ChatJson OpeningMessages(const ModelChat& chat, const std::string& system,
                         const std::string& user) {
  if (system.empty()) return ChatJson::array({SaidBy("user", user)});
  if (!chat.system_role) return ChatJson::array({SaidBy("user", system + "\n\n" + user)});
  return ChatJson::array({SaidBy("system", system), SaidBy("user", user)});
}

}  // namespace tidemill

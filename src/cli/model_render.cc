#include "cli/model_render.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "conversation/model_template.h"
#include "core/files.h"

namespace tidemill {
namespace {

using RenderJson = nlohmann::ordered_json;

constexpr size_t kConversationBytesMax = size_t{256} << 20;
constexpr size_t kTemplateBytesMax = size_t{4} << 20;

Result<RenderInput> ReadConversation(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kConversationBytesMax));
  const RenderJson json = RenderJson::parse(text, nullptr, false);
  if (!json.is_object()) return Invalid(path + ": must be a JSON object with \"messages\"");
  RenderInput input;
  const auto field = [&](const char* key, RenderJson missing) {
    return json.contains(key) ? json[key] : std::move(missing);
  };
  input.messages = field("messages", nullptr);
  input.tools = field("tools", nullptr);
  input.kwargs = field("kwargs", RenderJson::object());
  const RenderJson generation = field("add_generation_prompt", false);
  if (!input.messages.is_array()) return Invalid(path + ": \"messages\" must be a list");
  if (!input.tools.is_array() && !input.tools.is_null()) {
    return Invalid(path + ": \"tools\" must be a list or null");
  }
  if (!input.kwargs.is_object()) return Invalid(path + ": \"kwargs\" must be an object");
  if (!generation.is_boolean()) {
    return Invalid(path + ": \"add_generation_prompt\" must be true or false");
  }
  input.add_generation_prompt = generation.get<bool>();
  return input;
}

Result<ModelTemplate> ReadTemplate(const ModelRenderWords& words) {
  if (words.model) return ReadModelTemplate(*words.model);
  TM_ASSIGN_OR_RETURN(const std::string source,
                      ReadFileBounded(*words.template_file, kTemplateBytesMax));
  TM_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Parse(source, *words.template_file));
  return ModelTemplate{.chat = std::move(chat),
                       .tool_use = std::nullopt,
                       .bos_token = std::nullopt,
                       .eos_token = std::nullopt};
}

int PrintRendered(const ModelRenderWords& words, const Rendered& rendered) {
  if (!words.json) {
    const size_t size = rendered.text.size();
    const bool written = std::fwrite(rendered.text.data(), 1, size, stdout) == size;
    return written && std::fflush(stdout) == 0 ? 0 : 1;
  }
  RenderJson report{{"text", rendered.text}, {"outside", RenderJson::array()}};
  for (const TextSpan& span : rendered.outside) {
    report["outside"].push_back({span.begin, span.end});
  }
  if (words.model) {
    const auto tokenizer = Tokenizer::Read(*words.model);
    if (!tokenizer.ok()) return Fail(tokenizer.status());
    report["ids"] = tokenizer->Encode(rendered.text, SpecialTokens::kRecognise);
  }
  PrintJson(report);
  return 0;
}

}  // namespace

int RunModelRender(const ModelRenderWords& words) {
  if (words.model.has_value() == words.template_file.has_value()) {
    return Wrong(Invalid("give either --model or --template"));
  }
  const auto now =
      words.now ? ParseCivilTime(*words.now) : Result<CivilTime>(LocalTime(std::time(nullptr)));
  if (!now.ok()) return Wrong(now.status().WithContext("--now"));
  const auto chat = ReadTemplate(words);
  if (!chat.ok()) return Fail(chat.status());
  if (chat->fallback) {
    std::fprintf(stderr, "tidemill: %s has no chat template; ChatML is used\n",
                 words.model->c_str());
  }
  auto input = ReadConversation(words.conversation);
  if (!input.ok()) return Fail(input.status());
  input->bos_token = words.bos;
  input->eos_token = words.eos;
  input->now = *now;
  const auto rendered = chat->Render(*input);
  if (rendered.ok()) return PrintRendered(words, *rendered);
  std::fprintf(stderr, "tidemill: %s\n", rendered.status().message().c_str());
  return 1;
}

}  // namespace tidemill

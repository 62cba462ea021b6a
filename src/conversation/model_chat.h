// How one model converses: its words, its template, how it is shown tools and how it calls them.
// Training and serving read it here, so that a policy is served with the prompts it was trained on.
//
//   directory -> ReadModelChat -> ModelChat -> BuildPrompt (prompt.h) -> ids
//   ids that the model drew -> OutputParser (as they come), ReadTurn (written_turn.h) -> what it
//   said
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/model_template.h"
#include "conversation/tool_formats/output_parser.h"
#include "core/status.h"
#include "model/generation_config.h"
#include "model/tokenizer.h"

namespace tidemill {

// Where the model's description of tools and the format of its calls come from.
enum class ToolSource : uint8_t {
  kTemplate,  // the template shows tools, calls and results, in a format that is read
  kNotShown,  // it does not show them: text in Hermes' style takes their place
  kNotRead,   // it shows them, but its calls are not read: the same
};

// Immutable, thread-safe.
struct ModelChat {
  Tokenizer tokenizer;
  std::optional<ModelTemplate> chat{};  // none: there are no conversations
  std::string no_chat_reason{};         // where there is no template
  OutputFormat format{};                // of the model's answers
  ToolSource tool_source = ToolSource::kTemplate;
  bool system_role = true;        // the template takes system messages
  bool users_in_a_row = true;     // it takes a user's message right behind another
  GenerationConfig generation{};  // the author's sampling
  // Each ends a turn; the first is the template's, where it has one.
  std::vector<TokenId> end_ids{};
};

struct ModelChatOptions {
  std::string model_dir{};           // of config.json; empty: where the words are
  std::string tool_format = "auto";  // a name of ToolFormatByName, or as the template implies
  std::string template_file{};       // a Jinja template instead of the directory's; empty: none
};

// Reads template and configs of `dir`, whose tokenizer is given. A directory without a template is
// no failure (`chat` stays empty). kInvalid names the file or the format that is wrong.
Result<ModelChat> ReadModelChat(Tokenizer tokenizer, const std::string& dir,
                                const ModelChatOptions& options = {});

// The same for a template that was read already.
ModelChat MakeModelChat(Tokenizer tokenizer, ModelTemplate chat, GenerationConfig generation = {});

// For people: how tools are described and called.
std::string ToolNote(const ModelChat& chat);
// Logs it, once for each note: as a warning where it is not the template's own.
void LogTools(const ModelChat& chat);

// The conversation as the model is shown it. kInvalid: the template refuses it, or there is none.
Result<Rendered> RenderChat(const ModelChat& chat, RenderInput input);

// {role, content}, the content as UTF-8.
nlohmann::ordered_json SaidBy(std::string_view role, std::string_view content);

// A system prompt (may be empty) and a user's message, as far as the template takes both.
nlohmann::ordered_json OpeningMessages(const ModelChat& chat, const std::string& system,
                                       const std::string& user);

}  // namespace tidemill

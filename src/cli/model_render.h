// `tidemill model render`: a conversation as the model's chat template writes it.
#pragma once

#include <optional>
#include <string>

namespace tidemill {

struct ModelRenderWords {
  std::optional<std::string> model;          // a directory; give this
  std::optional<std::string> template_file;  // or this
  std::string conversation;  // a file: {"messages", "tools", "add_generation_prompt", "kwargs"}
  std::optional<std::string> now;  // 2025-03-14T09:26:53; none: this machine's time
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  bool json = false;
};

// Prints exactly the text; with `json` {"text", "outside"}, and with a model "ids", which are those
// of the whole text with special tokens recognised wherever they stand. Returns the exit status: 0,
// 1 when the template refuses the conversation or fails, 2 for wrong words or files.
int RunModelRender(const ModelRenderWords& words);

}  // namespace tidemill

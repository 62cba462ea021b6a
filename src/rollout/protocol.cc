#include "rollout/protocol.h"

#include "tools/tool_table.h"

namespace tidemill {

const std::vector<ToolDescription>& BuiltInTools() {
  static const std::vector<ToolDescription> kDescriptions = [] {
    std::vector<ToolDescription> tools;
    for (const ToolRow& row : kTools) {
      if (row.description.empty()) continue;
      tools.push_back(
          {std::string(row.name), std::string(row.description), std::string(row.parameters_json)});
    }
    return tools;
  }();
  return kDescriptions;
}

Result<std::unique_ptr<AgentProtocol>> NewProtocol(std::string_view name,
                                                   const Tokenizer& tokenizer,
                                                   const std::string& model_dir,
                                                   const ProtocolOptions& options,
                                                   std::string* warning) {
  if (name == "compact") return NewCompactProtocol(tokenizer);
  if (name == "hermes") return NewHermesProtocol(tokenizer, model_dir, options, warning);
  if (name == "answer") return NewAnswerProtocol(tokenizer, model_dir, options, warning);
  return Invalid("unknown agent protocol \"" + std::string(name) +
                 "\"; known are answer, compact, hermes");
}

}  // namespace tidemill

#include "rollout/protocol.h"

namespace tidemill {

const std::vector<ToolDescription>& BuiltInTools() {
  static const std::vector<ToolDescription> kTools = {
      {"compile", "Compile files of the workspace; returns the compiler's diagnostics.",
       R"({"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}}})"},
      {"run_tests",
       "Build and run the visible tests; returns how many passed and the first failures.",
       R"({"type":"object","properties":{}})"},
      {"lint", "Check files of the workspace for suspicious code; returns the findings.",
       R"({"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}}})"},
      {"write_file", "Write a file of the workspace.",
       R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]})"},
      {"read_file", "Read a file of the workspace.",
       R"({"type":"object","properties":{"path":{"type":"string"}},"required":["path"]})"},
      {"apply_patch", "Apply a unified diff to the workspace.",
       R"({"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"]})"},
  };
  return kTools;
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

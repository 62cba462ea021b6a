// Names of the formats, and what a template says about them.
#include "conversation/tool_formats/output_parser.h"

namespace tidemill {
namespace {

constexpr std::string_view kFormatNames[] = {"none", "hermes", "qwen3_coder", "llama3_json",
                                             "pythonic"};

}  // namespace

std::string_view ToolFormatName(ToolFormat format) {
  return kFormatNames[static_cast<size_t>(format)];
}

Result<ToolFormat> ToolFormatByName(std::string_view name) {
  std::string all;
  for (size_t i = 0; i < std::size(kFormatNames); ++i) {
    if (kFormatNames[i] == name) return static_cast<ToolFormat>(i);
    all.append(i > 0 ? ", " : "").append(kFormatNames[i]);
  }
  return Invalid("no tool format \"" + std::string(name) + "\"; there are " + all);
}

OutputFormat DetectOutputFormat(std::string_view template_source) {
  const auto has = [&](std::string_view part) {
    return template_source.find(part) != std::string_view::npos;
  };
  OutputFormat format;
  format.thinking = has("</think>");
  if (has("<function=") && has("<parameter=")) {
    format.tools = ToolFormat::kQwenCoderXml;
  } else if (has("<tool_call>")) {
    format.tools = ToolFormat::kHermesJson;
  } else if (has("[func_name1(")) {
    format.tools = ToolFormat::kLlamaPythonic;
  } else if (has("<|start_header_id|>") && has("\"parameters\": ") && !has("<function=")) {
    format.tools = ToolFormat::kLlama3Json;
  }
  return format;
}

bool LeavesThinkingOpen(std::string_view prompt) {
  const size_t open = prompt.rfind("<think>");
  if (open == std::string_view::npos) return false;
  return prompt.find_first_not_of(" \n\t\r", open + 7) == std::string_view::npos;
}

}  // namespace tidemill

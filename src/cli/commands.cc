#include "cli/commands.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace tidemill {

int Fail(const Status& status) {
  std::fprintf(stderr, "tidemill: %s\n", ForTerminal(status.message()).c_str());
  return status.code() == Code::kInvalid || status.code() == Code::kNotFound ? 2 : 1;
}

int Wrong(const Status& status) {
  Fail(status);
  return 2;
}

std::string Shown(const std::string& text, std::FILE* stream) {
  return isatty(fileno(stream)) == 1 ? ForTerminal(text) : text;
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void AddSetOption(CLI::App& command, std::vector<std::string>& sets, const std::string& doc) {
  command.add_option("--set", sets, doc)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace tidemill

#include "cli/commands.h"

#include <cstdio>

namespace tidemill {

int Fail(const Status& status) {
  std::fprintf(stderr, "tidemill: %s\n", status.message().c_str());
  return status.code() == Code::kInvalid || status.code() == Code::kNotFound ? 2 : 1;
}

int Wrong(const Status& status) {
  Fail(status);
  return 2;
}

void AddSetOption(CLI::App& command, std::vector<std::string>& sets, const std::string& doc) {
  command.add_option("--set", sets, doc)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace tidemill

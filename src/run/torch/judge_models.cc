#include "run/torch/judge_models.h"

#include <filesystem>

namespace tidemill {

Status JudgeModels::Serve(std::vector<JudgeConfig>& judges, const std::string& device) {
  for (JudgeConfig& judge : judges) {
    if (judge.endpoint.find("://") != std::string::npos) continue;
    const std::string name = "judge \"" + judge.name + "\": endpoint";
    std::error_code ignored;
    if (!std::filesystem::is_directory(judge.endpoint, ignored)) {
      return Invalid(name + " \"" + judge.endpoint +
                     "\" is neither an address (https://HOST/v1) nor a model directory");
    }
    std::unique_ptr<PolicyServer>& server = servers_[judge.endpoint];
    if (server == nullptr) {
      RunConfig config;
      config.model.path = judge.endpoint;
      config.model.device = device;
      auto started = PolicyServer::Start(config, {});
      if (!started.ok()) return started.status().WithContext(name);
      server = std::move(*started);
    }
    std::string url = server->url();
    while (url.ends_with('/')) url.pop_back();
    judge.endpoint = url + "/v1";
    if (judge.model.empty()) judge.model = judge.name;  // it serves one, by any name
  }
  return Ok();
}

}  // namespace tidemill

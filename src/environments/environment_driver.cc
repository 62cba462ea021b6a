#include "environments/environment_driver.h"

namespace tidemill {
namespace {

const StandardRow kStandards[] = {
    {"openenv", {}, NewOpenEnvDriver},
    {"nemo-gym", {"resources", "gymnasium", "agent"}, NewNemoGymDriver},
    {"verifiers", {"chat", "tokens"}, NewVerifiersDriver},
};

}  // namespace

Result<HttpUrl> ParseEnvironmentUrl(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://";
  const bool tcp = text.starts_with(kTcp);
  TM_ASSIGN_OR_RETURN(
      HttpUrl url,
      ParseHttpUrl(tcp ? "http://" + std::string(text.substr(kTcp.size())) : std::string(text)));
  if (url.tls) return Invalid("https is not spoken with environments");
  if (tcp && url.path != "/") return Invalid("a ZeroMQ address has no path");
  return url;
}

Status CheckMode(const StandardRow& standard, std::string_view mode) {
  if (mode.empty()) return Ok();
  std::string modes;
  for (const std::string_view one : standard.modes) {
    if (one == mode) return Ok();
    modes += (modes.empty() ? "" : ", ") + std::string(one);
  }
  return Invalid("mode \"" + std::string(mode) + "\": " + std::string(standard.name) +
                 (modes.empty() ? " has no modes" : " has " + modes));
}

const StandardRow* StandardNamed(std::string_view name) {
  for (const StandardRow& row : kStandards) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace tidemill

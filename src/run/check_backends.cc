#include "run/check_backends.h"

#include <algorithm>

namespace tidemill {
namespace {

bool Holds(const std::vector<std::string>& words, std::string_view what) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word.find(what) != std::string::npos;
  });
}

Status CheckServers(const RunConfig& c, const Binder& b) {
  const EngineConfig& e = c.engine;
  if (e.own()) {
    if (e.urls.empty() && e.command.empty()) return Ok();
    return b.Error(e.urls.empty() ? "engine.command" : "engine.urls",
                   "is for servers; set engine.backend to \"vllm\" or \"sglang\"");
  }
  if (e.urls.empty() == e.command.empty()) {
    return b.Error("engine.backend", "needs either engine.urls (servers that run already) or " +
                                         std::string("engine.command (Tidemill starts them)"));
  }
  if (!e.command.empty() && !Holds(e.command, "{port}")) {
    return b.Error("engine.command", "must have {port}, where a server is told its port");
  }
  if (e.versions > 1) {
    return b.Error("engine.versions",
                   "is more than 1, but a " + e.backend + " server holds one version");
  }
  return Ok();
}

Status CheckRanks(const RunConfig& c, const Binder& b) {
  const LearnerConfig& l = c.learner;
  if (l.own()) {
    if (l.precision == "auto") return Ok();
    return b.Error("learner.precision", "is for learner.backend = \"fsdp2\"");
  }
  if (l.command.empty() || !Holds(l.command, "{socket}")) {
    return b.Error("learner.command", "must have {socket}, where the ranks are told their socket");
  }
  if (!l.rank_address.empty()) {
    return b.Error("learner.rank_address",
                   "is for ranks of our own; with learner.backend = \"fsdp2\" learner.command "
                   "says how ranks find each other");
  }
  if (l.moments == "int8") {
    return b.Error("learner.moments", "is int8, which learner.backend = \"fsdp2\" has not");
  }
  if (c.memory.only) {
    return b.Error("memory.only", "trains nothing; use learner.backend = \"own\"");
  }
  if (c.live.release || c.live.kl_max > 0) {
    return b.Error(c.live.release ? "live.release" : "live.kl_max",
                   "is for learner.backend = \"own\"");
  }
  return Ok();
}

}  // namespace

Status CheckBackends(const RunConfig& config, const Binder& binder) {
  TM_RETURN_IF_ERROR(CheckServers(config, binder));
  return CheckRanks(config, binder);
}

}  // namespace tidemill

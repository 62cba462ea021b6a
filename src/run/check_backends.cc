#include "run/check_backends.h"

#include <algorithm>

namespace tidemill {
namespace {

bool Holds(const std::vector<std::string>& words, std::string_view what) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word.find(what) != std::string::npos; });
}

// What computes the same in engine and learner, and what does not.
Status CheckNumbers(const RunConfig& c, const Binder& b) {
  const EngineConfig& e = c.engine;
  if (!e.own() && e.weights != "float32") {
    return b.Error("engine.weights", "is for engine.backend = \"own\"");
  }
  const bool whole = c.learner.lora_rank == 0 && c.model.adapter.empty();
  const bool here = e.own() && c.learner.own() && c.learner.ranks == 1;
  if (c.learner.balance_bias > 0 && (!whole || !here || c.learner.recompute)) {
    return b.Error("learner.balance_bias",
                   "is above 0, which is for all weights in an engine and one learner of our own, "
                   "without recomputation");
  }
  if (c.learner.balance_loss > 0 && c.learner.recompute) {
    return b.Error("learner.balance_loss", "is above 0, which learner.recompute = true has not");
  }
  return Ok();
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
  if (c.rollout.constrains_calls()) {
    return b.Error("rollout.constrain",
                   "is \"tools\", which needs engine.backend = \"own\": a server does not say "
                   "what a token was drawn from");
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
  TM_RETURN_IF_ERROR(CheckNumbers(config, binder));
  TM_RETURN_IF_ERROR(CheckServers(config, binder));
  return CheckRanks(config, binder);
}

}  // namespace tidemill

#include "run/check_backends.h"

#include <algorithm>
#include <utility>

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

// The key by which training samples from a part of the vocabulary; null: from all of it.
const char* CutBy(const RolloutConfig& rollout) {
  if (rollout.top_p < 1) return "rollout.top_p";
  if (rollout.top_k > 0) return "rollout.top_k";
  if (rollout.min_p > 0) return "rollout.min_p";
  return nullptr;
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
  if (const char* key = CutBy(c.rollout); key != nullptr) {
    return b.Error(key, "leaves tokens out, which needs engine.backend = \"own\" in training: a " +
                            std::string("server does not say what a token was drawn from"));
  }
  if (e.versions > 1) {
    return b.Error("engine.versions",
                   "is more than 1, but a " + e.backend + " server holds one version");
  }
  return Ok();
}

// What would be trained otherwise than the config says, because the ranks of fsdp2 never hear of
// it.
Status CheckUntold(const RunConfig& c, const Binder& b) {
  const LearnerConfig& l = c.learner;
  const char* cut = CutBy(c.rollout);
  if (cut != nullptr || c.rollout.constrains_calls()) {
    return b.Error(cut != nullptr ? cut : "rollout.constrain",
                   "leaves tokens out, which needs learner.backend = \"own\": the ranks of fsdp2 "
                   "do not normalise over what a token was drawn from");
  }
  const std::pair<const char*, bool> keys[] = {
      {"learner.balance_loss", l.balance_loss > 0},
      {"learner.lora_experts", l.lora_experts},
      {"learner.optimizer_state", l.optimizer_state == "host"},
      {"learner.reserve_multiprocessors", l.reserve_multiprocessors > 0}};
  for (const auto& [key, set] : keys) {
    if (set) return b.Error(key, "is for learner.backend = \"own\"; fsdp2 has nothing like it");
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
  TM_RETURN_IF_ERROR(CheckUntold(c, b));
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

Status CheckReplayedExperts(const RunConfig& config, const ModelConfig& model) {
  if (model.experts.count == 0 || !config.learner.replay_experts) return Ok();
  if (config.engine.own() && config.learner.own()) return Ok();
  return Invalid(
      "learner.replay_experts: is true, but " +
      std::string(config.learner.own() ? "a server does not say which experts drew a token"
                                       : "the ranks of fsdp2 choose experts anew") +
      "; set it to false, or use engine.backend = \"own\" and learner.backend = \"own\"");
}

}  // namespace tidemill

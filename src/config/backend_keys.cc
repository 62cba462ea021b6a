#include "config/backend_keys.h"

#include <algorithm>

namespace tidemill {
namespace {

bool Holds(const std::vector<std::string>& words, std::string_view what) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word.find(what) != std::string::npos;
  });
}

Status CheckServers(const RunConfig& c, const Binder& b) {
  const RunConfig::Engine& e = c.engine;
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
  const RunConfig::Learner& l = c.learner;
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

void BindServers(RunConfig& c, Binder& b) {
  RunConfig::Engine& e = c.engine;
  b.Add("engine.backend", &e.backend,
        {.doc = "What generates: own, in this process; vllm, sglang: servers; see backends.md",
         .choices = {"own", "vllm", "sglang"}});
  b.Add("engine.urls", &e.urls,
        {.doc = "Addresses of servers that run already, such as \"http://10.0.0.7:8000\"; their "
                "control routes must be reachable from here and from nobody else"});
  b.Add("engine.command", &e.command,
        {.doc = "Command that starts a server; {port} stands for its port on loopback, {server} "
                "for its number, {model} for model.path"});
  b.Add("engine.folder", &e.folder,
        {.doc = "Folder where versions are written for the servers, which must be able to read it; "
                "empty: in the run's folder"});
  b.Add("engine.servers", &e.servers,
        {.doc = "How many servers engine.command starts", .min = 1, .max = 64});
  b.Add("engine.server_turns", &e.server_turns,
        {.doc = "Turns under way at one server at once; more wait here", .min = 1, .max = 65536});
  b.Add("engine.server_start", &e.server_start,
        {.doc = "How long to wait for the first server that serves", .min = 1000, .max = 8.64e7});
  b.Add("engine.canary_tolerance", &e.canary_tolerance,
        {.doc = "Mean difference between a server's log-probabilities of a fixed text and the "
                "trainer's up to which a version serves; 0: 0.0001 in float32, 0.05 in bfloat16",
         .min = 0,
         .max = 1});
}

void BindRankBackend(RunConfig& c, Binder& b) {
  RunConfig::Learner& l = c.learner;
  b.Add("learner.backend", &l.backend,
        {.doc = "What trains: own, in this process and its ranks; fsdp2: a torchrun group of "
                "learner.ranks ranks; see backends.md",
         .choices = {"own", "fsdp2"}});
  b.Add("learner.command", &l.command,
        {.doc = "Command that starts the ranks of fsdp2; {ranks} stands for learner.ranks, "
                "{socket} for the socket of rank 0"});
  b.Add("learner.precision", &l.precision,
        {.doc = "What fsdp2 computes in: bfloat16 (gradients are summed in float32), float32, "
                "auto: bfloat16 on a GPU",
         .choices = {"auto", "float32", "bfloat16"}});
}

Status CheckBackends(const RunConfig& config, const Binder& binder) {
  TM_RETURN_IF_ERROR(CheckServers(config, binder));
  return CheckRanks(config, binder);
}

}  // namespace tidemill

// The keys of [gateway] and [live]: how the policy is served, and what becomes of its sessions.
#include "config/run_config.h"

namespace tidemill {

void BindGateway(RunConfig& c, Binder& b) {
  RunConfig::Gateway& g = c.gateway;
  b.Add("gateway.port", &g.port,
        {.doc = "Port on which the policy is served to agents and clients; 0: not served",
         .max = 65535});
  b.Add("gateway.host", &g.host, {.doc = "Listen address; outside loopback keys are required"});
  b.Add("gateway.keys", &g.keys,
        {.doc = "File of API keys; see tidemill serve --new-key. Empty: everybody on loopback"});
  b.Add("gateway.share", &g.share,
        {.doc = "Share of the engine for live requests while training needs it too",
         .min = 0.01,
         .max = 0.99});
  b.Add("gateway.strict_model", &g.strict_model,
        {.doc = "Refuse requests that name another model than the one served"});
  b.Add(
      "gateway.tool_format", &g.tool_format,
      {.doc =
           "How the model writes tool calls, in training too; auto: as its chat template implies, "
           "or hermes with a general description where the template shows no tools",
       .choices = {"auto", "hermes", "qwen3_coder", "llama3_json", "pythonic", "none"}});
  b.Add("gateway.max_requests", &g.max_requests,
        {.doc = "Maximum number of requests waiting or running; more are refused with 429",
         .min = 1,
         .max = 1'000'000});
  b.Add("gateway.max_running", &g.max_running,
        {.doc = "Maximum number of answers given to the engine at once; more requests wait",
         .min = 1,
         .max = 65536});
  b.Add("gateway.max_answer_tokens", &g.max_answer_tokens,
        {.doc = "Maximum length of an answer in tokens; 0: what fits into the context"});
  b.Add("gateway.body_mb", &g.body_mb,
        {.doc = "Maximum size of a request in megabytes", .min = 1, .max = 1024});
  b.Add("gateway.heartbeat", &g.heartbeat,
        {.doc = "Interval of the events that keep an idle stream open", .min = 100});
  b.Add("gateway.access_log", &g.access_log,
        {.doc = "File for one JSON line per request; -: standard error; empty: none"});
}

void BindLive(RunConfig& c, Binder& b) {
  b.Add("live.redact", &c.live.redact,
        {.doc = "Patterns (PCRE2) of texts that are never stored, besides the built-in ones for "
                "keys, tokens and private keys; see live-privacy.md"});
  b.Add("live.release", &c.live.release,
        {.doc = "Serve clients a released version: new weights pass a held-out evaluation and a "
                "canary first; see live-release.md"});
  b.Add("live.gate_margin", &c.live.gate_margin,
        {.doc = "How much a candidate's pass rate may be below that of the released version",
         .min = 0,
         .max = 1});
  b.Add("live.gate_failures", &c.live.gate_failures,
        {.doc = "After this many failed gates in a row the learner goes on from the released "
                "weights",
         .min = 1,
         .max = 1e6});
  b.Add("live.canary_share", &c.live.canary_share,
        {.doc = "Share of new sessions that try a candidate; 0: release without a canary",
         .min = 0,
         .max = 1});
  b.Add("live.canary_time", &c.live.canary_time, {.doc = "Minimum length of a canary"});
  b.Add("live.canary_answers", &c.live.canary_answers,
        {.doc = "Minimum number of answers from a candidate before its release", .max = 1e9});
  b.Add("live.alarm_entropy", &c.live.alarm_entropy,
        {.doc = "Alarm if the entropy of a step is below this; 0: off", .min = 0});
  b.Add("live.alarm_kl", &c.live.alarm_kl,
        {.doc = "Alarm if the KL divergence of a step is above this; 0: off", .min = 0});
  b.Add("live.alarm_malformed", &c.live.alarm_malformed,
        {.doc = "Alarm if more than this share of the newest answers, or of a candidate's, have a "
                "malformed tool call; 1: off",
         .min = 0,
         .max = 1});
  b.Add("live.alarm_questions", &c.live.alarm_questions,
        {.doc = "Alarm if more than this share of the newest answers, or of a candidate's, end "
                "with a question; 1: off",
         .min = 0,
         .max = 1});
}

Status CheckLive(const RunConfig& config, const Binder& binder) {
  if (!config.live.release) return Ok();
  if (config.gateway.port == 0 && !config.live.on) {
    return binder.Error("live.release", "needs gateway.port: nobody is served");
  }
  if (config.tasks.eval.empty() || config.eval.every_steps == 0) {
    return binder.Error("live.release",
                        "needs tasks.eval and eval.every_steps: candidates are evaluated");
  }
  if (config.live.on && config.eval.every_steps > config.staleness.max_steps) {
    return binder.Error("live.release",
                        "needs eval.every_steps of at most staleness.max_steps: steps on sessions "
                        "wait while the released version is further behind than that");
  }
  if (config.engine.versions < 3) {
    return binder.Error("live.release",
                        "needs engine.versions of 3 or more: the newest, the released and a "
                        "candidate are held at once");
  }
  return Ok();
}

}  // namespace tidemill

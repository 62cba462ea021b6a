#include "config/judge_keys.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace tidemill {
namespace {

constexpr uint32_t kVotesMax = 15;
constexpr double kHourMs = 3.6e6;

void BindEndpoint(Binder& b, RunConfig::JudgeKeys& j) {
  b.Add("name", &j.name, {.doc = "Name of the judge, in verdicts and figures", .required = true});
  b.Add("endpoint", &j.endpoint,
        {.doc = "Base address of an OpenAI-compatible API, https://HOST/v1 for example; or a model "
                "directory, which is served inside the process",
         .required = true});
  b.Add("model", &j.model, {.doc = "Name of the model at the endpoint"});
  b.Add("key_file", &j.key_file, {.doc = "File with the endpoint's API key"});
  b.Add("key_env", &j.key_env, {.doc = "Environment variable with the endpoint's API key"});
  b.Add("ca_file", &j.ca_file,
        {.doc = "PEM file with the certificates that the endpoint's must be signed by; empty: the "
                "system's"});
  b.Add("concurrency", &j.concurrency,
        {.doc = "Maximum number of questions at the endpoint at once", .min = 1, .max = 256});
  b.Add("timeout", &j.timeout, {.doc = "Time limit of one answer", .min = 10, .max = kHourMs});
  b.Add("retries", &j.retries, {.doc = "Retries of a vote that failed", .max = 20});
  b.Add("patience", &j.patience,
        {.doc = "A question without its votes for this long is reported as unavailable",
         .min = 100,
         .max = 24 * kHourMs});
  b.Add("per_minute", &j.per_minute,
        {.doc = "Maximum number of questions sent per minute; 0: no limit", .max = 1e6});
  b.Add("cache", &j.cache, {.doc = "Number of cached votes; 0: no cache", .max = 1 << 22});
  b.Add("price_in", &j.price_in, {.doc = "Price of a million tokens read", .min = 0, .max = 1e6});
  b.Add("price_out", &j.price_out,
        {.doc = "Price of a million tokens written", .min = 0, .max = 1e6});
}

void BindJudge(Binder& b, RunConfig::JudgeKeys& j) {
  BindEndpoint(b, j);
  b.Add("task", &j.task,
        {.doc = "What it is asked: next_state and process of every turn; outcome of the answer; "
                "pairwise between two answers; equivalence with a reference",
         .choices = {"next_state", "process", "outcome", "pairwise", "equivalence"}});
  b.Add("rubric", &j.rubric, {.doc = "What to look for, in words; put into the question"});
  b.Add("criteria", &j.criteria,
        {.doc = "Weights of the criteria of an outcome; empty: one score", .min = 0, .max = 1000});
  b.Add("answer", &j.answer,
        {.doc = "json: one JSON object with a reason; token: one word, whose probability is used "
                "where the endpoint tells",
         .choices = {"json", "token"}});
  b.Add("template", &j.form,
        {.doc = "full: instructions and fenced texts; compact: one line per field, for small "
                "models trained on it; bare: the task's prompt and the answer as the policy wrote "
                "them, for a verifier that was trained from the policy",
         .choices = {"full", "compact", "bare"}});
  b.Add("votes", &j.votes, {.doc = "Votes on a question; odd", .min = 1, .max = kVotesMax});
  b.Add("aggregate", &j.aggregate,
        {.doc = "How votes become one value", .choices = {"majority", "mean"}});
  b.Add("temperature", &j.temperature, {.doc = "Sampling temperature", .min = 0, .max = 2});
  b.Add("max_tokens", &j.max_tokens,
        {.doc = "Maximum length of an answer", .min = 1, .max = 65536});
  b.Add("text_kb", &j.text_kb,
        {.doc = "Maximum size of each text in a question; longer ones lose their middle",
         .min = 1,
         .max = 1024});
  b.Add("version", &j.version,
        {.doc = "Raise it when model, rubric or template change: verdicts of older versions are "
                "scored again",
         .min = 1,
         .max = 1e9});
  b.Add("second", &j.second,
        {.doc = "Name of a judge that is asked only where the votes split; its votes decide then"});
  b.Add("reward", &j.reward, {.doc = "It has a part in the scorer \"judge\""});
  b.Add("live", &j.live,
        {.doc = "It scores turns of live sessions (live.on) by what came next; only with task = "
                "\"next_state\""});
  b.Add("weight", &j.weight,
        {.doc = "Weight among the judges of the scorer, or of its turn rewards", .max = 1000});
  b.Add("clip", &j.clip, {.doc = "Bound on a turn's reward", .min = 0, .max = 1000});
  b.Add("normalize", &j.normalize,
        {.doc = "Turn rewards: none; center: minus their mean in the episode; turns: divided by "
                "the number of turns",
         .choices = {"none", "center", "turns"}});
  b.Add("pairs", &j.pairs,
        {.doc = "With task = \"pairwise\": how many other members of its group an answer is "
                "compared with, at most",
         .min = 1,
         .max = 64});
}

Status CheckJudge(const RunConfig::JudgeKeys& judge, const RunConfig& config,
                  const Binder& binder) {
  const auto wrong = [&](const std::string& what) {
    return binder.Error("judge", "the judge \"" + judge.name + "\" " + what);
  };
  if (!judge.key_file.empty() && !judge.key_env.empty())
    return wrong("has both \"key_file\" and \"key_env\"; one of them is right");
  if (judge.votes % 2 == 0) return wrong("has an even number of votes; 1, 3 or 5 cannot tie");
  if (judge.answer == "token" && (judge.task == "outcome" && !judge.criteria.empty()))
    return wrong("cannot weigh criteria in one word; use answer = \"json\"");
  if (judge.answer == "token" && judge.task == "equivalence")
    return wrong("cannot write a certificate in one word; use answer = \"json\"");
  if (judge.reward && judge.task == "pairwise" && config.rollout.group_size < 2)
    return wrong("compares members of a group; rollout.group_size must be at least 2");
  if (judge.form == "bare" && (judge.task != "outcome" || judge.answer != "token"))
    return wrong("has template = \"bare\", which needs task = \"outcome\" and answer = \"token\"");
  if (judge.live && judge.task != "next_state")
    return wrong("has live = true, which needs task = \"next_state\", not \"" + judge.task + "\"");
  if (judge.second.empty()) return Ok();
  for (const RunConfig::JudgeKeys& other : config.reward.judges) {
    if (other.name != judge.second) continue;
    if (other.name == judge.name) return wrong("is its own second opinion");
    if (other.task != judge.task) return wrong("has a second opinion with another \"task\"");
    return Ok();
  }
  return wrong("names the second opinion \"" + judge.second + "\", which no [[judge]] has");
}

}  // namespace

void BindJudges(RunConfig& c, Binder& b) {
  b.Add("reward.order_by", &c.reward.order_by,
        {.doc = "Name of a [[judge]] of outcomes whose estimates say which gradings of training go "
                "to a box first; empty: those that came first"});
  b.Add("reward.order_ahead", &c.reward.order_ahead,
        {.doc = "Gradings of a reward worker at the tools from which on others wait for their turn",
         .min = 1,
         .max = 1024});
  b.Add("reward.order_wait", &c.reward.order_wait,
        {.doc = "A grading that has waited this long is sent whatever its turn",
         .min = 1,
         .max = 3.6e6});
  b.AddTables("judge", &c.reward.judges, BindJudge,
              {.doc = "Models that judge, one [[judge]] table each; see judges.md", .max = 16});
  RunConfig::Audit& a = c.reward.audit;
  b.Add("audit.share", &a.share,
        {.doc = "Share of the episodes scored without execution (scorers judge and proof) that "
                "are also executed, where the task has tests",
         .min = 0,
         .max = 1});
  b.Add("audit.false_accepts", &a.false_accepts,
        {.doc = "Share of wrong answers among those accepted that is tolerated",
         .min = 1e-6,
         .max = 0.5});
  b.Add("audit.alarm_at", &a.alarm_at,
        {.doc = "Share of wrong answers among those accepted that must be found soon",
         .min = 1e-5,
         .max = 0.99});
  b.Add("audit.false_alarms", &a.false_alarms,
        {.doc = "Probability of an alarm in 5,000 audited accepts with no more than the tolerated "
                "share",
         .min = 1e-6,
         .max = 0.5});
  b.Add("audit.unbiased", &a.unbiased,
        {.doc = "Audited episodes get judge + (execution - judge) / share, which is unbiased; only "
                "with advantages that do not divide by a deviation"});
  b.Add("audit.trust", &a.trust,
        {.doc = "Scorers that are trusted again after an alarm of this run"});
}

Status CheckJudges(const RunConfig& config, const Binder& binder) {
  std::set<std::string> names;
  bool any = false;
  for (const RunConfig::JudgeKeys& judge : config.reward.judges) {
    if (!names.insert(judge.name).second)
      return binder.Error("judge", "two judges are named \"" + judge.name + "\"");
    TM_RETURN_IF_ERROR(CheckJudge(judge, config, binder));
    any = any || judge.reward;
  }
  if (config.reward.weights.count("judge") != 0 && !any)
    return binder.Error("reward.weights", "names \"judge\", but no [[judge]] has reward = true");
  if (const std::string& name = config.reward.order_by; !name.empty()) {
    const auto& judges = config.reward.judges;
    const bool known = std::any_of(judges.begin(), judges.end(), [&](const auto& judge) {
      return judge.name == name && judge.task == "outcome";
    });
    if (!known)
      return binder.Error(
          "reward.order_by",
          "names \"" + name + "\", but no [[judge]] with task = \"outcome\" has that name");
  }
  const RunConfig::Audit& audit = config.reward.audit;
  if (audit.alarm_at <= audit.false_accepts)
    return binder.Error("audit.alarm_at", "must be above audit.false_accepts");
  if (audit.unbiased && audit.share <= 0)
    return binder.Error("audit.unbiased", "needs audit.share above 0");
  return Ok();
}

}  // namespace tidemill

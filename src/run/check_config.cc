// What keys of several sections must have in common.
#include <algorithm>
#include <cctype>
#include <set>

#include "environments/environment_driver.h"
#include "environments/model_words.h"
#include "run/check_backends.h"
#include "run/policies.h"
#include "run/run_config.h"
#include "run/teams.h"

namespace tidemill {
namespace {

Status CheckJudge(const JudgeConfig& judge, const RunConfig& config, const Binder& binder) {
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
  for (const JudgeConfig& other : config.reward.judges) {
    if (other.name != judge.second) continue;
    if (other.name == judge.name) return wrong("is its own second opinion");
    if (other.task != judge.task) return wrong("has a second opinion with another \"task\"");
    return Ok();
  }
  return wrong("names the second opinion \"" + judge.second + "\", which no [[judge]] has");
}

Status CheckBackground(const RunConfig& config, const Binder& binder) {
  const std::vector<std::string>& allowed = config.background.allowed;
  for (const std::string& tool : config.background.always) {
    if (std::find(allowed.begin(), allowed.end(), tool) == allowed.end()) continue;
    return binder.Error("background.always",
                        "names \"" + tool + "\", which background.allowed names, too");
  }
  if (config.rollout.delivers_now() && config.engine.backend != "own") {
    return binder.Error(
        "rollout.deliver",
        "is \"now\", which needs engine.backend = \"own\": a turn of a server cannot "
        "be ended behind a token");
  }
  return Ok();
}

Status CheckJudges(const RunConfig& config, const Binder& binder) {
  std::set<std::string> names;
  bool any = false;
  for (const JudgeConfig& judge : config.reward.judges) {
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
  const AuditConfig& audit = config.reward.audit;
  if (audit.alarm_at <= audit.false_accepts)
    return binder.Error("audit.alarm_at", "must be above audit.false_accepts");
  if (audit.unbiased && audit.share <= 0)
    return binder.Error("audit.unbiased", "needs audit.share above 0");
  return Ok();
}

Status CheckLiveLearning(const RunConfig& config, const Binder& binder) {
  if (config.tasks.train.empty() && !config.live.on)
    return binder.Error("tasks.train", "is missing: the JSONL file of the training tasks");
  if (!config.live.on) return Ok();
  if (config.live.kl_max > 0 && config.live.kl_coefficient == 0) {
    return binder.Error("live.kl_max", "needs live.kl_coefficient above 0");
  }
  if (config.live.compare_min >= config.live.window) {
    return binder.Error("live.compare_min", "must be below live.window");
  }
  if (config.live.siblings == 0) return Ok();
  if (config.live.siblings != config.rollout.group_size + 1) {
    return binder.Error("live.siblings",
                        "must be 0 or rollout.group_size + 1: the session and a group of its task");
  }
  if (config.task_groups() == 0) {
    return binder.Error("live.siblings", "needs tasks.train and live.task_share above 0");
  }
  return Ok();
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

Status CheckEnvironments(const RunConfig& config, const Binder& binder) {
  if (config.agent.used() && !config.environments.empty()) {
    return binder.Error("environment", "cannot be together with an agent that is a program");
  }
  for (const EnvironmentConfig& one : config.environments) {
    const std::string name = "[[environment]] \"" + one.name + "\": ";
    if (one.urls.empty() == one.command.empty()) {
      return binder.Error("environment", name + "needs urls or a command, and not both");
    }
    const auto asks = [](const std::string& word) {
      return word.find(kModelKeyWord) != std::string::npos;
    };
    const bool has_key = std::any_of(one.command.begin(), one.command.end(), asks);
    if (has_key != (one.mode == "agent") || (has_key && one.slots > 1)) {
      return binder.Error("environment", name +
                                             "mode \"agent\" needs a command with {model_key} "
                                             "and slots = 1, other modes have no such key");
    }
    const auto same = [&](const EnvironmentConfig& other) { return other.name == one.name; };
    if (std::count_if(config.environments.begin(), config.environments.end(), same) > 1) {
      return binder.Error("environment", name + "there are two of this name");
    }
    for (const std::string& url : one.urls) {
      if (ParseEnvironmentUrl(url).ok()) continue;
      return binder.Error("environment", name + url + " is no http://HOST:PORT, tcp://HOST:PORT");
    }
  }
  return Ok();
}

Status CheckMcp(const RunConfig& config, const Binder& binder) {
  std::set<std::string> names;
  for (const McpConfig& one : config.tools.mcp) {
    const std::string name = "[[tools.mcp]] \"" + one.name + "\": ";
    if (!names.insert(one.name).second) {
      return binder.Error("tools.mcp", name + "there are two of this name");
    }
    if (one.url.empty() == one.command.empty()) {
      return binder.Error("tools.mcp", name + "needs a url or a command, and not both");
    }
    if (!one.url.empty() && !(one.mounts.empty() && one.environment.empty())) {
      return binder.Error("tools.mcp", name + "mounts and environment are of a command");
    }
    if (!one.key_file.empty() && one.url.empty()) {
      return binder.Error("tools.mcp", name + "key_file is for a url");
    }
  }
  return Ok();
}

Status CheckSkills(const RunConfig& config, const Binder& binder) {
  const SkillsConfig& skills = config.skills;
  if (!skills.on && !skills.curator.empty()) {
    return binder.Error("skills.curator", "needs skills.on");
  }
  if (!skills.on && !skills.from.empty()) return binder.Error("skills.from", "needs skills.on");
  if (skills.on && !config.environments.empty()) {
    return binder.Error("skills.on", "cannot show skills to environments of others");
  }
  return Ok();
}

Status CheckMemory(const RunConfig& config, const Binder& binder) {
  if (config.memory.only && !config.memory.on) {
    return binder.Error("memory.only", "needs memory.on");
  }
  if (config.memory.on && config.asks_gateway()) {
    return binder.Error("memory.on", "cannot show cases to an agent that is a program");
  }
  if (config.memory.key_layers > 0 && config.memory.retrieval != "hidden") {
    return binder.Error("memory.key_layers", "needs memory.retrieval = \"hidden\"");
  }
  if (config.memory.only && config.live.on) {
    return binder.Error("memory.only", "cannot be together with live.on, which trains");
  }
  return Ok();
}

Status CheckTeacher(const RunConfig& config, const Binder& binder) {
  const TeacherConfig& t = config.teacher;
  if (int{t.policy} + int{!t.model.empty()} + int{!t.endpoint.empty()} > 1) {
    return binder.Error(t.policy ? "teacher.policy" : "teacher.endpoint",
                        "is a second teacher; there is one");
  }
  if (t.policy && t.hints == "none") {
    return binder.Error("teacher.policy",
                        "needs teacher.hints: without a hint it knows what the policy knows");
  }
  if (t.hints != "none" && !t.used()) {
    return binder.Error("teacher.hints", "has no teacher: set teacher.policy or teacher.model");
  }
  if (t.hints == "judge" || t.hints == "judge_strongest") {
    for (const JudgeConfig& judge : config.reward.judges) {
      if (judge.task == "next_state" || judge.task == "process") return Ok();
    }
    return binder.Error("teacher.hints", "needs a [[judge]] of turns: next_state or process");
  }
  return Ok();
}

// The gate keeps (η + 1) batches of groups that may still be used; the buffer must hold them, or
// they would be evicted as fast as they come.
Status CheckReplay(const RunConfig& config, const Binder& binder) {
  const uint64_t ahead = config.run.mode == "sync"       ? 0
                         : config.run.mode == "one-step" ? 1
                                                         : config.staleness.max_steps;
  const uint64_t groups = (ahead + 1) * config.task_groups();
  if (config.replay.capacity < groups) {
    return binder.Error("replay.capacity", "must be at least " + std::to_string(groups) +
                                               ": groups_per_step for each step in flight");
  }
  if (config.replay.min_groups > groups) {
    return binder.Error("replay.min_groups", "must be at most " + std::to_string(groups) +
                                                 ": no more groups are issued before a step");
  }
  if (config.replay.samples_per_insert > config.replay.max_uses) {
    return binder.Error("replay.samples_per_insert", "must not be above replay.max_uses");
  }
  return Ok();
}

// Each rank of ours would ask a program of its own, and they must not disagree.
Status CheckGroupCommand(const RunConfig& config, const Binder& binder) {
  if (config.learner.group_command.empty() || !config.learner.own() || config.learner.ranks == 1) {
    return Ok();
  }
  return binder.Error("learner.group_command", "needs learner.ranks = 1, or backend = \"fsdp2\"");
}

}  // namespace

Status CheckRunConfig(const RunConfig& config, const Binder& binder) {
  if (config.model.path.empty()) {
    return binder.Error("model.path", "is missing: the Hugging Face directory of the policy");
  }
  if (config.model.init == "random" && !config.model.adapter.empty()) {
    return binder.Error("model.adapter", "belongs to trained weights, and model.init is random");
  }
  if (config.learner.token_budget > 0 && config.learner.token_budget < 64) {
    return binder.Error("learner.token_budget", "must be 0 or at least 64");
  }
  TM_RETURN_IF_ERROR(CheckLiveLearning(config, binder));
  TM_RETURN_IF_ERROR(CheckJudges(config, binder));
  TM_RETURN_IF_ERROR(CheckBackground(config, binder));
  TM_RETURN_IF_ERROR(CheckBackends(config, binder));
  if (config.rollout.max_in_flight < config.rollout.group_size) {
    return binder.Error("rollout.max_in_flight",
                        "is less than rollout.group_size: no group could start");
  }
  if (config.run.mode == "async" && config.staleness.hard_max_steps < config.staleness.max_steps) {
    return binder.Error(
        "staleness.hard_max_steps",
        "is less than staleness.max_steps: episodes would be too old when they are used");
  }
  TM_RETURN_IF_ERROR(CheckPolicies(config, binder));
  TM_RETURN_IF_ERROR(CheckTeam(config, binder));
  for (const RunPolicy& policy : PoliciesOf(config)) {
    TM_RETURN_IF_ERROR(CheckReplay(policy.config, binder));
  }
  TM_RETURN_IF_ERROR(CheckLive(config, binder));
  TM_RETURN_IF_ERROR(CheckMemory(config, binder));
  TM_RETURN_IF_ERROR(CheckSkills(config, binder));
  TM_RETURN_IF_ERROR(CheckEnvironments(config, binder));
  TM_RETURN_IF_ERROR(CheckMcp(config, binder));
  TM_RETURN_IF_ERROR(CheckTeacher(config, binder));
  TM_RETURN_IF_ERROR(CheckGroupCommand(config, binder));
  if (config.reward.weights.empty()) return binder.Error("reward.weights", "names no scorer");
  if (config.reward.weights.count("command") != 0 && config.reward.command.empty()) {
    return binder.Error("reward.weights", "names \"command\", but reward.command is empty");
  }
  return Ok();
}

}  // namespace tidemill

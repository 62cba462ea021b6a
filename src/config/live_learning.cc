#include "config/live_learning.h"

#include <algorithm>
#include <cmath>

namespace tidemill {

void BindLiveLearning(RunConfig& c, Binder& b) {
  RunConfig::Live& l = c.live;
  b.Add("live.on", &l.on,
        {.doc = "Learn from the sessions of the gateway's clients while it serves them; see "
                "live.md. tasks.train may then be empty; gateway.port 0 means 8000"});
  b.Add("live.idle", &l.idle,
        {.doc = "A session without requests for this long is closed", .min = 100, .max = 8.64e7});
  b.Add("live.batch", &l.batch,
        {.doc = "Trajectories of sessions per step", .min = 1, .max = 65536});
  b.Add("live.task_share", &l.task_share,
        {.doc = "Share of a step's episodes that are of tasks, in whole groups, when there are "
                "tasks; replaces rollout.groups_per_step",
         .min = 0,
         .max = 0.95});
  b.Add("live.window", &l.window,
        {.doc = "Number of sessions of a tenant and class that a baseline is taken over",
         .min = 2,
         .max = 100000});
  b.Add("live.compare_min", &l.compare_min,
        {.doc = "A session waits until this many others of its tenant and class have a signal",
         .min = 1,
         .max = 100000});
  b.Add("live.siblings", &l.siblings,
        {.doc = "Compare a session that is bound to a task with a group of attempts at it instead "
                "of with other sessions; rollout.group_size + 1, the session counted; 0: off",
         .max = 65536});
  b.Add("live.kl_coefficient", &l.kl_coefficient,
        {.doc = "Weight of the KL divergence to the weights the run started from; 0: as "
                "learner.options says",
         .min = 0,
         .max = 100});
  b.Add("live.kl_max", &l.kl_max,
        {.doc = "Bound on that KL divergence in nats per token: above it the weight doubles with "
                "every step, below half of it the weight falls back; 0: no bound",
         .min = 0,
         .max = 1000});
  b.Add("live.tenant_share", &l.tenant_share,
        {.doc = "Maximum share of a step's sessions that are of one tenant of gateway.keys; a step "
                "waits for others",
         .min = 0.01,
         .max = 1});
  b.Add("live.outlier", &l.outlier,
        {.doc = "Quarantine a session whose reward is further than this many deviations from the "
                "others of its tenant and class; 0: off",
         .min = 0});
  b.Add("live.sudden_change", &l.sudden_change,
        {.doc = "Quarantine a tenant whose last 24 rewards differ by more than this in the mean "
                "from the 72 before; 0: off",
         .min = 0,
         .max = 2});
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

uint32_t RunConfig::task_groups() const {
  if (!live.on) return rollout.groups_per_step;
  if (tasks.train.empty() || live.task_share <= 0) return 0;
  const double episodes = live.batch * live.task_share / (1 - live.task_share);
  return std::max(1u, static_cast<uint32_t>(std::lround(episodes / rollout.group_size)));
}

}  // namespace tidemill

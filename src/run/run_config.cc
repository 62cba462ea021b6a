#include "run/run_config.h"

#include <algorithm>
#include <cmath>

namespace tidemill {

void BindRunConfig(RunConfig& config, Binder& binder) {
  BindSection(config.run, binder);
  BindSection(config.model, binder);
  BindNamedTables("policy", config.policies,
                  {.doc = "Policies of the run, one [policy.NAME] table each; none: one policy, as "
                          "[model] and [learner] say; see policies.md",
                   .max = 64},
                  binder);
  BindSection(config.tasks, binder);
  BindSection(config.rollout, binder);
  BindSection(config.team, binder);
  BindNamedTables("role", config.roles,
                  {.doc = "Roles of the team, one [role.NAME] table each; see teams.md", .max = 64},
                  binder);
  BindSection(config.background, binder);
  BindSection(config.engine, binder);
  BindSection(config.gateway, binder);
  BindSection(config.agent, binder);
  BindTables("environment", config.environments,
             {.doc = "Environments of others, one [[environment]] table each; see environments.md",
              .max = 64},
             binder);
  BindSection(config.live, binder);
  BindSection(config.memory, binder);
  BindSection(config.skills, binder);
  BindSection(config.staleness, binder);
  BindSection(config.replay, binder);
  BindSection(config.learner, binder);
  BindSection(config.reward, binder);
  BindTables("judge", config.reward.judges,
             {.doc = "Models that judge, one [[judge]] table each; see judges.md", .max = 16},
             binder);
  BindSection(config.reward.audit, binder);
  BindSection(config.teacher, binder);
  BindSection(config.tools, binder);
  BindSection(config.eval, binder);
  BindSection(config.bus, binder);
  binder.Renamed("serve", "dashboard");
  BindSection(config.dashboard, binder);
  BindSection(config.track, binder);
  BindSection(config.tinker, binder);
  BindSection(config.threads, binder);
}

uint32_t RunConfig::task_groups() const {
  if (!live.on) return rollout.groups_per_step;
  if (tasks.train.empty() || live.task_share <= 0) return 0;
  const double episodes = live.batch * live.task_share / (1 - live.task_share);
  return std::max(1u, static_cast<uint32_t>(std::lround(episodes / rollout.group_size)));
}

}  // namespace tidemill

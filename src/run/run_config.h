// Everything a run can be told: the sections of the config, each from the folder that reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "agents/agent_config.h"
#include "config/config.h"
#include "dashboard/dashboard_config.h"
#include "engine/engine_config.h"
#include "environments/environment_config.h"
#include "gateway/gateway_config.h"
#include "learner/learner_config.h"
#include "live/live_config.h"
#include "memory/memory_config.h"
#include "observe/track_config.h"
#include "replay/replay_config.h"
#include "reward/reward_config.h"
#include "rollout/rollout_config.h"
#include "rollout/team_config.h"
#include "run/run_sections.h"
#include "skills/skills_config.h"
#include "teacher/teacher_config.h"
#include "tinker/tinker_config.h"
#include "tools/tool_config.h"

namespace tidemill {

// A section is a member here and a line of BindRunConfig.
struct RunConfig {
  RunSection run;
  PolicyConfig model;
  std::vector<PolicyTable> policies;  // by name; empty: one policy, of [model] and [learner]
  TaskConfig tasks;
  RolloutConfig rollout;
  TeamConfig team;
  std::vector<RoleTable> roles;  // by name
  BackgroundConfig background;
  EngineConfig engine;
  GatewayConfig gateway;
  AgentConfig agent;
  std::vector<EnvironmentConfig> environments;
  LiveConfig live;
  MemoryConfig memory;
  SkillsConfig skills;
  StalenessConfig staleness;
  ReplayConfig replay;
  LearnerConfig learner;
  RewardConfig reward;
  TeacherConfig teacher;
  ToolConfig tools;
  EvalConfig eval;
  BusConfig bus;
  DashboardConfig dashboard;
  TrackConfig track;
  TinkerConfig tinker;
  ThreadConfig threads;

  // Whether episodes are sessions of the gateway: those of programs, and those in environments.
  bool asks_gateway() const { return agent.used() || !environments.empty(); }
  // Of tasks, in one step. With sessions, their share of the step decides.
  uint32_t task_groups() const;
  uint32_t batch_episodes() const { return rollout.group_size * task_groups(); }
  // Trajectories of sessions, in one step.
  uint32_t live_episodes() const { return live.on ? live.batch : 0; }
};

// The order of the keys in docs/config.md and in saved configs. `config` must outlive the binder.
void BindRunConfig(RunConfig& config, Binder& binder);

// What keys must have in common, after loading; every message names the key and its place.
Status CheckRunConfig(const RunConfig& config, const Binder& binder);

}  // namespace tidemill

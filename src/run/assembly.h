// The wiring of a process: which loops a role has and what each is connected to. Everything that
// runs loops is put together here: training on one machine, every kind of worker, the simulator and
// the tests of the whole line.
//
//   config -> LoopOptionsFrom -> Assemble(roles, ports) -> Loops -> LoopRunner, or the simulator
//
// A process has one LoopRunner. The loops that speak with clients are parts of the gateway, which
// is a port; the rest is made here.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "core/journal.h"
#include "engine/engine_port.h"
#include "run/loop_options.h"
#include "tasks/task_book.h"
#include "tools/tool_port.h"

namespace tidemill {

// The roles of a process in a run.
struct Roles {
  bool learner = false, rollout = false, tools = false, reward = false;
  static Roles All() { return {true, true, true, true}; }
};

// The connections of a process's loops; borrowed, and alive as long as they are. What the
// roles here do not need is null.
struct Ports {
  const Clock* clock = nullptr;
  Journal* journal = nullptr;
  Bus* bus = nullptr;
  // learner
  StorePort *dispatcher_store = nullptr, *replay_store = nullptr, *learner_store = nullptr;
  StorePort* memory_store = nullptr;    // null: there is no memory
  const CasesState* cases = nullptr;    // of earlier processes; not null where memory_store is not
  CaseShelf* shelf = nullptr;           // where memory is, for others to look; may be null
  KeyPort* keys = nullptr;              // of memory; null: cases are found without keys
  StorePort* skill_store = nullptr;     // null: there are no skills
  const SkillsState* skills = nullptr;  // of earlier processes; not null where skill_store is not
  JudgePort* curator = nullptr;         // null: nobody edits the skills
  SkillExport* skill_folder = nullptr;  // may be null
  std::map<PolicyId, TrainerPort*> trainers;  // empty: nothing is trained
  VersionListeners versions;       // who decides by what becomes of the policy's versions
  ReleasePort* release = nullptr;  // where sessions are answered from a released version
  TeacherPort* teacher = nullptr;  // may be null where the objective needs none
  const std::vector<v1::Task>*train_tasks = nullptr, *eval_tasks = nullptr;
  const TaskBook* book = nullptr;
  // rollout
  EnginePort* engine = nullptr;
  const AgentProtocol* protocol = nullptr;
  AgentPort* agents = nullptr;  // may be null: the protocol is the agent
  Loop* gateway = nullptr;      // answers clients and agents; these may be null
  Loop* sessions = nullptr;     // with live.on: records and learns from what clients do
  Loop* episodes = nullptr;     // records what agents do
  Loop* mcp = nullptr;          // has their calls of the task's tools
  Loop* releases = nullptr;     // with live.release: decides which version clients get
  // tools
  ToolPort* tools = nullptr;
  // reward
  ScorerPort* scorer = nullptr;  // may be null where no scorer asks a command
  JudgePort* judges = nullptr;   // may be null where no judge is configured
  VoteCaches* votes = nullptr;   // of judges; may be null
};

struct Loops {
  std::unique_ptr<LearnerLoop> learner;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<RolloutLoop> rollout;
  Loop *gateway = nullptr, *sessions = nullptr, *episodes = nullptr, *mcp = nullptr,
       *releases = nullptr;  // as in Ports
  std::unique_ptr<ToolLoop> tools;
  std::unique_ptr<RewardLoop> reward;
  std::unique_ptr<JudgeLoop> judge;
  std::unique_ptr<ReplayLoop> replay;
  std::unique_ptr<MemoryLoop> memory;  // with memory.on
  std::unique_ptr<SkillLoop> skills;   // with skills.on
  std::unique_ptr<TeacherLoop> teacher;

  // Those that are there.
  std::vector<Loop*> all() const;
  std::vector<const CounterSet*> counters() const;
};

// kInvalid names the key.
Result<Loops> Assemble(const RunConfig& config, Roles here, const Ports& ports, LoopOptions options,
                       ResumeState& resumed);

}  // namespace tidemill

#include "run/assembly.h"

#include "run/resume_parts.h"

namespace tidemill {
namespace {

// The words of a judge as the model would read them behind its turn, its next turn opened.
decltype(ReplayOptions::hint_ids) HintIds(const AgentProtocol& protocol, size_t most) {
  return [&protocol, most](const v1::Task& task, const std::string& hint) {
    v1::ToolResult said;
    said.set_text(hint);
    said.add_failures()->set_name(hint);
    const v1::CaseSet none;
    const auto talk = protocol.Begin({task, none});
    (void)talk->Parse({&protocol.stop_ids().front(), 1});
    const auto next = talk->Observe({}, {.results = {said}}, most);
    return next.ok() && !next->anew ? next->ids : std::vector<TokenId>();
  };
}

}  // namespace

Result<Loops> Assemble(const RunConfig& config, Roles here, const Ports& p, LoopOptions options,
                       ResumeState& resumed) {
  Loops loops;
  if (here.learner) {
    TM_ASSIGN_OR_RETURN(TaskOrder begin,
                        TaskOrder::Make(*p.train_tasks, config.tasks.weights, config.run.seed));
    PolicyOrders order(std::move(begin), options.dispatcher.policies);
    if (!resumed.cursor.empty()) TM_RETURN_IF_ERROR(order.Seek(resumed.cursor));
    options.dispatcher.listeners = options.learner.listeners = p.versions;
    options.learner.release = p.release;
    loops.dispatcher = std::make_unique<Dispatcher>(
        *p.bus, *p.dispatcher_store, *p.clock, *p.journal, *p.train_tasks, *p.eval_tasks,
        std::move(order), std::move(options.dispatcher));
    if (FromJudge(options.replay.hints)) {
      options.replay.hint_ids = HintIds(*p.protocol, config.rollout.observation_tokens);
    }
    loops.replay =
        std::make_unique<ReplayLoop>(*p.bus, *p.replay_store, *p.clock, *p.journal, *p.book,
                                     std::move(options.replay), TakeSamples(resumed));
    if (p.memory_store != nullptr) {
      options.memory.shelf = p.shelf;
      loops.memory = std::make_unique<MemoryLoop>(*p.bus, *p.memory_store, *p.book,
                                                  std::move(options.memory), *p.cases, p.keys);
    }
    if (p.skill_store != nullptr) {
      TM_ASSIGN_OR_RETURN(
          loops.skills, SkillLoop::Make(*p.bus, *p.skill_store, *p.book, std::move(options.skills),
                                        *p.skills, p.curator, p.skill_folder));
    }
    if (p.teacher != nullptr) {
      loops.teacher = std::make_unique<TeacherLoop>(*p.bus, *p.teacher, std::move(options.teacher));
    }
    if (!p.trainers.empty()) {
      for (LearnedPolicy& policy : options.learner.trained) {
        policy.trainer = p.trainers.at(policy.id);
      }
      loops.learner = std::make_unique<LearnerLoop>(*p.bus, *p.learner_store, *p.journal,
                                                    std::move(options.learner));
    }
  }
  if (here.rollout) {
    loops.rollout = std::make_unique<RolloutLoop>(*p.bus, *p.engine, *p.protocol, *p.clock,
                                                  std::move(options.rollout), p.agents);
    loops.gateway = p.gateway;
    loops.sessions = p.sessions;
    loops.episodes = p.episodes;
    loops.mcp = p.mcp;
    loops.releases = p.releases;
  }
  if (here.tools) {
    loops.tools = std::make_unique<ToolLoop>(*p.bus, *p.tools, std::move(options.tools));
  }
  if (here.reward) {
    TM_ASSIGN_OR_RETURN(std::vector<WeightedScorer> scorers, ScorersFrom(config));
    options.reward.journal = p.journal;
    loops.reward = std::make_unique<RewardLoop>(*p.bus, *p.clock, std::move(scorers),
                                                std::move(options.reward), p.scorer);
    if (p.judges != nullptr && !config.reward.judges.empty()) {
      options.judge.votes = p.votes;
      loops.judge =
          std::make_unique<JudgeLoop>(*p.bus, *p.clock, std::move(options.judge), *p.judges);
    }
  }
  return loops;
}

std::vector<Loop*> Loops::all() const {
  std::vector<Loop*> there;
  for (Loop* loop : std::initializer_list<Loop*>{
           learner.get(), dispatcher.get(), rollout.get(), tools.get(), reward.get(), judge.get(),
           replay.get(), memory.get(), skills.get(), teacher.get(), gateway, sessions, episodes,
           mcp, releases}) {
    if (loop != nullptr) there.push_back(loop);
  }
  return there;
}

std::vector<const CounterSet*> Loops::counters() const {
  std::vector<const CounterSet*> sets;
  if (learner) sets.push_back(&learner->counters());
  if (dispatcher) sets.push_back(&dispatcher->counters());
  if (rollout) sets.push_back(&rollout->counters());
  if (tools) sets.push_back(&tools->counters());
  if (reward) sets.push_back(&reward->counters());
  if (reward) {
    for (const CounterSet* audit : reward->audit_counters()) sets.push_back(audit);
  }
  if (judge) sets.push_back(&judge->counters());
  if (replay) sets.push_back(&replay->counters());
  if (memory) sets.push_back(&memory->counters());
  if (skills) sets.push_back(&skills->counters());
  if (teacher) sets.push_back(&teacher->counters());
  return sets;
}

}  // namespace tidemill

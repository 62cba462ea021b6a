#include "bench/memory_streams.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "bench/memory_arms.h"
#include "bench/memory_bench.h"
#include "bench/memory_ideal.h"
#include "core/random.h"
#include "testbeds/project_task.h"

namespace tidemill {
namespace {

struct Stream {
  const Arm* arm = nullptr;
  uint32_t project = 0;
  std::unique_ptr<CaseBank> bank;
  uint64_t number = 0;
  StreamResult result;
};

v1::ShownCase OracleCase(const ProjectProblem& problem, uint64_t seed) {
  Random random = Random(seed).Split("oracle");
  const ProjectWant want = DrawWant(random, problem.want.operation);
  v1::ShownCase shown;
  shown.set_number(1);
  shown.set_prompt(ProjectPrompt(want));
  shown.set_answer(ProjectAnswer(want, problem.binding[static_cast<size_t>(want.operation)]));
  shown.set_solved(true);
  return shown;
}

class Player {
 public:
  Player(const std::vector<const Arm*>& arms, uint32_t projects, const StreamPlan& plan,
         const AskPolicy& ask, const KeyOf& key)
      : projects_(projects), plan_(plan), ask_(ask), key_(key) {
    for (const Arm* arm : arms) {
      for (uint32_t project = 0; project < projects; ++project) {
        MemoryConfig options;
        options.failures = arm->failures;
        streams_.push_back({arm, project, std::make_unique<CaseBank>(options), 0, {}});
      }
    }
  }

  Status Play() {
    TM_ASSIGN_OR_RETURN(
        const std::vector<ProjectProblem> problems,
        GenerateProjects({.count = uint64_t{projects_} * (plan_.before + plan_.after),
                          .seed = plan_.seed,
                          .projects = projects_,
                          .change_after = plan_.before}));
    for (uint32_t at = 0; at < plan_.before + plan_.after; ++at) {
      if (at == plan_.before) TM_RETURN_IF_ERROR(AskHeldOut(problems));
      std::vector<const ProjectProblem*> now;
      for (uint32_t project = 0; project < projects_; ++project) {
        now.push_back(&problems[at * projects_ + project]);
      }
      TM_RETURN_IF_ERROR(PlayTask(now, at));
    }
    return Ok();
  }

  std::vector<Stream>& streams() { return streams_; }

 private:
  std::string TaskName(uint32_t project, const std::string& what, uint64_t at) const {
    return "project-" + std::to_string(plan_.seed) + "-" + std::to_string(project) + "-" + what +
           std::to_string(at);
  }

  // The controls take what the arm "nearest" experienced, so that their cases look as useful as
  // its.
  const CaseBank* BankFor(const Stream& stream) const {
    if (!stream.arm->another && !stream.arm->shuffled) return stream.bank.get();
    const uint32_t project =
        stream.arm->another ? (stream.project + 1) % projects_ : stream.project;
    const CaseBank* found = stream.bank.get();
    for (const Stream& other : streams_) {
      if (other.project == project && other.arm->name == std::string_view("nearest")) {
        found = other.bank.get();
      }
    }
    return found;
  }

  // The sets of the members for a task.
  Result<std::vector<v1::CaseSet>> Cases(Stream& stream, const ProjectProblem& problem,
                                         const std::string& task, uint32_t members, uint64_t seed,
                                         bool held_out) {
    std::vector<v1::CaseSet> sets(members);
    const Arm& arm = *stream.arm;
    if (arm.oracle) {
      for (v1::CaseSet& set : sets) *set.add_cases() = OracleCase(problem, seed);
      return sets;
    }
    if (!arm.shows) return sets;
    const CaseBank* bank = BankFor(stream);
    CaseQuery query{.scope = "p", .prompt = ProjectPrompt(problem.want)};
    if (held_out) query.not_task = task;
    if (arm.how == Retrieval::kHidden) {
      TM_ASSIGN_OR_RETURN(query.key, key_(query.prompt));
    }
    const auto chosen = bank->Choose(query, {.how = arm.how,
                                             .cases = plan_.cases,
                                             .members = members,
                                             .seed = seed,
                                             .explore = !held_out});
    std::vector<uint64_t> all;
    if (arm.shuffled) {
      for (const auto& [number, one] : bank->cases()) all.push_back(number);
    }
    Random deal = Random(seed).Split("deal");
    for (uint32_t member = 0; member < members; ++member) {
      for (const uint64_t number : chosen[member]) {
        v1::ShownCase shown = bank->Show(number);
        if (arm.shuffled) {
          const v1::ShownCase other = bank->Show(all[deal.Below(all.size())]);
          shown.set_answer(other.answer());
          shown.set_solved(other.solved());
        }
        if (held_out && bank->Find(number)->record.id().task() == task) ++stream.result.itself;
        *sets[member].add_cases() = std::move(shown);
      }
    }
    return sets;
  }

  Status PlayTask(const std::vector<const ProjectProblem*>& problems, uint32_t at) {
    std::vector<AskedPrompt> asked;
    for (Stream& stream : streams_) {
      const ProjectProblem& problem = *problems[stream.project];
      const std::string name = TaskName(stream.project, "", at);
      const uint64_t seed = StableHash(name);
      TM_ASSIGN_OR_RETURN(std::vector<v1::CaseSet> sets,
                          Cases(stream, problem, name, plan_.members, seed, false));
      for (uint32_t member = 0; member < plan_.members; ++member) {
        asked.push_back(
            {ProjectTask(problem, name, "p"), std::move(sets[member]), MixHash(seed, member)});
      }
    }
    TM_ASSIGN_OR_RETURN(std::vector<std::string> answers, ask_(asked));
    TM_RETURN_IF_ERROR(RetryFailed(problems, asked, answers));
    size_t next = 0;
    for (Stream& stream : streams_) {
      const ProjectProblem& problem = *problems[stream.project];
      for (uint32_t member = 0; member < plan_.members; ++member, ++next) {
        const bool passed = PassesProject(problem, answers[next]);
        stream.result.episodes.push_back(passed);
        TM_RETURN_IF_ERROR(Keep(stream, asked[next], answers[next], passed, at, member));
      }
    }
    return Ok();
  }

  Status RetryFailed(const std::vector<const ProjectProblem*>& problems,
                     const std::vector<AskedPrompt>& asked, std::vector<std::string>& answers) {
    std::vector<AskedPrompt> again;
    std::vector<size_t> places;
    for (size_t i = 0; i < asked.size(); ++i) {
      const Stream& stream = streams_[i / plan_.members];
      if (!stream.arm->retries || PassesProject(*problems[stream.project], answers[i])) continue;
      AskedPrompt second = asked[i];
      v1::ShownCase& failed = *second.cases.add_cases();
      failed.set_number(1);
      failed.set_prompt(asked[i].task.prompt());
      failed.set_answer(answers[i]);
      second.seed = MixHash(second.seed, 2);
      again.push_back(std::move(second));
      places.push_back(i);
    }
    if (again.empty()) return Ok();
    TM_ASSIGN_OR_RETURN(std::vector<std::string> second, ask_(again));
    for (size_t i = 0; i < places.size(); ++i) answers[places[i]] = std::move(second[i]);
    return Ok();
  }

  Status Keep(Stream& stream, const AskedPrompt& asked, const std::string& answer, bool passed,
              uint32_t at, uint32_t member) {
    v1::CaseRecord record;
    record.mutable_id()->set_task(asked.task.id());
    record.mutable_id()->set_group(at + 1);
    record.mutable_id()->set_member(member);
    record.set_scope("p");
    record.set_prompt(asked.task.prompt());
    record.set_answer(answer);
    record.set_solved(passed);
    record.set_reward(passed ? 1 : 0);
    record.set_group_members(plan_.members);
    if (stream.arm->shows && !stream.arm->another && !stream.arm->shuffled) {
      for (const v1::ShownCase& shown : asked.cases.cases()) record.add_shown(shown.number());
    }
    if (stream.arm->how == Retrieval::kHidden) {
      TM_ASSIGN_OR_RETURN(const std::vector<float> key, key_(asked.task.prompt()));
      record.mutable_key()->Add(key.begin(), key.end());
    }
    stream.bank->Apply(++stream.number, record);
    stream.result.cases = stream.bank->cases().size();
    return Ok();
  }

  // Tasks of the project that nobody learns from.
  Status AskHeldOut(const std::vector<ProjectProblem>& problems) {
    for (uint32_t at = 0; at < plan_.held_out; ++at) {
      std::vector<ProjectProblem> now;
      for (uint32_t project = 0; project < projects_; ++project) {
        ProjectProblem problem = problems[project];
        Random draw = Random(plan_.seed).Split("held out").Split(project).Split(at);
        problem.want = DrawWant(draw, static_cast<int>(draw.Below(kProjectHelpers)));
        now.push_back(std::move(problem));
      }
      std::vector<AskedPrompt> asked;
      for (Stream& stream : streams_) {
        const ProjectProblem& problem = now[stream.project];
        const std::string name = TaskName(stream.project, "held-out-", at);
        TM_ASSIGN_OR_RETURN(std::vector<v1::CaseSet> sets,
                            Cases(stream, problem, name, 1, StableHash(name), true));
        asked.push_back({ProjectTask(problem, name, "p"), std::move(sets[0]), StableHash(name)});
      }
      TM_ASSIGN_OR_RETURN(const std::vector<std::string> answers, ask_(asked));
      for (size_t i = 0; i < streams_.size(); ++i) {
        streams_[i].result.held_out.push_back(PassesProject(now[streams_[i].project], answers[i]));
      }
    }
    return Ok();
  }

  const uint32_t projects_;
  const StreamPlan plan_;
  const AskPolicy& ask_;
  const KeyOf& key_;
  std::vector<Stream> streams_;
};

}  // namespace

Result<std::vector<std::vector<StreamResult>>> PlayStreams(const std::vector<std::string>& arms,
                                                           uint32_t projects,
                                                           const StreamPlan& plan,
                                                           const AskPolicy& ask, const KeyOf& key) {
  std::vector<const Arm*> chosen;
  for (const std::string& name : arms) {
    const Arm* arm = ArmNamed(name);
    if (arm == nullptr) return Invalid("there is no arm \"" + name + "\"");
    chosen.push_back(arm);
  }
  Player player(chosen, projects, plan, ask, key);
  TM_RETURN_IF_ERROR(player.Play());
  std::vector<std::vector<StreamResult>> results(arms.size());
  for (size_t i = 0; i < player.streams().size(); ++i) {
    results[i / projects].push_back(std::move(player.streams()[i].result));
  }
  return results;
}

std::vector<StreamResult> PlayIdeal(uint32_t projects, const StreamPlan& plan) {
  std::vector<StreamResult> results(projects);
  const auto problems = GenerateProjects({.count = uint64_t{projects} * (plan.before + plan.after),
                                          .seed = plan.seed,
                                          .projects = projects,
                                          .change_after = plan.before});
  if (!problems.ok()) return results;
  std::vector<IdealLearner> learners(projects);
  for (size_t i = 0; i < problems->size(); ++i) {
    const ProjectProblem& problem = (*problems)[i];
    IdealLearner& learner = learners[problem.project];
    if (i / projects == plan.before && plan.before > 0) learner.Change();
    const int operation = problem.want.operation;
    const int right = problem.binding[static_cast<size_t>(operation)];
    const std::vector<int> chosen = learner.Choose(operation, plan.members);
    for (const int helper : chosen) {
      results[problem.project].episodes.push_back(helper == right);
    }
    for (const int helper : chosen) learner.Learn(operation, helper, helper == right);
  }
  return results;
}

}  // namespace tidemill

#include "testbeds/testbeds.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tasks/line_file.h"
#include "testbeds/cfunc_task.h"
#include "testbeds/cfunc_vocab.h"
#include "testbeds/project_lessons.h"
#include "testbeds/project_task.h"
#include "testbeds/pyfunc.h"

namespace tidemill {
namespace {

// Only the levels asked for keep their weight; all of them by default.
Status ChooseLevels(const std::vector<int>& levels, CfuncOptions& options) {
  if (levels.empty()) return Ok();
  std::vector<double> weights(kCfuncLevelMax, 0.0);
  for (const int level : levels) {
    if (level < kCfuncLevelMin || level > kCfuncLevelMax) {
      return Invalid("--difficulty must be from " + std::to_string(kCfuncLevelMin) + " to " +
                     std::to_string(kCfuncLevelMax) + ", got " + std::to_string(level));
    }
    weights[static_cast<size_t>(level - 1)] = 1.0;
  }
  options.level_weights = weights;
  return Ok();
}

Result<FamilySet> MakeCfunc(const FamilyOrder& order) {
  CfuncOptions options;
  options.count = order.count;
  options.seed = order.seed;
  options.split = order.heldout ? CfuncSplit::kHeldout : CfuncSplit::kTrain;
  TM_RETURN_IF_ERROR(ChooseLevels(order.levels, options));
  TM_ASSIGN_OR_RETURN(const std::vector<CfuncProblem> problems, GenerateCfunc(options));
  FamilySet made;
  made.tasks = CfuncTasks(problems, options);
  std::set<uint64_t> behaviours;
  for (const CfuncProblem& problem : problems) {
    behaviours.insert(problem.behaviour);
    ++made.by_difficulty[std::to_string(problem.level)];
  }
  made.behaviours = behaviours.size();
  if (order.demonstrations) {
    const CfuncAuthor author{order.second_turn_share, order.slip_share};
    made.demonstrations = DemonstrateCfunc(problems, author, order.seed);
  }
  return made;
}

Result<FamilySet> MakePyfunc(const FamilyOrder& order) {
  TM_ASSIGN_OR_RETURN(
      std::vector<PyfuncTask> tasks,
      GeneratePyfunc({.count = order.count, .seed = order.seed, .heldout = order.heldout}));
  FamilySet made;
  std::set<uint64_t> behaviours;
  for (PyfuncTask& one : tasks) {
    made.tasks.push_back(one.imported.task);
    behaviours.insert(one.behaviour);
    made.solved.push_back(std::move(one.imported));
  }
  made.behaviours = behaviours.size();
  return made;
}

Result<FamilySet> MakeProject(const FamilyOrder& order) {
  const ProjectOptions options{order.count, order.seed, order.projects, order.change_after};
  TM_ASSIGN_OR_RETURN(const std::vector<ProjectProblem> problems, GenerateProjects(options));
  FamilySet made;
  made.tasks = ProjectTasks(problems, options);
  if (order.demonstrations) {
    ProjectLessons lessons;
    lessons.count = order.project_demonstrations > 0 ? order.project_demonstrations : order.count;
    lessons.seed = order.seed;
    lessons.most_cases = order.cases_most;
    TM_ASSIGN_OR_RETURN(made.demonstrations, DemonstrateProjects(lessons));
  }
  return made;
}

// `lexemes` null: the family is for models that exist.
struct Family {
  const char* name;
  Result<FamilySet> (*make)(const FamilyOrder& order);
  std::vector<std::string> (*lexemes)();
};

constexpr Family kFamilies[] = {{"cfunc", MakeCfunc, CfuncLexemes},
                                {"pyfunc", MakePyfunc, nullptr},
                                {"project", MakeProject, ProjectLexemes}};

Result<const Family*> FindFamily(const std::string& name, bool with_model) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (with_model && family.lexemes == nullptr) continue;
    if (family.name == name) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  return Invalid("unknown task family \"" + name + "\", not one of " + known);
}

}  // namespace

std::vector<std::string> TaskFamilies() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  return names;
}

std::vector<std::string> ModelFamilies() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) {
    if (family.lexemes != nullptr) names.emplace_back(family.name);
  }
  return names;
}

Result<FamilySet> GenerateFamily(const FamilyOrder& order) {
  TM_ASSIGN_OR_RETURN(const Family* family, FindFamily(order.family, false));
  return family->make(order);
}

Status WriteDemonstrations(const std::string& path, const std::vector<Demonstration>& written) {
  return WriteLines(path, written.size(), [&](size_t i) {
    nlohmann::ordered_json line;
    line["prompt"] = written[i].prompt;
    line["completion"] = written[i].completion;
    line["special"] = true;  // <|end|> and <|fail|> are meant as tokens
    return line.dump();
  });
}

Result<int64_t> WriteFamilyModel(const std::string& family, const FamilyModelShape& shape,
                                 const std::string& folder) {
  TM_ASSIGN_OR_RETURN(const Family* found, FindFamily(family, true));
  const std::vector<std::string> lexemes = found->lexemes();
  TM_RETURN_IF_ERROR(WriteLexemeModelFiles(folder, lexemes, shape));
  return LexemeParameterCount(lexemes.size(), shape);
}

}  // namespace tidemill

#include "cli/proof_answers.h"

#include <map>
#include <utility>

#include "run/run_config.h"
#include "store/run_reader.h"
#include "tasks/calls_f.h"
#include "tasks/task_file.h"

namespace tidemill {
namespace {

constexpr uint64_t kAnswersPage = 1000;

// The answer's one file, where its text is in the database.
const std::string* SourceOf(const v1::Trajectory& trajectory, const v1::Grading& grading) {
  for (const v1::File& file : trajectory.tree().files()) {
    if (file.path() == grading.sources(0) && file.has_content()) return &file.content();
  }
  return nullptr;
}

using AnswerCounts = std::map<std::pair<const v1::Task*, std::string>, uint64_t>;

Status CountAnswers(RunReader& reader, const std::map<std::string, const v1::Task*>& tasks,
                    AnswerCounts& counts) {
  EpisodeFilter filter;
  filter.purpose = v1::PURPOSE_TRAIN;
  filter.end = v1::EPISODE_END_SUBMITTED;
  for (bool more = true; more;) {
    TM_ASSIGN_OR_RETURN(const EpisodePage page,
                        reader.Episodes(filter, EpisodeSort::kOldest, {0, kAnswersPage}));
    for (const EpisodeRow& row : page.rows) {
      filter.after_seq = row.seq;
      const auto task = tasks.find(row.task);
      if (task == tasks.end()) continue;
      TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader.Episode(row.group, row.member));
      const std::string* text = SourceOf(episode.trajectory, task->second->grading());
      if (text != nullptr) ++counts[{task->second, *text}];
    }
    more = page.rows.size() == kAnswersPage;
  }
  return Ok();
}

}  // namespace

Result<std::string> TaskFileOf(const RunDirectory& directory) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.Load(directory.config_path(), {}));
  return config.tasks.train;
}

Result<RunAnswers> ReadRunAnswers(const std::string& runs_folder, const std::string& run,
                                  const std::string& tasks_file) {
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToRead(runs_folder, run));
  std::string file = tasks_file;
  if (file.empty()) {
    TM_ASSIGN_OR_RETURN(file, TaskFileOf(directory));
  }
  RunAnswers read;
  TM_ASSIGN_OR_RETURN(read.tasks, ReadTaskFile(file));
  std::map<std::string, const v1::Task*> tasks;
  for (const v1::Task& task : read.tasks) {
    if (task.grading().has_specification() && TestsCallF(task.grading()))
      tasks.emplace(task.id(), &task);
  }
  if (tasks.empty()) {
    return NotFound(file + ": no task has a specification and the tests of the built-in family");
  }
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunReader> reader,
                      RunReader::Open(directory.db_path()));
  AnswerCounts counts;
  TM_RETURN_IF_ERROR(CountAnswers(*reader, tasks, counts));
  for (const auto& [key, times] : counts)
    read.answers.push_back({&key.first->grading(), key.second, times});
  return read;
}

}  // namespace tidemill

// The skill loop: groups pass through it on their way to rollout and get the skills that fit their
// task; when all episodes of a group have their verdict, a curator sees them and edits the
// repository.
//
//   skills.groups --> skills that fit the task --> memory.groups or rollout.groups
//   skills.cases  --> [group complete] --> [curator] --> checked --> store (durable) --> repository
//
// A lesson is in the repository only after it is in the database. The curator is asked about one
// group of a scope at a time, so that it sees what its last answer came to; scopes do not wait for
// each other, and no group waits for a curator. A process that ends in between finds in the
// database which groups still have to give a lesson.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "judge/endpoint_guard.h"
#include "judge/judge_port.h"
#include "skills/skill_finder.h"
#include "skills/skill_folder.h"
#include "skills/skill_guard.h"
#include "skills/skill_repository.h"
#include "skills/skills_config.h"
#include "store/run_db.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

// The curator's name at its port.
inline constexpr char kCurator[] = "curator";

struct SkillOptions : SkillsConfig {
  std::vector<std::string> redact;  // patterns of secrets besides the built-in ones
  // Agents that read files get every skill of the scope, those that fit first; prompts get
  // SkillsConfig::shown.
  bool files = false;
  bool to_memory = false;  // groups go on to memory
  uint64_t seed = 1;
  MessageLimits limits;
};

// Read from any thread.
struct SkillCounters : CounterSet {
  Counter skills{*this,
                 {.key = "skills",
                  .metric = "tidemill_skills",
                  .help = "Skills in the repository",
                  .kind = Counter::Kind::kLevel}};
  Counter lessons{*this,
                  {.key = "skills_lessons",
                   .metric = "tidemill_skills_lessons_total",
                   .help = "Groups that the repository learned from"}};
  Counter changes{*this,
                  {.key = "skills_changes",
                   .metric = "tidemill_skills_changes_total",
                   .help = "Operations of the curator that were taken"}};
  Counter refused{*this,
                  {.key = "skills_refused",
                   .metric = "tidemill_skills_refused_total",
                   .help = "Operations of the curator that were refused"}};
  Counter malformed{*this,
                    {.key = "skills_malformed",
                     .metric = "tidemill_skills_malformed_total",
                     .help = "Answers of the curator that did not parse"}};
  Counter unanswered{*this,
                     {.key = "skills_unanswered",
                      .metric = "tidemill_skills_unanswered_total",
                      .help = "Groups that the curator could not be asked about"}};
  Counter shown{*this,
                {.key = "skills_shown",
                 .metric = "tidemill_skills_shown_total",
                 .help = "Skills offered to episodes"}};
};

class SkillLoop final : public Loop {
 public:
  // `curator`: null: nobody edits. `folder`: null: no export. What is given by reference or pointer
  // must outlive it. kInvalid: a pattern of `redact` is wrong.
  static Result<std::unique_ptr<SkillLoop>> Make(Bus& bus, StorePort& store, const TaskBook& tasks,
                                                 SkillOptions options, const SkillsState& earlier,
                                                 JudgePort* curator, SkillExport* folder);

  std::string_view name() const override { return "skills"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // What the curator has not answered by then is asked for by the next process.
  bool Drained() const override { return storing_.empty() && outbox_.waiting() == 0; }

  const SkillCounters& counters() const { return counters_; }
  const SkillRepository& repository() const { return repository_; }

 private:
  // A group whose episodes are all there.
  struct Finished {
    uint64_t group = 0;
    std::vector<v1::CaseRecord> episodes;
    uint32_t tries = 0;
  };

  SkillLoop(Bus& bus, StorePort& store, const TaskBook& tasks, SkillOptions options,
            SkillGuard guard, JudgePort* curator, SkillExport* folder);
  void TakeEarlier(const SkillsState& earlier);
  void TakeCases();
  void TakeCase(v1::CaseRecord record);
  void Finish(uint64_t group);
  void AskCurator(Time now);
  void TakeAnswers(Time now);
  void Retry(Finished finished, const JudgeDone& done, Time now);
  // The lesson of a group before anybody edited.
  v1::SkillLesson LessonOn(const Finished& finished) const;
  void Edit(const Finished& finished, const std::string& answer, v1::SkillLesson& lesson);
  void Keep(v1::SkillLesson lesson);
  void TakeStored();
  void Learn(uint64_t number, const v1::SkillLesson& lesson);
  void TakeGroups();
  void AddSkills(v1::GroupLease& group);
  bool HeldOut(const v1::GroupLease& group, uint32_t member) const;
  SkillLimits limits() const;

  Bus& bus_;
  StorePort& store_;
  const TaskBook& tasks_;
  const SkillOptions options_;
  const SkillGuard guard_;
  JudgePort* const curator_;  // null: there is none
  SkillExport* const folder_;
  Outbox outbox_;
  EndpointGuard endpoint_;
  SkillRepository repository_;
  SkillFinder finder_;
  std::map<uint64_t, std::vector<v1::CaseRecord>> open_;  // episodes by group
  std::map<std::string, std::deque<Finished>> waiting_;   // for the curator, by scope
  std::set<std::string> busy_;  // scopes that the curator is asked about, or whose lesson is stored
  std::map<uint64_t, Finished> asked_;           // by tag
  LaterQueue<Finished> later_;                   // to be asked again
  std::map<uint64_t, v1::SkillLesson> storing_;  // by tag
  uint64_t next_tag_ = 1;
  SkillCounters counters_;
};

}  // namespace tidemill

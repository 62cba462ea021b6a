// tidemill skills list|show|search|export|import|diff: the repository of skills of a run.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "core/clock.h"
#include "core/text.h"
#include "run/run_path.h"
#include "skills/skill_finder.h"
#include "skills/skill_folder.h"
#include "skills/skill_guard.h"
#include "skills/skill_import.h"
#include "skills/skill_repository.h"
#include "store/run_db.h"
#include "store/run_directory.h"
#include "store/skill_reader.h"
#include "tools/workspace_diff.h"

namespace tidemill {
namespace {

using SkillJson = nlohmann::ordered_json;

constexpr int kSomeRefused = 3;
constexpr size_t kShownDiffBytes = size_t{1} << 20;

struct SkillArguments {
  std::string folder = "runs";
  std::string run, name, text, path;
  std::optional<std::string> scope;  // nothing: all of them
  uint64_t lesson = 0;
  size_t limit = 20;
  size_t body_bytes = SkillLimits().body_bytes, capacity = SkillLimits().skills;
  bool json = false;
};

Result<RunDirectory> OpenRunOf(const SkillArguments& a) {
  const auto [folder, name] = SplitRunPath(a.run, a.folder);
  return RunDirectory::OpenToRead(folder, name);
}

Result<std::vector<SkillsState::Learned>> LessonsOf(const SkillArguments& a) {
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, OpenRunOf(a));
  return ReadSkillLessons(directory.db_path());
}

SkillRepository RepositoryOf(const std::vector<SkillsState::Learned>& lessons) {
  SkillRepository repository;
  for (const SkillsState::Learned& one : lessons) repository.Apply(one.number, one.lesson);
  return repository;
}

bool Wanted(const SkillArguments& a, const std::string& scope) {
  return !a.scope || *a.scope == scope;
}

SkillJson ToJson(const std::string& scope, const Skill& skill, bool whole) {
  const SkillUses::Worth worth = skill.uses.worth();
  SkillJson json = {{"name", skill.text.name},
                    {"scope", scope},
                    {"version", skill.version},
                    {"description", skill.text.description},
                    {"bytes", skill.text.body.size()},
                    {"shown", skill.uses.shown},
                    {"shown_solved", skill.uses.solved},
                    {"compared_groups", skill.uses.compared},
                    {"worth", skill.uses.compared > 0 ? SkillJson(worth.mean) : SkillJson()},
                    {"worth_half", worth.half >= 0 ? SkillJson(worth.half) : SkillJson()}};
  if (!whole) return json;
  json["body"] = skill.text.body;
  json["origins"] = SkillJson::array();
  for (const SkillOrigin& origin : skill.origins) {
    json["origins"].push_back(
        {{"lesson", origin.lesson}, {"group", origin.group}, {"task", origin.task}});
  }
  return json;
}

std::string WorthText(const SkillUses& uses) {
  if (uses.compared == 0) return "worth    -";
  const SkillUses::Worth worth = uses.worth();
  if (worth.half < 0) return fmt::format("worth {:+.2f}", worth.mean);
  return fmt::format("worth {:+.2f} ±{:.2f}", worth.mean, worth.half);
}

void PrintSkill(const std::string& scope, const Skill& skill, bool json) {
  if (json) return PrintJson(ToJson(scope, skill, false));
  const std::string name = (scope.empty() ? "" : scope + "/") + skill.text.name;
  std::printf("%s\n", fmt::format("{:<32}  v{:<3}  shown {:<5}  {}  {}", ForTerminal(name),
                                  skill.version, skill.uses.shown, WorthText(skill.uses),
                                  Beginning(ForTerminal(skill.text.description), 80))
                          .c_str());
}

int ListSkills(const SkillArguments& a) {
  const auto lessons = LessonsOf(a);
  if (!lessons.ok()) return Fail(lessons.status());
  const SkillRepository repository = RepositoryOf(*lessons);
  size_t count = 0;
  for (const auto& [scope, shelf] : repository.scopes()) {
    if (!Wanted(a, scope)) continue;
    for (const auto& [name, skill] : shelf.skills()) PrintSkill(scope, skill, a.json);
    count += shelf.skills().size();
  }
  if (!a.json) std::printf("%zu skills from %zu lessons\n", count, lessons->size());
  return 0;
}

int ShowSkill(const SkillArguments& a) {
  const auto lessons = LessonsOf(a);
  if (!lessons.ok()) return Fail(lessons.status());
  const SkillRepository repository = RepositoryOf(*lessons);
  int shown = 0;
  for (const auto& [scope, shelf] : repository.scopes()) {
    const Skill* const skill = Wanted(a, scope) ? shelf.Find(a.name) : nullptr;
    if (skill == nullptr) continue;
    ++shown;
    if (a.json) {
      PrintJson(ToJson(scope, *skill, true));
      continue;
    }
    PrintSkill(scope, *skill, false);
    for (const SkillOrigin& origin : skill->origins) {
      std::printf(
          "lesson %llu: %s\n", static_cast<unsigned long long>(origin.lesson),
          origin.group == 0
              ? "an import"
              : fmt::format("group {}, task {}", origin.group, ForTerminal(origin.task)).c_str());
    }
    std::printf("\n%s\n", Shown(SkillMarkdown(skill->text)).c_str());
  }
  if (shown == 0) return Fail(NotFound("no skill \"" + a.name + "\"; see tidemill skills list"));
  return 0;
}

int SearchSkills(const SkillArguments& a) {
  const auto lessons = LessonsOf(a);
  if (!lessons.ok()) return Fail(lessons.status());
  const SkillRepository repository = RepositoryOf(*lessons);
  for (const auto& [scope, shelf] : repository.scopes()) {
    if (!Wanted(a, scope)) continue;
    SkillFinder finder;
    finder.Update(scope, shelf);
    for (const std::string& name : finder.Find(scope, a.text, a.limit)) {
      PrintSkill(scope, *shelf.Find(name), a.json);
    }
  }
  return 0;
}

// Only into a folder of its own: an export removes what is no skill of it.
int ExportAll(const SkillArguments& a) {
  const auto lessons = LessonsOf(a);
  if (!lessons.ok()) return Fail(lessons.status());
  std::error_code error;
  if (std::filesystem::exists(a.path, error) && !std::filesystem::is_empty(a.path, error)) {
    return Fail(Invalid(a.path + ": must be a new or an empty folder"));
  }
  SkillRepository repository;
  size_t count = 0;
  for (const SkillsState::Learned& one : *lessons) {
    if (!Wanted(a, one.lesson.scope())) continue;
    v1::SkillLesson lesson = one.lesson;
    if (a.scope) lesson.clear_scope();
    repository.Apply(one.number, lesson);
  }
  for (const auto& [scope, shelf] : repository.scopes()) count += shelf.skills().size();
  const Status written = ExportSkills(repository, a.path);
  if (!written.ok()) return Fail(written);
  if (a.json) {
    PrintJson({{"folder", a.path}, {"skills", count}});
  } else {
    std::printf("%s: %zu skills\n", a.path.c_str(), count);
  }
  return 0;
}

Result<v1::SkillLesson> ImportFolder(const SkillArguments& a) {
  TM_ASSIGN_OR_RETURN(const std::vector<SkillText> skills, ReadSkillFolder(a.path));
  if (skills.empty()) return Invalid(a.path + ": has no NAME/SKILL.md");
  TM_ASSIGN_OR_RETURN(const SkillGuard guard, SkillGuard::Make({}));
  const auto [folder, name] = SplitRunPath(a.run, a.folder);
  // A run that is going on holds its skills in memory: it must end first.
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToResume(folder, name));
  const RealClock clock;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), clock));
  TM_ASSIGN_OR_RETURN(const auto lessons, ReadSkillLessons(directory.db_path()));
  SkillRepository repository = RepositoryOf(lessons);
  const std::string scope = a.scope.value_or("");
  v1::SkillLesson lesson = ImportSkills(scope, skills, repository.Of(scope),
                                        {.skills = a.capacity, .body_bytes = a.body_bytes}, guard);
  if (lesson.changes().empty()) return lesson;
  const uint64_t number = lessons.empty() ? 1 : lessons.back().number + 1;
  lesson.set_key("import/" + std::to_string(number));
  lesson.set_at_ms(clock.WallMs());
  TM_RETURN_IF_ERROR(db->ApplyOne(PutSkillLesson{lesson}));
  repository.Apply(number, lesson);
  TM_RETURN_IF_ERROR(ExportSkills(repository, SkillsFolder(directory.path())));
  return lesson;
}

int ImportAll(const SkillArguments& a) {
  const auto lesson = ImportFolder(a);
  if (!lesson.ok()) return Fail(lesson.status());
  if (a.json) {
    SkillJson refused = SkillJson::array();
    for (const v1::SkillRefusal& one : lesson->refused()) {
      refused.push_back({{"name", one.name()}, {"reason", one.reason()}});
    }
    PrintJson({{"imported", lesson->changes_size()}, {"refused", std::move(refused)}});
  } else {
    for (const v1::SkillRefusal& one : lesson->refused()) {
      std::fprintf(stderr, "refused %s: %s\n", ForTerminal(one.name()).c_str(),
                   ForTerminal(one.reason()).c_str());
    }
    std::printf("%d skills imported, %d refused\n", lesson->changes_size(), lesson->refused_size());
  }
  return lesson->refused().empty() ? 0 : kSomeRefused;
}

std::string FileBefore(const SkillShelf& shelf, const std::string& name) {
  const Skill* const skill = shelf.Find(name);
  return skill == nullptr ? "" : SkillMarkdown(skill->text);
}

// What the change did to the files of its scope.
std::string DiffOf(const SkillShelf& shelf, const v1::SkillChange& change) {
  Workspace before, after;
  const auto path = [](const std::string& name) { return name + "/" + kSkillFile; };
  const auto add = [&](const std::string& name) {
    const std::string text = FileBefore(shelf, name);
    if (!text.empty()) before[path(name)] = {text, false};
  };
  add(change.skill().name());
  for (const v1::SkillName& one : change.from()) add(one.name());
  if (change.kind() != v1::SkillChange::KIND_DELETE) {
    after[path(change.skill().name())] = {SkillMarkdown(tidemill::TextOf(change)), false};
  }
  return WorkspaceDiff(before, after, kShownDiffBytes);
}

void PrintChange(const SkillsState::Learned& one, const v1::SkillChange& change,
                 const std::string& diff, bool json) {
  const v1::SkillLesson& lesson = one.lesson;
  if (json) {
    SkillJson from = SkillJson::array();
    for (const v1::SkillName& name : change.from()) from.push_back(name.name());
    return PrintJson({{"lesson", one.number},
                      {"scope", lesson.scope()},
                      {"task", lesson.task()},
                      {"group", lesson.group()},
                      {"at_ms", lesson.at_ms()},
                      {"operation", SkillKindName(change.kind())},
                      {"name", change.skill().name()},
                      {"version", change.skill().version()},
                      {"from", std::move(from)},
                      {"diff", diff}});
  }
  const std::string by = lesson.group() == 0 ? "an import"
                                             : fmt::format("group {}, task {}", lesson.group(),
                                                           ForTerminal(lesson.task()));
  std::printf("lesson %llu (%s): %s %s v%u\n%s\n", static_cast<unsigned long long>(one.number),
              by.c_str(), std::string(SkillKindName(change.kind())).c_str(),
              ForTerminal(change.skill().name()).c_str(), change.skill().version(),
              Shown(diff).c_str());
}

void PrintRefusals(const SkillsState::Learned& one, const SkillArguments& a) {
  const v1::SkillLesson& lesson = one.lesson;
  const auto print = [&](std::string_view kind, const std::string& name,
                         const std::string& reason) {
    if (a.json) {
      return PrintJson({{"lesson", one.number},
                        {"scope", lesson.scope()},
                        {"operation", kind},
                        {"name", name},
                        {"refused", reason}});
    }
    std::printf("lesson %llu: refused %s %s: %s\n", static_cast<unsigned long long>(one.number),
                std::string(kind).c_str(), ForTerminal(name).c_str(), ForTerminal(reason).c_str());
  };
  for (const v1::SkillRefusal& refused : lesson.refused()) {
    if (!a.name.empty() && refused.name() != a.name) continue;
    print(SkillKindName(refused.kind()), refused.name(), refused.reason());
  }
  if (!lesson.malformed().empty() && a.name.empty()) print("answer", "", lesson.malformed());
}

bool Concerns(const v1::SkillChange& change, const std::string& name) {
  if (name.empty() || change.skill().name() == name) return true;
  for (const v1::SkillName& one : change.from()) {
    if (one.name() == name) return true;
  }
  return false;
}

int DiffSkills(const SkillArguments& a) {
  const auto lessons = LessonsOf(a);
  if (!lessons.ok()) return Fail(lessons.status());
  SkillRepository repository;
  for (const SkillsState::Learned& one : *lessons) {
    const v1::SkillLesson& lesson = one.lesson;
    const bool wanted = Wanted(a, lesson.scope()) && (a.lesson == 0 || a.lesson == one.number);
    if (wanted) {
      SkillShelf shelf = repository.Of(lesson.scope());
      for (const v1::SkillChange& change : lesson.changes()) {
        if (Concerns(change, a.name)) PrintChange(one, change, DiffOf(shelf, change), a.json);
        shelf.Take(change, {});
      }
      PrintRefusals(one, a);
    }
    repository.Apply(one.number, lesson);
  }
  return 0;
}

CLI::App* AddOne(CLI::App& skills, const char* name, const char* doc, SkillArguments& a) {
  CLI::App* command = skills.add_subcommand(name, doc);
  command->add_option("RUN", a.run, "Run name, or path of its directory")->required();
  command->add_option("--folder", a.folder, "Folder of the runs")->capture_default_str();
  command->add_option("--scope", a.scope, "Skills of this scope; \"\": of tasks without one");
  command->add_flag("--json", a.json, "Print JSON objects, one a line");
  return command;
}

void AddImport(CLI::App& skills, const std::shared_ptr<SkillArguments>& a, Exit& exit) {
  CLI::App* in = AddOne(skills, "import",
                        "Take the skills of a folder into a run that is not running. Exit status "
                        "3: some were refused",
                        *a);
  in->add_option("FOLDER", a->path, "Folder with NAME/SKILL.md")->required();
  in->add_option("--capacity", a->capacity, "Skills of the scope, at most")->capture_default_str();
  in->add_option("--body-bytes", a->body_bytes, "Size of a skill, at most")->capture_default_str();
  in->callback([a, &exit] { exit.code = ImportAll(*a); });
}

}  // namespace

void AddSkillsCommand(CLI::App& app, Exit& exit) {
  CLI::App* skills = app.add_subcommand("skills", "The skills of a run: pages that agents read");
  skills->require_subcommand(1);
  // Shared: the options write to it, the callbacks read it, and both outlive this function.
  auto a = std::make_shared<SkillArguments>();
  CLI::App* list = AddOne(*skills, "list", "All skills with what they were worth", *a);
  CLI::App* show = AddOne(*skills, "show", "One skill in full, and where it came from", *a);
  CLI::App* search = AddOne(*skills, "search", "Skills that share words with a text", *a);
  CLI::App* out = AddOne(*skills, "export", "Write the skills as NAME/SKILL.md", *a);
  AddImport(*skills, a, exit);
  CLI::App* diff = AddOne(*skills, "diff", "What each lesson changed, and what was refused", *a);
  show->add_option("NAME", a->name, "Name of the skill")->required();
  search->add_option("TEXT", a->text, "Words to look for")->required();
  search->add_option("--limit", a->limit, "Skills of a scope, at most")->capture_default_str();
  out->add_option("--out", a->path, "Folder that is new or empty")->required();
  diff->add_option("NAME", a->name, "Only this skill");
  diff->add_option("--lesson", a->lesson, "Only the lesson of this number");
  list->callback([a, &exit] { exit.code = ListSkills(*a); });
  show->callback([a, &exit] { exit.code = ShowSkill(*a); });
  search->callback([a, &exit] { exit.code = SearchSkills(*a); });
  out->callback([a, &exit] { exit.code = ExportAll(*a); });
  diff->callback([a, &exit] { exit.code = DiffSkills(*a); });
}

}  // namespace tidemill

#include "skills/skill_loop.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bus/read_message.h"
#include "core/log.h"
#include "core/random.h"
#include "core/text.h"
#include "core/topics.h"
#include "skills/curator_prompt.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr size_t kSkillsAtOnce = 64;      // messages of a step
constexpr size_t kGroupsOpen = 4096;      // whose other members are waited for
constexpr size_t kGroupsWaiting = 16384;  // for the curator
constexpr size_t kCuratorAtOnce = 8;      // scopes that it is asked about at once
constexpr uint32_t kCuratorTries = 4;
constexpr Duration kCuratorRetry = milliseconds(500);

// The uses of one version of a skill; every other episode of the group was not shown it.
v1::SkillUse UseOf(const v1::SkillName& skill, const std::vector<v1::CaseRecord>& episodes) {
  v1::SkillUse use;
  *use.mutable_skill() = skill;
  for (const v1::CaseRecord& episode : episodes) {
    const bool shown =
        std::any_of(episode.shown_skills().begin(), episode.shown_skills().end(),
                    [&](const v1::SkillName& one) {
                      return one.name() == skill.name() && one.version() == skill.version();
                    });
    if (shown) {
      use.set_shown(use.shown() + 1);
      use.set_solved(use.solved() + (episode.solved() ? 1 : 0));
      use.set_reward(use.reward() + episode.reward());
    } else {
      use.set_others(use.others() + 1);
      use.set_others_reward(use.others_reward() + episode.reward());
    }
  }
  return use;
}

}  // namespace

Result<std::unique_ptr<SkillLoop>> SkillLoop::Make(Bus& bus, StorePort& store,
                                                   const TaskBook& tasks, SkillOptions options,
                                                   const SkillsState& earlier, JudgePort* curator,
                                                   SkillExport* folder) {
  TM_ASSIGN_OR_RETURN(SkillGuard guard, SkillGuard::Make(options.redact));
  std::unique_ptr<SkillLoop> loop(
      new SkillLoop(bus, store, tasks, std::move(options), std::move(guard), curator, folder));
  loop->TakeEarlier(earlier);
  return loop;
}

SkillLoop::SkillLoop(Bus& bus, StorePort& store, const TaskBook& tasks, SkillOptions options,
                     SkillGuard guard, JudgePort* curator, SkillExport* folder)
    : bus_(bus),
      store_(store),
      tasks_(tasks),
      options_(std::move(options)),
      guard_(std::move(guard)),
      curator_(curator),
      folder_(folder),
      outbox_(bus),
      endpoint_({}, options_.seed) {}

// The folder is brought level with the database, whatever an earlier process left in it.
void SkillLoop::TakeEarlier(const SkillsState& earlier) {
  for (const SkillsState::Learned& one : earlier.lessons) repository_.Apply(one.number, one.lesson);
  for (const auto& [scope, shelf] : repository_.scopes()) {
    finder_.Update(scope, shelf);
    counters_.skills += shelf.skills().size();
  }
  for (const CasesState::Scored& one : earlier.untaught) {
    const v1::Task* task = tasks_.Find(one.trajectory.id().task());
    if (task == nullptr) continue;
    std::optional<v1::CaseRecord> record = MakeCase(*task, one.trajectory, one.verdict);
    if (record) TakeCase(std::move(*record));
  }
  if (folder_ != nullptr) folder_->Write(repository_);
}

void SkillLoop::Attach(Waker& waker) {
  bus_.Subscribe(kSkillsGroupsTopic, waker);
  bus_.Subscribe(kSkillsCasesTopic, waker);
  store_.events().Attach(waker);
  if (curator_ != nullptr) curator_->events().Attach(waker);
}

Time SkillLoop::Step(Time now) {
  TakeStored();
  TakeAnswers(now);
  TakeCases();
  AskCurator(now);
  TakeGroups();
  outbox_.Flush(now);
  const Time wake = now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(200));
  return std::min({wake, later_.next(), endpoint_.next(now)});
}

SkillLimits SkillLoop::limits() const {
  return {options_.capacity, options_.body_bytes, options_.curator_edits};
}

void SkillLoop::TakeCases() {
  size_t waiting = 0;
  for (const auto& [scope, groups] : waiting_) waiting += groups.size();
  if (waiting > kGroupsWaiting) return;
  for (Lease& lease : TakeFrom(bus_, kSkillsCasesTopic, kSkillsAtOnce)) {
    v1::CaseRecord record;
    if (!ReadOrReject(bus_, lease, record, options_.limits)) continue;
    if (record.session() != 0 || !InItsScope(record)) {
      (void)bus_.Reject(lease, "an episode of a tenant makes no skill");
      continue;
    }
    // The episode is durable: a process that ends now leaves it to the next.
    TakeCase(std::move(record));
    (void)bus_.Ack(lease);
  }
}

void SkillLoop::TakeCase(v1::CaseRecord record) {
  const uint64_t group = record.id().group();
  std::vector<v1::CaseRecord>& episodes = open_[group];
  const bool there = std::any_of(episodes.begin(), episodes.end(), [&](const auto& one) {
    return one.id().member() == record.id().member();
  });
  if (there) return;
  const size_t members = record.group_members();
  episodes.push_back(std::move(record));
  if (episodes.size() >= members) return Finish(group);
  // One that lost a member through us is never complete.
  if (open_.size() > kGroupsOpen) Finish(open_.begin()->first);
}

void SkillLoop::Finish(uint64_t group) {
  auto node = open_.extract(group);
  Finished finished{group, std::move(node.mapped()), 0};
  std::sort(finished.episodes.begin(), finished.episodes.end(),
            [](const auto& a, const auto& b) { return a.id().member() < b.id().member(); });
  if (curator_ == nullptr) return Keep(LessonOn(finished));
  waiting_[finished.episodes[0].scope()].push_back(std::move(finished));
}

void SkillLoop::AskCurator(Time now) {
  if (curator_ == nullptr) return;
  for (Finished& again : later_.TakeDue(now)) {
    const std::string scope = again.episodes[0].scope();
    busy_.erase(scope);
    waiting_[scope].push_front(std::move(again));
  }
  for (auto it = waiting_.begin(); it != waiting_.end() && asked_.size() < kCuratorAtOnce;) {
    const std::string& scope = it->first;
    if (busy_.contains(scope)) {
      ++it;
      continue;
    }
    if (!endpoint_.MayStart(now)) return;
    endpoint_.Started(now);
    Finished finished = std::move(it->second.front());
    it->second.pop_front();
    busy_.insert(scope);
    const uint64_t tag = next_tag_++;
    curator_->Submit({tag, kCurator,
                      CuratorPrompt(repository_.Of(scope), finished.episodes, limits()),
                      MixHash(options_.seed, finished.group)});
    asked_.emplace(tag, std::move(finished));
    it = it->second.empty() ? waiting_.erase(it) : std::next(it);
  }
}

void SkillLoop::TakeAnswers(Time now) {
  if (curator_ == nullptr) return;
  for (const JudgeDone& done : curator_->events().TakeAll()) {
    auto node = asked_.extract(done.tag);
    TM_CHECK(!node.empty(), "an answer to nothing that was asked");
    Finished& finished = node.mapped();
    if (!done.status.ok()) {
      Retry(std::move(finished), done, now);
      continue;
    }
    endpoint_.Succeeded();
    v1::SkillLesson lesson = LessonOn(finished);
    Edit(finished, done.reply.text, lesson);
    Keep(std::move(lesson));
  }
}

// What of ours failed is no edit of the curator's: after some tries the group teaches nothing.
void SkillLoop::Retry(Finished finished, const JudgeDone& done, Time now) {
  endpoint_.Failed(now, done.wait);
  if (++finished.tries < kCuratorTries) {
    later_.Put(now + endpoint_.Jittered(kCuratorRetry * (1 << finished.tries)),
               std::move(finished));
    return;
  }
  ++counters_.unanswered;
  LogEvery(std::chrono::seconds(10), "curator", LogLevel::kWarn, "the curator does not answer",
           {{"error", done.status.ToString()}});
  Keep(LessonOn(finished));
}

v1::SkillLesson SkillLoop::LessonOn(const Finished& finished) const {
  const v1::CaseRecord& first = finished.episodes[0];
  v1::SkillLesson lesson;
  lesson.set_key("group/" + std::to_string(finished.group));
  lesson.set_scope(first.scope());
  lesson.set_task(first.id().task());
  lesson.set_group(finished.group);
  lesson.set_episodes(static_cast<uint32_t>(finished.episodes.size()));
  std::set<std::pair<std::string, uint32_t>> seen;
  for (const v1::CaseRecord& episode : finished.episodes) {
    lesson.set_at_ms(std::max(lesson.at_ms(), episode.at_ms()));
    for (const v1::SkillName& skill : episode.shown_skills()) {
      if (!seen.insert({skill.name(), skill.version()}).second) continue;
      *lesson.add_uses() = UseOf(skill, finished.episodes);
    }
  }
  return lesson;
}

void SkillLoop::Edit(const Finished& finished, const std::string& answer, v1::SkillLesson& lesson) {
  lesson.set_curator(options_.curator_model.empty() ? kCurator : options_.curator_model);
  const auto edits = ParseSkillEdits(answer);
  if (!edits.ok()) {
    lesson.set_malformed(ToUtf8(edits.status().message()));
    return;
  }
  std::vector<std::string> seen;
  for (const v1::CaseRecord& episode : finished.episodes) {
    seen.push_back(episode.answer());
    for (const v1::ToolNote& note : episode.tools()) seen.push_back(note.text());
  }
  TaskSecrets secrets;
  if (const v1::Task* task = tasks_.Find(lesson.task())) secrets = SecretsOf(*task, seen);
  EditSkills(
      repository_.Of(lesson.scope()), *edits, limits(),
      [&](const SkillText& skill) { return guard_.Check(skill, secrets); }, lesson);
}

void SkillLoop::Keep(v1::SkillLesson lesson) {
  const uint64_t tag = next_tag_++;
  store_.Submit(PutSkillLesson{lesson}, tag);
  storing_.emplace(tag, std::move(lesson));
}

void SkillLoop::TakeStored() {
  for (const StoreDone& done : store_.events().TakeAll()) {
    auto node = storing_.extract(done.tag);
    TM_CHECK(!node.empty(), "the store answered for a lesson that was not submitted");
    const v1::SkillLesson& lesson = node.mapped();
    busy_.erase(lesson.scope());
    if (done.status.ok()) {
      Learn(done.version, lesson);
    } else if (done.status.code() != Code::kExists) {
      throw std::runtime_error("the run's database: " + done.status.ToString());
    }
  }
}

void SkillLoop::Learn(uint64_t number, const v1::SkillLesson& lesson) {
  const uint64_t before = repository_.Of(lesson.scope()).skills().size();
  repository_.Apply(number, lesson);
  ++counters_.lessons;
  counters_.changes += static_cast<uint64_t>(lesson.changes_size());
  counters_.refused += static_cast<uint64_t>(lesson.refused_size());
  if (!lesson.malformed().empty()) ++counters_.malformed;
  if (lesson.changes().empty()) return;
  const SkillShelf& shelf = repository_.Of(lesson.scope());
  counters_.skills += shelf.skills().size() - before;
  finder_.Update(lesson.scope(), shelf);
  if (folder_ != nullptr) folder_->Write(repository_);
}

void SkillLoop::TakeGroups() {
  for (Lease& lease : TakeFrom(bus_, kSkillsGroupsTopic, kSkillsAtOnce)) {
    v1::GroupLease group;
    if (!ReadOrReject(bus_, lease, group, options_.limits)) continue;
    AddSkills(group);
    outbox_.Publish(options_.to_memory ? kMemoryGroupsTopic : kGroupsTopic,
                    group.SerializeAsString(), std::move(lease));
  }
}

void SkillLoop::AddSkills(v1::GroupLease& group) {
  const std::string scope = ScopeOf(group.task());
  const size_t most = options_.files ? options_.capacity : options_.shown;
  const std::vector<std::string> names =
      finder_.Find(scope, group.task().prompt(), most, options_.files);
  if (names.empty()) return;
  const SkillShelf& shelf = repository_.Of(scope);
  group.set_max_skill_tokens(options_.tokens);
  for (uint32_t member = 0; member < group.members(); ++member) {
    v1::CaseSet& set = *group.add_contexts();
    if (HeldOut(group, member)) continue;
    for (const std::string& name : names) {
      const Skill& skill = *shelf.Find(name);
      v1::ShownSkill& shown = *set.add_skills();
      shown.mutable_skill()->set_name(name);
      shown.mutable_skill()->set_version(skill.version);
      shown.set_text(SkillMarkdown(skill.text));
    }
    counters_.shown += names.size();
  }
}

bool SkillLoop::HeldOut(const v1::GroupLease& group, uint32_t member) const {
  if (group.purpose() != v1::PURPOSE_TRAIN) return false;
  Random random = Random(MixHash(group.seed(), member)).Split("skills held out");
  return random.Chance(options_.hold_out);
}

}  // namespace tidemill

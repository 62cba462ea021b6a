#include "memory/case_bank.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/hash.h"
#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kOpenGroups = 4096;  // whose other members are waited for
// Near-duplicates: the same answer and verdict, and prompts that share so much of their words.
constexpr double kSameWords = 0.9;
constexpr size_t kDuplicatesLookedAt = 8;
constexpr size_t kNoteTools = 4;
constexpr size_t kToolFacts = 6;
constexpr size_t kSimilarLookedAt = 32;
constexpr double kCommonWord = 0.5;  // a word of more than this share of the answers tells nothing
constexpr uint64_t kAnswersCounted = 8;  // before that every word may tell

void AppendNumber(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendNumber(std::string& bytes, double number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// The words of an answer that the prompt does not have.
std::string SaidBy(const v1::CaseRecord& record) {
  const std::vector<std::string> asked = WordSet(record.prompt());
  std::string said;
  for (const std::string& word : WordSet(record.answer())) {
    if (!std::binary_search(asked.begin(), asked.end(), word)) said += word + " ";
  }
  return said;
}

}  // namespace

std::optional<Retrieval> RetrievalNamed(std::string_view name) {
  if (name == "lexical") return Retrieval::kLexical;
  if (name == "hidden") return Retrieval::kHidden;
  if (name == "newest") return Retrieval::kNewest;
  if (name == "random") return Retrieval::kRandom;
  if (name == "learned") return Retrieval::kLearned;
  return std::nullopt;
}

BankChange CaseBank::Apply(uint64_t number, const v1::CaseRecord& record) {
  TM_CHECK(cases_.empty() || cases_.rbegin()->first < number, "cases come in their order");
  Compare(record);
  Replace(record);
  BankChange change;
  const uint64_t at = ++scopes_[record.scope()].learned;
  ++answers_;
  for (const std::string& word : WordSet(record.answer())) ++answer_words_[word];
  tools_.Apply(number, record);
  MarkOutdated(record, at);
  if (!record.solved() && !options_.failures) return change;
  std::vector<std::string> words = WordSet(record.prompt());
  if (const uint64_t same = options_.merge ? NearDuplicate(record, words) : 0; same != 0) {
    Case& copy = cases_.at(same);
    ++copy.copies;
    copy.newest = at;
    copy.newest_ms = record.at_ms();
    change.merged_into = same;
    if (record.session() != 0) turns_[{record.session(), record.id().member()}] = same;
    return change;
  }
  Add(number, record, at, std::move(words));
  change.kept = true;
  if (cases_.size() > options_.capacity) ForgetOne(change);
  return change;
}

// A case with copies stays: what others said counts on.
void CaseBank::Replace(const v1::CaseRecord& record) {
  if (record.session() == 0) return;
  auto earlier = turns_.extract({record.session(), record.id().member()});
  if (earlier.empty()) return;
  if (Case& one = cases_.at(earlier.mapped()); one.copies > 1) {
    --one.copies;
  } else {
    Drop(earlier.mapped());
  }
}

void CaseBank::Add(uint64_t number, const v1::CaseRecord& record, uint64_t at,
                   std::vector<std::string> words) {
  if (record.session() != 0) turns_[{record.session(), record.id().member()}] = number;
  texts_.Add(number, record.scope(), record.prompt());
  keys_.Add(number, record.scope(), {record.key().data(), static_cast<size_t>(record.key_size())});
  for (const std::string& word : words) ++word_cases_[word];
  std::string said = SaidBy(record);
  Scope& scope = scopes_[record.scope()];
  if (record.solved()) scope.solved.insert(number);
  if (!said.empty()) scope.saying[said].insert(number);
  cases_.emplace(number, Case{.record = record,
                              .newest = at,
                              .newest_ms = record.at_ms(),
                              .words = std::move(words),
                              .said = std::move(said)});
}

// When the last member of a group is known, its cases are compared. A group that loses a member
// through us is never complete; the oldest open ones go when there are too many.
void CaseBank::Compare(const v1::CaseRecord& record) {
  if (record.group_members() < 2) return;
  OpenGroup& group = open_[record.id().group()];
  group.members = record.group_members();
  MemberOutcome& outcome = group.done[record.id().member()];
  outcome.reward = record.reward();
  const std::vector<std::string> words = WordSet(record.prompt());
  const std::vector<float> key(record.key().begin(), record.key().end());
  for (const uint64_t shown : record.shown()) {
    const Case* one = Find(shown);
    if (one != nullptr) outcome.shown.push_back({shown, PairFeatures(words, key, *one)});
  }
  if (group.done.size() < group.members) {
    if (open_.size() > kOpenGroups) open_.erase(open_.begin());
    return;
  }
  std::vector<MemberOutcome> members;
  for (auto& [member, done] : group.done) members.push_back(std::move(done));
  open_.erase(record.id().group());
  values_.Learn(members);
}

uint64_t CaseBank::NearDuplicate(const v1::CaseRecord& record,
                                 const std::vector<std::string>& words) const {
  for (const Match& match : texts_.Search(record.scope(), record.prompt(), kDuplicatesLookedAt)) {
    const Case& one = cases_.at(match.number);
    if (one.record.solved() != record.solved() || one.record.answer() != record.answer()) continue;
    std::vector<std::string> both;
    std::set_intersection(words.begin(), words.end(), one.words.begin(), one.words.end(),
                          std::back_inserter(both));
    const double all = static_cast<double>(words.size() + one.words.size() - both.size());
    if (static_cast<double>(both.size()) >= kSameWords * all) return match.number;
  }
  return 0;
}

// The least useful by what showing it was worth, of equal ones the oldest.
void CaseBank::ForgetOne(BankChange& change) {
  uint64_t least = 0;
  double worth = 0;
  for (const auto& [number, one] : cases_) {
    const double mean = values_.Worth(number).mean;
    if (least == 0 || mean < worth) {
      least = number;
      worth = mean;
    }
  }
  Drop(least);
  change.forgotten = least;
  change.forgotten_worth = worth;
}

void CaseBank::Drop(uint64_t number) {
  const Case& one = cases_.at(number);
  for (const std::string& word : one.words) {
    const auto it = word_cases_.find(word);
    if (--it->second == 0) word_cases_.erase(it);
  }
  Scope& scope = scopes_.at(one.record.scope());
  scope.solved.erase(number);
  if (const auto it = scope.saying.find(one.said); it != scope.saying.end()) {
    it->second.erase(number);
    if (it->second.empty()) scope.saying.erase(it);
  }
  // Also those of its copies.
  if (one.record.session() != 0) {
    std::erase_if(turns_, [&](const auto& turn) { return turn.second == number; });
  }
  texts_.Remove(number);
  keys_.Remove(number);
  values_.Forget(number);
  cases_.erase(number);
}

// An answer that was right fails on a similar task: what was learned of such tasks up to then is
// outdated, and so is all that the answer was right for. Whether anything else of that time still
// holds is in doubt until it is seen again; where the answer was in doubt itself, nothing new is.
void CaseBank::MarkOutdated(const v1::CaseRecord& record, uint64_t at) {
  if (record.solved()) return;
  const std::string said = SaidBy(record);
  if (!Tells(said)) return;
  uint64_t last_right = 0;
  std::vector<uint64_t> similar;
  const std::vector<std::string> words = WordSet(record.prompt());
  const std::vector<float> key(record.key().begin(), record.key().end());
  for (const Match& match : texts_.Search(record.scope(), record.prompt(), kSimilarLookedAt)) {
    const Case& one = cases_.at(match.number);
    if (Similarity(words, key, one) < kSimilarTask) continue;
    similar.push_back(match.number);
    if (one.record.solved() && one.said == said && one.newest > one.void_until) {
      last_right = std::max(last_right, one.newest);
    }
  }
  if (last_right == 0) return;
  Scope& scope = scopes_.at(record.scope());
  if (last_right > scope.changed) scope.changed = at;
  for (const uint64_t number : similar) {
    uint64_t& until = cases_.at(number).void_until;
    until = std::max(until, last_right);
  }
  for (const uint64_t number : scope.saying[said]) {
    Case& one = cases_.at(number);
    if (one.record.solved()) one.void_until = one.newest;
  }
}

// Whether it says more than nearly every answer does.
bool CaseBank::Tells(const std::string& said) const {
  const std::vector<std::string> words = WordsOf(said);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    const auto it = answer_words_.find(word);
    const double with = it == answer_words_.end() ? 0 : static_cast<double>(it->second);
    return answers_ < kAnswersCounted || with <= kCommonWord * static_cast<double>(answers_);
  });
}

v1::ShownCase CaseBank::Show(uint64_t number) const {
  const v1::CaseRecord& record = cases_.at(number).record;
  v1::ShownCase shown;
  shown.set_number(number);
  shown.set_prompt(record.prompt());
  shown.set_answer(record.answer());
  shown.set_solved(record.solved());
  std::string note;
  for (int i = 0; i < record.tools_size() && i < static_cast<int>(kNoteTools); ++i) {
    const v1::ToolNote& tool = record.tools(i);
    if (!note.empty()) note += "\n";
    note += tool.tool() + " " + tool.arguments_json() +
            (tool.outcome() == v1::OUTCOME_OK ? ": " : " failed: ") +
            tool.text().substr(0, tool.text().find('\n'));
  }
  shown.set_note(note);
  return shown;
}

std::string CaseBank::ShowTools(const std::string& scope) const {
  std::string notes;
  for (const ToolFact& fact : tools_.Facts(scope, kToolFacts)) {
    if (!notes.empty()) notes += "\n";
    notes += ToolMemory::Line(fact);
  }
  return notes;
}

const Case* CaseBank::Find(uint64_t number) const {
  const auto it = cases_.find(number);
  return it == cases_.end() ? nullptr : &it->second;
}

std::string CaseBank::Digest() const {
  std::string bytes;
  for (const auto& [number, one] : cases_) {
    AppendNumber(bytes, number);
    bytes += one.record.SerializeAsString();
    AppendNumber(bytes, one.copies);
    AppendNumber(bytes, one.newest);
    AppendNumber(bytes, one.void_until);
    if (const CaseWorth* worth = values_.Find(number); worth != nullptr) {
      AppendNumber(bytes, worth->weight);
      AppendNumber(bytes, worth->sum);
      AppendNumber(bytes, worth->shown);
    }
  }
  for (const double weight : values_.weights()) AppendNumber(bytes, weight);
  for (const auto& [name, scope] : scopes_) {
    bytes += name;
    AppendNumber(bytes, scope.learned);
    AppendNumber(bytes, scope.changed);
  }
  tools_.AppendTo(bytes);
  AppendNumber(bytes, static_cast<uint64_t>(open_.size()));
  return Sha256Hex(bytes);
}

}  // namespace tidemill

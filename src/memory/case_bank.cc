#include "memory/case_bank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>

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
  if (const uint64_t same = NearDuplicate(record, words); same != 0) {
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

namespace {

constexpr size_t kCandidates = 32;  // similar ones that are ordered by value or age
constexpr size_t kOthersLookedAt = 1024;
constexpr double kOldAfter = 64;  // records of the scope after which a case is old

double CosineOf(const std::vector<float>& a, const google::protobuf::RepeatedField<float>& b) {
  if (a.empty() || static_cast<int>(a.size()) != b.size()) return -1;
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float y = b[static_cast<int>(i)];
    dot += double{a[i]} * y;
    aa += double{a[i]} * a[i];
    bb += double{y} * y;
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : -1;
}

bool IsOf(const Case& one, const std::string& task) {
  return !task.empty() && one.record.id().task() == task;
}

}  // namespace

double CaseBank::Rarity(const std::string& word) const {
  const auto it = word_cases_.find(word);
  const double with = it == word_cases_.end() ? 0 : static_cast<double>(it->second);
  return std::log(1 + (static_cast<double>(cases_.size()) + 1) / (with + 1));
}

// By keys where both have one, else by words, the rare ones counting most.
double CaseBank::Similarity(const std::vector<std::string>& words, const std::vector<float>& key,
                            const Case& one) const {
  if (const double cosine = CosineOf(key, one.record.key()); cosine > -1) {
    return std::clamp(cosine, 0.0, 1.0);
  }
  double both = 0, mine = 0, its = 0;
  for (const std::string& word : words) {
    const double rare = Rarity(word) * Rarity(word);
    mine += rare;
    if (std::binary_search(one.words.begin(), one.words.end(), word)) both += rare;
  }
  for (const std::string& word : one.words) its += Rarity(word) * Rarity(word);
  return mine > 0 && its > 0 ? both / std::sqrt(mine * its) : 0;
}

CaseFeatures CaseBank::PairFeatures(const std::vector<std::string>& words,
                                    const std::vector<float>& key, const Case& one) const {
  const Scope& scope = scopes_.at(one.record.scope());
  const double since = static_cast<double>(scope.learned - one.newest);
  return FeaturesOf({.solved = one.record.solved(),
                     .similarity = Similarity(words, key, one),
                     .age = 1 - std::exp(-since / kOldAfter),
                     .outdated = one.newest <= one.void_until,
                     .doubted = one.newest < scope.changed});
}

// The nearest first. A failed answer to a task of another kind says nothing and is not among them.
std::vector<uint64_t> CaseBank::Similar(const CaseQuery& query, Retrieval how, size_t most) const {
  const bool by_key = how != Retrieval::kLexical && !query.key.empty() && keys_.size() > 0;
  std::vector<Match> found;
  if (by_key) found = keys_.Search(query.scope, query.key, most);
  // Cases of a run that began without keys have none: they come behind the others.
  if (!by_key || keys_.size() < cases_.size()) {
    for (const Match& match : texts_.Search(query.scope, query.prompt, most)) {
      if (!by_key || cases_.at(match.number).record.key().empty()) found.push_back(match);
    }
  }
  const std::vector<std::string> words = WordSet(query.prompt);
  std::vector<uint64_t> numbers;
  for (const Match& match : found) {
    const Case& one = cases_.at(match.number);
    if (IsOf(one, query.not_task) || Similarity(words, query.key, one) < kSimilarTask) continue;
    numbers.push_back(match.number);
  }
  return numbers;
}

// Right cases in the scope, on any subject, the newest first.
std::vector<uint64_t> CaseBank::Others(const CaseQuery& query, bool valid_only) const {
  std::vector<uint64_t> numbers;
  const auto scope = scopes_.find(query.scope);
  if (scope == scopes_.end()) return numbers;
  const std::set<uint64_t>& solved = scope->second.solved;
  for (auto it = solved.rbegin(); it != solved.rend() && numbers.size() < kOthersLookedAt; ++it) {
    const Case& one = cases_.at(*it);
    if (IsOf(one, query.not_task) || (valid_only && one.newest <= one.void_until)) continue;
    numbers.push_back(*it);
  }
  std::stable_sort(numbers.begin(), numbers.end(), [&](uint64_t a, uint64_t b) {
    return cases_.at(a).newest > cases_.at(b).newest;
  });
  return numbers;
}

// The first of those that say the same.
std::vector<uint64_t> CaseBank::Varied(const std::vector<uint64_t>& ordered, size_t most) const {
  std::vector<uint64_t> chosen;
  std::set<uint64_t> numbers;
  std::set<std::string_view> said;
  for (const uint64_t number : ordered) {
    if (chosen.size() >= most) break;
    const std::string& says = cases_.at(number).said;
    if (!numbers.insert(number).second) continue;
    if (Tells(says) && !said.insert(says).second) continue;
    chosen.push_back(number);
  }
  return chosen;
}

std::vector<std::vector<uint64_t>> CaseBank::Choose(const CaseQuery& query,
                                                    const CaseRequest& request) const {
  if (request.how == Retrieval::kRandom) return AtRandom(query, request);
  std::vector<uint64_t> known =
      Similar(query, request.how, std::max(kCandidates, 2 * request.cases));
  if (known.size() > kCandidates) known.resize(kCandidates);
  if (request.how == Retrieval::kNewest) {
    std::stable_sort(known.begin(), known.end(), [&](uint64_t a, uint64_t b) {
      return cases_.at(a).newest > cases_.at(b).newest;
    });
  }
  const std::vector<uint64_t> others =
      Varied(Others(query, request.how == Retrieval::kLearned), kCandidates);
  known.insert(known.end(), others.begin(), others.end());
  if (request.how == Retrieval::kLearned) return ByValue(query, request, known);
  return std::vector<std::vector<uint64_t>>(request.members, Varied(known, request.cases));
}

std::vector<std::vector<uint64_t>> CaseBank::AtRandom(const CaseQuery& query,
                                                      const CaseRequest& request) const {
  std::vector<uint64_t> all;
  for (const auto& [number, one] : cases_) {
    const bool itself = !query.not_task.empty() && one.record.id().task() == query.not_task;
    if (one.record.scope() == query.scope && !itself) all.push_back(number);
  }
  std::vector<std::vector<uint64_t>> sets;
  for (uint32_t member = 0; member < request.members; ++member) {
    std::vector<uint64_t>& some = sets.emplace_back(all);
    Random(request.seed).Split("random cases").Split(member).Shuffle(some);
    if (some.size() > request.cases) some.resize(request.cases);
  }
  return sets;
}

// A case taken to be of no use, or worse, is not shown.
std::vector<std::vector<uint64_t>> CaseBank::ByValue(const CaseQuery& query,
                                                     const CaseRequest& request,
                                                     const std::vector<uint64_t>& known) const {
  const std::vector<std::string> words = WordSet(query.prompt);
  std::vector<ShownFeatures> pairs;
  std::set<uint64_t> numbers;
  for (const uint64_t number : known) {
    if (!numbers.insert(number).second) continue;
    pairs.push_back({number, PairFeatures(words, query.key, cases_.at(number))});
  }
  std::vector<std::vector<uint64_t>> sets;
  for (uint32_t member = 0; member < request.members; ++member) {
    Random draw = Random(request.seed).Split("learned cases").Split(member);
    // The first member takes what is known to be best; the others find out.
    const bool explores = request.explore && member > 0;
    const bool thompson = options_.explore == "thompson";
    const bool at_random = explores && !thompson && draw.Chance(options_.epsilon);
    CaseValues::Draw value(values_, draw.Split("values"), explores && thompson);
    std::vector<std::pair<double, uint64_t>> worth;
    for (const ShownFeatures& pair : pairs) {
      const double one = at_random ? draw.Uniform() : value(pair.number, pair.features);
      if (one > 0) worth.emplace_back(one, pair.number);
    }
    std::stable_sort(worth.begin(), worth.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<uint64_t> ordered;
    for (const auto& [value_of, number] : worth) ordered.push_back(number);
    sets.push_back(Varied(ordered, request.cases));
  }
  return sets;
}

}  // namespace tidemill

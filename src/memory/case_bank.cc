#include "memory/case_bank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/hash.h"
#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kCandidates = 32;    // that are ordered by value or age
constexpr size_t kOpenGroups = 4096;  // whose other members are waited for
constexpr double kOldAfter = 64;      // records of the scope after which a case is old
// Near-duplicates: the same answer and verdict, and prompts that share so much of their words.
constexpr double kSameWords = 0.9;
constexpr size_t kDuplicatesLookedAt = 8;
constexpr size_t kNoteTools = 4;
constexpr size_t kFillLookedAt = 1024;
constexpr double kSimilarTask = 0.5;  // tasks of one kind
constexpr double kCommonWord = 0.5;   // a word of more than this share of the answers tells nothing

std::vector<std::string> WordSet(std::string_view text) {
  std::vector<std::string> words = WordsOf(text);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

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

void AppendNumber(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendNumber(std::string& bytes, double number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
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
  BankChange change;
  const uint64_t at = ++learned_[record.scope()];
  ++answers_;
  for (const std::string& word : WordSet(record.answer())) ++answer_words_[word];
  MarkOutdated(record, at);
  if (!record.solved() && !options_.failures) return change;
  std::vector<std::string> words = WordSet(record.prompt());
  if (const uint64_t same = options_.merge ? NearDuplicate(record, words) : 0; same != 0) {
    Case& copy = cases_.at(same);
    ++copy.copies;
    copy.newest = at;
    copy.newest_ms = record.at_ms();
    change.merged_into = same;
    return change;
  }
  texts_.Add(number, record.scope(), record.prompt());
  keys_.Add(number, record.scope(), {record.key().data(), static_cast<size_t>(record.key_size())});
  for (const std::string& word : words) ++word_cases_[word];
  cases_.emplace(number, Case{record, 1, at, record.at_ms(), 0, std::move(words)});
  change.kept = true;
  if (cases_.size() > options_.capacity) ForgetOne(change);
  return change;
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
  for (const std::string& word : cases_.at(number).words) {
    const auto it = word_cases_.find(word);
    if (--it->second == 0) word_cases_.erase(it);
  }
  texts_.Remove(number);
  keys_.Remove(number);
  values_.Forget(number);
  cases_.erase(number);
}

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
  const auto learned = learned_.find(one.record.scope());
  const double now = learned == learned_.end() ? 0 : static_cast<double>(learned->second);
  const double age = 1 - std::exp(-(now - static_cast<double>(one.newest)) / kOldAfter);
  return FeaturesOf(one.record.solved(), Similarity(words, key, one), age,
                    one.newest <= one.void_until);
}

// A right answer that a newer, similar one repeats and fails with was outdated by then, and with it
// all that was learned of such tasks before.
void CaseBank::MarkOutdated(const v1::CaseRecord& record, uint64_t at) {
  if (record.solved()) return;
  const std::vector<std::string> telling = TellingWords(record);
  if (telling.empty()) return;
  uint64_t last_right = 0;
  std::vector<uint64_t> similar;
  const std::vector<std::string> words = WordSet(record.prompt());
  const std::vector<float> key(record.key().begin(), record.key().end());
  for (const Match& match : texts_.Search(record.scope(), record.prompt(), kCandidates)) {
    const Case& one = cases_.at(match.number);
    if (Similarity(words, key, one) < kSimilarTask || one.newest >= at) continue;
    similar.push_back(match.number);
    if (one.record.solved() && TellingWords(one.record) == telling) {
      last_right = std::max(last_right, one.newest);
    }
  }
  if (last_right == 0) return;
  for (const uint64_t number : similar) {
    uint64_t& until = cases_.at(number).void_until;
    until = std::max(until, last_right);
  }
}

// What an answer says that its prompt does not, without what nearly every answer says.
std::vector<std::string> CaseBank::TellingWords(const v1::CaseRecord& record) const {
  const std::vector<std::string> asked = WordSet(record.prompt());
  std::vector<std::string> telling;
  for (std::string& word : WordSet(record.answer())) {
    if (std::binary_search(asked.begin(), asked.end(), word)) continue;
    const auto it = answer_words_.find(word);
    const double with = it == answer_words_.end() ? 0 : static_cast<double>(it->second);
    if (with <= kCommonWord * static_cast<double>(answers_)) telling.push_back(std::move(word));
  }
  return telling;
}

std::vector<uint64_t> CaseBank::Candidates(const CaseQuery& query, Retrieval how,
                                           size_t most) const {
  const bool by_key = how != Retrieval::kLexical && !query.key.empty() && keys_.size() > 0;
  const std::vector<Match> found = by_key ? keys_.Search(query.scope, query.key, most)
                                          : texts_.Search(query.scope, query.prompt, most);
  std::vector<uint64_t> numbers;
  for (const Match& match : found) {
    const Case& one = cases_.at(match.number);
    if (!query.not_task.empty() && one.record.id().task() == query.not_task) continue;
    numbers.push_back(match.number);
  }
  return numbers;
}

std::vector<std::vector<uint64_t>> CaseBank::Choose(const CaseQuery& query,
                                                    const CaseRequest& request) const {
  if (request.how == Retrieval::kRandom) return AtRandom(query, request);
  // Those of the task itself may be among the nearest.
  std::vector<uint64_t> near =
      Candidates(query, request.how, std::max(kCandidates, 2 * request.cases));
  if (near.size() > kCandidates) near.resize(kCandidates);
  if (request.how == Retrieval::kNewest) {
    std::stable_sort(near.begin(), near.end(), [&](uint64_t a, uint64_t b) {
      return cases_.at(a).newest > cases_.at(b).newest;
    });
  }
  if (request.how != Retrieval::kLearned && near.size() > request.cases) {
    near.resize(request.cases);
  }
  FillUp(query, request.cases, near);
  if (request.how == Retrieval::kLearned) return ByValue(query, request, near);
  return std::vector<std::vector<uint64_t>>(request.members, near);
}

// Places that are left go to what was right last, whatever it was about.
void CaseBank::FillUp(const CaseQuery& query, size_t most, std::vector<uint64_t>& chosen) const {
  size_t looked = 0;
  for (auto it = cases_.rbegin(); it != cases_.rend() && chosen.size() < most; ++it) {
    if (++looked > kFillLookedAt) return;
    const v1::CaseRecord& record = it->second.record;
    const bool itself = !query.not_task.empty() && record.id().task() == query.not_task;
    if (!record.solved() || record.scope() != query.scope || itself) continue;
    if (std::find(chosen.begin(), chosen.end(), it->first) == chosen.end()) {
      chosen.push_back(it->first);
    }
  }
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

// What is taken to be of no use, or worse, is not shown.
std::vector<std::vector<uint64_t>> CaseBank::ByValue(const CaseQuery& query,
                                                     const CaseRequest& request,
                                                     const std::vector<uint64_t>& near) const {
  const std::vector<std::string> words = WordSet(query.prompt);
  std::vector<ShownFeatures> pairs;
  for (const uint64_t number : near) {
    pairs.push_back({number, PairFeatures(words, query.key, cases_.at(number))});
  }
  std::vector<std::vector<uint64_t>> sets;
  for (uint32_t member = 0; member < request.members; ++member) {
    Random draw = Random(request.seed).Split("learned cases").Split(member);
    // The first member takes what is known to be best; the others find out.
    const bool explores = request.explore && member > 0;
    const bool at_random = explores && options_.epsilon >= 0 && draw.Chance(options_.epsilon);
    CaseValues::Draw value(values_, draw.Split("values"), explores && options_.epsilon < 0);
    std::vector<std::pair<double, uint64_t>> worth;
    for (const ShownFeatures& pair : pairs) {
      const double one = at_random ? draw.Uniform() : value(pair.number, pair.features);
      if (one > 0) worth.emplace_back(-one, pair.number);
    }
    std::sort(worth.begin(), worth.end());
    if (worth.size() > request.cases) worth.resize(request.cases);
    std::vector<uint64_t>& set = sets.emplace_back();
    for (const auto& [less, number] : worth) set.push_back(number);
  }
  return sets;
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
  for (const auto& [scope, count] : learned_) {
    bytes += scope;
    AppendNumber(bytes, count);
  }
  AppendNumber(bytes, static_cast<uint64_t>(open_.size()));
  return Sha256Hex(bytes);
}

}  // namespace tidemill

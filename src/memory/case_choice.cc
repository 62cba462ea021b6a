// Which cases a task is shown.
#include <algorithm>
#include <cmath>
#include <set>

#include "memory/case_bank.h"

namespace tidemill {
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

// What was right in the scope, whatever it was about, the newest first.
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

// What is taken to be of no use, or worse, is not shown.
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
    const bool at_random = explores && options_.epsilon >= 0 && draw.Chance(options_.epsilon);
    CaseValues::Draw value(values_, draw.Split("values"), explores && options_.epsilon < 0);
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

#include "bench/memory_ideal.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "testbeds/project_lessons.h"

namespace tidemill {

std::vector<std::string> AskPerfectReader(const std::vector<AskedPrompt>& asked) {
  std::vector<std::string> answers;
  for (const AskedPrompt& one : asked) {
    const std::optional<ProjectWant> want = ReadProjectPrompt(one.task.prompt());
    TM_CHECK(want, "a prompt of another family");
    // The most useful is the first of the set and the last of the prompt.
    std::vector<ProjectCase> cases;
    for (int i = one.cases.cases_size(); i-- > 0;) {
      const v1::ShownCase& shown = one.cases.cases(i);
      const std::optional<ProjectWant> about = ReadProjectPrompt(shown.prompt());
      const std::optional<ProjectCall> call = ReadProjectAnswer(shown.answer());
      if (about && call) cases.push_back({*about, call->helper, shown.solved()});
    }
    const std::vector<int> possible = PossibleHelpers(cases, want->operation);
    answers.push_back(ProjectAnswer(*want, possible[Random(one.seed).Below(possible.size())]));
  }
  return answers;
}

IdealLearner::IdealLearner() {
  ProjectBinding binding;
  std::iota(binding.begin(), binding.end(), uint8_t{0});
  do {
    possible_.push_back({binding, 1});
  } while (std::next_permutation(binding.begin(), binding.end()));
}

std::vector<int> IdealLearner::Choose(int operation, size_t members) const {
  std::array<double, kProjectHelpers> chance{};
  for (const Possible& one : possible_) {
    chance[one.binding[static_cast<size_t>(operation)]] += one.weight;
  }
  std::vector<int> order(kProjectHelpers);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return chance[static_cast<size_t>(a)] > chance[static_cast<size_t>(b)];
  });
  const double best = chance[static_cast<size_t>(order[0])];
  size_t equal = 0;
  while (equal < order.size() && chance[static_cast<size_t>(order[equal])] > best * (1 - 1e-9)) {
    ++equal;
  }
  std::vector<int> chosen;
  for (size_t i = 0; i < members; ++i) chosen.push_back(order[i % equal]);
  return chosen;
}

void IdealLearner::Learn(int operation, int helper, bool right) {
  std::erase_if(possible_, [&](const Possible& one) {
    return (one.binding[static_cast<size_t>(operation)] == helper) != right;
  });
}

void IdealLearner::Change() {
  std::map<ProjectBinding, double> after;
  for (const Possible& one : possible_) {
    std::array<size_t, kProjectHelpers> order;
    std::iota(order.begin(), order.end(), size_t{0});
    // Every rotation of four operations' helpers, each found once: the smallest stands first.
    for (size_t a = 0; a < kProjectHelpers; ++a) {
      for (size_t b = a + 1; b < kProjectHelpers; ++b) {
        for (size_t c = a + 1; c < kProjectHelpers; ++c) {
          for (size_t d = a + 1; d < kProjectHelpers; ++d) {
            if (b == c || b == d || c == d) continue;
            ProjectBinding changed = one.binding;
            changed[a] = one.binding[b];
            changed[b] = one.binding[c];
            changed[c] = one.binding[d];
            changed[d] = one.binding[a];
            after[changed] += one.weight;
          }
        }
      }
    }
  }
  possible_.clear();
  for (const auto& [binding, weight] : after) possible_.push_back({binding, weight});
}

}  // namespace tidemill

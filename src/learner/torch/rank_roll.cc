#ifdef USE_C10D_GLOO

#include "learner/torch/rank_roll.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "core/log.h"
#include "learner/torch/rank_meeting.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kGlance(10);
// One that lives answers within two glances, if its machine is not very busy.
constexpr milliseconds kAnswerLimit = std::chrono::seconds(5);

std::string Key(const char* name, int64_t number) {
  return std::string(name) + "/" + std::to_string(number);
}

void SetText(const StorePtr& store, const std::string& key, const std::string& text) {
  store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string GetText(const StorePtr& store, const std::string& key) {
  const std::vector<uint8_t> value = store->get(key);
  return {value.begin(), value.end()};
}

// Rank 0's list of those who came, by the number they drew.
class Roll {
 public:
  Roll(const StorePtr& store, const RankGroupOptions& options) : store_(store), options_(options) {}

  std::vector<RankMember> Gather() {
    const int wanted = options_.ranks - 1;
    const auto end = SteadyClock::now() + options_.join_limit;
    int64_t called_joined = 0, called_ended = -1;
    std::vector<int64_t> present;
    for (bool waiting = wanted > 0; waiting;) {
      const int64_t joined = store_->add("joined", 0), ended = Ended();
      const bool late = SteadyClock::now() >= end;
      const bool news = joined != called_joined || ended != called_ended;
      if (late || (news && joined + ended >= wanted)) {
        present = Call(joined);
        called_joined = joined, called_ended = ended;
        waiting = !late && static_cast<int64_t>(present.size()) < wanted - Ended();
      }
      if (waiting) std::this_thread::sleep_for(kGlance);
    }
    if (static_cast<int>(present.size()) > wanted) present.resize(static_cast<size_t>(wanted));
    std::vector<RankMember> members;
    std::string numbers;
    for (const int64_t number : present) {
      members.push_back(
          {GetText(store_, Key("who", number)), std::stoll(GetText(store_, Key("pid", number)))});
      numbers += std::to_string(number) + " ";
    }
    SetText(store_, "members", numbers);
    return members;
  }

 private:
  // How many of the processes that were started for this have ended; each is named once.
  int64_t Ended() {
    if (!options_.ended) return 0;
    const std::vector<std::string> ended = options_.ended();
    for (; named_ended_ < ended.size(); ++named_ended_) {
      LogWarn("a rank exited before the run started; continuing without it",
              {{"rank", ended[named_ended_]}});
    }
    return static_cast<int64_t>(ended.size());
  }

  // Those who answer now, in the order in which they came.
  std::vector<int64_t> Call(int64_t joined) {
    SetText(store_, Key("roll", ++calls_), "?");
    const auto end = SteadyClock::now() + kAnswerLimit;
    std::vector<int64_t> present;
    for (;;) {
      present.clear();
      bool all = true;
      for (int64_t number = 1; number <= joined; ++number) {
        if (store_->check({Key(("answer/" + std::to_string(calls_)).c_str(), number)})) {
          present.push_back(number);
        } else {
          all = all && silent_.count(number) != 0;
        }
      }
      if (all || SteadyClock::now() >= end) break;
      std::this_thread::sleep_for(kGlance);
    }
    for (int64_t number = 1; number <= joined; ++number) {
      if (std::find(present.begin(), present.end(), number) != present.end()) continue;
      if (silent_.insert(number).second) NameSilent(number);
    }
    return present;
  }

  // One that is known to have ended has been named already.
  void NameSilent(int64_t number) {
    std::string who = "unknown";
    if (store_->check({Key("who", number), Key("pid", number)})) {
      who = GetText(store_, Key("who", number));
      const int64_t process = std::stoll(GetText(store_, Key("pid", number)));
      if (options_.fate && !options_.fate(process).empty()) return;
    }
    LogWarn("a rank that had joined does not answer any more; continuing without it",
            {{"rank", who}});
  }

  const StorePtr& store_;
  const RankGroupOptions& options_;
  int64_t calls_ = 0;
  size_t named_ended_ = 0;
  std::set<int64_t> silent_;  // did not answer a call; nobody waits for them again
};

}  // namespace

std::vector<RankMember> CallTheRoll(const StorePtr& store, const RankGroupOptions& options) {
  return Roll(store, options).Gather();
}

Result<RankPlace> AnswerTheRoll(const StorePtr& store, const RankGroupOptions& options) {
  const int64_t number = store->add("joined", 1);
  SetText(store, Key("who", number), ThisProcess());
  SetText(store, Key("pid", number), std::to_string(getpid()));
  LogInfo("waiting for the other ranks", {{"meeting", options.meeting}});
  const auto end = SteadyClock::now() + options.join_limit;
  int64_t answered = 0;
  while (!store->check({"members"})) {
    if (SteadyClock::now() >= end) return Unavailable("rank 0 does not start the run");
    // Calls that were made before it came count as well: the last may wait for it.
    while (store->check({Key("roll", answered + 1)})) {
      ++answered;
      SetText(store, Key(("answer/" + std::to_string(answered)).c_str(), number), "here");
    }
    std::this_thread::sleep_for(kGlance);
  }
  const std::string numbers = GetText(store, "members");
  RankPlace place{0, 1};
  for (size_t begin = 0; begin < numbers.size(); begin = numbers.find(' ', begin) + 1) {
    if (std::stoll(numbers.substr(begin)) == number) place.rank = place.size;
    ++place.size;
  }
  if (place.rank > 0) return place;
  return Closed("the run already has its " + std::to_string(place.size) + " ranks");
}

}  // namespace tidemill

#endif

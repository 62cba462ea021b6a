#include "run/run_counters.h"

#include <initializer_list>

#include "run/assembly.h"

namespace tidemill {

const CounterTable& RunCounters() {
  static const CounterTable table = [] {
    const DispatcherCounters dispatcher;
    const RolloutCounters rollout;
    const ToolCounters tools;
    const RewardCounters reward;
    const ReplayCounters replay;
    const LearnerCounters learner;
    CounterTable made;
    for (const CounterSet* set : std::initializer_list<const CounterSet*>{
             &dispatcher, &rollout, &tools, &reward, &replay, &learner}) {
      for (const Counter* counter : set->all())
        made.emplace(counter->about().key, counter->about());
    }
    return made;
  }();
  return table;
}

}  // namespace tidemill

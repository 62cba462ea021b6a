#include "sim/sim_next_state.h"

#include "bus/outbox.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill::sim {

SimNextState::SimNextState(World& world, ProcessId process, MemoryBus& bus)
    : world_(world), process_(process), bus_(bus) {
  TM_CHECK(bus_.Open(kJudgeTopic, {.capacity = 1 + world_.random().Below(20)}).ok());
  world_.After(milliseconds(1), process_, [this] { Judge(); });
}

NextStateOptions SimNextState::AskedBy(int incarnation) {
  return {.judges = {"judge"}, .worker = "server" + std::to_string(incarnation)};
}

void SimNextState::Judge() {
  Random& random = world_.random();
  for (const Lease& lease : TakeFrom(bus_, kJudgeTopic, 10)) {
    v1::JudgeRequest request;
    TM_CHECK(request.ParseFromString(lease.body), "the recorder's own message");
    (void)bus_.Ack(lease);
    if (random.Chance(0.03)) {  // lost: nobody ever answers
      world_.Fault("judge's question lost");
      continue;
    }
    v1::JudgeAnswer answer;
    answer.set_request_id(request.request_id());
    answer.set_token(request.token());
    answer.set_available(random.Chance(0.8));
    if (answer.available()) {
      v1::Judgement& said = *answer.add_judgements();
      said.set_judge(request.judge());
      said.set_value(static_cast<double>(random.Below(3)) - 1);
    }
    world_.After(milliseconds(1 + random.Below(10'000)), process_,
                 [this, to = request.reply_to(), body = answer.SerializeAsString()] {
                   (void)bus_.PublishReply(to, body);
                 });
  }
  world_.After(milliseconds(1 + random.Below(4000)), process_, [this] { Judge(); });
}

}  // namespace tidemill::sim

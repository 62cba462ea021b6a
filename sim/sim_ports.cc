#include "sim/sim_ports.h"

#include <algorithm>

#include "sim/sim_agents.h"

namespace tidemill::sim {

void SimEngine::Start(SequenceStart start) {
  known_[start.id] = {.stream = start.stream, .policy = start.policy};
  Generate(start.id);
}

void SimEngine::Continue(SequenceId id, std::vector<TokenId>, TurnParams) {
  if (known_.count(id) != 0) Generate(id);
}

void SimEngine::Interrupt(SequenceId id) {
  const auto known = known_.find(id);
  if (known != known_.end()) known->second.interrupted = true;
}

uint64_t SimEngine::VersionOf(SequenceId id) const {
  PolicyId policy = known_.at(id).policy;
  if (mixes_up_ && world_.random().Chance(0.1)) {
    policy =
        PolicyId{static_cast<uint32_t>(versions_.newest.size()) - static_cast<uint32_t>(policy)};
  }
  return versions_.Newest(policy);
}

EngineEvent SimEngine::Drawn(SequenceId id, uint64_t begun_with) {
  EngineEvent event;
  event.turn.id = id;
  if (world_.random().Chance(0.005)) {
    event.status = Unavailable("the simulated engine failed");
    world_.Fault("engine failed");
    known_.erase(id);
    return event;
  }
  const uint32_t count = 1 + static_cast<uint32_t>(world_.random().Below(4));
  for (uint32_t i = 0; i < count; ++i) {
    event.turn.ids.push_back(static_cast<TokenId>(world_.random().Below(150)));
    event.turn.logprobs.push_back(-1.0f);
  }
  // Weights may have arrived in the middle of the turn.
  const uint32_t early = static_cast<uint32_t>(world_.random().Below(count + 1));
  if (early > 0) event.turn.versions.push_back({begun_with, early});
  if (early < count) event.turn.versions.push_back({VersionOf(id), count - early});
  event.turn.finish = world_.random().Chance(0.05) ? TurnFinish::kLength : TurnFinish::kStop;
  return event;
}

void SimEngine::Generate(SequenceId id) {
  const uint64_t begun_with = VersionOf(id);
  const auto duration = milliseconds(5 + static_cast<int64_t>(world_.random().LogNormal(60, 1.2)));
  world_.After(duration, process_, [this, id, begun_with] {
    if (known_.count(id) == 0) return;
    const bool stream = known_.at(id).stream;
    EngineEvent event = Drawn(id, begun_with);
    if (!stream) return events_.Post(std::move(event));
    if (event.status.ok()) {
      known_.at(id).interrupted = false;
      return Tell(std::move(event.turn), 0);
    }
    TurnDelta failed;
    failed.part.id = id;
    failed.status = event.status;
    std::vector<TurnDelta> deltas;
    deltas.push_back(std::move(failed));
    episode_feed_.Post(std::move(deltas));
  });
}

void SimEngine::Tell(TurnOutput turn, size_t at) {
  const auto known = known_.find(turn.id);
  if (known == known_.end()) return;
  TurnDelta delta;
  delta.part.id = turn.id;
  delta.part.ids = {turn.ids[at]};
  delta.part.logprobs = {turn.logprobs[at]};
  uint32_t before = 0;
  for (const TokenVersionRun& run : turn.versions) {
    if (at >= before && at < before + run.tokens) delta.part.versions = {{run.version, 1}};
    before += run.tokens;
  }
  const bool last = at + 1 == turn.ids.size();
  delta.done = last || known->second.interrupted;
  delta.part.finish = last ? turn.finish : TurnFinish::kInterrupted;
  const bool done = delta.done;
  std::vector<TurnDelta> deltas;
  deltas.push_back(std::move(delta));
  episode_feed_.Post(std::move(deltas));
  if (done) return;
  world_.After(milliseconds(1 + world_.random().Below(40)), process_,
               [this, turn = std::move(turn), at] { Tell(turn, at + 1); });
}

namespace {

// What a turn means that ends with this token, in the talk of this number.
ParsedTurn MeaningOf(TokenId last, uint64_t talk) {
  const std::string of = talk > 0 ? "\"of\":" + std::to_string(talk) : "";
  const std::string mine = "{" + of + "}";
  ParsedTurn turn;
  if (last < 95)
    turn.answer = "x" + std::to_string(last);
  else if (last < 105)
    turn.calls = {{"run_tests", R"({"background":true)" + (of.empty() ? "" : "," + of) + "}"}};
  else if (last < 108)
    turn.calls = {{"wait", "{}"}};
  else if (last < 110)
    turn.calls = {{"cancel", R"({"handles":["b1"]})"}, {"jobs", "{}"}};
  else if (last < 120)
    turn.calls = {{"compile", mine}};
  else if (last < 140)
    turn.calls = {{"write_file", mine}, {"compile", mine}, {"lint", mine}};
  else
    turn.malformed = "nonsense";
  return turn;
}

class SimWatch final : public TurnWatch {
 public:
  explicit SimWatch(uint64_t talk) : talk_(talk) {}
  std::vector<RequestedCall> Push(std::span<const TokenId> ids) override {
    std::vector<RequestedCall> found;
    for (const TokenId id : ids) {
      for (RequestedCall& call : MeaningOf(id, talk_).calls) found.push_back(std::move(call));
    }
    called_ = called_ || !found.empty();
    return found;
  }
  bool called() const override { return called_; }

 private:
  const uint64_t talk_;
  bool called_ = false;
};

}  // namespace

ParsedTurn SimTalk::Parse(std::span<const TokenId> ids) {
  return MeaningOf(ids.back(), number_);
}

std::unique_ptr<TurnWatch> SimTalk::Watch() {
  return std::make_unique<SimWatch>(number_);
}

// The trainer does one thing after the other.
void SimTrainer::Later(Duration duration, std::function<void()> what) {
  busy_until_ = std::max(busy_until_, world_.clock().Now()) + duration;
  world_.At(busy_until_, process_, std::move(what));
}

void SimTrainer::Train(v1::Batch batch) {
  CheckBatch(batch);
  const uint64_t step = batch.step();
  Later(milliseconds(20 + static_cast<int64_t>(world_.random().LogNormal(100, 0.8))), [this, step] {
    world_.Trace("step " + std::to_string(step + 1) + " trained");
    events_.Post(TrainDone{step, Ok(), {{"loss", 0.5}, {"tokens", 10}}});
  });
}

void SimTrainer::CheckBatch(const v1::Batch& batch) {
  uint32_t slots = 0;
  std::set<uint64_t> groups;
  for (const v1::Sample& sample : batch.samples()) {
    const v1::Trajectory& trajectory = sample.trajectory();
    if (groups.insert(trajectory.id().group()).second) slots += trajectory.group_members();
    if (trajectory.end() == v1::EPISODE_END_GIVEN_UP) {
      world_.verdict().Fail("an episode of which a part of ours failed reached a loss");
    }
    CheckBearable(sample);
    if (checks_.teacher) CheckTaught(sample);
    if (!sample.verdict().scored())
      world_.verdict().Fail("an episode without a score reached a loss");
    for (const v1::RewardPart& part : sample.verdict().parts()) {
      if (checks_.forgeries->Touched(trajectory.id().group())) continue;
      if (part.scorer() == "command" && part.value() == 0)
        world_.verdict().Fail("a scorer that could not be reached became a zero in a loss");
      for (const v1::Judgement& judgement : part.judgements()) {
        for (const v1::JudgeVote& vote : judgement.votes()) {
          if (vote.valid() && vote.value() == 0)
            world_.verdict().Fail("a judge's vote that failed became a zero in a loss");
        }
      }
    }
    const bool touched = checks_.forgeries->Touched(trajectory.id().group());
    for (const v1::Turn& turn : trajectory.turns()) {
      CheckTurn(turn, batch.step(), touched);
      if (turn.role() == sample.role() || touched) continue;
      world_.verdict().Fail("a turn of another role than its sample's reached a loss");
    }
  }
  if (slots != checks_.batch_episodes) {
    world_.verdict().Fail("a batch stands for " + std::to_string(slots) + " episodes, not " +
                          std::to_string(checks_.batch_episodes));
  }
}

void SimTrainer::CheckTurn(const v1::Turn& turn, uint64_t step, bool touched) {
  const bool lost = turn.ids_size() > 0 && turn.ids(0) == kLostAgentToken;
  if (checks_.agents && lost && !touched) {
    world_.verdict().Fail("an agent's episode whose box was lost reached a loss");
  }
  const auto drew = checks_.policies.Find(turn.policy());
  if (!drew.ok() || *drew != policy_) {
    world_.verdict().Fail("a turn of the policy \"" + turn.policy() + "\" was trained under \"" +
                          checks_.policies.NameOf(policy_) + "\"");
  }
  for (const v1::VersionRun& run : turn.versions()) {
    const auto made = versions_.made.find(run.version());
    if (made == versions_.made.end()) {
      // One that was reserved before a crash and not published: replay cannot know.
      if (touched) continue;
      world_.verdict().Fail("a token has a version that was never published");
      continue;
    }
    if (made->second.policy != policy_) {
      world_.verdict().Fail("a token of another policy's version reached a loss");
    }
    const uint64_t published = made->second.step;
    if (!run.masked() && step > published + checks_.hard_max_steps) {
      world_.verdict().Fail("a token with a lag of " + std::to_string(step - published) +
                            " steps reached a loss; at most " +
                            std::to_string(checks_.hard_max_steps) + " are allowed");
    }
  }
}

// Every token has the score its teacher gave it, and no other's.
void SimTrainer::CheckTaught(const v1::Sample& sample) {
  const v1::Trajectory& trajectory = sample.trajectory();
  std::vector<bool> taught(static_cast<size_t>(trajectory.turns_size()));
  for (const v1::TurnScores& scores : sample.teacher()) {
    taught.at(scores.turn()) = true;
    const v1::Turn& turn = trajectory.turns(static_cast<int>(scores.turn()));
    for (int i = 0; i < turn.ids_size(); ++i) {
      if (scores.logprobs_size() == turn.ids_size() &&
          scores.logprobs(i) == SimTeacherScore(turn.ids(i))) {
        continue;
      }
      world_.verdict().Fail("a score that the teacher did not give reached a loss");
    }
  }
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    if (trajectory.turns(t).ids_size() > 0 && !taught[static_cast<size_t>(t)])
      world_.verdict().Fail("an episode without its teacher's scores reached a loss");
  }
}

// A forger may spoil the groups it had a hand in, within what a loss can bear.
void SimTrainer::CheckBearable(const v1::Sample& sample) {
  const Status bearable = CheckMessage(sample, SimLimits());
  if (!bearable.ok()) {
    world_.verdict().Fail("what no loss can bear reached one: " + bearable.message());
  }
}

void SimTrainer::Publish(uint64_t version, uint64_t step) {
  Later(milliseconds(1 + world_.random().Below(30)), [this, version, step] {
    if (!versions_.Add(policy_, version, step)) {
      world_.verdict().Fail("version " + std::to_string(version) + " was published twice");
    }
    world_.Trace("version " + std::to_string(version) + " published (step " + std::to_string(step) +
                 ")");
    events_.Post(PublishDone{version, Ok(), 0.01});
  });
}

// Written while later steps train; the next waits for it, and the trainer with it.
void SimTrainer::Checkpoint(CheckpointRequest request) {
  const bool fails = world_.random().Chance(0.05);
  if (fails) world_.Fault("checkpoint not written");
  busy_until_ = std::max({busy_until_, writing_until_, world_.clock().Now()});
  writing_until_ = busy_until_ + milliseconds(10 + world_.random().Below(1000));
  world_.At(writing_until_, process_, [this, request, fails] {
    events_.Post(CheckpointDone{request.step, request.version, request.path,
                                fails ? Unavailable("the simulated disk is full") : Ok(), 0.1,
                                0.01});
  });
}

}  // namespace tidemill::sim

// From one checkpoint the next steps are the same to the last bit, whether the run went on or was
// killed and resumed.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/fixed_order_line.h"
#include "tests/line_fixture.h"

namespace tidemill {

FixedOrderLine::FixedOrderLine(const RunConfig& config, const std::string& folder, ToolPort& tools)
    : tasks_(ReadTaskFile(config.tasks.train).value()),
      tokenizer_(Tokenizer::Read(config.model.path).value()) {
  book_.Add(tasks_);
  std::string warning;
  protocol_ =
      NewProtocol(config.model.protocol, tokenizer_, config.model.path, {}, &warning).value();
  std::filesystem::create_directories(folder + "/checkpoints");
  db_ = RunDb::Open(folder + "/run.db", clock_).value();
  ResumeState resumed = db_->LoadForResume(config.replay.max_uses).value();
  const uint64_t step = resumed.checkpoint ? resumed.checkpoint->step : 0;
  const std::string checkpoint = resumed.checkpoint ? resumed.checkpoint->path : "";
  TM_CHECK(db_->ResumeFrom(step).ok());
  resumed = db_->LoadForResume(config.replay.max_uses).value();
  const StoreOp reserve = ReserveVersion{step};
  const StoreOp* ops[] = {&reserve};
  const uint64_t version = db_->Apply(ops).value().at(0).version;
  for (int i = 0; i < 3; ++i) stores_.push_back(std::make_unique<DirectStore>(*db_));
  TM_CHECK(OpenStandardTopics(bus_, {}).ok());

  auto weights = LoadStartWeights(config, checkpoint).value();
  auto engine = NewEngine(weights, version, {}).value();
  max_context_ = engine->max_context();
  engine_ = std::make_unique<StepwiseEngine>(std::move(engine), *channel_, version);
  auto trainer = NewTrainer(config, {.weights = weights,
                                     .checkpoint = checkpoint,
                                     .version = version,
                                     .step = step,
                                     .threads = 1});
  TM_CHECK(trainer.ok(), trainer.status().message());
  trainer_ = std::make_unique<StepwiseTrainer>(std::move(*trainer), *channel_, clock_);
  MakeLoops(config, folder, tools, step, version, std::move(resumed));
}

void FixedOrderLine::MakeLoops(const RunConfig& config, const std::string& folder, ToolPort& tools,
                               uint64_t step, uint64_t version, ResumeState resumed) {
  DispatcherOptions dispatch;
  dispatch.gate = {.max_in_flight = config.rollout.max_in_flight,
                   .batch_episodes = config.batch_episodes(),
                   .staleness_max_steps = 0,
                   .uses_per_episode = 1};
  dispatch.group_size = config.rollout.group_size;
  dispatch.seed = config.run.seed;
  dispatch.sampling.set_temperature(1);
  dispatch.sampling.set_max_turn_tokens(config.rollout.max_turn_tokens);
  dispatch.max_turns = config.rollout.max_turns;
  dispatch.steps_done = step;
  AddResumed(resumed, dispatch);
  TaskOrder order = TaskOrder::Make(tasks_, {}, config.run.seed).value();
  if (!resumed.cursor.empty()) TM_CHECK(order.Seek(resumed.cursor).ok());
  loops_.push_back(std::make_unique<Dispatcher>(bus_, *stores_[0], clock_, journal_, tasks_,
                                                no_tasks_, std::move(order), std::move(dispatch)));
  RolloutOptions rollout;
  rollout.max_episodes = config.rollout.max_in_flight;
  rollout.max_context = max_context_;
  loops_.push_back(std::make_unique<RolloutLoop>(bus_, *engine_, *protocol_, clock_, rollout));
  loops_.push_back(std::make_unique<ToolLoop>(bus_, tools, clock_, ToolLoopOptions{}));
  RewardParts reward = MakeReward(config).value();
  loops_.push_back(
      std::make_unique<RewardLoop>(bus_, clock_, std::move(reward.scorers), reward.options));
  ReplayOptions replay;
  replay.staleness = {config.staleness.hard_max_steps, 0, false};
  replay.drop_zero_variance = false;
  replay.versions = {resumed.versions.begin(), resumed.versions.end()};
  replay.versions[version] = step;
  loops_.push_back(std::make_unique<ReplayLoop>(bus_, *stores_[1], clock_, journal_, book_, replay,
                                                TakeSamples(resumed)));
  LearnerOptions learner;
  learner.max_steps = config.run.steps;
  learner.batch_episodes = config.batch_episodes();
  learner.prefetch = false;
  learner.checkpoint_every_steps = config.learner.checkpoint_every_steps;
  learner.checkpoint_folder = folder + "/checkpoints";
  learner.steps_done = step;
  learner.version = version;
  auto loop = std::make_unique<LearnerLoop>(bus_, *stores_[2], *trainer_, journal_, learner);
  learner_ = loop.get();
  loops_.push_back(std::move(loop));
  for (auto& one : loops_) one->Attach(waker_);
}

void FixedOrderLine::Run(uint64_t steps, uint64_t more) {
  const auto round = [&] {
    for (auto& loop : loops_) loop->Step(clock_.Now());
    engine_->Step();
    clock_.Advance(milliseconds(1));
    bus_.Poll();
  };
  uint64_t rounds = 0;
  while (learner_->counters().steps < steps) {
    round();
    ++rounds;
    TM_CHECK(rounds < 1'000'000, "the line stands still");
  }
  for (uint64_t i = 0; i < more; ++i) round();
}

namespace {

namespace fs = std::filesystem;

std::string Bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class ResumeIdentity : public LineTest {
 protected:
  static RunConfig Config() {
    RunConfig config;
    config.run.steps = 10;
    config.run.seed = 5;
    config.model.path = folder_ + "/model";
    config.model.protocol = "compact";
    config.tasks.train = folder_ + "/train.jsonl";
    config.rollout.group_size = 4;
    config.rollout.groups_per_step = 3;
    config.rollout.max_in_flight = 64;
    config.rollout.max_turns = 2;
    config.rollout.max_turn_tokens = 8;
    config.learner.learning_rate = 0.001;
    config.learner.options = {"entropy_coefficient=0.01"};
    config.learner.checkpoint_every_steps = 5;
    config.learner.minibatches = 2;
    config.learner.credit = "state";
    config.reward.weights = {{"tests", 1.0}, {"format", 0.1}, {"length", 0.1}};
    return config;
  }
};

TEST_F(ResumeIdentity, TheNextFiveStepsAreTheSameToTheBitAfterAKillAtAnyPoint) {
  RealClock clock;
  auto executor = ToolExecutor::Create({}, nullptr, clock);
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  RecordedTools::Records records;
  const RunConfig config = Config();
  const std::string whole = folder_ + "/identity-whole";
  {
    RecordedTools tools(records, **executor);
    FixedOrderLine line(config, whole, tools);
    line.Run(10, 50);
    ASSERT_TRUE(line.done());
    EXPECT_GT(tools.recorded, 0u);
  }
  auto expected = RunReader::Open(whole + "/run.db").value()->Steps(5, 10).value();
  ASSERT_EQ(expected.size(), 5u);
  // Right after the checkpoint, and while step 6 generates. After later steps their finished
  // episodes are kept and used again, drawn from weights that this line has not seen: nothing is
  // lost, but the steps are others.
  const std::pair<uint64_t, uint64_t> kills[] = {{5, 4}, {5, 17}};
  for (const auto& [steps, more] : kills) {
    const std::string killed = folder_ + "/identity-" + std::to_string(steps * 100 + more);
    RecordedTools tools(records, **executor);
    FixedOrderLine(config, killed, tools).Run(steps, more);
    FixedOrderLine again(config, killed, tools);
    again.Run(10, 50);
    ASSERT_TRUE(again.done());
    EXPECT_EQ(tools.recorded, 0u) << "every tool result was recorded";
    const fs::path last = "checkpoints/step-00000010";
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(whole) / last)) {
      if (entry.path().extension() != ".safetensors") continue;
      ++files;
      EXPECT_TRUE(Bytes(entry.path()) == Bytes(fs::path(killed) / last / entry.path().filename()))
          << entry.path().filename() << " differs, killed at step " << steps << " + " << more;
    }
    EXPECT_GE(files, 2u) << "weights and optimizer";
    const auto steps_again = RunReader::Open(killed + "/run.db").value()->Steps(5, 10).value();
    ASSERT_EQ(steps_again.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      const auto before = nlohmann::json::parse(expected[i].metrics_json);
      const auto after = nlohmann::json::parse(steps_again[i].metrics_json);
      for (const char* key : {"loss", "grad_norm", "reward", "entropy", "tokens", "lag_max"})
        EXPECT_EQ(before.at(key), after.at(key)) << key << " of step " << expected[i].step;
    }
  }
}

}  // namespace
}  // namespace tidemill

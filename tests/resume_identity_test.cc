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
  protocol_ = NewProtocol(config.model.protocol, tokenizer_, config.model.path, {}).value();
  std::filesystem::create_directories(folder + "/checkpoints");
  db_ = RunDb::Open(folder + "/run.db", clock_).value();
  ResumeState resumed = db_->LoadForResume(config.replay.max_uses).value();
  const uint64_t step = resumed.checkpoint ? resumed.checkpoint->step : 0;
  const std::string checkpoint = resumed.checkpoint ? folder + "/" + resumed.checkpoint->path : "";
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
  trainer_ = std::make_unique<StepwiseTrainer>(std::move(*trainer), *channel_);
  MakeLoops(config, folder, tools, step, version, std::move(resumed));
}

void FixedOrderLine::MakeLoops(RunConfig config, const std::string& folder, ToolPort& tools,
                               uint64_t step, uint64_t version, ResumeState resumed) {
  config.run.mode = "sync";
  config.eval.before = config.eval.after = false;
  config.replay.drop_zero_variance = false;
  RunStart start{.step = step,
                 .version = version,
                 .checkpoints = folder + "/checkpoints",
                 .max_context = max_context_,
                 .resumed = std::move(resumed)};
  Ports ports;
  ports.clock = &clock_;
  ports.journal = &journal_;
  ports.bus = &bus_;
  ports.dispatcher_store = stores_[0].get();
  ports.replay_store = stores_[1].get();
  ports.learner_store = stores_[2].get();
  ports.trainer = trainer_.get();
  ports.train_tasks = &tasks_;
  ports.eval_tasks = &no_tasks_;
  ports.book = &book_;
  ports.engine = engine_.get();
  ports.protocol = protocol_.get();
  ports.tools = &tools;
  LoopOptions options = LoopOptionsFrom(config, start).value();
  loops_ = Assemble(config, Roles::All(), ports, std::move(options), start.resumed).value();
  for (Loop* loop : loops_.all()) loop->Attach(waker_);
}

void FixedOrderLine::Run(uint64_t steps, uint64_t more) {
  const auto round = [&] {
    for (Loop* loop : loops_.all()) loop->Step(clock_.Now());
    engine_->Step();
    clock_.Advance(milliseconds(1));
    bus_.Poll();
  };
  uint64_t rounds = 0;
  while (loops_.learner->counters().steps < steps) {
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

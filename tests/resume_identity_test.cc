// From one checkpoint the next steps are the same to the last bit, whether the run went on or was
// killed and resumed.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "run/teams.h"
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
  RunStart start{.checkpoints = folder + "/checkpoints"};
  start.resumed = db_->LoadForResume(UsesOfAll(config)).value();
  if (start.resumed.checkpoint) start.step = start.resumed.checkpoint->step;
  TM_CHECK(db_->ResumeFrom(start.step).ok());
  start.resumed = db_->LoadForResume(UsesOfAll(config)).value();
  start.version = Reserve(start.step, {"", start.resumed.policy_steps[""]});
  for (int i = 0; i < 3; ++i) stores_.push_back(std::make_unique<DirectStore>(*db_));
  TM_CHECK(OpenStandardTopics(bus_, {}).ok());
  MakeTrainers(config, folder, start);
  MakeLoops(config, tools, std::move(start));
}

uint64_t FixedOrderLine::Reserve(uint64_t step, PolicyStep of) {
  const StoreOp reserve = ReserveVersion{step, std::move(of)};
  const StoreOp* ops[] = {&reserve};
  return db_->Apply(ops).value().at(0).version;
}

void FixedOrderLine::MakeTrainers(const RunConfig& config, const std::string& folder,
                                  RunStart& start) {
  const std::vector<RunPolicy> policies = PoliciesOf(config);
  const auto checkpoint_of = [&](const RunPolicy& policy) {
    const uint64_t step = start.resumed.policy_steps[policy.name];
    if (step == 0) return std::string();
    const std::string number = std::to_string(step);
    return CheckpointsOf(policy, folder + "/checkpoints") + "/step-" +
           std::string(8 - number.size(), '0') + number;
  };
  const bool main = policies.front().id == PolicyId::kMain;
  const auto base =
      LoadStartWeights(MainPolicyConfig(config), main ? checkpoint_of(policies.front()) : "")
          .value();
  EngineOptions options;
  options.adapters = static_cast<int32_t>(config.policies.size());
  options.adapter_rank = 64;
  auto engine = NewEngine(base, start.version, options).value();
  max_context_ = engine->max_context();
  engine_ = std::make_unique<StepwiseEngine>(std::move(engine), *channel_, start.version);
  for (const RunPolicy& policy : policies) {
    const std::string checkpoint = checkpoint_of(policy);
    PolicyStart begin{policy.id, start.resumed.policy_steps[policy.name], start.version};
    WeightChannel* channel = channel_.get();
    std::shared_ptr<const PolicyWeights> weights = base;
    if (policy.id != PolicyId::kMain) {
      begin.version = Reserve(start.step, {policy.name, begin.step});
      weights = LoadStartWeights(policy.config, checkpoint, base).value();
      channels_.push_back(std::make_unique<PolicyChannel>(*engine_, policy.id));
      channel = channels_.back().get();
      TM_CHECK(channel->Publish({begin.version, begin.step, weights}).ok());
    }
    if (!config.policies.empty()) start.policies.push_back(begin);
    auto trainer = NewTrainer(policy.config, {.weights = weights,
                                              .checkpoint = checkpoint,
                                              .version = begin.version,
                                              .step = begin.step,
                                              .threads = 1});
    TM_CHECK(trainer.ok(), trainer.status().message());
    trainers_[policy.id] = std::make_unique<StepwiseTrainer>(std::move(*trainer), *channel);
  }
}

void FixedOrderLine::MakeLoops(RunConfig config, ToolPort& tools, RunStart start) {
  config.run.mode = "sync";
  config.eval.before = config.eval.after = false;
  config.replay.drop_zero_variance = false;
  start.max_context = max_context_;
  Ports ports;
  ports.clock = &clock_;
  ports.journal = &journal_;
  ports.bus = &bus_;
  ports.dispatcher_store = stores_[0].get();
  ports.replay_store = stores_[1].get();
  ports.learner_store = stores_[2].get();
  for (auto& [policy, trainer] : trainers_) ports.trainers[policy] = trainer.get();
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

std::string FixedOrderLine::Figures() const {
  std::string text;
  for (const CounterSet* set : loops_.counters()) {
    for (const Counter* counter : set->all()) {
      if (counter->load() == 0) continue;
      text += std::string(counter->about().key) + " " + std::to_string(counter->load()) + ", ";
    }
  }
  return text;
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
    TM_CHECK(rounds < 100'000, "the line stands still: " + Figures());
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

// Whose checkpoints these are, compared file by file.
void ExpectSameCheckpoint(const fs::path& one, const fs::path& other) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(one)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    EXPECT_TRUE(Bytes(entry.path()) == Bytes(other / entry.path().filename()))
        << entry.path().filename() << " of " << other << " differs";
  }
  EXPECT_GE(files, 2u) << "weights and optimizer of " << one;
}

TEST_F(ResumeIdentity, ATeamOfOneEqualsThePolicyAloneToTheBit) {
  RealClock clock;
  auto executor = ToolExecutor::Create({}, nullptr, clock);
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  RecordedTools::Records records;
  RunConfig alone = Config();
  alone.run.steps = 5;
  alone.learner.lora_rank = 4;
  RunConfig team = alone;
  team.policies = {{.name = "solo"}};
  RunConfig role = team;
  role.team = {.kind = "chain", .roles = {"coder"}};
  role.roles = {{.name = "coder", .policy = "solo"}};
  for (const auto& [config, name] :
       {std::pair{&alone, "alone"}, std::pair{&team, "team"}, std::pair{&role, "role"}}) {
    RecordedTools tools(records, **executor);
    FixedOrderLine line(*config, folder_ + "/" + name, tools);
    line.Run(5, 50);
    ASSERT_TRUE(line.done()) << name;
  }
  const std::string last = "step-00000005";
  ExpectSameCheckpoint(folder_ + "/alone/checkpoints/" + last,
                       folder_ + "/team/checkpoints/solo/" + last);
  ExpectSameCheckpoint(folder_ + "/alone/checkpoints/" + last,
                       folder_ + "/role/checkpoints/solo/" + last);
}
TEST_F(ResumeIdentity, TwoPoliciesGoOnTogetherAfterAKill) {
  RealClock clock;
  auto executor = ToolExecutor::Create({}, nullptr, clock);
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  RecordedTools::Records records;
  RunConfig config = Config();
  config.run.steps = 4;
  config.learner.lora_rank = 4;
  config.learner.checkpoint_every_steps = 2;
  config.policies = {{.name = "coder"}, {.name = "planner", .rank = 2, .learning_rate = 0.003}};
  const std::string whole = folder_ + "/two-whole", killed = folder_ + "/two-killed";
  {
    RecordedTools tools(records, **executor);
    FixedOrderLine line(config, whole, tools);
    line.Run(8, 50);
    ASSERT_TRUE(line.done());
  }
  RecordedTools tools(records, **executor);
  // Two steps of each, and until the checkpoint of both is in the database; not until the next step
  // has taken episodes, which would then be kept.
  FixedOrderLine(config, killed, tools).Run(4, 9);
  RecordedTools tools_again(records, **executor);  // what the killed one was owed is gone
  FixedOrderLine again(config, killed, tools_again);
  again.Run(8, 50);
  ASSERT_TRUE(again.done());
  for (const std::string& run : {whole, killed}) {
    const auto steps = RunReader::Open(run + "/run.db").value()->OwnedSteps().value();
    std::map<std::string, uint64_t> own;
    for (const OwnedStep& step : steps) EXPECT_EQ(step.policy_step, ++own[step.policy]);
    EXPECT_EQ(own, (std::map<std::string, uint64_t>{{"coder", 4}, {"planner", 4}})) << run;
  }
  for (const std::string policy : {"coder", "planner"}) {
    const std::string last = "/checkpoints/" + policy + "/step-00000004";
    ExpectSameCheckpoint(whole + last, killed + last);
  }
}

}  // namespace
}  // namespace tidemill

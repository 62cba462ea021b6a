#include "tinker/model_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/test_kit.h"
#include "tinker/wire_numbers.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// A model is a number, its gradient another: a pass adds the number of rows, a step subtracts.
class NumberModels final : public ModelsPort {
 public:
  struct Number {
    double value = 0, gradient = 0;
  };

  void Begin() override {}
  Status Make(const std::string& model, const BaseModel&, const AdapterShape& shape) override {
    models_[model] = {static_cast<double>(shape.rank), 0};
    return Ok();
  }
  Status Load(const std::string& model, const BaseModel&, const std::string& folder,
              bool) override {
    std::ifstream file(folder + "/number");
    if (!(file >> models_[model].value)) return Corrupt(folder);
    ++loads;
    return Ok();
  }
  bool Has(const std::string& model) const override { return models_.contains(model); }
  size_t count() const override { return models_.size(); }
  void Drop(const std::string& model) override { models_.erase(model); }
  Result<TokenLossResult> Pass(const std::string& model, const TrainAsk& ask) override {
    if (ask.rows[0].ids[0] == 13) return Internal("out of memory");
    if (ask.gradients) models_.at(model).gradient += static_cast<double>(ask.rows.size());
    return TokenLossResult{.loss = 1, .logprobs = {{-1}}};
  }
  Result<double> Step(const std::string& model, const AdamRates&) override {
    Number& number = models_.at(model);
    number.value -= number.gradient;
    return std::exchange(number.gradient, 0);
  }
  void ClearGradient(const std::string& model) override { models_.at(model).gradient = 0; }
  Status Save(const std::string& model, const std::string& folder, bool) override {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/number") << models_.at(model).value;
    return Ok();
  }
  Result<std::shared_ptr<const Weights>> Snapshot(const std::string&) override {
    return std::shared_ptr<const Weights>();
  }
  Result<std::shared_ptr<const Weights>> ReadSampler(const BaseModel&,
                                                     const std::string&) override {
    return NotFound("not asked here");
  }
  Result<PromptScores> Score(const BaseModel&, std::shared_ptr<const Weights>,
                             const std::vector<TokenId>&, uint32_t) override {
    return NotFound("not asked here");
  }

  double ValueOf(const std::string& model) const { return models_.at(model).value; }
  int loads = 0;

 private:
  std::map<std::string, Number> models_;
};

std::string TrainBytes(int32_t token, bool forward_only = false) {
  tinker::ForwardBackwardRequest request;
  request.set_loss_fn("cross_entropy");
  request.set_forward_only(forward_only);
  auto& datum = *request.add_data();
  datum.add_model_input()->mutable_encoded_text()->set_tokens(
      ToWireBytes(std::vector<int32_t>{token}));
  auto& inputs = *datum.mutable_loss_fn_inputs();
  inputs["target_tokens"].set_dtype(tinker::INT64);
  inputs["target_tokens"].set_dense(ToWireBytes(std::vector<int64_t>{1}));
  inputs["weights"].set_dtype(tinker::FLOAT32);
  inputs["weights"].set_dense(ToWireBytes(std::vector<float>{1}));
  return request.SerializeAsString();
}

constexpr const char* kStepText = R"({"adam_params": {"learning_rate": 0.1}})";

// A worker that can be killed: what it had in memory goes, books and folders stay.
class ModelWorkerTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override { Kill(); }

  void Open() {
    books_ = std::move(*Books::Open(TinkerFolders(folder_.path()).Books()));
    queue_.emplace(64);
    models_ = std::make_unique<NumberModels>();
    WorkerOptions options{TinkerFolders(folder_.path())};
    options.bases["base"] = BaseModel{.name = "base"};
    options.save_every = save_every_;
    options.models_max = models_max_;
    options.on_done = [this](const std::string&, uint64_t) { done_.Wake(); };
    options.on_inflight = [](const ModelRow&, std::shared_ptr<const Weights>) {};
    const auto living = *books_->LivingModels();
    for (const ModelRow& model : living) {
      const Books::Waiting waiting = *books_->WaitingOps(model.id);
      queue_->AddModel(model.id, waiting.next);
      for (const uint64_t seq : waiting.seqs) queue_->Add(model.id, seq);
    }
    worker_ = std::make_unique<ModelWorker>(*books_, *queue_, *models_, clock_, std::move(options));
  }
  void Kill() {
    worker_.reset();
    books_.reset();
  }
  std::string MakeModel(int number) {
    const std::string session =
        *books_->MakeSession({.tenant = "t", .metadata = "{}"}, "key" + std::to_string(number));
    ModelRow row{.id = session + ":train:0", .session = session, .tenant = "t", .base = "base"};
    row.rank = 100;
    row.metadata = "{}";
    EXPECT_TRUE(*books_->AddModel(row, ""));
    queue_->AddModel(row.id, 0);
    queue_->Add(row.id, 0);
    return row.id;
  }
  void Put(const std::string& model, uint64_t seq, OpKind kind, const std::string& body) {
    EXPECT_TRUE(books_->AddOp({.model = model, .seq = seq, .kind = kind, .body = body}).ok());
    queue_->Add(model, seq);
  }
  OpResult Outcome(const std::string& model, uint64_t seq) {
    EXPECT_TRUE(Eventually([&] {
      const auto result = *books_->ResultOf(model, seq);
      return result && result->done;
    })) << model
        << " " << seq;
    return **books_->ResultOf(model, seq);
  }

  TemporaryDirectory folder_;
  VirtualClock clock_;
  Duration save_every_ = std::chrono::hours(1);
  size_t models_max_ = 8;
  Bell done_;
  std::unique_ptr<Books> books_;
  std::optional<OpQueue> queue_;
  std::unique_ptr<NumberModels> models_;
  std::unique_ptr<ModelWorker> worker_;
};

TEST_F(ModelWorkerTest, WhatWasDoneSinceTheLastStateIsDoneAgainAfterAKill) {
  const std::string model = MakeModel(1);
  Put(model, 1, OpKind::kTrain, TrainBytes(1));
  Put(model, 2, OpKind::kTrain, TrainBytes(2, /*forward_only=*/true));
  Put(model, 3, OpKind::kStep, kStepText);
  Put(model, 4, OpKind::kTrain, TrainBytes(1));
  EXPECT_FALSE(Outcome(model, 4).failed);
  const std::string step = Outcome(model, 3).body;
  Kill();
  Open();
  Put(model, 5, OpKind::kTrain, TrainBytes(1));
  Put(model, 6, OpKind::kStep, kStepText);
  EXPECT_THAT(Outcome(model, 6).body,
              HasSubstr("2.0"));            // both passes, the one before the kill too
  EXPECT_EQ(Outcome(model, 3).body, step);  // results are what they were
  Put(model, 7, OpKind::kSave, R"({"path": "a"})");
  EXPECT_THAT(Outcome(model, 7).body, HasSubstr("tinker://" + model + "/weights/a"));
  EXPECT_EQ(models_->ValueOf(model), 100 - 1 - 2);
}

TEST_F(ModelWorkerTest, AStateIsSavedSoThatLittleIsDoneAgain) {
  Kill();
  save_every_ = Duration(0);
  Open();
  const std::string model = MakeModel(1);
  Put(model, 1, OpKind::kTrain, TrainBytes(1));
  Put(model, 2, OpKind::kStep, kStepText);
  Put(model, 3, OpKind::kTrain, TrainBytes(1));
  (void)Outcome(model, 3);
  EXPECT_EQ(books_->Model(model).value()->saved_seq, 2);
  EXPECT_EQ(books_->Op(model, 1).value()->body, "");
  Kill();
  Open();
  Put(model, 4, OpKind::kStep, kStepText);
  (void)Outcome(model, 4);
  Kill();
  EXPECT_EQ(models_->loads, 1);
  EXPECT_EQ(models_->ValueOf(model), 98);
}

TEST_F(ModelWorkerTest, NoStepIsTakenOnHalfAGradient) {
  const std::string model = MakeModel(1);
  Put(model, 1, OpKind::kTrain, TrainBytes(1));
  Put(model, 2, OpKind::kTrain, TrainBytes(13));  // fails
  Put(model, 3, OpKind::kTrain, TrainBytes(1));
  Put(model, 4, OpKind::kStep, kStepText);
  EXPECT_THAT(Outcome(model, 2).body, HasSubstr("server"));
  EXPECT_THAT(Outcome(model, 4).body, HasSubstr("operation 2 failed"));
  Put(model, 5, OpKind::kTrain, TrainBytes(1));
  Kill();  // also not after one
  Open();
  Put(model, 6, OpKind::kStep, kStepText);
  EXPECT_THAT(Outcome(model, 6).body, HasSubstr("1.0"));
  Kill();
  EXPECT_EQ(models_->ValueOf(model), 99);
}

TEST_F(ModelWorkerTest, ModelsBeyondTheMemoryWaitOnTheDisk) {
  Kill();
  models_max_ = 1;
  Open();
  const std::string one = MakeModel(1), two = MakeModel(2);
  for (const uint64_t seq : {1, 3}) {
    for (const std::string& model : {one, two}) {
      Put(model, seq, OpKind::kTrain, TrainBytes(1));
      Put(model, seq + 1, OpKind::kStep, kStepText);
    }
    (void)Outcome(one, seq + 1);
    (void)Outcome(two, seq + 1);
  }
  for (const std::string& model : {one, two}) {
    Put(model, 5, OpKind::kSave, R"({"path": "end"})");
    (void)Outcome(model, 5);
    EXPECT_EQ(TextOf(TinkerFolders(folder_.path()).Checkpoint(model, "weights/end") + "/number"),
              "98");
  }
}

TEST_F(ModelWorkerTest, ANameIsTakenOnce) {
  const std::string model = MakeModel(1);
  Put(model, 1, OpKind::kSave, R"({"path": "a", "ttl_seconds": 60})");
  Put(model, 2, OpKind::kSave, R"({"path": "a"})");
  Put(model, 3, OpKind::kSave, R"({"path": "a", "overwrite": true})");
  EXPECT_FALSE(Outcome(model, 1).failed);
  EXPECT_THAT(Outcome(model, 2).body, HasSubstr("is there already"));
  EXPECT_FALSE(Outcome(model, 3).failed);
  EXPECT_FALSE(books_->Checkpoint("tinker://" + model + "/weights/a").value()->expires_ms);
}

TEST(TinkerPromises, IdsNameTheOperation) {
  const auto turn = OpOfPromise(PromiseOfOp("S1:train:0", 17));
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->model, "S1:train:0");
  EXPECT_EQ(turn->seq, 17u);
  for (const char* bad : {"", "t.", "t.a", "t.a.", "t.a.x", "s.1.2", "t.a.-1"}) {
    EXPECT_FALSE(OpOfPromise(bad)) << bad;
  }
}

}  // namespace
}  // namespace tidemill

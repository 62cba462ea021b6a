#include "tinker/train_ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tinker/wire_numbers.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

tinker::WireTensor WholeNumbers(const std::vector<int64_t>& numbers) {
  tinker::WireTensor tensor;
  tensor.set_dtype(tinker::INT64);
  tensor.set_dense(ToWireBytes(numbers));
  return tensor;
}

tinker::WireTensor RealNumbers(const std::vector<float>& numbers) {
  tinker::WireTensor tensor;
  tensor.set_dtype(tinker::FLOAT32);
  tensor.set_dense(ToWireBytes(numbers));
  return tensor;
}

tinker::ForwardBackwardRequest Request(const std::string& loss) {
  tinker::ForwardBackwardRequest request;
  request.set_model_id("S1:train:0");
  request.set_seq_id(1);
  request.set_loss_fn(loss);
  tinker::Datum& datum = *request.add_data();
  datum.add_model_input()->mutable_encoded_text()->set_tokens(
      ToWireBytes(std::vector<int32_t>{5, 6}));
  datum.add_model_input()->mutable_encoded_text()->set_tokens(ToWireBytes(std::vector<int32_t>{7}));
  auto& inputs = *datum.mutable_loss_fn_inputs();
  inputs["target_tokens"] = WholeNumbers({6, 7, 8});
  if (loss == "cross_entropy") {
    inputs["weights"] = RealNumbers({0, 1, -2});
  } else {
    inputs["logprobs"] = RealNumbers({-1, -2, -3});
    inputs["advantages"] = RealNumbers({0, 0.5, 1});
  }
  return request;
}

std::string WhyNot(const tinker::ForwardBackwardRequest& request) {
  const auto ask = ReadTrainAsk(request);
  return ask.ok() ? "" : ask.status().message();
}

TEST(TrainAsk, ReadsIdsOfSeveralChunksAndTheInputsOfItsLoss) {
  const auto ask = ReadTrainAsk(Request("cross_entropy"));
  ASSERT_TRUE(ask.ok()) << ask.status().message();
  ASSERT_EQ(ask->rows.size(), 1u);
  EXPECT_THAT(ask->rows[0].ids, ElementsAre(5, 6, 7));
  EXPECT_THAT(ask->rows[0].targets, ElementsAre(6, 7, 8));
  EXPECT_THAT(ask->rows[0].weights, ElementsAre(0, 1, -2));
  EXPECT_TRUE(ask->gradients);
  auto ppo = Request("ppo");
  (*ppo.mutable_loss_fn_config())["clip_low_threshold"] = 0.7;
  (*ppo.mutable_loss_fn_config_v2())["clip_low_threshold"].set_number(0.6);
  ppo.set_forward_only(true);
  const auto read = ReadTrainAsk(ppo);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->loss.clip_low, 0.6);
  EXPECT_EQ(read->loss.clip_high, 1.2);
  EXPECT_FALSE(read->gradients);
}

TEST(TrainAsk, SparseTargetsAreWrittenOutWithWeightsOfZero) {
  auto request = Request("cross_entropy");
  auto& inputs = *request.mutable_data(0)->mutable_loss_fn_inputs();
  for (const char* name : {"target_tokens", "weights"}) {
    tinker::WireTensor tensor;
    tensor.add_shape(3);
    tensor.add_shape(2);
    auto& sparse = *tensor.mutable_sparse_csr();
    sparse.set_crow_indices(ToWireBytes(std::vector<int64_t>{0, 1, 1, 3}));
    sparse.set_col_indices(ToWireBytes(std::vector<int64_t>{1, 0, 1}));
    if (name[0] == 't') {
      tensor.set_dtype(tinker::INT64);
      sparse.set_values(ToWireBytes(std::vector<int64_t>{9, 10, 11}));
    } else {
      tensor.set_dtype(tinker::FLOAT32);
      sparse.set_values(ToWireBytes(std::vector<float>{1, 2, 3}));
    }
    inputs[name] = tensor;
  }
  const auto ask = ReadTrainAsk(request);
  ASSERT_TRUE(ask.ok()) << ask.status().message();
  EXPECT_EQ(ask->rows[0].per_place, 2);
  EXPECT_THAT(ask->rows[0].targets, ElementsAre(0, 9, 0, 0, 10, 11));
  EXPECT_THAT(ask->rows[0].weights, ElementsAre(0, 1, 0, 0, 2, 3));
  inputs["weights"].mutable_sparse_csr()->set_col_indices(
      ToWireBytes(std::vector<int64_t>{1, 0, 2}));
  EXPECT_THAT(WhyNot(request), HasSubstr("column 2"));
  inputs["weights"].mutable_sparse_csr()->set_crow_indices(
      ToWireBytes(std::vector<int64_t>{0, 4, -4, 3}));
  EXPECT_THAT(WhyNot(request), HasSubstr("weights"));
}

TEST(TrainAsk, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(WhyNot(Request("stable_reinforce")), HasSubstr("stable_reinforce"));
  auto request = Request("ppo");
  (*request.mutable_loss_fn_config())["clip_ratio"] = 1;
  EXPECT_THAT(WhyNot(request), HasSubstr("clip_ratio"));
  request = Request("ppo");
  (*request.mutable_data(0)->mutable_loss_fn_inputs())["mask"] = RealNumbers({1, 1, 1});
  EXPECT_THAT(WhyNot(request), HasSubstr("datum 0: \"mask\""));
  request = Request("ppo");
  request.mutable_data(0)->add_model_input()->mutable_image();
  EXPECT_THAT(WhyNot(request), HasSubstr("images"));
  request = Request("ppo");
  (*request.mutable_data(0)->mutable_loss_fn_inputs())["advantages"].set_dtype(tinker::INT64);
  EXPECT_THAT(WhyNot(request), HasSubstr("float32"));
  request = Request("ppo");
  request.clear_data();
  EXPECT_THAT(WhyNot(request), HasSubstr("no datum"));
}

TEST(TrainAsk, TheJsonOfOlderClientsIsTheSameRequest) {
  const std::string text = R"({"model_id": "S1:train:0", "seq_id": 3, "type": "forward_backward",
    "forward_backward_input": {"loss_fn": "ppo", "loss_fn_config": {"clip_high_threshold": 1.5}, "data": [
      {"model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, 6]}, {"type": "encoded_text", "tokens": [7]}]},
       "loss_fn_inputs": {"target_tokens": {"data": [6, 7, 8], "dtype": "int64", "shape": [3]},
                          "logprobs": {"data": [-1, -2, -3], "dtype": "float32"},
                          "advantages": {"data": [0, 0.5, 1], "dtype": "float32", "shape": [3]}}}]}})";
  const auto request = ParseTrainJson(text, false);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->seq_id(), 3);
  const auto ask = ReadTrainAsk(*request), same = ReadTrainAsk(Request("ppo"));
  ASSERT_TRUE(ask.ok()) << ask.status().message();
  EXPECT_EQ(ask->loss.clip_high, 1.5);
  EXPECT_EQ(ask->rows[0].ids, same->rows[0].ids);
  EXPECT_EQ(ask->rows[0].behaviour, same->rows[0].behaviour);
  EXPECT_EQ(ask->rows[0].advantages, same->rows[0].advantages);
  EXPECT_THAT(ParseTrainJson(R"({"model_id": "a", "seq_id": 0})", false).status().message(),
              HasSubstr("seq_id"));
}

TEST(TrainAsk, TheAnswerHasEveryTargetInBothForms) {
  TrainAsk ask;
  ask.rows = {{.ids = {1, 2}, .targets = {2, 3}}, {.ids = {1}, .targets = {4, 5}, .per_place = 2}};
  const auto output = TrainOutput(ask, {.loss = 2.5, .logprobs = {{-1, -2}, {-3, -4}}});
  ASSERT_EQ(output.loss_fn_outputs_size(), 2);  // another shape, another record
  EXPECT_EQ(output.metrics().at("loss:sum"), 2.5);
  const auto& field = output.loss_fn_outputs(1).fields().at("logprobs");
  std::vector<int64_t> offsets;
  ASSERT_TRUE(FromWireBytes(field.offsets(), offsets));
  EXPECT_THAT(offsets, ElementsAre(0, 8));
  EXPECT_EQ(field.trailing_shape(0), 2);
  const auto json = TrainOutputJson(output.SerializeAsString());
  ASSERT_TRUE(json.ok());
  const auto read = nlohmann::json::parse(*json);
  EXPECT_EQ(read["loss_fn_outputs"][0]["logprobs"]["data"], nlohmann::json({-1, -2}));
  EXPECT_EQ(read["loss_fn_outputs"][1]["logprobs"]["shape"], nlohmann::json({1, 2}));
  EXPECT_FALSE(TrainOutputJson("\xff\xff").ok());
}

}  // namespace
}  // namespace tidemill

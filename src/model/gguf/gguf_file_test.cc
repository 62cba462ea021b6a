#include "model/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "testing/gguf_builder.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

GgufBuilder SmallFile() {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Uint("llama.block_count", 2);
  builder.Float("llama.rope.freq_base", 5e5f).Bool("tokenizer.ggml.add_bos_token", true);
  builder.Texts("tokenizer.ggml.tokens", {"a", "", "bc"});
  builder.Ints("tokenizer.ggml.token_type", {1, -2, 3});
  builder.Floats("one", {2, 3}, {1, 2, 3, 4, 5, 6});
  builder.Tensor("two", 8, {32}, std::string(34, '\0'));
  return builder;
}

std::string Refusal(const std::string& bytes) {
  const auto file = ParseGguf(bytes, "x.gguf");
  return file.ok() ? "accepted" : file.status().message();
}

TEST(GgufFile, MetadataAndTensorsComeBack) {
  const std::string bytes = SmallFile().Bytes();
  auto file = ParseGguf(bytes, "x.gguf");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  GgufMetadata& m = file->metadata;
  EXPECT_EQ(m.MaybeText("general.architecture"), "llama");
  EXPECT_EQ(m.Int("llama.block_count", 1, 10), 2);
  EXPECT_EQ(m.MaybeNumber("llama.rope.freq_base", 0, 1e9), 5e5);
  EXPECT_EQ(m.MaybeBool("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ(m.Texts("tokenizer.ggml.tokens"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(m.Ints("tokenizer.ggml.token_type"), (std::vector<int32_t>{1, -2, 3}));
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> numbers(6);
  Dequantise(file->tensors[0].type, file->tensors[0].data, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file->tensors[1].data.size(), 34u);
  EXPECT_TRUE(m.status().ok());
}

TEST(GgufFile, AWrongTypeOrRangeNamesTheKey) {
  const std::string bytes = SmallFile().Bytes();
  auto file = ParseGguf(bytes, "x.gguf");
  file->metadata.Int("llama.block_count", 3, 10);
  EXPECT_EQ(file->metadata.status().message(),
            "x.gguf: llama.block_count must be a whole number from 3 to 10");
  auto again = ParseGguf(bytes, "x.gguf");
  again->metadata.Int("llama.context_length", 1, 10);
  EXPECT_EQ(again->metadata.status().message(), "x.gguf: llama.context_length is missing");
}

TEST(GgufFile, EveryBeginningOfAFileIsRefused) {
  const std::string bytes = SmallFile().Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(Refusal(bytes.substr(0, size)), "accepted") << size;
  }
}

TEST(GgufFile, ChangedBytesNeverReadOutside) {
  const std::string whole = SmallFile().Bytes();
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 3; ++i) bytes[random() % 400] = static_cast<char>(random());
    const auto file = ParseGguf(bytes, "x");
    if (!file.ok()) continue;
    for (const GgufTensor& tensor : file->tensors) {
      EXPECT_GE(tensor.data.data(), bytes.data());
      EXPECT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
    }
  }
}

TEST(GgufFile, WhatIsNotKnownIsRefusedByName) {
  EXPECT_THAT(Refusal("PK\3\4 and so on"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(Refusal(SmallFile().Bytes(1)), HasSubstr("GGUF version 1 is not supported"));
  EXPECT_THAT(Refusal(SmallFile().Bytes(0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("w", 10, {256}, std::string(84, 'x')).Bytes()),
              HasSubstr("tensor \"w\" has type Q2_K, which is not supported"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("w", 99, {256}, "").Bytes()),
              HasSubstr("tensor \"w\" has type 99"));
  EXPECT_THAT(Refusal(GgufBuilder().Pair("k", static_cast<GgufType>(13), "").Bytes()),
              HasSubstr("k has a value of unknown type 13"));
  const std::string nested = GgufBuilder::Raw(uint32_t{9}) + GgufBuilder::Raw(uint64_t{1});
  EXPECT_THAT(Refusal(GgufBuilder().Pair("k", GgufType::kArray, nested).Bytes()),
              HasSubstr("array of arrays"));
}

TEST(GgufFile, CountsThatPromiseTooMuchAreRefusedBeforeAnythingIsMade) {
  const std::string many = GgufBuilder::Raw(uint32_t{8}) + GgufBuilder::Raw(uint64_t{1} << 60);
  EXPECT_THAT(Refusal(GgufBuilder().Pair("k", GgufType::kArray, many).Bytes()),
              HasSubstr("more than the file has room for"));
  EXPECT_THAT(Refusal("GGUF" + GgufBuilder::Raw(uint32_t{3}) + GgufBuilder::Raw(UINT64_MAX) +
                      GgufBuilder::Raw(uint64_t{0})),
              HasSubstr("tensor count"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("w", 0, {1ull << 40, 1ull << 40}, "").Bytes()),
              HasSubstr("shape that cannot be"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("w", 0, {1 << 20}, "1234").Bytes()),
              HasSubstr("needs 4194304 bytes"));
}

TEST(GgufFile, TensorsMayNeitherOverlapNorShareAName) {
  const std::string block(64, 'x');
  EXPECT_THAT(
      Refusal(GgufBuilder().Tensor("a", 0, {16}, block).Tensor("b", 0, {8}, block, 32).Bytes()),
      HasSubstr("lies inside of another"));
  EXPECT_THAT(
      Refusal(GgufBuilder().Tensor("a", 0, {8}, block).Tensor("b", 0, {8}, block, 40).Bytes()),
      HasSubstr("is not aligned"));
  EXPECT_THAT(
      Refusal(GgufBuilder().Tensor("a", 0, {16}, block).Tensor("a", 0, {16}, block).Bytes()),
      HasSubstr("\"a\" comes twice"));
  EXPECT_THAT(Refusal(GgufBuilder().Uint("k", 1).Uint("k", 2).Bytes()), HasSubstr("k comes twice"));
  EXPECT_THAT(Refusal(GgufBuilder().Tensor("w", 8, {33}, block).Bytes()),
              HasSubstr("no whole number of blocks of 32"));
}

}  // namespace
}  // namespace tidemill

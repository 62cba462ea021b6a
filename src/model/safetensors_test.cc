#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "testing/golden_models.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  size_t Files() const {
    const std::filesystem::directory_iterator entries(dir_);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
};

std::string File(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  return file + header + data;
}

void ExpectCorrupt(const std::string& file, const char* part) {
  const auto parsed = ParseSafetensors(file, "f.safetensors");
  ASSERT_FALSE(parsed.ok()) << part;
  EXPECT_EQ(parsed.status().code(), Code::kCorrupt);
  EXPECT_THAT(parsed.status().message(), HasSubstr("f.safetensors: "));
  EXPECT_THAT(parsed.status().message(), HasSubstr(part));
}

TensorView View(std::string name, const std::vector<float>& values) {
  return {std::move(name),
          Dtype::kF32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(float)};
}

TEST(Safetensors, ReadsShapesDtypesAndMetadata) {
  const std::string file = File(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[0,3],)"
      R"("data_offsets":[8,8]}}   )",
      "12345678");
  const auto parsed = ParseSafetensors(file, "f");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_EQ(parsed->tensors.size(), 3u);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].elements(), 1);
  EXPECT_EQ(parsed->tensors[1].dtype, Dtype::kBF16);
  EXPECT_EQ(std::memcmp(parsed->tensors[1].data, "5678", 4), 0);
  EXPECT_EQ(parsed->tensors[2].elements(), 0);
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
}

TEST(Safetensors, BrokenFilesAreRefusedByName) {
  ExpectCorrupt("", "too few");
  ExpectCorrupt("1234567", "too few");
  ExpectCorrupt(std::string(8, '\xff'), "too long");
  ExpectCorrupt(File("{}", "").substr(0, 9), "file ends after 1");
  ExpectCorrupt(File("", ""), "does not start with '{'");
  ExpectCorrupt(File(" {}", ""), "does not start with '{'");
  ExpectCorrupt(File("{\"a\"", ""), "not JSON");
  ExpectCorrupt(File("{}", "x"), "1 bytes at the end belong to no tensor");
  ExpectCorrupt(File(R"({"a":3})", ""), "tensor \"a\": must be an object");
  ExpectCorrupt(File(R"({"a":{"dtype":"F32","shape":[1]}})", ""), "\"data_offsets\" is missing");
  ExpectCorrupt(File(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234"),
                "\"F33\"");
  ExpectCorrupt(File(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
                "shape");
  ExpectCorrupt(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "123"),
                "outside");
  ExpectCorrupt(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
                "outside");
  ExpectCorrupt(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
                "need 8");
  ExpectCorrupt(
      File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
      "more elements than can be counted");
  ExpectCorrupt(File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                     "123"),
                "tensor \"b\" starts at byte 1, inside of another");
  ExpectCorrupt(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                     "123"),
                "behind a hole");
  ExpectCorrupt(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                     "1"),
                "appears twice");
  ExpectCorrupt(File(R"({"__metadata__":{"x":1}})", ""), "__metadata__");
}

TEST_F(SafetensorsTest, WhatWasWrittenIsReadAgain) {
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {4};
  const std::byte flag{1};
  const std::vector<TensorView> tensors = {
      View("b", b), {"flag", Dtype::kBool, {1}, &flag, 1}, View("a", a)};
  const std::string path = dir_ + "/t.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  const auto files = TensorFiles::Open(path);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->metadata().at("format"), "pt");
  const TensorView* read = files->Find("a");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(std::memcmp(read->data, a.data(), 12), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read->data) % 4, 0u);
  EXPECT_EQ(files->Find("c"), nullptr);
  EXPECT_THAT(files->Get("c").status().message(), HasSubstr("tensor \"c\" is not there"));
}

TEST_F(SafetensorsTest, ShardsAreReadAsOneAndReplaceASingleFile) {
  const std::vector<float> values = {1, 2, 3, 4};
  const std::vector<TensorView> tensors = {View("x", values), View("y", values), View("z", values)};
  ASSERT_TRUE(WriteModelTensors(dir_, tensors).ok());
  EXPECT_EQ(Files(), 1u);
  ASSERT_TRUE(WriteModelTensors(dir_, tensors, 32).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/model-00001-of-00002.safetensors"));
  EXPECT_EQ(Files(), 3u);
  const auto files = TensorFiles::OpenModel(dir_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_EQ(files->tensors().size(), 3u);
  EXPECT_EQ(std::memcmp(files->Find("z")->data, values.data(), 16), 0);
  ASSERT_TRUE(WriteModelTensors(dir_, tensors).ok());
  EXPECT_EQ(Files(), 1u);
  EXPECT_TRUE(TensorFiles::OpenModel(dir_).ok());
}

TEST_F(SafetensorsTest, AnIndexThatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(TensorFiles::OpenModel(dir_).status().code(), Code::kNotFound);
  const std::vector<float> values = {1};
  ASSERT_TRUE(WriteSafetensors(dir_ + "/s.safetensors", std::vector{View("x", values)}).ok());
  const auto open = [&](const std::string& index) {
    std::ofstream(dir_ + "/model.safetensors.index.json") << index;
    return TensorFiles::OpenModel(dir_).status().message();
  };
  EXPECT_THAT(open(R"({"weight_map":{"x":"../s.safetensors"}})"), HasSubstr("beside the index"));
  EXPECT_THAT(open(R"({"weight_map":{"y":"s.safetensors"}})"), HasSubstr("tensor \"y\" is not in"));
  EXPECT_THAT(open(R"({"weight_map":{"x":"t.safetensors"}})"), HasSubstr("t.safetensors"));
  EXPECT_THAT(open(R"({"weight_map":[]})"), HasSubstr("\"weight_map\" must be an object"));
  EXPECT_EQ(open(R"({"weight_map":{"x":"s.safetensors"}})"), "");
}

TEST_F(SafetensorsTest, AFailedWriteLeavesWhatWasThere) {
  const std::vector<float> values = {1, 2};
  const std::string path = dir_ + "/t.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, std::vector{View("x", values)}).ok());
  TensorView wrong = View("x", values);
  wrong.shape = {3};
  EXPECT_THAT(WriteSafetensors(path, std::vector{wrong}).message(), HasSubstr("need 12"));
  EXPECT_THAT(WriteSafetensors(path, std::vector{View("x", values), View("x", values)}).message(),
              HasSubstr("appears twice"));
  EXPECT_TRUE(TensorFiles::Open(path).ok());
  EXPECT_FALSE(WriteSafetensors(dir_ + "/none/t.safetensors", std::vector{View("x", values)}).ok());
  EXPECT_EQ(Files(), 1u);
}

TEST_F(SafetensorsTest, ATruncatedFileIsRefused) {
  const std::vector<float> values = {1, 2};
  const std::string path = dir_ + "/t.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, std::vector{View("x", values)}).ok());
  const auto size = std::filesystem::file_size(path);
  for (size_t cut = 0; cut < size; ++cut) {
    std::filesystem::resize_file(path, size - 1 - cut);
    EXPECT_EQ(TensorFiles::Open(path).status().code(), Code::kCorrupt) << cut;
  }
}

TEST(SafetensorsGolden, EveryFileOfEveryModelIsRead) {
  for (const std::string& dir : GoldenModels(SourceDir())) {
    SCOPED_TRACE(dir);
    const auto model = TensorFiles::OpenModel(dir);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_NE(model->Find("model.embed_tokens.weight"), nullptr);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (entry.path().extension() != ".safetensors") continue;
      EXPECT_TRUE(TensorFiles::Open(entry.path().string()).ok()) << entry.path();
    }
  }
}

}  // namespace
}  // namespace tidemill

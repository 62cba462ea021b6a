// What goes to a GPU, checked without one.
#include "engine/cuda/step_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <vector>

#include "engine/cuda/decoder_weights.h"
#include "model/cuda/weight_layout.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;

constexpr CudaHeads kHeads{.type = CudaType::kBF16, .heads = 14, .kv_heads = 2, .head_dim = 64};

class StepWriterTest : public testing::Test {
 protected:
  // A sequence's tokens at positions from `first` on, in pages `page`, `page` + 1, ..
  CudaSegment Segment(int first, int count, int page, bool draw) {
    auto& tokens = tokens_.emplace_back();
    for (int i = 0; i < count; ++i) tokens.push_back(100 * page + first + i);
    auto& pages = pages_.emplace_back();
    for (int i = 0; i < (first + count + kCudaPageSlots - 1) / kCudaPageSlots; ++i) {
      pages.push_back(page + i);
    }
    return {.tokens = tokens,
            .first = first,
            .pages = pages,
            .draw = draw,
            .how = {.seed = static_cast<uint64_t>(page), .position = first + count}};
  }
  template <typename T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(host_.data() + offset);
  }

  std::list<std::vector<int32_t>> tokens_, pages_;
  std::vector<char> host_ = std::vector<char>(1 << 20, 'x');
  StepWriter writer_{{.heads = kHeads, .max_rows = 512, .max_decode_rows = 64, .cuts = true}};
};

TEST(BatchBucket, HoldsTheRowsAndIsItsOwnBucket) {
  for (int rows = 1; rows <= 6000; ++rows) {
    const int bucket = BatchBucket(rows);
    ASSERT_GE(bucket, rows);
    ASSERT_LE(bucket, std::max(2 * rows, 1));
    ASSERT_EQ(BatchBucket(bucket), bucket);
  }
}

TEST_F(StepWriterTest, OneTokenOfEachSequenceAndPaddingUpToTheBucket) {
  const std::vector<CudaSegment> segments = {Segment(20, 1, 3, true), Segment(15, 1, 7, true),
                                             Segment(40, 1, 9, true)};
  const StepShape shape = writer_.Write(segments, host_.data());
  EXPECT_EQ(shape.rows, 4);
  EXPECT_EQ(shape.decode_rows, 3);
  EXPECT_EQ(shape.tiles, 0);
  EXPECT_FALSE(shape.selects);
  const StepLayout at(shape.rows, shape.draws, shape.selects, shape.tiles);
  const auto* rows = At<CudaRow>(0);
  const auto* pages = At<int32_t>(at.pages_at);
  const int first_page[] = {3, 7, 9};
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_EQ(rows[i].token, segments[i].tokens[0]);
    EXPECT_EQ(rows[i].position, segments[i].first);
    EXPECT_EQ(pages[rows[i].pages], first_page[i]);
    EXPECT_EQ(At<CudaDraw>(at.draws_at)[writer_.draws()[i]].seed, segments[i].how.seed);
  }
  EXPECT_EQ(rows[3].position, -1);
  EXPECT_EQ(writer_.bytes(), at.pages_at + (2 + 1 + 3) * sizeof(int32_t));
}

TEST_F(StepWriterTest, PartsOfPromptsComeAfterAndOnlyThoseThatDrawAreSelected) {
  const std::vector<CudaSegment> segments = {Segment(0, 30, 1, false), Segment(5, 1, 10, true),
                                             Segment(16, 20, 20, true)};
  const StepShape shape = writer_.Write(segments, host_.data());
  EXPECT_EQ(shape.decode_rows, 1);
  EXPECT_TRUE(shape.selects);
  EXPECT_EQ(shape.rows, BatchBucket(51));
  const StepLayout at(shape.rows, shape.draws, shape.selects, shape.tiles);
  const auto* rows = At<CudaRow>(0);
  EXPECT_EQ(rows[0].token, segments[1].tokens[0]);
  EXPECT_EQ(rows[1].token, segments[0].tokens[0]);
  EXPECT_EQ(rows[30].token, segments[0].tokens[29]);
  EXPECT_EQ(rows[50].token, segments[2].tokens[19]);
  // The row that each draw is made from: the last of its segment.
  const auto* select = At<int32_t>(at.select_at);
  EXPECT_EQ(select[writer_.draws()[1]], 0);
  EXPECT_EQ(select[writer_.draws()[2]], 50);
  EXPECT_EQ(writer_.draws()[0], -1);
  // Every query vector of both prompts is in a tile.
  int vectors = 0;
  const auto* tiles = At<CudaPrefillTile>(at.tiles_at);
  for (int t = 0; t < shape.tiles; ++t) {
    EXPECT_THAT(tiles[t].row, ::testing::AnyOf(1, 31));
    EXPECT_EQ(tiles[t].first, tiles[t].row == 1 ? 0 : 16);
    vectors += kCudaPrefillVectors;
  }
  EXPECT_GE(vectors, 50 * 7);
}

TEST_F(StepWriterTest, ATokenThatIsNotKnownYetIsADrawOfTheStepBefore) {
  const std::vector<CudaSegment> before = {Segment(0, 30, 1, true), Segment(5, 1, 10, true),
                                           Segment(16, 20, 20, false)};
  writer_.Write(before, host_.data());
  const std::vector<int> draws = writer_.draws();
  std::vector<CudaSegment> segments = {Segment(6, 1, 10, true), Segment(30, 1, 1, true),
                                       Segment(36, 1, 20, false)};
  segments[0].after = 1;
  segments[1].after = 0;
  writer_.Write(segments, host_.data());
  const auto* rows = At<CudaRow>(0);
  EXPECT_EQ(~rows[0].token, draws[1]);
  EXPECT_EQ(~rows[1].token, draws[0]);
  EXPECT_EQ(rows[2].token, segments[2].tokens[0]);
}

TEST_F(StepWriterTest, LongContextsAreCutIntoPartsWhereAttentionCan) {
  EXPECT_EQ(writer_.Splits(64, false), 1);
  EXPECT_GE(writer_.Splits(64, true), 4);
  const std::vector<CudaSegment> segments = {Segment(kCudaLongPages * kCudaPageSlots, 1, 1, true)};
  EXPECT_GT(writer_.Write(segments, host_.data()).splits, 1);
  StepWriter whole({.heads = kHeads, .max_rows = 8, .max_decode_rows = 8, .cuts = false});
  EXPECT_EQ(whole.Write(segments, host_.data()).splits, 1);
}

TEST(WeightLayout, WhatIsOneProductLiesTogether) {
  const WeightLayout layout = MakeWeightLayout(TinyConfig());
  const auto follows = [&](const std::string& a, const std::string& b) {
    const WeightPlace& first = layout.Of("model.layers.1." + a);
    return layout.Of("model.layers.1." + b).first == first.first + first.numbers();
  };
  for (const std::string kind : {".weight", ".bias"}) {
    EXPECT_TRUE(follows("self_attn.q_proj" + kind, "self_attn.k_proj" + kind));
    EXPECT_TRUE(follows("self_attn.k_proj" + kind, "self_attn.v_proj" + kind));
  }
  EXPECT_TRUE(follows("mlp.gate_proj.weight", "mlp.up_proj.weight"));
  EXPECT_THAT(layout.Of("model.layers.1.self_attn.o_proj.weight").shape, ElementsAre(32, 32));
}

TEST(DecoderWeights, NamesWhatTheModelHasByItsPlaceInTheBlock) {
  ModelConfig config = TinyConfig(ModelFamily::kQwen3);
  const WeightLayout layout = MakeWeightLayout(config);
  const std::vector<char> block(layout.numbers * 2);
  const DecoderWeights weights = PlaceWeights(config, layout, block.data(), 2);
  ASSERT_EQ(weights.layers.size(), 2u);
  EXPECT_EQ(weights.head, weights.embed);
  EXPECT_EQ(weights.layers[1].Of(LayerProduct::kDown).weight,
            block.data() + 2 * layout.Of("model.layers.1.mlp.down_proj.weight").first);
  EXPECT_NE(weights.layers[1].q_norm, nullptr);
  EXPECT_EQ(weights.layers[1].Of(LayerProduct::kQkv).bias, nullptr);
  config.tie_word_embeddings = false;
  EXPECT_NE(PlaceWeights(config, MakeWeightLayout(config), block.data(), 2).head, weights.embed);
}

}  // namespace
}  // namespace tidemill

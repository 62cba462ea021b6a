#include "store/body_codec.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

std::string Frame(const std::string& plain, bool with_size = true) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, with_size ? 1 : 0);
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), plain.data(), plain.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

TEST(BodyCodec, WhatIsPackedUnpacks) {
  BodyCodec codec;
  v1::Verdict verdict;
  verdict.set_cause("why");
  v1::Verdict back;
  ASSERT_TRUE(codec.Unpack(*codec.Pack(verdict), back).ok());
  EXPECT_EQ(back.cause(), "why");
}

TEST(BodyCodec, ABombIsRefusedBeforeItGrows) {
  BodyCodec codec;
  v1::Verdict verdict;
  // A megabyte of bytes that unpack to more than is ever stored, as one frame and as many.
  const std::string zeros(kBodyBytesMax + 1, '\0');
  const std::string bomb = Frame(zeros);
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  EXPECT_EQ(codec.Unpack(bomb, verdict).code(), Code::kCorrupt);
  std::string many;
  for (int i = 0; i < 64; ++i) many += Frame(std::string(1 << 20, '\0'));
  EXPECT_EQ(codec.Unpack(many, verdict).code(), Code::kCorrupt)
      << "only the first one's size counts";
  EXPECT_EQ(codec.Unpack(Frame("", false), verdict).code(), Code::kCorrupt) << "no size is told";
}

TEST(BodyCodec, ALieAboutTheSizeIsRefused) {
  BodyCodec codec;
  v1::Verdict verdict;
  verdict.set_cause(std::string(1000, 'x'));
  std::string packed = *codec.Pack(verdict);
  // The frame's head: magic, descriptor, then the size in two bytes, less 256.
  ASSERT_EQ(static_cast<unsigned char>(packed[4]) >> 6, 1);
  for (const int size : {0, 500, 60000}) {
    packed[5] = static_cast<char>(size & 0xFF);
    packed[6] = static_cast<char>(size >> 8);
    v1::Verdict back;
    EXPECT_EQ(codec.Unpack(packed, back).code(), Code::kCorrupt) << size;
  }
}

}  // namespace
}  // namespace tidemill

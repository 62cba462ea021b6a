#include "model/unicode.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

std::string Nfc(std::string_view text) {
  return ToNfc(text).value_or(std::string(text));
}

TEST(Unicode, NfcComposesAndOrders) {
  EXPECT_EQ(Nfc("e\u0301"), "é");
  EXPECT_EQ(Nfc("a e\u0301 b e\u0301"), "a é b é");
  EXPECT_EQ(Nfc("\u1100\u1161\u11a8"), "\uac01");    // Hangul
  EXPECT_EQ(Nfc("q\u0307\u0323"), "q\u0323\u0307");  // marks by class
  EXPECT_EQ(Nfc("d\u0307\u0323"), "\u1e0d\u0307");   // then composed
  EXPECT_EQ(Nfc("\u212b"), "\u00c5");                // a singleton
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093c");          // excluded from composition
  EXPECT_EQ(Nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(Nfc("\u00e9\u0323"), "\u1eb9\u0301");  // taken apart and put together anew
  EXPECT_EQ(Nfc("日本語 \U0001F642"), "日本語 \U0001F642");
}

TEST(Unicode, NfcLeavesLatinAlone) {
  EXPECT_EQ(ToNfc("plain ÄÖÜ text"), std::nullopt);
  EXPECT_EQ(ToNfc(""), std::nullopt);
}

TEST(Unicode, NfcOfVeryManyMarksTakesNoLongerThanSorting) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 ? "\u0323" : "\u0307";
  const std::string composed = Nfc(text);  // a quadratic sort would take minutes
  EXPECT_TRUE(composed.starts_with("\u1ea1\u0323"));
  EXPECT_TRUE(composed.ends_with("\u0307"));
}

TEST(Unicode, LossyReplacesMaximalIllFormedParts) {
  EXPECT_EQ(Utf8Lossy("ok é"), "ok é");
  EXPECT_EQ(Utf8Lossy("\xff"), "\uFFFD");
  EXPECT_EQ(Utf8Lossy("a\xf0\x9f\x99"), "a\uFFFD");  // cut: one
  EXPECT_EQ(Utf8Lossy("\xf0\x9f\x99z"), "\uFFFDz");
  EXPECT_EQ(Utf8Lossy("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate: three
  EXPECT_EQ(Utf8Lossy("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(Utf8Lossy("\xe0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Utf8Lossy("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Unicode, TheByteAlphabetIsOneToOne) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(AlphabetToBytes(BytesToAlphabet(one)), one);
  }
  EXPECT_EQ(BytesToAlphabet(" \n\t"), "ĠĊĉ");
  EXPECT_EQ(AlphabetToBytes("a b"), std::nullopt);
  EXPECT_EQ(AlphabetToBytes("▁a"), std::nullopt);
}

}  // namespace
}  // namespace tidemill

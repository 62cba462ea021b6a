#include "model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "model/bpe.h"
#include "model/json_fields.h"
#include "model/tokenizer_writer.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes, then ab=256 bc=257 abc=258 (a bc), aa=259, then what `added` says.
TokenizerSpec SmallSpec() {
  TokenizerSpec spec = ByteTokenizerSpec({});
  for (const char* token : {"ab", "bc", "abc", "aa"}) spec.tokens.emplace_back(token);
  spec.merges = {{"b", "c"}, {"a", "bc"}, {"a", "b"}, {"a", "a"}};
  return spec;
}

AddedToken Added(TokenId id, const char* content) {
  AddedToken token;
  token.id = id;
  token.content = content;
  return token;
}

Tokenizer Make(const TokenizerSpec& spec) {
  return Tokenizer::Parse(TokenizerJson(spec).value(), "t").value();
}

nlohmann::json SmallJson() {
  return nlohmann::json::parse(TokenizerJson(SmallSpec()).value());
}

void ExpectRefused(const nlohmann::json& json, const char* part) {
  const auto tokenizer = Tokenizer::Parse(json.dump(), "t.json");
  ASSERT_FALSE(tokenizer.ok()) << part;
  EXPECT_EQ(tokenizer.status().code(), Code::kInvalid);
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("t.json: "));
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(part));
}

constexpr auto kOn = SpecialTokens::kRecognise;
constexpr auto kOff = SpecialTokens::kAsText;

TEST(Tokenizer, TheMostWantedMergeGoesFirst) {
  const Tokenizer t = Make(SmallSpec());
  EXPECT_THAT(t.Encode("abc", kOn), ElementsAre(258));
  EXPECT_THAT(t.Encode("abb", kOn), ElementsAre(256, 'b'));
  EXPECT_THAT(t.Encode("aaa", kOn), ElementsAre(259, 'a'));
  EXPECT_THAT(t.Encode("", kOn), ElementsAre());
}

TEST(Tokenizer, LongPreTokensMergeAsShortOnesDo) {
  // Against merging by the definition, on texts on both sides of where the method changes.
  const Tokenizer t = Make(SmallSpec());
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (size_t n = random() % 120 + 1; n > 0; --n) text += "abc"[random() % 3];
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (bool merged = true; merged;) {
      merged = false;
      for (const auto& [left, right] : SmallSpec().merges) {
        for (size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
          if (parts[i] != left || parts[i + 1] != right) continue;
          parts[i] += right;
          parts.erase(parts.begin() + static_cast<ptrdiff_t>(i) + 1);
          merged = true;
        }
        if (merged) break;
      }
    }
    std::vector<TokenId> expected;
    for (const std::string& part : parts) expected.push_back(*t.TokenIdOfBytes(part));
    EXPECT_EQ(t.Encode(text, kOn), expected) << text;
  }
}

TEST(Tokenizer, IgnoreMergesTakesAWholePreToken) {
  TokenizerSpec spec = SmallSpec();
  spec.tokens.emplace_back("cab");  // no merge makes it
  EXPECT_THAT(Make(spec).Encode("cab", kOn), ElementsAre('c', 256));
  spec.ignore_merges = true;
  EXPECT_THAT(Make(spec).Encode("cab", kOn), ElementsAre(260));
}

TEST(Tokenizer, SpecialTokensAreTextUnlessAskedFor) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "<end>"), Added(261, "<call>")};
  spec.added[0].special = true;
  const Tokenizer t = Make(spec);
  EXPECT_THAT(t.Encode("a<end><call>", kOn), ElementsAre('a', 260, 261));
  EXPECT_THAT(t.Encode("<end><call>", kOff), ElementsAre('<', 'e', 'n', 'd', '>', 261));
  EXPECT_TRUE(t.IsSpecial(260));
  EXPECT_FALSE(t.IsSpecial(261));
  EXPECT_EQ(t.Decode(std::vector<TokenId>{'a', 260, 261}), "a<end><call>");
  EXPECT_EQ(t.Decode(std::vector<TokenId>{'a', 260, 261}, true), "a<call>");
}

TEST(Tokenizer, SpecialTokensFromOutsideAreTextAmongTheTemplatesOwn) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "<ab>"), Added(261, "<call>")};
  spec.added[0].special = true;
  const Tokenizer t = Make(spec);
  const std::vector<TokenId> text = {'<', 256, '>'};
  const auto encode = [&](const char* all, std::vector<TextSpan> outside) {
    return t.EncodeGuarded(all, outside);
  };
  EXPECT_THAT(encode("<ab>x", {}), ElementsAre(260, 'x'));
  EXPECT_EQ(encode("<ab>", {{0, 4}}), text);
  EXPECT_THAT(encode("<ab><ab>", {{0, 4}}), ElementsAre('<', 256, '>', 260));
  // One byte from outside is enough.
  for (const TextSpan part : {TextSpan{0, 1}, TextSpan{1, 3}, TextSpan{3, 4}}) {
    EXPECT_EQ(encode("<ab>", {part}), text);
  }
  // What is not special is found everywhere, and text stays one piece across the border.
  EXPECT_THAT(encode("<call>", {{0, 6}}), ElementsAre(261));
  EXPECT_THAT(encode("abc", {{1, 2}}), ElementsAre(258));
  EXPECT_EQ(encode("\xff<ab>", {{0, 5}}), t.Encode("\xff<ab>", kOff));
}

TEST(Tokenizer, TheLongestAddedTokenFromTheLeftWins) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "<a"), Added(261, "<a>"), Added(262, ">x")};
  EXPECT_THAT(Make(spec).Encode("<a>x<ab", kOn), ElementsAre(261, 'x', 260, 'b'));
}

TEST(Tokenizer, AddedTokensStripAndMindWords) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "<l>"), Added(261, "<r>"), Added(262, "<w>"), Added(263, "ww")};
  spec.added[0].lstrip = true;
  spec.added[1].rstrip = true;
  spec.added[2].single_word = true;
  spec.added[3].single_word = true;
  const Tokenizer t = Make(spec);
  EXPECT_THAT(t.Encode("a \u00a0<l> a", kOn), ElementsAre('a', 260, ' ', 'a'));
  EXPECT_THAT(t.Encode("a <r> \n<l>", kOn), ElementsAre('a', ' ', 261, 260));
  EXPECT_THAT(t.Encode("x<w>", kOn), ElementsAre('x', '<', 'w', '>'));
  EXPECT_THAT(t.Encode("(<w>)", kOn), ElementsAre('(', 262, ')'));
  EXPECT_THAT(t.Encode("_ww ww", kOn), ElementsAre('_', 'w', 'w', ' ', 263));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundAfterNfc) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "caf\u00e9"), Added(261, "th\u00e9")};
  spec.added[0].normalized = true;
  const Tokenizer t = Make(spec);
  EXPECT_THAT(t.Encode("cafe\u0301", kOn), ElementsAre(260));
  EXPECT_EQ(t.Encode("the\u0301", kOn).size(), 4u);  // not normalized: only as it is spelt
  EXPECT_THAT(t.Encode("th\u00e9", kOn), ElementsAre(261));
}

TEST(Tokenizer, ByteLevelCutsByItsOwnPatternAndMayAddASpace) {
  nlohmann::json json = SmallJson();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  json["added_tokens"] = {{{"id", 260}, {"content", "<s>"}, {"special", true}}};
  const Tokenizer t = Tokenizer::Parse(json.dump(), "t").value();
  EXPECT_THAT(t.Encode("ab<s> c", kOn), ElementsAre(' ', 256, 260, ' ', 'c'));
}

TEST(Tokenizer, DigitsAndRemovedSplits) {
  nlohmann::json json = SmallJson();
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Digits"}, {"individual_digits", true}},
                             {{"type", "Split"},
                              {"pattern", {{"String", "+"}}},
                              {"behavior", "Removed"},
                              {"invert", false}},
                             bytes}}};
  const Tokenizer t = Tokenizer::Parse(json.dump(), "t").value();
  EXPECT_THAT(t.Encode("a+b12", kOn), ElementsAre('a', 'b', '1', '2'));
}

TEST(Tokenizer, BothSpellingsOfMergesAreRead) {
  nlohmann::json json = SmallJson();
  json["model"]["merges"] = {"#version: 0.2", "b c", "a bc", "a b", "a a"};
  EXPECT_THAT(Tokenizer::Parse(json.dump(), "t")->Encode("abcaa", kOn), ElementsAre(258, 259));
}

TEST(Tokenizer, BytesWithoutATokenAreUnknownOrLeftOut) {
  nlohmann::json json = SmallJson();
  json["model"]["vocab"].erase("x");
  EXPECT_THAT(Tokenizer::Parse(json.dump(), "t")->Encode("axxb", kOn), ElementsAre(256));
  json["model"]["unk_token"] = "?";
  EXPECT_THAT(Tokenizer::Parse(json.dump(), "t")->Encode("axxb", kOn),
              ElementsAre('a', '?', '?', 'b'));
  json["model"]["fuse_unk"] = true;
  EXPECT_THAT(Tokenizer::Parse(json.dump(), "t")->Encode("axxb", kOn), ElementsAre('a', '?', 'b'));
}

TEST(Tokenizer, DecodingNeverFails) {
  const Tokenizer t = Make(SmallSpec());
  EXPECT_EQ(t.Decode(std::vector<TokenId>{-1, 'a', 999999, 0xC3, 'b', 0xC3, 0xA9}), "a\uFFFDbé");
  EXPECT_EQ(t.TokenBytes(-5), "");
  EXPECT_EQ(t.TokenBytes(258), "abc");
}

TEST(Tokenizer, InputThatIsNotUtf8IsReadAsReplacementCharacters) {
  const Tokenizer t = Make(SmallSpec());
  EXPECT_EQ(t.Decode(t.Encode("a\xff\xfe z", kOn)), "a\uFFFD\uFFFD z");
}

TEST(Tokenizer, AStreamNeverSplitsACharacterAndAddsUpToTheWhole) {
  const Tokenizer t = Make(SmallSpec());
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> ids(random() % 40);
    for (TokenId& id : ids)
      id = static_cast<TokenId>(random() % 3 ? 0x80 + random() % 128 : random() % 260);
    StreamDecoder stream(t);
    std::string text;
    for (const TokenId id : ids) text += stream.Push(id);
    EXPECT_EQ(text + stream.Finish(), t.Decode(ids)) << "round " << round;
  }
  StreamDecoder stream(t);
  for (const TokenId id : {0xF0, 0x9F, 0x99}) EXPECT_EQ(stream.Push(id), "");
  EXPECT_EQ(stream.Push(0x82), "\U0001F642");
}

TEST(Tokenizer, ABoundedTextIsEncodedWholeOrKnownToBeMore) {
  TokenizerSpec spec = SmallSpec();
  spec.added = {Added(260, "<end>")};
  spec.added[0].special = true;
  const Tokenizer t = Make(spec);
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n) {
      text += std::vector<std::string>{"a", "b", "c", "abc", " ", "<end>", "\xff"}[random() % 7];
    }
    const size_t most = random() % 60;
    const auto all = t.Encode(text, kOn);
    const auto bounded = t.EncodeBounded(text, {}, most);
    ASSERT_TRUE(bounded.ok());
    if (bounded->more == 0) {
      EXPECT_EQ(bounded->ids, all);
      continue;
    }
    EXPECT_GT(all.size(), most) << text;
    EXPECT_GT(bounded->ids.size() + bounded->more, most);
    EXPECT_LE(bounded->ids.size() + bounded->more, all.size()) << text;
    EXPECT_TRUE(std::equal(bounded->ids.begin(), bounded->ids.end(), all.begin()));
  }
}

TEST(Tokenizer, ABoundSavesTheWork) {
  const Tokenizer t = Make(SmallSpec());
  const auto run = t.EncodeBounded(std::string(size_t{8} << 20, 'a'), {}, 1000);
  EXPECT_EQ(run->ids.size(), 0u) << "one word that cannot fit";
  EXPECT_GT(run->more, 1000u);
  std::string words;
  while (words.size() < size_t{1} << 20) words += "ab ";
  const auto many = t.EncodeBounded(words, {}, 1000);
  EXPECT_LE(many->ids.size(), 1010u);
  EXPECT_GT(many->more, 0u);
}

TEST(Tokenizer, ATextThatCannotBeCutIsAnError) {
  nlohmann::json json = SmallJson();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "(a+)+[bc]"}};
  const Tokenizer t = Tokenizer::Parse(json.dump(), "t").value();
  EXPECT_TRUE(t.EncodeBounded("aab aab", {}, 100).ok());
  const auto refused = t.EncodeBounded(std::string(64, 'a'), {}, 100);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(), HasSubstr("too many steps"));
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Tokenizer t = Make(SmallSpec());
  const Tokenizer other = Make(ByteTokenizerSpec({}));
  const std::string text = "abc aab bca abcabc aaaa ab";
  const std::vector<TokenId> expected = t.Encode(text, kOn);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        EXPECT_EQ(t.Encode(text, kOn), expected);
        EXPECT_EQ(other.Encode(text, kOn).size(), text.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, WhatIsNotSupportedIsRefusedByName) {
  nlohmann::json json = SmallJson();
  json["model"]["type"] = "Unigram";
  ExpectRefused(json, "\"type\" \"Unigram\"");
  json = SmallJson();
  json["model"]["byte_fallback"] = true;
  ExpectRefused(json, "\"byte_fallback\"");
  json = SmallJson();
  json["model"]["dropout"] = 0.1;
  ExpectRefused(json, "\"dropout\"");
  json = SmallJson();
  json["normalizer"] = {{"type", "Lowercase"}};
  ExpectRefused(json, "\"normalizer\" Lowercase");
  json = SmallJson();
  json["pre_tokenizer"] = {{"type", "Metaspace"}};
  ExpectRefused(json, "ByteLevel");
  json = SmallJson();
  json["decoder"] = {{"type", "WordPiece"}};
  ExpectRefused(json, "\"decoder\" WordPiece");
}

TEST(Tokenizer, WrongFilesAreRefusedByName) {
  nlohmann::json json = SmallJson();
  json["model"]["merges"].push_back({"a", "zz"});
  ExpectRefused(json, "\"zz\" is not in the vocabulary");
  json = SmallJson();
  json["model"]["vocab"]["new"] = 3;
  ExpectRefused(json, "id 3 appears twice");
  json = SmallJson();
  json["model"]["vocab"]["new"] = 2000000000;
  ExpectRefused(json, "must be a token id below");
  json = SmallJson();
  json["added_tokens"] = {{{"id", 5}, {"content", "<s>"}}};
  ExpectRefused(json, "not each other's");
  json = SmallJson();
  json["added_tokens"] = {{{"id", 300}, {"content", ""}}};
  ExpectRefused(json, "\"content\"");
  json = SmallJson();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "(a"}};
  ExpectRefused(json, "\"pre_tokenizer\" Split");
  ExpectRefused(nlohmann::json::object(), "\"pre_tokenizer\" is missing");
  EXPECT_THAT(Tokenizer::Parse("{", "t.json").status().message(), HasSubstr("not JSON"));
}

TEST(TokenizerWriter, LearntMergesShortenTheTextAndItComesBack) {
  TokenizerSpec spec = ByteTokenizerSpec({"<|im_start|>", "<|im_end|>"});
  const std::string corpus = "int main() { return value; }\nint value = main();\n";
  ASSERT_TRUE(LearnMerges(corpus + corpus, 300, spec).ok());
  EXPECT_GT(spec.merges.size(), 10u);
  const Tokenizer t = Make(spec);
  const auto ids = t.Encode(corpus, kOff);
  EXPECT_LT(ids.size(), corpus.size() / 2);
  EXPECT_EQ(t.Decode(ids), corpus);
  EXPECT_THAT(t.Encode("<|im_end|>", kOn), ElementsAre(257));
}

TEST(TokenizerWriter, SpecsThatDoNotFitAreRefused) {
  TokenizerSpec spec = SmallSpec();
  spec.tokens.emplace_back("ab");
  EXPECT_FALSE(TokenizerJson(spec).ok());
  spec = SmallSpec();
  spec.merges.emplace_back("q", "q");
  EXPECT_FALSE(TokenizerJson(spec).ok());
  spec = SmallSpec();
  spec.added = {Added(270, "<gap>")};
  EXPECT_FALSE(TokenizerJson(spec).ok());
}

}  // namespace
}  // namespace tidemill

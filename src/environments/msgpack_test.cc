#include "environments/msgpack.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace tidemill {
namespace {

// nlohmann's writer is another one than our reader.
EnvironmentJson Drawn(Random& random, int depth) {
  switch (random.Below(depth > 4 ? 7 : 9)) {
    case 0:
      return nullptr;
    case 1:
      return random.Below(2) == 0;
    case 2:
      return random.Next() >> random.Below(64);
    case 3:
      return -static_cast<int64_t>(random.Next() >> (1 + random.Below(63))) - 1;
    case 4:
      return static_cast<double>(static_cast<int64_t>(random.Next())) / 1e6;
    case 5:
      return std::string(random.Below(4) == 0 ? random.Below(70000) : random.Below(300), 'x');
    case 6:
      return EnvironmentJson::binary(std::vector<uint8_t>(random.Below(70000), 7));
    case 7: {
      EnvironmentJson array = EnvironmentJson::array();
      for (uint64_t i = random.Below(20); i > 0; --i) array.push_back(Drawn(random, depth + 1));
      return array;
    }
    default: {
      EnvironmentJson object = EnvironmentJson::object();
      for (uint64_t i = random.Below(20); i > 0; --i) {
        object["k" + std::to_string(i)] = Drawn(random, depth + 1);
      }
      return object;
    }
  }
}

TEST(Msgpack, WhatAnotherWriterWritesIsReadBack) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const EnvironmentJson value = Drawn(random, 0);
    const auto read = ReadMsgpack(WriteMsgpack(value));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ASSERT_EQ(*read, value) << i;
  }
}

// Python: msgpack.packb({3: [1.5], -1: None, "d": {"data": b"\x00\xff"}}, use_bin_type=True)
TEST(Msgpack, NumbersMayBeKeysAndBytesStayBytes) {
  const std::string bytes(
      "\x83\x03\x91\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xff\xc0\xa1\x64\x81\xa4\x64\x61\x74\x61\xc4"
      "\x02\x00\xff",
      26);
  const auto read = ReadMsgpack(bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ((*read)["3"], EnvironmentJson::array({1.5}));
  EXPECT_TRUE((*read)["-1"].is_null());
  EXPECT_EQ((*read)["d"]["data"], EnvironmentJson::binary({0, 255}));
}

TEST(Msgpack, WhatIsNoneIsRefused) {
  const std::string whole =
      WriteMsgpack({{"a", EnvironmentJson::array({1, "text", 2.5, nullptr})}, {"b", -70000}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadMsgpack(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ReadMsgpack(whole + "\xC0").ok()) << "something follows";
  EXPECT_FALSE(ReadMsgpack("\xDD\xFF\xFF\xFF\xFF").ok()) << "longer than what follows";
  EXPECT_FALSE(ReadMsgpack("\xDF\x7F\xFF\xFF\xFF").ok());
  EXPECT_FALSE(ReadMsgpack("\xDB\xFF\xFF\xFF\xFFx").ok());
  EXPECT_FALSE(ReadMsgpack(std::string("\xC7\x01\x05\x00", 4)).ok()) << "an extension type";
  EXPECT_FALSE(ReadMsgpack("\x81\xC0\x01").ok()) << "a key that is nil";
  EXPECT_FALSE(ReadMsgpack(std::string(200, '\x91') + "\x01").ok()) << "too deep";
  EXPECT_TRUE(ReadMsgpack(std::string(50, '\x91') + "\x01").ok());
  EXPECT_FALSE(ReadMsgpack("\x93\x01\x02\x03", {.values = 3}).ok());
}

}  // namespace
}  // namespace tidemill

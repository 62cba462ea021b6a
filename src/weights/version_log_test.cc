#include "weights/version_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tidemill {
namespace {

using testing::HasSubstr;

// What every place sees: a folder in memory that counts and can fail.
struct Shelf {
  std::map<std::string, std::string, std::less<>> objects;
  uint64_t read = 0;
  std::string fails;  // the name that cannot be put
};

class ShelfPlace final : public ObjectPlace {
 public:
  explicit ShelfPlace(Shelf& shelf) : shelf_(shelf) {}
  Status Clear(std::span<const std::string_view> prefixes) override {
    for (const std::string_view prefix : prefixes) {
      std::erase_if(shelf_.objects, [&](const auto& o) { return o.first.starts_with(prefix); });
    }
    return Ok();
  }
  Status Put(std::string_view name, std::span<const std::string_view> parts) override {
    if (name == shelf_.fails) return Unavailable(Name(name) + ": no room");
    std::string all;
    for (const std::string_view part : parts) all += part;
    shelf_.objects[std::string(name)] = all;
    return Ok();
  }
  Status Remove(std::string_view name) override {
    if (const auto at = shelf_.objects.find(name); at != shelf_.objects.end())
      shelf_.objects.erase(at);
    return Ok();
  }
  Result<std::string> Get(std::string_view name, size_t) override {
    const auto at = shelf_.objects.find(name);
    if (at == shelf_.objects.end()) return NotFound(Name(name) + ": nothing there");
    return at->second;
  }
  Status Read(std::string_view name, std::span<std::byte> to) override {
    TM_ASSIGN_OR_RETURN(const std::string all, Get(name, 0));
    if (all.size() != to.size()) return Corrupt(Name(name) + ": has another size");
    std::copy_n(reinterpret_cast<const std::byte*>(all.data()), all.size(), to.begin());
    shelf_.read += all.size();
    return Ok();
  }
  std::string Name(std::string_view name) const override { return "shelf/" + std::string(name); }

 private:
  Shelf& shelf_;
};

constexpr size_t kCount = 50'000;

// A version differs from the one before in a hundred of its numbers.
std::vector<uint32_t> NumbersOf(uint64_t version) {
  std::vector<uint32_t> numbers(kCount);
  for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<uint32_t>(i * 2654435761u);
  for (uint64_t v = 1; v <= version; ++v) {
    for (size_t i = 0; i < 100; ++i) ++numbers[(v * 7919 + i * 487) % kCount];
  }
  return numbers;
}

class VersionLog : public testing::Test {
 protected:
  std::unique_ptr<VersionLogSink> Sink(size_t whole_every = 4) {
    return VersionLogSink::Create(std::make_unique<ShelfPlace>(shelf_),
                                  {.whole_every = whole_every})
        .value();
  }
  std::unique_ptr<WeightSource> Source() {
    return NewVersionLogSource(std::make_unique<ShelfPlace>(shelf_));
  }
  static Status Put(VersionLogSink& sink, uint64_t version) {
    const std::vector<uint32_t> numbers = NumbersOf(version);
    const TensorView view = {.name = "w",
                             .dtype = Dtype::kU32,
                             .shape = {kCount},
                             .data = reinterpret_cast<const std::byte*>(numbers.data()),
                             .bytes = 4 * kCount};
    const auto parts = LayOutSafetensors({&view, 1}, {}, "test").value();
    return sink.Put(version, version, *parts);
  }
  // That the source gives exactly `version`.
  void Expect(WeightSource& source, uint64_t have, uint64_t version) {
    const auto blob = source.NewerThan(have, buffers_);
    ASSERT_TRUE(blob.ok()) << blob.status().ToString();
    ASSERT_EQ(blob->version, version);
    const std::vector<uint32_t> numbers = NumbersOf(version);
    const std::string_view expected(reinterpret_cast<const char*>(numbers.data()), 4 * kCount);
    EXPECT_EQ(blob->view().substr(blob->bytes - expected.size()), expected);
  }

  Shelf shelf_;
  WeightBuffers buffers_;
};

TEST_F(VersionLog, WhoFollowsReadsWhatChangedAndWhoComesLateOneWholeVersion) {
  const auto sink = Sink();
  const auto follower = Source();
  ASSERT_TRUE(Put(*sink, 1).ok());
  Expect(*follower, 0, 1);
  const uint64_t whole = shelf_.read;
  EXPECT_EQ(sink->figures().bytes, sink->figures().whole);
  for (uint64_t version = 2; version <= 20; ++version) {
    ASSERT_TRUE(Put(*sink, version).ok());
    EXPECT_LT(sink->figures().bytes, whole / 50);
    EXPECT_NEAR(sink->figures().density, 0.002, 1e-4);
    Expect(*follower, version - 1, version);
  }
  EXPECT_LT(shelf_.read, whole + whole / 2) << "nineteen versions cost less than half of one";
  shelf_.read = 0;
  Expect(*Source(), 0, 20);
  EXPECT_LT(shelf_.read, whole + whole / 10);
}

TEST_F(VersionLog, WhoSleptReadsSeveralChangesOrAWholeVersionIfTheyAreGone) {
  const auto sink = Sink();
  const auto sleeper = Source();
  ASSERT_TRUE(Put(*sink, 1).ok());
  Expect(*sleeper, 0, 1);
  for (uint64_t version = 2; version <= 4; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  shelf_.read = 0;
  Expect(*sleeper, 1, 4);
  EXPECT_LT(shelf_.read, 4 * kCount / 10);
  for (uint64_t version = 5; version <= 40; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  shelf_.read = 0;
  Expect(*sleeper, 4, 40);
  EXPECT_GT(shelf_.read, 4 * kCount);
  EXPECT_LE(shelf_.objects.size(), 12u) << "what leads to old versions only is removed";
}

TEST_F(VersionLog, AVersionThatCannotBePutLeavesTheOneBeforeAndTheNextIsWhole) {
  for (const char* name : {"delta-00000002", "newest.json"}) {
    SCOPED_TRACE(name);
    const auto sink = Sink();
    const auto source = Source();
    ASSERT_TRUE(Put(*sink, 1).ok());
    Expect(*source, 0, 1);
    shelf_.fails = name;
    EXPECT_EQ(Put(*sink, 2).code(), Code::kUnavailable);
    EXPECT_EQ(source->NewerThan(1, buffers_)->version, 0u);
    EXPECT_EQ(shelf_.objects.size(), 2u);
    shelf_.fails.clear();
    ASSERT_TRUE(Put(*sink, 3).ok());
    EXPECT_EQ(sink->figures().density, 1);
    Expect(*source, 1, 3);
  }
}

TEST_F(VersionLog, ChangesOfAnotherPublisherAreNotApplied) {
  const auto first = Sink();
  const auto source = Source();
  for (uint64_t version = 1; version <= 3; ++version) ASSERT_TRUE(Put(*first, version).ok());
  Expect(*source, 0, 3);
  // A second publisher, whose version of the same number differs in one place.
  const auto second = Sink();
  std::vector<uint32_t> other = NumbersOf(3);
  ++other.back();
  const TensorView view = {.name = "w",
                           .dtype = Dtype::kU32,
                           .shape = {kCount},
                           .data = reinterpret_cast<const std::byte*>(other.data()),
                           .bytes = 4 * kCount};
  const auto parts = LayOutSafetensors({&view, 1}, {}, "test").value();
  ASSERT_TRUE(second->Put(3, 3, *parts).ok());
  ASSERT_TRUE(Put(*second, 4).ok());
  ASSERT_TRUE(shelf_.objects.contains("delta-00000004"));
  ASSERT_FALSE(shelf_.objects.contains("weights-00000004.safetensors"));
  Expect(*source, 3, 4);
}

TEST_F(VersionLog, OldWeightsThatArePutBackAreNotTaken) {
  const auto sink = Sink();
  const auto follower = Source();
  for (uint64_t version = 1; version <= 3; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  const Shelf earlier = shelf_;
  for (uint64_t version = 4; version <= 6; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  Expect(*follower, 3, 6);
  // The list and all that it names, as they were: every checksum is right.
  shelf_ = earlier;
  const auto none = follower->NewerThan(6, buffers_);
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_EQ(none->version, 0u);
  // Under the name of the next version they are not what the list says: the whole one is read.
  ASSERT_TRUE(Put(*sink, 7).ok());
  ASSERT_TRUE(shelf_.objects.contains("weights-00000007.safetensors"));
  shelf_.objects.at("delta-00000007") = earlier.objects.at("delta-00000003");
  Expect(*follower, 6, 7);
}

TEST_F(VersionLog, AMissingOrDamagedObjectIsNamedAndTheNextVersionTaken) {
  const auto sink = Sink();
  ASSERT_TRUE(Put(*sink, 1).ok());
  ASSERT_TRUE(Put(*sink, 2).ok());
  std::string& delta = shelf_.objects.at("delta-00000002");
  delta[delta.size() / 2] ^= 1;
  Status wrong = Source()->NewerThan(0, buffers_).status();
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), HasSubstr("shelf/delta-00000002: its checksum"));
  shelf_.objects.erase("delta-00000002");
  EXPECT_EQ(Source()->NewerThan(0, buffers_).status().code(), Code::kNotFound);
  for (uint64_t version = 3; version <= 5; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  Expect(*Source(), 0, 5);
  for (
      const char* log :
      {"not json", "{}", R"({"versions":[{"version":9,"location":"../../etc/passwd"}]})",
       R"({"versions":[{"version":"9","base":"9","location":"delta-00000009","bytes":"5","checksum":"00"}]})",
       R"({"versions":[{"version":"9","base":"8","location":"delta-00000009","bytes":"5","checksum":"00"}]})"}) {
    shelf_.objects["newest.json"] = log;
    EXPECT_EQ(Source()->NewerThan(0, buffers_).status().code(), Code::kCorrupt) << log;
  }
}

}  // namespace
}  // namespace tidemill

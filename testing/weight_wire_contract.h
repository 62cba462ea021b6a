// What every way of weights between processes promises: a suite that runs on each of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/object_place.h"
#include "testing/test_kit.h"
#include "weights/version_log.h"
#include "weights/weight_wire.h"

namespace tidemill {

inline constexpr size_t kSampleNumbers = 256 * 1024;  // of a version, 4 bytes each

// Weights of which every number that changes is the version's and its publisher's.
struct SampleWeights {
  explicit SampleWeights(uint64_t version, size_t count = kSampleNumbers, size_t stride = 1,
                         uint32_t publisher = 0)
      : numbers(count) {
    for (size_t i = 0; i < count; ++i) {
      numbers[i] = i % stride == 0 ? publisher * 1'000'000 + static_cast<uint32_t>(version)
                                   : static_cast<uint32_t>(i * 2654435761u);
    }
    const TensorView view = {.name = "w",
                             .dtype = Dtype::kF32,
                             .shape = {static_cast<int64_t>(count)},
                             .data = reinterpret_cast<const std::byte*>(numbers.data()),
                             .bytes = 4 * count};
    parts = LayOutSafetensors({&view, 1}, {{"format", "pt"}}, "sample").value();
  }
  std::vector<uint32_t> numbers;
  std::unique_ptr<const SafetensorsParts> parts;
};

// The version, if every number is its own and of one publisher; else 0.
inline uint64_t WholeVersion(const WeightBlob& blob, size_t stride = 1) {
  const auto header = ParseSafetensors(blob.view(), "sample");
  EXPECT_TRUE(header.ok()) << header.status().ToString();
  if (!header.ok()) return 0;
  const TensorView& view = header->tensors.at(0);
  std::vector<uint32_t> numbers(view.bytes / 4);
  std::memcpy(numbers.data(), view.data, view.bytes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t right = i % stride == 0 ? numbers[0] : static_cast<uint32_t>(i * 2654435761u);
    if (numbers[i] != right) return 0;
  }
  return numbers[0] % 1'000'000 == blob.version % 1'000'000 ? blob.version : 0;
}

class WeightWay {
 public:
  virtual ~WeightWay() = default;
  // Of a publisher; the next one's has the place to itself from then on, where it is one place.
  virtual std::unique_ptr<WeightSink> Sink() = 0;
  // Of what was made last.
  virtual std::unique_ptr<WeightSource> Source() = 0;
  // What a subscriber is told of the sink, where another process made it.
  virtual std::string location() const { return ""; }
  virtual void set_location(const std::string&) {}
  // A way of objects in a place: another connection to it; else null.
  virtual std::unique_ptr<ObjectPlace> Place() { return nullptr; }
};

// One of objects in a place.
class ObjectsWay final : public WeightWay {
 public:
  using Open = std::function<std::unique_ptr<ObjectPlace>()>;
  explicit ObjectsWay(Open open, size_t whole_every = 16, std::shared_ptr<void> keeps = nullptr)
      : keeps_(std::move(keeps)), open_(std::move(open)), whole_every_(whole_every) {}
  std::unique_ptr<WeightSink> Sink() override {
    return VersionLogSink::Create(open_(), {.whole_every = whole_every_}).value();
  }
  std::unique_ptr<WeightSource> Source() override { return NewVersionLogSource(open_()); }
  std::unique_ptr<ObjectPlace> Place() override { return open_(); }

 private:
  const std::shared_ptr<void> keeps_;
  const Open open_;
  const size_t whole_every_;
};

struct WeightWayCase {
  std::string name;
  std::function<std::unique_ptr<WeightWay>()> make;
  size_t stride = 1;    // of the numbers that change: deltas are made of few
  uint64_t many = 300;  // versions, one after the other
};

inline void PrintTo(const WeightWayCase& way, std::ostream* out) {
  *out << way.name;
}

class WeightWire : public testing::TestWithParam<WeightWayCase> {
 protected:
  std::unique_ptr<WeightSink> MakeSink() { return way_->Sink(); }
  std::unique_ptr<WeightSource> MakeSource() { return way_->Source(); }
  Status Put(WeightSink& sink, uint64_t version, uint32_t publisher = 0) const {
    const SampleWeights sample(version, kSampleNumbers, GetParam().stride, publisher);
    return sink.Put(version, 10 * version, *sample.parts);
  }
  uint64_t Whole(const WeightBlob& blob) const { return WholeVersion(blob, GetParam().stride); }

  const std::unique_ptr<WeightWay> way_ = GetParam().make();
  WeightBuffers buffers_;
};

TEST_P(WeightWire, GivesTheNewestVersionOnlyIfItIsNewer) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  EXPECT_EQ(source->NewerThan(0, buffers_)->version, 0u);
  for (const uint64_t version : {3, 4, 7}) ASSERT_TRUE(Put(*sink, version).ok());
  const auto blob = source->NewerThan(3, buffers_);
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_EQ(Whole(*blob), 7u);
  EXPECT_EQ(blob->step, 70u);
  EXPECT_EQ(source->NewerThan(7, buffers_)->version, 0u);
}

TEST_P(WeightWire, ASubscriberThatComesLateGetsTheNewest) {
  const auto sink = MakeSink();
  for (uint64_t version = 1; version <= 5; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  EXPECT_EQ(Whole(MakeSource()->NewerThan(0, buffers_).value()), 5u);
}

TEST_P(WeightWire, VersionsOnlyRise) {
  const auto sink = MakeSink();
  ASSERT_TRUE(Put(*sink, 4).ok());
  EXPECT_EQ(Put(*sink, 4).code(), Code::kInvalid);
  EXPECT_EQ(Put(*sink, 3).code(), Code::kInvalid);
  EXPECT_EQ(Whole(MakeSource()->NewerThan(0, buffers_).value()), 4u);
}

TEST_P(WeightWire, WhatWasTakenStaysAsItIsWhileOthersArePublished) {
  const auto sink = MakeSink();
  ASSERT_TRUE(Put(*sink, 1).ok());
  const auto source = MakeSource();
  const WeightBlob first = source->NewerThan(0, buffers_).value();
  for (uint64_t version = 2; version <= 6; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  const WeightBlob last = source->NewerThan(1, buffers_).value();
  EXPECT_EQ(Whole(first), 1u);
  EXPECT_EQ(Whole(last), 6u);
}

TEST_P(WeightWire, WhatIsReadIsWholeHoweverFastThePublisherIs) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  const uint64_t last = GetParam().many;
  std::atomic<bool> done{false};
  std::thread publisher([&] {
    for (uint64_t version = 1; version <= last; ++version) ASSERT_TRUE(Put(*sink, version).ok());
    done = true;
  });
  uint64_t have = 0;
  while (have < last) {
    const bool over = done;
    const auto blob = source->NewerThan(have, buffers_);
    ASSERT_TRUE(blob.ok()) << blob.status().ToString();
    ASSERT_FALSE(over && blob->version == 0) << "the last version was not given";
    if (blob->version == 0) continue;
    ASSERT_GT(blob->version, have);
    ASSERT_EQ(Whole(*blob), blob->version);
    have = blob->version;
  }
  publisher.join();
}

TEST_P(WeightWire, ASleepingSubscriberIsWoken) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  std::thread publisher([&] { ASSERT_TRUE(Put(*sink, 1).ok()); });
  const auto began = std::chrono::steady_clock::now();
  while (source->NewerThan(0, buffers_)->version == 0) {
    source->WaitForNewer(0, std::chrono::seconds(20));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  publisher.join();
}

// A publisher of its own process, killed at any moment.
TEST_P(WeightWire, APublisherKilledWhileWritingLeavesTheLastWholeVersion) {
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto sink = MakeSink();
      const std::string place = way_->location();
      (void)!write(pipes[1], place.data(), place.size());
      close(pipes[1]);
      for (uint64_t version = 1;; ++version) (void)Put(*sink, version);
    }
    close(pipes[1]);
    char place[256] = {};
    (void)!read(pipes[0], place, sizeof place - 1);
    close(pipes[0]);
    way_->set_location(place);
    // Opened before the end, like a worker that serves.
    std::unique_ptr<WeightSource> source = MakeSource();
    while (source->NewerThan(0, buffers_)->version == 0) {
      source->WaitForNewer(0, milliseconds(20));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const auto blob = source->NewerThan(0, buffers_);
    ASSERT_TRUE(blob.ok()) << blob.status().ToString();
    EXPECT_GT(Whole(*blob), 0u);
  }
  // The next publisher finds nothing in its way, and its versions are taken.
  const auto sink = MakeSink();
  EXPECT_EQ(MakeSource()->NewerThan(0, buffers_)->version, 0u);
  ASSERT_TRUE(Put(*sink, 1000000).ok());
  EXPECT_EQ(Whole(MakeSource()->NewerThan(0, buffers_).value()), 1000000u);
}

// A learner that resumed, and the one before it, which goes on where nobody stopped it.
TEST_P(WeightWire, TwoPublishersAtOnceNeverGiveAMixture) {
  const auto first = MakeSink();
  for (uint64_t version = 1; version <= 3; ++version) ASSERT_TRUE(Put(*first, version, 1).ok());
  const auto early = MakeSource();
  ASSERT_EQ(Whole(early->NewerThan(0, buffers_).value()), 3u);
  const auto second = MakeSink();
  const auto late = MakeSource();
  uint64_t early_has = 3, late_has = 0;
  const auto look = [&](WeightSource& source, uint64_t& have) {
    const auto blob = source.NewerThan(have, buffers_);
    if (!blob.ok()) {
      const Code code = blob.status().code();
      EXPECT_TRUE(code == Code::kCorrupt || code == Code::kNotFound) << blob.status().ToString();
    } else if (blob->version != 0) {
      EXPECT_EQ(Whole(*blob), blob->version) << "a mixture";
      EXPECT_GT(blob->version, have);
      have = blob->version;
    }
  };
  for (uint64_t version = 4; version <= 9; ++version) {
    (void)Put(*first, version, 1);
    look(*early, early_has);
    look(*late, late_has);
    ASSERT_TRUE(Put(*second, version, 2).ok());
    look(*late, late_has);
    look(*early, early_has);
  }
  // The first has ended: who follows the second has its versions again, with the next whole one.
  uint64_t newest = 9;
  while (late_has <= 9 && newest < 40) {
    ASSERT_TRUE(Put(*second, ++newest, 2).ok());
    look(*late, late_has);
  }
  EXPECT_GT(late_has, 9u);
}

// Ways of objects in a place, which may arrive in another order than they were put.
class WeightObjects : public WeightWire {
 protected:
  // Holds what is put back, but for the list of versions.
  class LatePlace final : public ObjectPlace {
   public:
    struct Held {
      bool holds = false;
      std::vector<std::pair<std::string, std::string>> objects{};
    };
    LatePlace(std::unique_ptr<ObjectPlace> place, Held& held)
        : place_(std::move(place)), held_(held) {}
    Status Clear(std::span<const std::string_view> prefixes) override {
      return place_->Clear(prefixes);
    }
    Status Put(std::string_view name, std::span<const std::string_view> parts) override {
      if (!held_.holds || name.ends_with(".json")) return place_->Put(name, parts);
      std::string all;
      for (const std::string_view part : parts) all += part;
      held_.objects.emplace_back(name, std::move(all));
      return Ok();
    }
    Status Remove(std::string_view name) override { return place_->Remove(name); }
    Result<std::string> Get(std::string_view name, size_t bytes_max) override {
      return place_->Get(name, bytes_max);
    }
    Status Read(std::string_view name, std::span<std::byte> to) override {
      return place_->Read(name, to);
    }
    std::string Name(std::string_view name) const override { return place_->Name(name); }

   private:
    const std::unique_ptr<ObjectPlace> place_;
    Held& held_;
  };
};

TEST_P(WeightObjects, AListThatComesBeforeItsObjectsGivesNothingUntilTheyAreThere) {
  LatePlace::Held held;
  const auto sink =
      VersionLogSink::Create(std::make_unique<LatePlace>(way_->Place(), held)).value();
  ASSERT_TRUE(Put(*sink, 1).ok());
  const auto source = MakeSource();
  ASSERT_EQ(Whole(source->NewerThan(0, buffers_).value()), 1u);
  held.holds = true;
  for (const uint64_t version : {2, 3}) ASSERT_TRUE(Put(*sink, version).ok());
  const auto place = way_->Place();
  // The last one first.
  while (!held.objects.empty()) {
    const Status missing = source->NewerThan(1, buffers_).status();
    EXPECT_EQ(missing.code(), Code::kNotFound) << missing.ToString();
    const auto [name, content] = std::move(held.objects.back());
    held.objects.pop_back();
    const std::string_view part = content;
    ASSERT_TRUE(place->Put(name, {&part, 1}).ok());
    const auto maybe = source->NewerThan(1, buffers_);
    if (maybe.ok() && maybe->version == 3) break;  // it is whole
  }
  EXPECT_EQ(Whole(source->NewerThan(1, buffers_).value()), 3u);
}

TEST_P(WeightObjects, AnObjectThatWasCutIsNamedAndTheVersionIsNotTaken) {
  const auto sink = MakeSink();
  ASSERT_TRUE(Put(*sink, 1).ok());
  const auto source = MakeSource();
  ASSERT_EQ(Whole(source->NewerThan(0, buffers_).value()), 1u);
  ASSERT_TRUE(Put(*sink, 2).ok());
  const auto place = way_->Place();
  const std::string_view cut = "short";
  bool replaced = false;
  for (const char* name : {"weights-00000002.safetensors", "delta-00000002"}) {
    if (!place->Get(name, size_t{1} << 30).ok()) continue;
    ASSERT_TRUE(place->Remove(name).ok());
    ASSERT_TRUE(place->Put(name, {&cut, 1}).ok());
    replaced = true;
  }
  ASSERT_TRUE(replaced);
  const auto blob = source->NewerThan(1, buffers_);
  ASSERT_FALSE(blob.ok()) << "version " << blob->version;
  EXPECT_EQ(blob.status().code(), Code::kCorrupt) << blob.status().ToString();
}

}  // namespace tidemill

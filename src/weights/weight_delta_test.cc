#include "weights/weight_delta.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tidemill {
namespace {

struct Shape {
  Dtype dtype;
  int64_t elements;
};

// A version whose bytes a test may change.
struct Version {
  explicit Version(const std::vector<Shape>& shapes, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (const Shape& shape : shapes) {
      auto& bytes =
          tensors.emplace_back(static_cast<size_t>(shape.elements) * DtypeSize(shape.dtype));
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    }
    LayOut(shapes);
  }
  Version(const Version& from, const std::vector<Shape>& shapes) : tensors(from.tensors) {
    LayOut(shapes);
  }
  void LayOut(const std::vector<Shape>& shapes) {
    std::vector<TensorView> views;
    for (size_t i = 0; i < shapes.size(); ++i) {
      views.push_back({.name = "t" + std::to_string(i),
                       .dtype = shapes[i].dtype,
                       .shape = {shapes[i].elements},
                       .data = tensors[i].data(),
                       .bytes = tensors[i].size()});
    }
    parts = LayOutSafetensors(views, {{"format", "pt"}}, "version").value();
  }
  std::string Bytes() const {
    std::string all;
    for (const std::string_view part : parts->parts) all += part;
    return all;
  }

  std::vector<std::vector<std::byte>> tensors;
  std::unique_ptr<const SafetensorsParts> parts;
};

// Adds a small number to the last byte of a share of the elements.
uint64_t Step(Version& version, const std::vector<Shape>& shapes, double share, uint64_t seed) {
  uint64_t random = seed;
  uint64_t changed = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t width = DtypeSize(shapes[i].dtype);
    for (size_t at = 0; at < version.tensors[i].size(); at += width) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      if (static_cast<double>(random >> 11) * 0x1p-53 >= share) continue;
      std::byte& low = version.tensors[i][at];
      low = static_cast<std::byte>(static_cast<uint8_t>(low) + 1 + (random >> 8) % 2);
      ++changed;
    }
  }
  return changed;
}

std::string Applied(const std::string& base, const std::string& delta) {
  std::string out(base.size(), 'x');
  const Status status =
      ApplyDelta(base, delta, reinterpret_cast<std::byte*>(out.data()), /*threads=*/2);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

const std::vector<Shape> kShapes = {
    {Dtype::kBF16, 300'000},   {Dtype::kF32, 70'001},     {Dtype::kI8, 9}, {Dtype::kF64, 33},
    {Dtype::kBF16, 2'200'000}, {Dtype::kF8E4M3, 100'003}, {Dtype::kF32, 0}};

TEST(WeightDelta, GivesTheNextVersionToTheBitAtAnyDensity) {
  for (const double share : {0.0, 0.001, 0.3, 1.0}) {
    SCOPED_TRACE(share);
    Version first(kShapes, 1);
    Version second(first, kShapes);
    const uint64_t changed = Step(second, kShapes, share, 2);
    DeltaMaker maker({.share_max = 2, .threads = 2});
    EXPECT_FALSE(maker.Next(*first.parts).has_value());
    const auto delta = maker.Next(*second.parts);
    ASSERT_TRUE(delta.has_value());
    EXPECT_EQ(Applied(first.Bytes(), *delta), second.Bytes());
    EXPECT_EQ(maker.figures().changed, changed);
    EXPECT_EQ(maker.figures().elements, 300'000u + 70'001 + 9 + 33 + 2'200'000 + 100'003);
    // The worst there is: all elements, in bits that do not compress.
    EXPECT_LE(delta->size(), 1.02 * static_cast<double>(first.Bytes().size()));
  }
}

TEST(WeightDelta, AFewChangesTakeATwentiethOfTheBytes) {
  const std::vector<Shape> shapes = {{Dtype::kBF16, 1'000'000}};
  Version version(shapes, 3);
  const double whole = static_cast<double>(version.Bytes().size());
  DeltaMaker maker({});
  (void)maker.Next(*version.parts);
  (void)Step(version, shapes, 0.02, 4);
  const auto delta = maker.Next(*version.parts);
  ASSERT_TRUE(delta.has_value());
  EXPECT_LT(static_cast<double>(delta->size()), whole / 20);
  const auto none = maker.Next(*version.parts);
  ASSERT_TRUE(none.has_value());
  EXPECT_LT(none->size(), 200u);
}

TEST(WeightDelta, IsNotMadeWhereItIsNotWorthItAndCountsOnFromThere) {
  const std::vector<Shape> shapes = {{Dtype::kF32, 100'000}};
  const Version first(shapes, 5);
  const Version other(shapes, 6);
  DeltaMaker maker({});
  EXPECT_FALSE(maker.Next(*first.parts).has_value());
  EXPECT_FALSE(maker.Next(*other.parts).has_value()) << "everything changed, in all bits";
  Version third(other, shapes);
  (void)Step(third, shapes, 0.01, 7);
  const auto delta = maker.Next(*third.parts);
  ASSERT_TRUE(delta.has_value());
  EXPECT_EQ(Applied(other.Bytes(), *delta), third.Bytes());
  const Version reshaped({{Dtype::kF32, 99'999}}, 8);
  EXPECT_FALSE(maker.Next(*reshaped.parts).has_value()) << "other tensors";
  const Version retyped({{Dtype::kBF16, 200'000}}, 8);
  EXPECT_FALSE(maker.Next(*retyped.parts).has_value()) << "other tensors";
  maker.Forget();
  EXPECT_FALSE(maker.Next(*retyped.parts).has_value());
}

TEST(WeightDelta, RefusesAnotherBase) {
  const std::vector<Shape> shapes = {{Dtype::kBF16, 5'000}, {Dtype::kBF16, 3'000}};
  Version first(shapes, 9);
  const std::string base = first.Bytes();
  DeltaMaker maker({});
  (void)maker.Next(*first.parts);
  (void)Step(first, shapes, 0.05, 10);
  const std::string delta = maker.Next(*first.parts).value();
  std::string out(base.size(), ' ');
  auto* to = reinterpret_cast<std::byte*>(out.data());
  for (const size_t at : {base.size() - 1, base.size() - 6'500}) {
    std::string other = base;
    other[at] ^= 1;
    EXPECT_EQ(ApplyDelta(other, delta, to).code(), Code::kInvalid) << at;
  }
  const std::string shorter = Version({{Dtype::kBF16, 5'000}}, 9).Bytes();
  EXPECT_EQ(ApplyDelta(shorter, delta, to).code(), Code::kInvalid);
}

TEST(WeightDelta, NoDamageGoesUnnoticed) {
  const std::vector<Shape> shapes = {{Dtype::kBF16, 2'000}, {Dtype::kF32, 300}};
  Version version(shapes, 11);
  const std::string base = version.Bytes();
  DeltaMaker maker({});
  (void)maker.Next(*version.parts);
  (void)Step(version, shapes, 0.1, 12);
  const std::string delta = maker.Next(*version.parts).value();
  std::string out(base.size(), ' ');
  auto* to = reinterpret_cast<std::byte*>(out.data());
  ASSERT_TRUE(ApplyDelta(base, delta, to).ok());
  for (size_t at = 0; at < delta.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xFF'}) {
      std::string damaged = delta;
      damaged[at] ^= flip;
      // A flipped bit may lie where the compressed form has room for several spellings.
      if (ApplyDelta(base, damaged, to).ok()) {
        EXPECT_EQ(out, version.Bytes()) << at;
      }
    }
    EXPECT_FALSE(ApplyDelta(base, delta.substr(0, at), to).ok()) << at;
  }
  EXPECT_EQ(ApplyDelta(base, delta + "x", to).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace tidemill

#include "model/torch/host_copies.h"

#include <gtest/gtest.h>

#include "model/torch/host_copy.h"
#include "testing/gpu_test_kit.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/pinned_lanes.h"
#endif

namespace tidemill {
namespace {

// Numbers that differ from place to place, where there are as many.
at::Tensor Counted(int64_t numbers, at::ScalarType type) {
  return at::arange(numbers, at::kLong)
      .remainder(251)
      .to(type)
      .to(at::Device(HasGpu() ? kTestDevice : "cpu"));
}

TEST(HostCopies, AreTheTensorsOfAllSizesAndTypesInMemoryOfTheirOwn) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  NamedTensors tensors{
      {"empty", Counted(0, at::kFloat)},
      {"one", Counted(1, at::kFloat)},
      {"piece", Counted(kPiece, at::kByte)},
      {"pieces and a rest", Counted(2 * kPiece + 12345, at::kByte)},
      {"bfloat16", Counted(kPiece + 1, at::kBFloat16)},
      {"not contiguous", Counted(6 * 1000, at::kShort).view({6, 1000}).t()},
      {"leaf", Counted(100, at::kFloat).set_requires_grad(true)},
  };
  NamedTensors copies = tensors;
  CopyMemory memory;
  memory.Reserve(CopyMemory::BytesOf(copies));
  HostCopies copying;
  copying.Add(copies, memory);
  copying.Ready();
  ASSERT_TRUE(copying.Take().ok());
  ASSERT_EQ(copies.size(), tensors.size());
  for (const auto& [name, copy] : copies) {
    const at::Tensor& tensor = tensors.at(name);
    EXPECT_TRUE(copy.is_cpu() && copy.is_contiguous() && !copy.requires_grad()) << name;
    EXPECT_EQ(copy.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(copy.numel() == 0 || copy.data_ptr() != tensor.data_ptr()) << name;
    EXPECT_TRUE(at::equal(copy, HostCopy(tensor))) << name;
  }
}

NamedTensors CopiesOf(const NamedTensors& tensors, CopyMemory& memory) {
  NamedTensors copies = tensors;
  memory.Reserve(CopyMemory::BytesOf(copies));
  HostCopies copying;
  copying.Add(copies, memory);
  copying.Ready();
  EXPECT_TRUE(copying.Take().ok());
  return copies;
}

TEST(CopyMemory, ServesOneSetOfCopiesAfterTheOther) {
  CopyMemory memory;
  memory.Reserve(1 << 20);
  memory.Touch();
  const auto place = [](const NamedTensors& copies) { return copies.at("x").data_ptr(); };
  const NamedTensors tensors{{"x", Counted(1000, at::kFloat)}, {"y", Counted(77, at::kShort)}};
  NamedTensors first = CopiesOf(tensors, memory);
  const void* const before = place(first);
  first.clear();
  first = CopiesOf(tensors, memory);
  EXPECT_EQ(place(first), before);
  EXPECT_EQ(memory.bytes(), uint64_t{1} << 20);
  // While the first are held the second lie elsewhere.
  const NamedTensors second = CopiesOf({{"x", Counted(1000, at::kFloat) + 1}}, memory);
  EXPECT_NE(place(second), before);
  EXPECT_TRUE(at::equal(first.at("x"), HostCopy(tensors.at("x"))));
  EXPECT_TRUE(at::equal(first.at("y"), HostCopy(tensors.at("y"))));
  memory.Release();
  EXPECT_EQ(memory.bytes(), 0u);
}

#ifdef TIDEMILL_CUDA
std::byte* Bytes(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

TEST(PinnedLanes, CarryPiecesToTheGpuAndBack) {
  SKIP_WITHOUT_GPU();
  constexpr size_t kBytes = 500;
  constexpr size_t kPieces = 21;
  const at::Tensor there = at::zeros(
      {kBytes * kPieces}, at::TensorOptions().dtype(at::kByte).device(at::Device(kTestDevice)));
  const at::Tensor back = at::zeros({kBytes * kPieces}, at::kByte);
  for (const int threads : {1, 4}) {
    ASSERT_TRUE(InPinnedLanes(there.device(), kPieces, threads, [&](PinnedLane& lane, size_t i) {
                  return lane.Send(Bytes(there) + i * kBytes, kBytes,
                                   [&](std::span<std::byte> out) {
                                     std::fill(out.begin(), out.end(), std::byte(i + threads));
                                   });
                }).ok());
    ASSERT_TRUE(InPinnedLanes(there.device(), kPieces, threads, [&](PinnedLane& lane, size_t i) {
                  return lane.Fetch(Bytes(back) + i * kBytes, Bytes(there) + i * kBytes, kBytes);
                }).ok());
    for (size_t i = 0; i < kBytes * kPieces; ++i) {
      ASSERT_EQ(Bytes(back)[i], std::byte(i / kBytes + static_cast<size_t>(threads))) << i;
    }
  }
}

TEST(PinnedLanes, AFailureOfOnePieceIsTheWholeFailure) {
  SKIP_WITHOUT_GPU();
  const Status status = InPinnedLanes(at::Device(kTestDevice), 100, 3, [](PinnedLane&, size_t i) {
    return i == 40 ? Internal("piece 40 is lost") : Ok();
  });
  EXPECT_EQ(status.message(), "piece 40 is lost");
  EXPECT_TRUE(InPinnedLanes(at::Device(kTestDevice), 0, 3, nullptr).ok());
}
#endif

}  // namespace
}  // namespace tidemill

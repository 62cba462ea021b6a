#include "bench/allreduce_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "learner/torch/rank_group.h"
#include "model/torch/aten.h"

namespace tidemill {
namespace {

double MedianMs(uint32_t repetitions, const std::function<void()>& work) {
  std::vector<double> took;
  for (uint32_t i = 0; i < repetitions; ++i) {
    const auto began = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - began;
    if (i >= 2) took.push_back(ms.count());
  }
  std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2),
                   took.end());
  return took[took.size() / 2];
}

at::Tensor OfMegabytes(uint64_t megabytes) {
  return at::ones({static_cast<int64_t>(std::max<uint64_t>(1, megabytes * 250'000))});
}

double MedianCopyMs(uint64_t megabytes, uint32_t repetitions) {
  const at::Tensor from = OfMegabytes(megabytes), to = OfMegabytes(megabytes);
  return MedianMs(repetitions, [&] { std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes()); });
}

// The same sums in the same order on every rank.
Status Follow(const RankGroupOptions& meeting, const AllreduceBenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const auto group, RankGroup::Join(meeting));
  const auto repeat = [&](uint64_t megabytes) -> Status {
    const at::Tensor tensor = OfMegabytes(megabytes);
    for (uint32_t i = 0; i < options.repetitions; ++i) TM_RETURN_IF_ERROR(group->Sum({tensor}));
    return Ok();
  };
  TM_RETURN_IF_ERROR(repeat(0));
  for (uint64_t megabytes : options.megabytes) TM_RETURN_IF_ERROR(repeat(megabytes));
  return Ok();
}

Result<AllreduceBenchReport> Lead(const RankGroupOptions& meeting,
                                  const AllreduceBenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const auto group, RankGroup::Gather(meeting));
  AllreduceBenchReport report;
  report.ranks = group->size();
  Status status;
  const auto sum = [&](uint64_t megabytes) {
    const at::Tensor tensor = OfMegabytes(megabytes);
    return MedianMs(options.repetitions, [&] {
      if (status.ok()) status = group->Sum({tensor});
    });
  };
  report.empty_ms = sum(0);
  for (uint64_t megabytes : options.megabytes) {
    AllreduceSize size;
    size.megabytes = megabytes;
    size.sum_ms = sum(megabytes);
    size.copy_ms = MedianCopyMs(megabytes, options.repetitions);
    size.by_copy = size.sum_ms / size.copy_ms;
    report.sizes.push_back(size);
  }
  if (!status.ok()) return status;
  return report;
}

}  // namespace

std::string AllreduceBenchReport::ToText() const {
  std::string text =
      fmt::format("{} ranks on this machine; a sum of one number {:.3f} ms\n", ranks, empty_ms);
  for (const AllreduceSize& size : sizes) {
    text += fmt::format("{:>5} MB  sum {:8.2f} ms  copy {:7.2f} ms  {:5.1f} copies\n",
                        size.megabytes, size.sum_ms, size.copy_ms, size.by_copy);
  }
  text.pop_back();
  return text;
}

std::string AllreduceBenchReport::ToJson() const {
  std::string list;
  for (const AllreduceSize& size : sizes) {
    list += fmt::format(R"({}{{"megabytes":{},"sum_ms":{:.3f},"copy_ms":{:.3f},"by_copy":{:.2f}}})",
                        list.empty() ? "" : ",", size.megabytes, size.sum_ms, size.copy_ms,
                        size.by_copy);
  }
  return fmt::format(R"({{"bench":"allreduce","ranks":{},"empty_ms":{:.4f},"sizes":[{}]}})", ranks,
                     empty_ms, list);
}

Result<AllreduceBenchReport> RunAllreduceBench(const AllreduceBenchOptions& options) {
  if (options.ranks < 2 || options.repetitions < 3) {
    return Invalid("there must be at least 2 ranks and 3 repetitions");
  }
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "tidemill-allreduce-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return Unavailable(folder + ": " + std::strerror(errno));
  RankGroupOptions meeting;
  meeting.meeting = "file:" + folder + "/meeting";
  meeting.ranks = options.ranks;
  meeting.join_limit = std::chrono::seconds(30);
  std::vector<std::thread> others;
  for (int rank = 1; rank < options.ranks && RankGroup::Available(); ++rank) {
    others.emplace_back([&] { (void)Follow(meeting, options); });
  }
  Result<AllreduceBenchReport> report = Lead(meeting, options);
  for (std::thread& other : others) other.join();
  std::filesystem::remove_all(folder, error);
  return report;
}

}  // namespace tidemill

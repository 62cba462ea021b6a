#include "tests/cuda_host/block.h"

#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace cuda_host {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kAllLanes = 0xffffffffu;

// SplitMix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t Roll() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

// Lanes of one mask that meet. Values of the meeting before stay: a lane that was slow to look has
// not arrived at this one, so nobody is further ahead.
struct LanesMeeting {
  unsigned mask = 0;
  unsigned arrived = 0;
  Meeting kind = Meeting::kSync;
  unsigned turn = 0;
  LaneValues values[2];
};

struct Warp {
  unsigned ready = 0;                                   // lanes that can go on
  std::vector<std::unique_ptr<LanesMeeting>> meetings;  // by mask
};

class Block {
 public:
  void Run(const KernelLaunch& launch, const std::function<void()>& body, Dice& dice);
  void Barrier();
  const LaneValues& Meet(Meeting kind, unsigned mask, const void* value, size_t bytes,
                         void (*last)(LaneValues&));
  void* shared() { return shared_.data(); }
  [[noreturn]] void Wrong(const std::string& what) const;
  bool running() const { return launch_ != nullptr; }

 private:
  void Prepare(const KernelLaunch& launch);
  context::fiber NewFiber();
  void RunWarp(unsigned index, Dice& dice);
  void Wake(unsigned warp, unsigned lanes) {
    warps_[warp].ready |= lanes;
    ready_warps_ |= 1u << warp;
  }
  // Back to the scheduler until somebody wakes this thread.
  void Wait() { scheduler_ = std::move(scheduler_).resume(); }
  std::string Stuck() const;
  unsigned threads() const { return launch_->threads; }

  const KernelLaunch* launch_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  std::vector<context::fiber> fibers_;  // kept from block to block
  context::fiber scheduler_;
  std::vector<Warp> warps_;
  unsigned ready_warps_ = 0;
  unsigned at_barrier_ = 0;
  unsigned left_ = 0;  // threads that are done
  std::vector<uint4> shared_;
};

Block& ThisBlock() {
  static thread_local Block block;
  return block;
}

void Block::Wrong(const std::string& what) const {
  std::fprintf(stderr, "cuda_host: %s, block (%u, %u, %u), thread %u: %s\n",
               launch_ != nullptr ? NameOfKernel(launch_->kernel).c_str() : "no kernel", blockIdx.x,
               blockIdx.y, blockIdx.z, threadIdx.x, what.c_str());
  std::abort();
}

context::fiber Block::NewFiber() {
  return {std::allocator_arg, context::protected_fixedsize_stack(kStackBytes),
          [this](context::fiber&& scheduler) {
            scheduler_ = std::move(scheduler);
            for (;;) {
              (*body_)();
              ++left_;
              Wait();
            }
            return std::move(scheduler_);
          }};
}

void Block::Prepare(const KernelLaunch& launch) {
  launch_ = &launch;
  while (fibers_.size() < launch.threads) fibers_.push_back(NewFiber());
  warps_.resize((launch.threads + 31) / 32);
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned lanes = std::min(32u, launch.threads - w * 32);
    Wake(w, lanes == 32 ? kAllLanes : (1u << lanes) - 1);
    for (const auto& meeting : warps_[w].meetings) meeting->arrived = 0;
  }
  at_barrier_ = left_ = 0;
  // What the block before left there is no value.
  const uint4 none = make_uint4(kAllLanes, kAllLanes, kAllLanes, kAllLanes);
  shared_.assign((launch.shared_bytes + 15) / 16, none);
}

// Its lanes upwards or downwards, until it waits or another warp is let ahead.
void Block::RunWarp(unsigned index, Dice& dice) {
  Warp& warp = warps_[index];
  const uint64_t roll = dice.Roll();
  const bool down = (roll & 1) != 0;
  for (unsigned left = 32 + (roll >> 1 & 1023); warp.ready != 0 && left > 0; --left) {
    const unsigned lane = static_cast<unsigned>(down ? 31 - std::countl_zero(warp.ready)
                                                     : std::countr_zero(warp.ready));
    warp.ready &= ~(1u << lane);
    threadIdx = {index * 32 + lane, 0, 0};
    context::fiber& fiber = fibers_[threadIdx.x];
    fiber = std::move(fiber).resume();
  }
  if (warp.ready == 0) ready_warps_ &= ~(1u << index);
}

void Block::Run(const KernelLaunch& launch, const std::function<void()>& body, Dice& dice) {
  body_ = &body;
  Prepare(launch);
  while (left_ < launch.threads) {
    if (ready_warps_ == 0) Wrong(Stuck());
    const int turn = static_cast<int>(dice.Roll() & 31);
    const int warp = (std::countr_zero(std::rotr(ready_warps_, turn)) + turn) & 31;
    RunWarp(static_cast<unsigned>(warp), dice);
  }
  launch_ = nullptr;
}

std::string Block::Stuck() const {
  std::string what = "no thread can go on: " + std::to_string(left_) + " of " +
                     std::to_string(threads()) + " have left the kernel, " +
                     std::to_string(at_barrier_) + " wait at __syncthreads";
  for (size_t w = 0; w < warps_.size(); ++w) {
    for (const auto& meeting : warps_[w].meetings) {
      if (meeting->arrived == 0) continue;
      char text[160];
      std::snprintf(text, sizeof(text),
                    "; in warp %zu the lanes %08x of the mask %08x wait for the others in a warp "
                    "operation",
                    w, meeting->arrived, meeting->mask);
      what += text;
    }
  }
  return what;
}

void Block::Barrier() {
  if (++at_barrier_ < threads()) return Wait();
  at_barrier_ = 0;
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned lanes = std::min(32u, threads() - w * 32);
    Wake(w, lanes == 32 ? kAllLanes : (1u << lanes) - 1);
  }
  // This thread goes on by itself.
  warps_[threadIdx.x / 32].ready &= ~(1u << threadIdx.x % 32);
}

const LaneValues& Block::Meet(Meeting kind, unsigned mask, const void* value, size_t bytes,
                              void (*last)(LaneValues&)) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if ((mask >> lane & 1) == 0) Wrong("a lane calls a warp operation whose mask leaves it out");
  LanesMeeting* meeting = nullptr;
  for (const auto& known : warps_[warp].meetings) {
    if (known->mask == mask) meeting = known.get();
  }
  if (meeting == nullptr) {
    meeting = warps_[warp].meetings.emplace_back(std::make_unique<LanesMeeting>()).get();
    meeting->mask = mask;
  }
  if (meeting->arrived == 0) meeting->kind = kind;
  if (meeting->kind != kind) Wrong("the lanes of a warp are in different warp operations");
  LaneValues& values = meeting->values[meeting->turn];
  if (bytes > 0) std::memcpy(values.of[lane], value, bytes);
  meeting->arrived |= 1u << lane;
  if (meeting->arrived != mask) {
    Wait();
    return values;
  }
  if (last != nullptr) last(values);
  meeting->arrived = 0;
  meeting->turn ^= 1;
  Wake(warp, mask & ~(1u << lane));
  return values;
}

uint64_t Seed() {
  const char* given = std::getenv("TIDEMILL_CUDA_HOST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

}  // namespace

void RunKernel(const KernelLaunch& launch, const std::function<void()>& body) {
  static std::atomic<uint64_t> launches{0};
  static const uint64_t seed = Seed();
  Block& block = ThisBlock();
  if (block.running()) block.Wrong("a kernel launches another");
  Dice dice(Dice(seed).Roll() ^ launches++);
  gridDim = launch.grid;
  blockDim = dim3(launch.threads);
  const uint64_t count =
      static_cast<uint64_t>(launch.grid.x) * launch.grid.y * static_cast<uint64_t>(launch.grid.z);
  uint64_t stride = dice.Roll() % count + 1, at = dice.Roll() % count;
  while (std::gcd(stride, count) != 1) ++stride;
  for (uint64_t n = 0; n < count; ++n, at = (at + stride) % count) {
    blockIdx = {static_cast<unsigned>(at % launch.grid.x),
                static_cast<unsigned>(at / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(at / launch.grid.x / launch.grid.y)};
    block.Run(launch, body, dice);
  }
}

void* DynamicShared() {
  return ThisBlock().shared();
}

const LaneValues& Meet(Meeting kind, unsigned mask, const void* value, size_t bytes,
                       void (*last)(LaneValues&)) {
  return ThisBlock().Meet(kind, mask, value, bytes, last);
}

void Wrong(const char* what) {
  ThisBlock().Wrong(what);
}

}  // namespace cuda_host

void __syncthreads() {
  cuda_host::ThisBlock().Barrier();
}

// The limits of a render, and how it ends at one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "conversation/jinja/chat_template.h"

namespace tidemill {

// Thrown inside this folder only; ChatTemplate turns it into a Status at its edge.
struct JinjaError {
  std::string message;
  bool placed = false;  // the message already names template, line and expression
};

[[noreturn]] inline void JinjaFail(std::string message) {
  throw JinjaError{std::move(message)};
}

// Counts of one render; belongs to one thread. Every method throws JinjaError at its bound.
class RenderBudget {
 public:
  explicit RenderBudget(const RenderLimits& limits) : limits_(limits) {}
  RenderBudget(const RenderBudget&) = delete;
  RenderBudget& operator=(const RenderBudget&) = delete;

  void Step(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > limits_.steps_max) {
      JinjaFail("takes more than " + std::to_string(limits_.steps_max) + " steps");
    }
  }
  void Take(size_t bytes) {
    Step(bytes / 128);
    if (bytes > limits_.memory_bytes_max - held_) {
      JinjaFail("holds more than " + std::to_string(limits_.memory_bytes_max) + " bytes");
    }
    held_ += bytes;
  }
  void Give(size_t bytes) { held_ -= bytes; }
  void Enter() {
    if (depth_ >= limits_.depth_max) {
      JinjaFail("nests deeper than " + std::to_string(limits_.depth_max) + " levels");
    }
    ++depth_;
  }
  void Leave() { --depth_; }
  const RenderLimits& limits() const { return limits_; }

 private:
  const RenderLimits limits_;
  uint64_t steps_ = 0;
  size_t held_ = 0;  // bytes
  int depth_ = 0;
};

// One level of nesting, as long as it lives.
class DepthGuard {
 public:
  explicit DepthGuard(RenderBudget& budget) : budget_(budget) { budget_.Enter(); }
  ~DepthGuard() { budget_.Leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  RenderBudget& budget_;
};

// Bytes of the budget, given back when it goes. Without a budget it counts nothing.
class MemoryLease {
 public:
  MemoryLease() = default;
  explicit MemoryLease(RenderBudget* budget) : budget_(budget) {}
  MemoryLease(MemoryLease&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryLease& operator=(MemoryLease&&) = delete;
  ~MemoryLease() {
    if (budget_ != nullptr) budget_->Give(bytes_);
  }
  void Add(size_t bytes) {
    if (budget_ == nullptr) return;
    budget_->Take(bytes);
    bytes_ += bytes;
  }

 private:
  RenderBudget* budget_ = nullptr;  // outlives every value of its render
  size_t bytes_ = 0;
};

}  // namespace tidemill

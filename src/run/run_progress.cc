#include "run/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

constexpr double kWindowSeconds = 30;

}  // namespace

std::string ShortNumber(double number) {
  const double size = std::abs(number);
  if (size >= 10 || size == 0) return fmt::format("{:.0f}", number);
  if (size >= 1) return fmt::format("{:.1f}", number);
  return size >= 0.01 ? fmt::format("{:.2f}", number) : fmt::format("{:.1g}", number);
}

std::string TimeText(double seconds) {
  const auto s = static_cast<uint64_t>(std::max(0.0, std::ceil(seconds)));
  const auto two = [](uint64_t large, const char* a, uint64_t small, const char* b) {
    return small == 0 ? fmt::format("{} {}", large, a)
                      : fmt::format("{} {} {} {}", large, a, small, b);
  };
  if (s < 120) return fmt::format("{} s", s);
  const uint64_t minutes = (s + 30) / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return two(minutes / 60, "h", minutes % 60, "min");
  return two(minutes / 1440, "d", minutes % 1440 / 60, "h");
}

void RunProgress::Take(const RunSnapshot& now) {
  if (began_ < 0) began_ = now.seconds, first_step_ = last_step_ = now["steps"];
  if (now["steps"] > last_step_) {
    const bool first = last_step_ == first_step_ && first_at_ == 0;
    last_step_ = now["steps"];
    last_at_ = now.seconds;
    // The time before the first step is not that of a step: an evaluation may be in it.
    if (first) first_step_ = last_step_, first_at_ = last_at_;
  }
  if (window_.size() >= 2 && now.seconds - window_[window_.size() - 2].seconds < 1) {
    window_.pop_back();
  }
  window_.push_back({now.seconds, now.counts});
  while (window_.size() > 2 && now.seconds - window_[1].seconds >= kWindowSeconds) {
    window_.pop_front();
  }
}

uint64_t RunProgress::steps() const {
  return last_step_;
}

double RunProgress::Rate(std::string_view key) const {
  if (window_.size() < 2) return 0;
  const auto of = [key](const Known& known) {
    const auto found = known.counts.find(key);
    return found == known.counts.end() ? 0.0 : static_cast<double>(found->second);
  };
  const double passed = window_.back().seconds - window_.front().seconds;
  return passed <= 0 ? 0 : std::max(0.0, of(window_.back()) - of(window_.front())) / passed;
}

std::optional<double> RunProgress::LeftBySteps() const {
  if (goal_.steps == 0) return std::nullopt;
  if (steps() >= goal_.steps) return 0;
  if (last_step_ == first_step_) return std::nullopt;
  const double spent = last_at_ - first_at_, done = static_cast<double>(last_step_ - first_step_);
  const double since = window_.back().seconds - last_at_;
  // A step that takes longer than those before counts as if it ended now: a run that stands still
  // does not come closer to its end.
  const double pace = std::max(spent / done, (spent + since) / (done + 1));
  return pace * static_cast<double>(goal_.steps - steps()) - std::min(since, pace);
}

std::optional<double> RunProgress::LeftByTime() const {
  if (goal_.minutes <= 0 || window_.empty()) return std::nullopt;
  return std::max(0.0, goal_.minutes * 60 - (window_.back().seconds - began_));
}

bool RunProgress::EndsByTime() const {
  const auto by_time = LeftByTime(), by_steps = LeftBySteps();
  return by_time && (!by_steps || *by_time < *by_steps);
}

std::optional<double> RunProgress::SecondsLeft() const {
  return EndsByTime() ? LeftByTime() : LeftBySteps();
}

double RunProgress::Share() const {
  if (EndsByTime()) return 1 - *LeftByTime() / (goal_.minutes * 60);
  if (goal_.steps == 0) return 0;
  return std::min(1.0, static_cast<double>(steps()) / static_cast<double>(goal_.steps));
}

std::string RunProgress::Text() const {
  if (goal_.steps == 0) return "evaluation";
  std::string text = fmt::format("step {}", steps());
  if (!EndsByTime()) text += fmt::format("/{}", goal_.steps);
  if (const auto left = SecondsLeft()) text += ", " + TimeText(*left) + " left";
  return text;
}

}  // namespace tidemill

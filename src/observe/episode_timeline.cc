#include "observe/episode_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tidemill {
namespace {

constexpr int kLaneColumns = 60;
constexpr size_t kLanesMax = 12;  // of calls

// Which columns of a lane a span of time takes, one at least.
class LaneScale {
 public:
  LaneScale(int64_t from_ms, int64_t to_ms) : from_(from_ms), length_(to_ms - from_ms) {}

  void Draw(double from_ms, double to_ms, char sign, std::string& lane) const {
    const int first = ColumnOf(from_ms);
    const int last = std::max(first, ColumnOf(to_ms) - 1);
    for (int column = first; column <= last; ++column) lane[static_cast<size_t>(column)] = sign;
  }

 private:
  int ColumnOf(double ms) const {
    const double share = (ms - static_cast<double>(from_)) / static_cast<double>(length_);
    return std::clamp(static_cast<int>(share * kLaneColumns), 0, kLaneColumns - 1);
  }

  int64_t from_, length_;
};

std::string LaneText(const std::string& name, std::string lane) {
  lane.erase(lane.find_last_not_of(' ') + 1);
  return fmt::format("  {:<16} {}\n", name, lane);
}

std::string CallLane(const v1::ToolCall& call, int64_t end_ms, const LaneScale& scale) {
  std::string lane(kLaneColumns, ' ');
  const auto asked = static_cast<double>(call.asked_ms());
  const auto over = static_cast<double>(call.answered_ms() > 0 ? call.answered_ms() : end_ms);
  const double begun = std::min(over, asked + call.queue_ms());
  scale.Draw(asked, over, call.cancelled() ? 'x' : '=', lane);
  if (begun > asked) scale.Draw(asked, begun, '-', lane);
  const std::string name = call.handle().empty() ? call.tool() : call.handle() + " " + call.tool();
  return LaneText(name.substr(0, 16), std::move(lane));
}

}  // namespace

std::string TimelineText(const v1::Trajectory& trajectory) {
  const int64_t length = trajectory.finished_ms() - trajectory.started_ms();
  if (!trajectory.has_time() || length <= 0) return "";
  const v1::EpisodeTime& time = trajectory.time();
  std::string text = fmt::format(
      "  {:.2f} s: generating {:.2f} s, waiting for tools {:.2f} s, for a place {:.2f} s\n",
      static_cast<double>(length) / 1e3, time.generating_ms() / 1e3, time.tool_ms() / 1e3,
      time.place_ms() / 1e3);
  const LaneScale scale(trajectory.started_ms(), trajectory.finished_ms());
  std::string turns(kLaneColumns, ' ');
  std::vector<const v1::ToolCall*> calls;
  for (const v1::Turn& turn : trajectory.turns()) {
    if (turn.finished_ms() >= turn.started_ms() && turn.started_ms() > 0) {
      scale.Draw(static_cast<double>(turn.started_ms()), static_cast<double>(turn.finished_ms()),
                 '#', turns);
    }
    for (const v1::ToolCall& call : turn.calls()) {
      if (call.asked_ms() > 0) calls.push_back(&call);
    }
  }
  text += LaneText("turns", std::move(turns));
  for (size_t i = 0; i < std::min(calls.size(), kLanesMax); ++i) {
    text += CallLane(*calls[i], trajectory.finished_ms(), scale);
  }
  if (calls.size() > kLanesMax) {
    text += fmt::format("  and {} calls more\n", calls.size() - kLanesMax);
  }
  return text;
}

}  // namespace tidemill

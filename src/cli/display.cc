#include "cli/display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/text.h"
#include "run/sparkline.h"

namespace tidemill {
namespace {

constexpr size_t kSparks = 48;
constexpr double kLineSeconds = 10;
constexpr double kBlockSeconds = 0.25;

double NumberOf(const JournalEntry& entry, const char* name, double otherwise) {
  auto it = entry.numbers.find(name);
  return it == entry.numbers.end() ? otherwise : it->second;
}

// Of every episode scored so far.
std::string PassText(const RunSnapshot& s) {
  if (s["scored"] == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(s["solved"]) / static_cast<double>(s["scored"]));
}

// Before the first step there is no batch, and no rate of it.
template <typename Rates>
std::string BatchText(const Rates& rates) {
  return rates.empty() ? "-" : fmt::format("{:.2f}", rates.back());
}

std::string BusyText(const RunSnapshot& snapshot, bool ports) {
  std::string text;
  for (const BusyShare& busy : snapshot.busy) {
    if (busy.port == ports) text += fmt::format(" {} {:.0f}%", busy.name, 100 * busy.share);
  }
  return text;
}

}  // namespace

Display::Display(std::FILE* out, const RunGoal& goal)
    : out_(out), terminal_(out != nullptr && isatty(fileno(out)) == 1), progress_(goal) {}

Display::~Display() {
  Finish();
}

void Display::Clear() {
  if (lines_drawn_ > 0) std::fprintf(out_, "\x1b[%dA\x1b[J", lines_drawn_);
  lines_drawn_ = 0;
}

void Display::Finish() {
  lines_drawn_ = 0;
}

void Display::Show(const JournalEntry& entry) {
  if (out_ == nullptr) return;
  if (entry.kind == "step") {
    pass_rates_.push_back(NumberOf(entry, "batch_pass_rate", 0));
    if (pass_rates_.size() > kSparks) pass_rates_.pop_front();
    reward_ = NumberOf(entry, "reward", 0);
    lag_ = NumberOf(entry, "lag_mean", lag_);
    loss_ = NumberOf(entry, "loss", loss_);
    entropy_ = NumberOf(entry, "entropy", entropy_);
    return;
  }
  std::string line;
  if (entry.kind == "eval") {
    const double unscored = NumberOf(entry, "unscored", 0), all = NumberOf(entry, "episodes", 0);
    line = fmt::format("eval {}: ", entry.words.at("name"));
    if (entry.numbers.contains("pass_rate")) {
      line += fmt::format("pass rate {:.1f} % of {:.0f} episodes",
                          100 * NumberOf(entry, "pass_rate", 0), all - unscored);
    }
    if (unscored > 0) {
      line += fmt::format("{}{:.0f} episodes could not be scored", unscored < all ? "; " : "",
                          unscored);
    }
  } else if (entry.kind == "checkpoint") {
    line = "checkpoint " + entry.words.at("path");
  } else if (entry.kind == "warning") {
    line = "warning: " + entry.words.at("what");
  }
  if (line.empty()) return;
  Clear();
  std::fprintf(out_, "%s\n", ForTerminal(line).c_str());
  std::fflush(out_);
}

void Display::Show(const RunSnapshot& snapshot) {
  if (out_ == nullptr) return;
  progress_.Take(snapshot);
  if (snapshot.seconds < next_draw_at_) return;
  next_draw_at_ = snapshot.seconds + (terminal_ ? kBlockSeconds : kLineSeconds);
  terminal_ ? DrawBlock(snapshot) : DrawLine(snapshot);
}

void Display::DrawLine(const RunSnapshot& s) {
  const std::string line = fmt::format(
      "{:6.0f} s  {}  pass {}  batch pass {}  reward {}  lag {:.1f}  {} episodes/s  gen {} tok/s  "
      "train {} tok/s  busy{}\n",
      s.seconds, progress_.Text(), PassText(s), BatchText(pass_rates_),
      pass_rates_.empty() ? "-" : fmt::format("{:.3f}", reward_), lag_,
      ShortNumber(progress_.Rate("episodes_finished")),
      ShortNumber(progress_.Rate("generated_tokens")),
      ShortNumber(progress_.Rate("trained_tokens")), BusyText(s, true));
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

void Display::DrawBlock(const RunSnapshot& s) {
  Clear();
  std::string text;
  const int filled = static_cast<int>(progress_.Share() * 40);
  text += fmt::format("[{:<40}] {}  version {}  epoch {}  {} so far\n",
                      std::string(static_cast<size_t>(filled), '#'), progress_.Text(), s["version"],
                      s["epoch"], TimeText(s.seconds));
  text += fmt::format("pass   {} of all episodes, {} of the newest batch  {}\n", PassText(s),
                      BatchText(pass_rates_), Sparkline(pass_rates_));
  text += fmt::format("learn  reward {:.3f}  loss {:.4f}  entropy {:.3f}  lag {:.1f}\n", reward_,
                      loss_, entropy_, lag_);
  text += fmt::format("rate   {} episodes/s  generated {} tok/s  trained {} tok/s\n",
                      ShortNumber(progress_.Rate("episodes_finished")),
                      ShortNumber(progress_.Rate("generated_tokens")),
                      ShortNumber(progress_.Rate("trained_tokens")));
  const uint64_t hits = s["cache_hits"] + s["cache_joined"];
  text +=
      fmt::format("tools  {:.1f} ms in the box, {:.1f} ms queued, {:.0f} % cached, {} retries\n",
                  s.tool_ms(), s.queue_ms(),
                  100.0 * static_cast<double>(hits) /
                      static_cast<double>(std::max<uint64_t>(1, hits + s["cache_misses"])),
                  s["tool_retries"] + s["reward_retries"]);
  text += fmt::format("now    {} running, {} waiting for tools, {} for verdicts, {} ready\n",
                      s["episodes_running"], s["waiting_for_tools"], s["waiting_verdicts"],
                      s["ready_episodes"]);
  text += "busy  " + BusyText(s, true) + "  |" + BusyText(s, false) + "\nqueues";
  for (const auto& [topic, depth] : s.depths) text += fmt::format(" {} {}", topic, depth);
  text += "\n";
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  lines_drawn_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace tidemill

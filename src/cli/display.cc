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

Display::Display(std::FILE* out, uint64_t steps)
    : out_(out), terminal_(out != nullptr && isatty(fileno(out)) == 1), steps_(steps) {}

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
    line = fmt::format("eval {}: pass rate {:.1f} % of {:.0f} episodes", entry.words.at("name"),
                       100 * NumberOf(entry, "pass_rate", 0), NumberOf(entry, "episodes", 0));
    last_eval_ = line;
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
  const double passed = snapshot.seconds - before_.seconds;
  if (passed < 0.25) return;
  if (passed >= 2 || before_.seconds == 0) {
    auto rate = [&](uint64_t now, uint64_t then) {
      return static_cast<double>(now - then) / passed;
    };
    generated_rate_ = rate(snapshot["generated_tokens"], before_["generated_tokens"]);
    trained_rate_ = rate(snapshot["trained_tokens"], before_["trained_tokens"]);
    episode_rate_ = rate(snapshot["episodes_finished"], before_["episodes_finished"]);
    before_ = snapshot;
  }
  if (terminal_) {
    DrawBlock(snapshot);
  } else if (snapshot.seconds >= next_line_at_) {
    next_line_at_ = snapshot.seconds + kLineSeconds;
    DrawLine(snapshot);
  }
}

void Display::DrawLine(const RunSnapshot& s) {
  std::fprintf(out_,
               "%6.0f s  step %lu/%lu  pass %s  batch pass %s  reward %s  lag %.1f  %.0f "
               "episodes/s  gen %.0f "
               "tok/s  train %.0f tok/s  busy%s\n",
               s.seconds, s["steps"], steps_, PassText(s).c_str(), BatchText(pass_rates_).c_str(),
               pass_rates_.empty() ? "-" : fmt::format("{:.3f}", reward_).c_str(), lag_,
               episode_rate_, generated_rate_, trained_rate_, BusyText(s, true).c_str());
  std::fflush(out_);
}

void Display::DrawBlock(const RunSnapshot& s) {
  Clear();
  std::string text;
  const double share =
      steps_ == 0 ? 0 : static_cast<double>(s["steps"]) / static_cast<double>(steps_);
  const int filled = static_cast<int>(std::min(1.0, share) * 40);
  text +=
      fmt::format("[{:<40}] step {}/{}  version {}  epoch {}  {:.0f} s\n", std::string(filled, '#'),
                  s["steps"], steps_, s["version"], s["epoch"], s.seconds);
  text += fmt::format("pass   {} of all episodes, {} of the newest batch  {}\n", PassText(s),
                      BatchText(pass_rates_), Sparkline(pass_rates_));
  text += fmt::format("learn  reward {:.3f}  loss {:.4f}  entropy {:.3f}  lag {:.1f}\n", reward_,
                      loss_, entropy_, lag_);
  text += fmt::format("rate   {:.0f} episodes/s  generated {:.0f} tok/s  trained {:.0f} tok/s\n",
                      episode_rate_, generated_rate_, trained_rate_);
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

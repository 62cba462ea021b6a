#include "rollout/team.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tidemill {
namespace {

constexpr std::string_view kTaskWord = "{task}";
constexpr std::string_view kGivenWord = "{given}";

// What is put in is not searched again: a text cannot name a place.
std::string FillIn(std::string_view form, const std::string& task, const std::string& given) {
  std::string text;
  for (size_t at = 0; at < form.size();) {
    const std::string_view rest = form.substr(at);
    if (rest.starts_with(kTaskWord)) {
      text += task, at += kTaskWord.size();
    } else if (rest.starts_with(kGivenWord)) {
      text += given, at += kGivenWord.size();
    } else {
      text += form[at++];
    }
  }
  return text;
}

}  // namespace

size_t TeamPlan::visits() const {
  if (kind == TeamKind::kReview) return 2 * size_t{rounds} + 1;
  return kind == TeamKind::kVote ? seats.size() : order.size();
}

bool TeamPlay::Submits(size_t seat) const {
  if (plan_.kind == TeamKind::kReview) return seat == 0;
  if (plan_.kind == TeamKind::kVote) return !IsChooser(seat);
  return place_ + 1 == plan_.order.size();
}

bool TeamPlay::ComesBack(size_t seat) const {
  if (plan_.kind == TeamKind::kReview) return true;
  if (plan_.kind == TeamKind::kVote) return false;
  const auto rest = plan_.order.begin() + static_cast<std::ptrdiff_t>(place_);
  return std::find(rest, plan_.order.end(), seat) != plan_.order.end();
}

TeamNext TeamPlay::Go(size_t seat, std::string given) {
  seat_ = seat;
  return {.seat = seat, .given = std::move(given)};
}

Result<TeamNext> TeamPlay::After(const std::string& given) {
  const TeamNext over{.over = true};
  switch (plan_.kind) {
    case TeamKind::kChain:
      if (++place_ == plan_.order.size()) return over;
      return Go(plan_.order[place_], given);
    case TeamKind::kReview:
      if (seat_ == 0) return rounds_ < plan_.rounds ? Go(1, given) : over;
      ++rounds_;
      if (!plan_.accept.empty() && given.starts_with(plan_.accept)) return over;
      return Go(0, given);
    case TeamKind::kVote:
      break;
  }
  if (IsChooser(seat_)) return Choose(given);
  answers_.push_back(given);
  if (!IsChooser(seat_ + 1)) return Go(seat_ + 1, "");
  std::string all;
  for (size_t i = 0; i < answers_.size(); ++i) {
    all += "Answer " + std::to_string(i + 1) + ":\n" + answers_[i] + "\n";
  }
  return Go(seat_ + 1, std::move(all));
}

// The first number in the text.
Result<TeamNext> TeamPlay::Choose(const std::string& given) const {
  const size_t at = given.find_first_of("0123456789");
  size_t number = 0;
  if (at != std::string::npos) {
    std::from_chars(given.data() + at, given.data() + given.size(), number);
  }
  if (number < 1 || number > answers_.size()) {
    return Invalid("the choice is no number from 1 to " + std::to_string(answers_.size()));
  }
  return TeamNext{.over = true, .chosen = number - 1};
}

v1::Task TaskFor(const TeamSeat& seat, bool submits, const v1::Task& task,
                 const std::string& given) {
  v1::Task own = task;
  if (!seat.prompt.empty()) {
    own.set_prompt(FillIn(seat.prompt, task.prompt(), given));
  } else if (!given.empty()) {
    own.set_prompt(task.prompt() + "\n\n" + given);
  }
  if (!seat.shows_files) own.set_prompt_files(v1::Task::PROMPT_FILES_NONE);
  if (!submits) own.clear_answer_file();
  return own;
}

}  // namespace tidemill

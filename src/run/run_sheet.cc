#include "run/run_sheet.h"
#include "core/version.h"
#include "run/stop_signal.h"

#include <signal.h>

#include <cerrno>
#include <cstdint>

#include "bus/broker.h"
#include "core/log.h"
#include "weights/shm_weights.h"

namespace tidemill {
namespace {

constexpr Duration kWriteEvery = std::chrono::seconds(2);
constexpr Duration kSheetLasts = std::chrono::seconds(12);
constexpr Duration kAskLasts = std::chrono::minutes(2);
constexpr Duration kEndLasts = std::chrono::minutes(1);

constexpr std::string_view kModelWanted = "model";

constexpr std::string_view kSheet = "sheet";

std::string WantedNote(std::string_view what) {
  return "wanted:" + std::string(what);
}

}  // namespace

Result<SheetBoard> SheetBoard::Connect(const std::string& url, const std::string& run,
                                       const SheetKeys& keys, Duration timeout) {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<NoteBoard> notes, ConnectNotes(url, run, timeout));
  SheetBoard board(std::move(notes), run);
  if (!keys.sign.empty()) {
    TM_ASSIGN_OR_RETURN(board.key_, SigningKey::ReadPrivate(keys.sign));
  } else if (!keys.verify.empty()) {
    TM_ASSIGN_OR_RETURN(board.key_, SigningKey::ReadPublic(keys.verify));
  }
  return board;
}

Result<std::optional<RunSheet>> SheetBoard::Read() {
  TM_ASSIGN_OR_RETURN(std::optional<RunSheet> sheet, ReadAny());
  if (sheet && sheet->ended) sheet.reset();
  return sheet;
}

Result<bool> SheetBoard::Ended() {
  TM_ASSIGN_OR_RETURN(const std::optional<RunSheet> sheet, ReadAny());
  return sheet && sheet->ended;
}

Result<std::optional<RunSheet>> SheetBoard::ReadAny() {
  TM_ASSIGN_OR_RETURN(const std::optional<std::string> text, notes_->Get(kSheet));
  if (!text) return std::optional<RunSheet>();
  TM_ASSIGN_OR_RETURN(RunSheet sheet, OpenSheet(*text, key_));
  if (sheet.run != run_) return Invalid("the run's sheet is of run " + sheet.run);
  if (!order_.Take(sheet)) {
    LogOnce("old sheet", LogLevel::kWarn,
            "the run sheet is one that an earlier learner wrote; ignoring it");
    return std::optional<RunSheet>();
  }
  return std::optional<RunSheet>(std::move(sheet));
}

Status SheetBoard::Write(const RunSheet& sheet, Duration time) {
  return notes_->Put(kSheet, SignSheet(sheet.ToJson(), key_), time);
}

Status SheetBoard::Clear() {
  return notes_->Erase(kSheet);
}

Status SheetBoard::Ask(std::string_view what) {
  return notes_->Put(WantedNote(what), "1", kAskLasts);
}

Result<bool> SheetBoard::Asked(std::string_view what) {
  TM_ASSIGN_OR_RETURN(const std::optional<std::string> asked, notes_->Get(WantedNote(what)));
  return asked.has_value();
}

Status SheetBoard::AskForWeights(WeightsWay way) {
  return Ask(WayName(way));
}

Result<bool> SheetBoard::WeightsAsked(WeightsWay way) {
  return Asked(WayName(way));
}

Status SheetBoard::AskForModel() {
  return Ask(kModelWanted);
}

Result<bool> SheetBoard::ModelAsked() {
  return Asked(kModelWanted);
}

Status WaitForSeat(SheetBoard& board) {
  const RealClock clock;
  const Time until = clock.Now() + kSheetLasts + kWriteEvery;
  bool told = false;
  while (true) {
    TM_ASSIGN_OR_RETURN(const std::optional<RunSheet> sheet, board.Read());
    if (!sheet) return Ok();
    const std::string who = "process " + std::to_string(sheet->pid) + " on " + sheet->host +
                            " is the learner of run " + sheet->run;
    if (sheet->shm_domain == ShmDomain()) {
      // Its memory can be opened for as long as it lives, and nobody else's has its number.
      const bool alive = sheet->shm.empty()
                             ? kill(static_cast<pid_t>(sheet->pid), 0) == 0 || errno == EPERM
                             : OpenShmWeights(sheet->shm, sheet->incarnation).ok();
      return alive ? Unavailable(who + "; stop it first") : Ok();
    }
    if (clock.Now() > until) return Unavailable(who + "; stop it first");
    if (!std::exchange(told, true)) LogInfo(who + "; waiting to see whether it is still alive");
    std::this_thread::sleep_for(milliseconds(500));
  }
}

SheetKeeper::SheetKeeper(SheetBoard board, RunSheet sheet, Answers answers)
    : board_(std::move(board)),
      sheet_(std::move(sheet)),
      answers_(std::move(answers)),
      thread_([this] { Run(); }) {}

SheetKeeper::~SheetKeeper() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SheetKeeper::Run() {
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.Unlock();
    // A broker that is away comes back; until then nobody can read the sheet anyway.
    const Status written = board_.Write(sheet_, kSheetLasts);
    if (!written.ok()) LogOnce("sheet", LogLevel::kWarn, "the run sheet: " + written.message());
    for (const WeightsWay way : kWeightsWays) {
      const Result<bool> asked = board_.WeightsAsked(way);
      if (asked.ok() && *asked) answers_.weights(way);
    }
    const Result<bool> model = board_.ModelAsked();
    if (model.ok() && *model) answers_.model();
    lock.Lock();
    changed_.WaitFor(lock, kWriteEvery, [this]() TM_REQUIRES(mutex_) { return stop_; });
  }
  lock.Unlock();
  (void)board_.Clear();
}

Status TellEnded(SheetBoard& board, RunSheet sheet) {
  sheet.ended = true;
  return board.Write(sheet, kEndLasts);
}

Result<RunSheet> WaitForSheet(SheetBoard& board, const std::string& run,
                              const std::function<void()>& waiting) {
  for (bool told = false; !AskedToStop();) {
    if (told && waiting) waiting();
    Result<std::optional<RunSheet>> sheet = board.Read();
    if (sheet.status().code() == Code::kInvalid) return sheet.status();
    if (sheet.ok() && *sheet) {
      if ((*sheet)->messages == kMessagesVersion) return std::move(**sheet);
      return Invalid("run " + run + " uses version " + std::to_string((*sheet)->messages) +
                     " of the messages (its program is " + (*sheet)->program +
                     "), this program version " + std::to_string(kMessagesVersion));
    }
    if (!std::exchange(told, true)) LogInfo("waiting for the learner of run " + run);
    std::this_thread::sleep_for(milliseconds(200));
  }
  return Closed("stopped before a learner appeared");
}

}  // namespace tidemill

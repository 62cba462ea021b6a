// A worker's first knowledge of a run, written by the learner where every worker
// looks: the note "sheet" on the run's broker. It has the whole config, so that only the learner
// is given one, and where the weights are.
//
//   learner --SheetKeeper, every 2 s--> note sheet --> rollout, tools, reward
//   rollout --asks--> note wanted:files|bus --> learner publishes weights that way as well
//
// Whoever can write to the broker can write a sheet. So a learner with a private key signs it, and
// a worker with the public one takes no other; without a key a worker takes no commands from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "bus/note_board.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"
#include "run/sheet_text.h"
#include "weights/weights_way.h"

namespace tidemill {

// The files of the keys; empty: none.
struct SheetKeys {
  std::string sign = {};    // private, of the learner
  std::string verify = {};  // public, of the others
};

// Belongs to one thread.
class SheetBoard {
 public:
  static Result<SheetBoard> Connect(const std::string& url, const std::string& run,
                                    const SheetKeys& keys,
                                    Duration timeout = std::chrono::seconds(5));

  // None: no learner is there, or somebody put back what an earlier one wrote. kInvalid: what is
  // there is no sheet of this run, or not signed as it should be.
  Result<std::optional<RunSheet>> Read();
  // The last learner said that the run is done. Nobody says so for longer than a minute.
  Result<bool> Ended();
  // Lasts `time`, unless it is written again.
  Status Write(const RunSheet& sheet, Duration time);
  Status Clear();

  // A worker that cannot share the learner's memory says how weights reach it, at least once a
  // minute.
  Status AskForWeights(WeightsWay way);
  Result<bool> WeightsAsked(WeightsWay way);
  // The same for the files that the sheet lists.
  Status AskForModel();
  Result<bool> ModelAsked();

 private:
  SheetBoard(std::unique_ptr<NoteBoard> notes, std::string run)
      : notes_(std::move(notes)), run_(std::move(run)) {}
  Result<std::optional<RunSheet>> ReadAny();
  Status Ask(std::string_view what);
  Result<bool> Asked(std::string_view what);
  std::unique_ptr<NoteBoard> notes_;
  std::string run_;
  std::optional<SigningKey> key_;  // private in the learner, public elsewhere
  SheetOrder order_;
};

// Waits for a learner; `waiting` (may be empty) is called several times a second meanwhile.
// kClosed: asked to stop first. kInvalid: the run speaks other messages than this program.
Result<RunSheet> WaitForSheet(SheetBoard& board, const std::string& run,
                              const std::function<void()>& waiting = {});

// The run is done: workers that see this leave.
Status TellEnded(SheetBoard& board, RunSheet sheet);

// Makes sure that no other learner works on the run. One on this host is asked for by its process
// number, one elsewhere is given the time in which its sheet would vanish. kUnavailable names it.
Status WaitForSeat(SheetBoard& board);

// While it lives, the sheet is there.
class SheetKeeper {
 public:
  // Called on a thread of its own while somebody asks. They return soon.
  struct Answers {
    std::function<void(WeightsWay)> weights;
    std::function<void()> model;
  };
  SheetKeeper(SheetBoard board, RunSheet sheet, Answers answers);
  // Takes the sheet away.
  ~SheetKeeper();

 private:
  void Run();

  SheetBoard board_;  // the thread's, once it runs
  const RunSheet sheet_;
  const Answers answers_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill

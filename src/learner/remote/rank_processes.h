// Ranks that Tidemill starts: the command, its socket, and what became of them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/fd.h"
#include "learner/remote/rank_link.h"

namespace tidemill {

struct RankCommand {
  std::vector<std::string> words{};  // "{ranks}", "{socket}" are replaced
  uint32_t ranks = 1;
  std::string log{};           // what they print
  Duration join_patience{};    // until rank 0 is there and all have loaded the model
  Duration answer_patience{};  // of a rank without a sign of life during a command
};

class RankProcesses final : public RankLink {
 public:
  // Starts them and says hello. kUnavailable: they did not come or ended, and where their log is;
  // kInvalid: they refuse what `hello` asks for.
  static Result<std::unique_ptr<RankProcesses>> Start(RankCommand command,
                                                      const RankMessage& hello);
  // Asks them to end, and ends those that do not.
  ~RankProcesses() override;

  Result<RankMessage> Ask(const RankMessage& message) override;
  uint32_t ranks() const override { return command_.ranks; }
  bool lost() const override { return lost_; }
  // What they said of themselves: "device", "parameters", "pids", ..
  const RankMessage& about() const { return about_; }

 private:
  explicit RankProcesses(RankCommand command) : command_(std::move(command)) {}
  Status Open();
  Status AcceptWithin(Duration patience);
  Result<RankMessage> Exchange(const RankMessage& message, Duration patience);
  Status Send(std::string_view bytes, Duration patience);
  Result<std::string> Receive(size_t bytes, Time& until, Duration patience);
  Status WaitFor(short events, Time until);
  // Not ok: a process of theirs ended, named.
  Status Alive();
  std::string WhoHangs() const;
  Status Gone(const Status& why);
  void End();

  const RankCommand command_;
  std::string folder_;  // of the socket; ours alone
  Fd listener_, link_;
  pid_t pid_ = 0;            // of the command; 0: none
  std::vector<pid_t> pids_;  // of the ranks, as far as they are on this host
  RankMessage about_;
  std::atomic<bool> lost_{false};
};

}  // namespace tidemill

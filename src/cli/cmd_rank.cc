// tidemill rank: one more process for the steps of a learner (learner.ranks). It holds the same
// weights, computes a share of every minibatch and leaves when the learner is done.
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "run/torch/make_ranks.h"

namespace tidemill {
namespace {

struct RankArguments {
  std::string join, secret_file;
  double minutes = 30;
};

int RunRank(const RankArguments& arguments) {
  // Started by the learner itself: gone when it is, even where this process hangs.
  if (arguments.join.starts_with("file:")) prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto limit = std::chrono::milliseconds(static_cast<int64_t>(arguments.minutes * 60'000));
  const Status status = FollowRun(arguments.join, arguments.secret_file, limit);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

void AddRankCommand(CLI::App& app, Exit& exit) {
  CLI::App* rank = app.add_subcommand("rank", "Join a learner as one more rank (learner.ranks)");
  auto arguments = std::make_shared<RankArguments>();
  rank->add_option("--join", arguments->join, "learner.rank_address of the learner, HOST:PORT")
      ->required();
  rank->add_option("--secret-file", arguments->secret_file,
                   "Copy of the learner's learner.rank_secret_file")
      ->envname("TIDEMILL_RANK_SECRET_FILE");
  rank->add_option("--minutes", arguments->minutes, "How many minutes to wait for a learner")
      ->check(CLI::Range(0.01, 1e5))
      ->capture_default_str();
  rank->callback([arguments, &exit] { exit.code = RunRank(*arguments); });
}

}  // namespace tidemill

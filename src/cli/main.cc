#include "bench/bench_words.h"
#include "cli/program.h"
#include "sim/sim_words.h"

namespace tidemill {
namespace {

// Their programs lie beside this one, so that it need not contain them.
void AddSimCommand(CLI::App& app, Exit& exit) {
  AddSimWords(app, [&exit](const SimWords&) { exit.code = BecomeProgram("tidemill-sim", exit); });
}

void AddBenchCommand(CLI::App& app, Exit& exit) {
  AddBenchWords(app,
                [&exit](const BenchWords&) { exit.code = BecomeProgram("tidemill-bench", exit); });
}

// Every command, in the order in which --help shows them.
void AddCommands(CLI::App& app, Exit& exit) {
  AddInitCommand(app, exit);
  AddTrainCommand(app, exit);
  AddWarmupCommand(app, exit);
  AddEvalCommand(app, exit);
  AddRunsCommand(app, exit);
  AddViewCommand(app, exit);
  AddServeCommand(app, exit);
  AddChatCommand(app, exit);
  AddTinkerCommand(app, exit);
  AddLiveCommand(app, exit);
  AddMemoryCommand(app, exit);
  AddSkillsCommand(app, exit);
  AddTasksCommand(app, exit);
  AddModelCommand(app, exit);
  AddPlanCommand(app, exit);
  AddSandboxCommand(app, exit);
  AddProofCommand(app, exit);
  AddJudgeCommand(app, exit);
  AddWorkerCommand(app, exit);
  AddBusCommand(app, exit);
  AddRankCommand(app, exit);
  AddStatusCommand(app, exit);
  AddDeadCommand(app, exit);
  AddScaleCommand(app, exit);
  AddLaunchCommand(app, exit);
  AddSimCommand(app, exit);
  AddBenchCommand(app, exit);
  AddDoctorCommand(app, exit);
  AddCompletionCommand(app, exit);
  AddManCommand(app, exit);
}

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  return tidemill::RunProgram(argc, argv, tidemill::AddCommands);
}

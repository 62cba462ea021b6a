// The commands of the program, one file each (cmd_train.cc, cmd_model.cc, ..). A file defines its
// Add function, which declares the words and options and sets a callback; the callback does the
// work and leaves the exit status in `exit`: 0 done, 1 failed, 2 the words or the config were
// wrong, 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/status.h"

namespace tidemill {

// Where --bus and --run may come from: a URL with a password does not belong on a command line.
inline constexpr const char* kBusVariable = "TIDEMILL_BUS";
inline constexpr const char* kRunVariable = "TIDEMILL_RUN";

// Of what was interrupted (Ctrl-C, SIGTERM), ended in order and can go on.
inline constexpr int kInterrupted = 130;

struct Exit {
  int code = 0;
  char** words = nullptr;  // of this call, for a program that takes it over
};

// Say on standard error what went wrong and return the exit status. Fail: 2 where what was asked
// for is invalid or not there, else 1. Wrong: 2, whatever the code.
int Fail(const Status& status);
int Wrong(const Status& status);

// Text of a model or a program as it goes to the stream: a terminal gets no control characters, a
// file or a pipe every byte.
std::string Shown(const std::string& text, std::FILE* stream = stdout);

// The output of --json, a line on standard output. Bytes that are no text, of a file's name
// perhaps, become U+FFFD.
void PrintJson(const nlohmann::ordered_json& json);

// --set a.b=c, any number of them; each takes one word, so that other words may follow.
void AddSetOption(CLI::App& command, std::vector<std::string>& sets, const std::string& doc);

void AddInitCommand(CLI::App& app, Exit& exit);
void AddTrainCommand(CLI::App& app, Exit& exit);
void AddEvalCommand(CLI::App& app, Exit& exit);
void AddWarmupCommand(CLI::App& app, Exit& exit);
void AddRunsCommand(CLI::App& app, Exit& exit);
void AddViewCommand(CLI::App& app, Exit& exit);
void AddServeCommand(CLI::App& app, Exit& exit);
void AddChatCommand(CLI::App& app, Exit& exit);
void AddTinkerCommand(CLI::App& app, Exit& exit);
void AddWorkerCommand(CLI::App& app, Exit& exit);
void AddBusCommand(CLI::App& app, Exit& exit);
void AddRankCommand(CLI::App& app, Exit& exit);
void AddStatusCommand(CLI::App& app, Exit& exit);
void AddDeadCommand(CLI::App& app, Exit& exit);
void AddScaleCommand(CLI::App& app, Exit& exit);
void AddLaunchCommand(CLI::App& app, Exit& exit);
void AddDoctorCommand(CLI::App& app, Exit& exit);
void AddModelCommand(CLI::App& app, Exit& exit);
void AddPlanCommand(CLI::App& app, Exit& exit);
void AddSandboxCommand(CLI::App& app, Exit& exit);
void AddTasksCommand(CLI::App& app, Exit& exit);
void AddProofCommand(CLI::App& app, Exit& exit);
void AddJudgeCommand(CLI::App& app, Exit& exit);
void AddCompletionCommand(CLI::App& app, Exit& exit);
void AddManCommand(CLI::App& app, Exit& exit);
void AddLiveCommand(CLI::App& app, Exit& exit);
void AddMemoryCommand(CLI::App& app, Exit& exit);
void AddSkillsCommand(CLI::App& app, Exit& exit);

}  // namespace tidemill

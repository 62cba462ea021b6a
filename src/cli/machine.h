// The abilities of this machine, found by trying: `tidemill doctor` shows it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

enum class Finding { kGood, kInfo, kWarning, kMissing };

std::string_view FindingName(Finding finding);  // "ok", "info", "warning", "missing"

struct MachineCheck {
  std::string name;  // "blas"
  Finding finding = Finding::kGood;
  std::string detail;  // what was found, one line
  std::string
      fix;  // what to do about it, a command where there is one; empty when nothing is wrong
};

// Everything, in the order in which it is shown. Starts short-lived processes and makes (and
// removes) an empty cgroup; takes a second or two.
std::vector<MachineCheck> CheckMachine();

// The parts of it.
MachineCheck CheckCpu(std::string_view cpuinfo, int cores);  // of /proc/cpuinfo's text
MachineCheck CheckBfloat16(std::string_view cpuinfo);        // how a CPU computes with it
MachineCheck CheckMemory();
MachineCheck CheckDisk(const std::string& folder);
MachineCheck CheckBlasOfTorch();
MachineCheck CheckBubblewrap();
MachineCheck CheckUserNamespaces();
MachineCheck CheckCgroups();
MachineCheck CheckSeccomp();
// A program that is asked for its version with `arguments`; `why` it is wanted; the package that
// has it.
struct ProgramWanted {
  std::string program;
  std::vector<std::string> arguments;
  std::string why;
  std::string package;
  bool needed = true;  // false: missing is a warning
};
MachineCheck CheckProgram(const ProgramWanted& wanted);
MachineCheck CheckCuda();

// A process that was run to its end, or killed at the time limit.
struct ProcessOutput {
  bool started = false;
  bool timed_out = false;
  int exit_code = -1;  // 128 + signal when killed by one
  std::string output;  // stdout and stderr together, the first `output_max` bytes
};
ProcessOutput RunProcess(const std::vector<std::string>& arguments, std::chrono::milliseconds limit,
                         size_t output_max = size_t{64} << 10);

}  // namespace tidemill

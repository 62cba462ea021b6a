// A sandbox with a lifetime: open, put files, run commands, get files, close. The code that runs in
// it was written by a model that is rewarded for passing; nothing it does may reach the host,
// another box or what it is compared with.
//
//   BoxHost::Open -> Configure (limits) -> Put.. -> Run.. -> Get | Collect -> ~Box
//
// Isolation is bubblewrap's: user, mount, pid, ipc, uts, cgroup and net name spaces, a read-only
// system, one size-limited file system for the workspace, /tmp and /dev/shm, no capability, no new
// privileges, a system call filter, rlimits and a cgroup. A small init of ours is process 1 in each
// box and runs commands as its children. docs/tools.md tells the whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mutex.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/box/limits.h"

namespace tidemill {

class Box;
class BoxHost;
class Cgroup;

// The other end of a command that is talked to while it runs: its output arrives here, and what is
// added to `input` is written to it. Called on the thread of Run.
class Conversation {
 public:
  virtual ~Conversation() = default;
  // Before anything was read. Returns false to close its standard input after `input`.
  virtual bool Begin(std::string* input) = 0;
  // New bytes of its standard output; nothing of them is kept elsewhere.
  virtual bool Heard(std::string_view output, std::string* input) = 0;
};

// What other threads want done with a box's files while a command runs in it: done on the thread of
// Run. The errands of a command that has ended stay, to be done or dropped by who takes them.
class BoxErrands {
 public:
  // May use the box's Collect and Edit, and nothing else of it.
  using Errand = std::function<void(Box&)>;

  BoxErrands();
  // From any thread.
  void Add(Errand errand);
  std::vector<Errand> TakeAll();
  // Readable while there are any.
  int fd() const { return wake_.get(); }

 private:
  const Fd wake_;
  Mutex mutex_;
  std::vector<Errand> errands_ TM_GUARDED_BY(mutex_);
};

// The ends of pipes that a command gets as its standard input and output, for who talks to it by
// the others.
struct CommandPipes {
  Fd input, output;
};

// Where the programs of a box are: those of the machine.
inline constexpr std::string_view kBoxPath = "/usr/local/bin:/usr/bin:/bin";

struct RunSpec {
  std::vector<std::string> command;      // the first word is looked up in kBoxPath
  std::vector<std::string> environment;  // "NAME=value", besides the box's own
  std::string folder;                    // relative to the workspace
  std::string input;                     // standard input
  Conversation* conversation = nullptr;  // instead of `input`
  CommandPipes* pipes = nullptr;  // instead of both; taken. No limit counts what goes by them
  BoxErrands* errands = nullptr;
  BoxLimits limits;               // disk counts only in Configure
  size_t keep_bytes = 64 * 1024;  // of each of stdout and stderr: head and tail
  size_t log_bytes = 0;           // of both as they come: the last ones
  // Processes that the command leaves running stay: they stand still until the next command runs. A
  // timeout or too much output ends the command and its session, and the box can be used again.
  bool leave_running = false;
  // How often limits that the kernel does not enforce are looked at. A command that ends is noticed
  // at once.
  Duration tick = milliseconds(20);
  std::string last_file;  // of the workspace: ends the command when it is there; empty: none
  // Asked at every tick, on the thread of Run: anything but OUTCOME_UNSPECIFIED ends the command
  // with it.
  std::function<v1::Outcome()> watch{};
  // How many commands want the cores when its time is judged, this one included; empty: all that
  // run in boxes of this process.
  std::function<size_t()> sharing{};
  // The files can be collected whatever ended the command.
  bool keep_files = false;
};

struct RunReport {
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  int exit_code = 0;  // the signal's number for OUTCOME_SIGNAL, 128 + signal where a limit ended it
  std::string cause;  // for OUTCOME_UNAVAILABLE
  std::string out;    // with a mark where it was cut
  std::string err;
  bool truncated = false;
  std::string log;         // RunSpec::log_bytes, with a mark where it begins later
  uint64_t log_total = 0;  // written in all
  double wall_ms = 0;
  double cpu_ms = 0;
  uint64_t peak_memory_kb = 0;
  bool degraded = false;  // no cgroup: limits were enforced by other, less exact means
  // A timeout in which the command got less than half of the CPU that was its share: the machine
  // was busy.
  bool starved = false;
};

struct CollectLimits {
  uint64_t bytes_max = 16 << 20;
  uint64_t files_max = 2048;
};

// Belongs to one thread at a time; Kill may come from any. The destructor ends everything in the
// box and does not wait for it.
class Box {
 public:
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  // Waits until the init has spoken, so that Configure need not. A failure comes with Configure.
  void AwaitReady();

  // Once, before anything else: sizes the box. kUnavailable: the box is gone.
  Status Configure(const BoxLimits& limits);

  // Writes a file of the workspace with its folders. What stands in the way of the name goes.
  // Failures (the disk limit, say) come with the next call that has an answer.
  Status Put(std::string_view path, std::string_view content, bool executable = false);
  // The same beneath /box, which holds the workspace, home and tmp.
  Status PutOutside(std::string_view path, std::string_view content);
  // Writes a file of the workspace, as Put does, or removes it (`file` has no content). kInvalid
  // says why it could not be done, which harms nothing.
  Status Edit(const v1::File& file);
  // Empties the workspace, /tmp and /dev/shm.
  Status RemoveAll();

  // Runs one command and everything it starts to the end; afterwards nothing of it is alive. Never
  // fails by the command's doing. After a limit was hit the box is spent: `usable()` is false.
  RunReport Run(const RunSpec& spec);

  // A socket that listens on a port of the box's own loopback; nothing in the box has it. Needs
  // BoxHostOptions::loopback.
  Result<Fd> Listen(uint16_t port);

  // A regular file. kNotFound: none of that name (a link, a FIFO and a device are none). kFull: too
  // large.
  Result<std::string> Get(std::string_view path, uint64_t bytes_max);
  // Every regular file of the workspace, sorted by path. kFull: over a limit, the agent's doing.
  Result<v1::Tree> Collect(const CollectLimits& limits);

  bool usable() const { return usable_; }
  // Ends the box now. Calls under way return kUnavailable.
  void Kill();
  pid_t init_pid() const { return init_pid_; }
  pid_t outer_pid() const { return outer_pid_; }
  uint64_t disk_bytes() const { return disk_bytes_; }
  // Where programs are looked up in the box, and where its system is outside of it ("": the
  // machine's own).
  std::string path() const;
  const std::string& root() const;

 private:
  friend class BoxHost;
  friend class BoxRunner;
  explicit Box(BoxHost& host);

  Status Flush(const int* fds, size_t fds_count);
  void AddFrame(uint32_t type, const void* head, size_t head_size, std::string_view path,
                std::string_view content);
  Status AddPut(std::string_view path, std::string_view content, bool executable, bool outside);
  Status AwaitHello();
  // Reads one frame; a failure is of the box.
  Status ReadFrame(uint32_t* type, std::string* payload);
  // The next one but for a DONE, which is kept for who waits for it.
  Status ReadAnswer(uint32_t* type, std::string* payload);
  Status ReadFiles(v1::Tree* tree, uint64_t bytes_max);
  Status Broken(Status status);
  // Reads on what earlier commands' processes write, so that none of them blocks or fails.
  void DrainLeftovers();

  BoxHost& host_;
  pid_t outer_pid_ = -1;  // bubblewrap, our child
  pid_t init_pid_ = -1;   // process 1 of the box, as seen from here
  Fd init_;               // a descriptor of it
  Fd socket_;
  Fd complaints_;  // what bubblewrap wrote to standard error
  std::unique_ptr<Cgroup> cgroup_;
  std::string outbox_;
  std::vector<Fd> leftovers_;  // ends of pipes that processes left running may write to
  uint64_t disk_bytes_ = 0;
  std::string done_early_;  // of a command that ended while an errand was done
  bool configured_ = false;
  Status hello_;  // why the init did not speak
  bool usable_ = true;
};

// How causes begin where the init could not do as it was told: a file has a link in its way, or
// does not fit.
inline constexpr std::string_view kBoxRefused = "in the box: ";

}  // namespace tidemill

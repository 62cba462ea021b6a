#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_init.h"

enum { ARGS_COUNT_MAX = 4096 };

static char strings[BOX_ARGS_MAX];
static char* words[ARGS_COUNT_MAX + 2];
static int child_signals = -1;

static void limit(int resource, uint64_t value) {
  const struct rlimit both = {value, value};
  setrlimit(resource, &both);
}

static const char* environment_path(char** environment) {
  for (; *environment != NULL; ++environment) {
    if (strncmp(*environment, "PATH=", 5) == 0) return *environment + 5;
  }
  return "/usr/bin:/bin";
}

/* A file that is there and yet "not there" to the kernel lacks what would run it: the interpreter
 * of its first line, or its loader. Says so and does not return. */
static void complain_of_interpreter(const char* name, const char* path) {
  char line[256];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, line, sizeof line - 1);
  if (file < 0) return;
  close(file);
  line[got > 0 ? got : 0] = 0;
  if (strncmp(line, "#!", 2) == 0) {
    char* interpreter = line + 2 + strspn(line + 2, " \t");
    interpreter[strcspn(interpreter, " \t\r\n")] = 0;
    dprintf(2, "cannot run %s: its interpreter %s is not in the box\n", name, interpreter);
  } else {
    dprintf(2, "cannot run %s: the loader it needs is not in the box\n", name);
  }
  _exit(127);
}

/* Does not return on success. */
static void execute(char** arguments, char** environment) {
  if (strchr(arguments[0], '/') != NULL) {
    execve(arguments[0], arguments, environment);
    const int error = errno;
    if (error == ENOENT) complain_of_interpreter(arguments[0], arguments[0]);
    errno = error;
    return;
  }
  int error = ENOENT;
  char broken[BOX_PATH_MAX] = ""; /* there, but without what would run it */
  for (const char* at = environment_path(environment); at != NULL;) {
    const char* end = strchr(at, ':');
    const int length = end != NULL ? (int)(end - at) : (int)strlen(at);
    char path[BOX_PATH_MAX];
    if (snprintf(path, sizeof path, "%.*s/%s", length, at, arguments[0]) < (int)sizeof path) {
      execve(path, arguments, environment);
      if (errno != ENOENT && errno != ENOTDIR) error = errno;
      if (errno == ENOENT && broken[0] == 0 && access(path, F_OK) == 0) strcpy(broken, path);
    }
    at = end != NULL ? end + 1 : NULL;
  }
  if (error == ENOENT && broken[0] != 0) complain_of_interpreter(arguments[0], broken);
  errno = error;
}

/* In the child, which shares the parent's memory until it has become the command. */
static void become(const struct BoxRun* run, char** arguments, char** environment,
                   const char* folder, const int* fds) {
  setsid();
  for (int i = 0; i < 3; ++i) dup2(fds[i], i);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_MEMLOCK, 64 << 10);
  limit(RLIMIT_MSGQUEUE, 0);
  limit(RLIMIT_NOFILE, 1024);
  limit(RLIMIT_SIGPENDING, 1024); /* timers too, of which the kernel searches long lists */
  limit(RLIMIT_FSIZE, run->file_bytes);
  /* The init is one of them. Where a cgroup counts exactly this one stands behind it. */
  limit(RLIMIT_NPROC, run->watch & BOX_WATCH_ALL ? run->processes + 1 : 2 * run->processes + 64);
  const struct rlimit cpu = {run->cpu_us / 1000000 + 1, run->cpu_us / 1000000 + 2};
  setrlimit(RLIMIT_CPU, &cpu);
  if (run->watch & BOX_WATCH_ALL) limit(RLIMIT_DATA, run->memory_bytes);
  if (fchdir(box_workspace_fd) != 0 || (folder[0] != 0 && chdir(folder) != 0)) {
    dprintf(2, "cannot enter %s: %s\n", folder, strerror(errno));
    _exit(127);
  }
  if (!box_close_from(3)) {
    dprintf(2, "cannot close descriptors: %s\n", strerror(errno));
    _exit(126);
  }
  execute(arguments, environment);
  const int error = errno;
  dprintf(2, "cannot run %s: %s\n", arguments[0], strerror(error));
  _exit(error == ENOENT ? 127 : 126);
}

static pid_t start(const struct BoxRun* run, char** arguments, char** environment,
                   const char* folder, const int* fds) {
  const pid_t child = vfork();
  if (child == 0) {
    become(run, arguments, environment, folder, fds);
    _exit(126);
  }
  return child;
}

/* Ends everything but this process, and waits until it is gone. */
static void end_everything(pid_t main_child, int* status, bool* main_ended) {
  for (;;) {
    kill(-1, SIGKILL);
    int one;
    const pid_t gone = waitpid(-1, &one, 0);
    if (gone < 0 && errno == EINTR) continue;
    if (gone < 0) return;
    if (gone == main_child) {
      *status = one;
      *main_ended = true;
    }
  }
}

/* Ends the command and what it started in its session; the rest of the box stands still until the
 * next command, so that it takes no CPU that nobody counts. */
static void end_session(pid_t main_child, int* status, bool* main_ended) {
  kill(-main_child, SIGKILL);
  while (!*main_ended) {
    int one;
    const pid_t gone = waitpid(main_child, &one, 0);
    if (gone < 0 && errno == EINTR) continue;
    if (gone == main_child) *status = one;
    *main_ended = true;
  }
  kill(-1, SIGSTOP);
}

/* Reaps what has ended, without waiting; true once the command itself has. */
static bool reap(pid_t main_child, int* status) {
  bool ended = false;
  for (;;) {
    int one;
    const pid_t gone = waitpid(-1, &one, WNOHANG);
    if (gone <= 0) return ended;
    if (gone == main_child) {
      *status = one;
      ended = true;
    }
  }
}

static uint64_t children_cpu_us(struct rusage* usage) {
  getrusage(RUSAGE_CHILDREN, usage);
  return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
         (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* Which limit that nobody else watches is passed now. */
static uint32_t limit_passed(const struct BoxRun* run, uint64_t cpu_before) {
  if (box_disk_full()) return BOX_LIMIT_DISK;
  if (run->watch == 0) return BOX_LIMIT_NONE;
  struct BoxLife life;
  struct rusage usage;
  box_look(&life);
  if (run->watch & BOX_WATCH_ALL) {
    if (life.processes >= run->processes) return BOX_LIMIT_PROCESSES;
    if (life.rss_bytes > run->memory_bytes) return BOX_LIMIT_MEMORY;
  }
  if (life.cpu_us + children_cpu_us(&usage) - cpu_before > run->cpu_us) return BOX_LIMIT_CPU;
  return BOX_LIMIT_NONE;
}

/* Until the command ends, a limit is passed, the last file is there, or the host says stop. Serves
 * the host's wishes for files meanwhile. */
static void attend(const struct BoxRun* run, const char* last_file, pid_t child,
                   uint64_t cpu_before, struct BoxDone* done, int* status, bool* ended) {
  struct pollfd waits[2] = {{BOX_SOCKET_FD, POLLIN, 0}, {child_signals, POLLIN, 0}};
  while (!*ended) {
    const int ready = poll(waits, 2, (int)run->tick_ms);
    if (ready < 0) continue;
    if (waits[1].revents != 0) {
      struct signalfd_siginfo ignored[16];
      if (read(child_signals, ignored, sizeof ignored) < 0) continue;
      *ended = reap(child, status);
      if (*ended) return;
    }
    if (waits[0].revents != 0) {
      struct BoxFrame frame;
      box_read_or_die(&frame, sizeof frame);
      if (box_serve_files(&frame)) continue;
      if (frame.type != BOX_STOP || frame.size != 0) _exit(1);
      done->stopped = 1;
      box_scheduling(&done->stop_cpu_us, &done->stop_waited_us);
      return;
    }
    done->limit = limit_passed(run, cpu_before);
    if (done->limit != BOX_LIMIT_NONE) return;
    if (last_file[0] != 0 && box_has_file(last_file)) {
      done->stopped = 2;
      return;
    }
  }
}

/* Splits the strings of a RUN and gives back the folder; NULL where they are not what the header
 * says. */
static char* split(size_t size, const struct BoxRun* run, const char** last_file) {
  if (run->argc == 0 || (uint64_t)run->argc + run->envc > ARGS_COUNT_MAX - 2) return NULL;
  if (size == 0 || strings[size - 1] != 0) return NULL;
  char* at = strings;
  char* const end = strings + size;
  size_t slot = 0;
  for (uint32_t i = 0; i < run->argc + run->envc; ++i) {
    if (at >= end) return NULL;
    if (i == run->argc) words[slot++] = NULL;
    words[slot++] = at;
    at += strlen(at) + 1;
  }
  if (run->envc == 0) words[slot++] = NULL;
  words[slot] = NULL;
  if (at >= end) return NULL;
  *last_file = at + strlen(at) + 1;
  return *last_file < end ? at : NULL;
}

static void watch_children(void) {
  if (child_signals >= 0) return;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  child_signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void box_run(uint32_t size) {
  struct BoxRun run;
  box_read_or_die(&run, sizeof run);
  box_read_or_die(strings, size - sizeof run);
  int fds[3];
  const int count = box_take_fds(fds, 3);
  const char* last_file = NULL;
  char* folder = split(size - sizeof run, &run, &last_file);
  if (count != 3 || folder == NULL) box_fail("running", "a command", EINVAL);
  if (box_send_failure()) {
    for (int i = 0; i < count; ++i) close(fds[i]);
    return;
  }
  watch_children();
  struct rusage usage;
  const uint64_t cpu_before = children_cpu_us(&usage);
  struct BoxDone done;
  memset(&done, 0, sizeof done);
  if (run.keep != 0) kill(-1, SIGCONT);
  const pid_t child = start(&run, words, words + run.argc + 1, folder, fds);
  const int error = errno;
  for (int i = 0; i < 3; ++i) close(fds[i]);
  if (child < 0) {
    box_fail("starting", words[0], error);
    box_send_failure();
    return;
  }
  int status = 0;
  bool ended = false;
  attend(&run, last_file, child, cpu_before, &done, &status, &ended);
  if (run.keep == 0) {
    end_everything(child, &status, &ended);
  } else if (ended) {
    kill(-1, SIGSTOP);
  } else {
    end_session(child, &status, &ended);
  }
  if (done.limit == BOX_LIMIT_NONE && box_disk_full()) done.limit = BOX_LIMIT_DISK;
  done.signalled = WIFSIGNALED(status);
  done.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  done.cpu_us = children_cpu_us(&usage) - cpu_before;
  done.peak_rss_kb = (uint64_t)usage.ru_maxrss;
  box_send_frame(BOX_DONE, &done, sizeof done);
}

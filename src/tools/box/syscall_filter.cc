#include "tools/box/syscall_filter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <initializer_list>
#include <memory>

#include "core/fd.h"

namespace tidemill {
namespace {

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

// The calls of compilers, interpreters, virtual machines and what they build. Where one of the
// architectures lacks a call, libseccomp leaves it out there.
constexpr std::initializer_list<int> kAllowed = {
    // Files.
    SCMP_SYS(access), SCMP_SYS(chdir), SCMP_SYS(chmod), SCMP_SYS(chown), SCMP_SYS(close),
    SCMP_SYS(close_range), SCMP_SYS(copy_file_range), SCMP_SYS(creat), SCMP_SYS(dup),
    SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fadvise64),
    SCMP_SYS(fallocate), SCMP_SYS(fchdir), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(fchown),
    SCMP_SYS(fchownat), SCMP_SYS(fcntl), SCMP_SYS(fdatasync), SCMP_SYS(fgetxattr),
    SCMP_SYS(flistxattr), SCMP_SYS(flock), SCMP_SYS(fremovexattr), SCMP_SYS(fsetxattr),
    SCMP_SYS(fstat), SCMP_SYS(fstatfs), SCMP_SYS(fsync), SCMP_SYS(ftruncate), SCMP_SYS(futimesat),
    SCMP_SYS(getcwd), SCMP_SYS(getdents), SCMP_SYS(getdents64), SCMP_SYS(getxattr),
    SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_init), SCMP_SYS(inotify_init1),
    SCMP_SYS(inotify_rm_watch), SCMP_SYS(lchown), SCMP_SYS(lgetxattr), SCMP_SYS(link),
    SCMP_SYS(linkat), SCMP_SYS(listxattr), SCMP_SYS(llistxattr), SCMP_SYS(lremovexattr),
    SCMP_SYS(lseek), SCMP_SYS(lsetxattr), SCMP_SYS(lstat), SCMP_SYS(mkdir), SCMP_SYS(mkdirat),
    SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(newfstatat), SCMP_SYS(open), SCMP_SYS(openat),
    SCMP_SYS(openat2), SCMP_SYS(pread64), SCMP_SYS(preadv), SCMP_SYS(preadv2), SCMP_SYS(pwrite64),
    SCMP_SYS(pwritev), SCMP_SYS(pwritev2), SCMP_SYS(read), SCMP_SYS(readahead), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(readv), SCMP_SYS(removexattr), SCMP_SYS(rename),
    SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(rmdir), SCMP_SYS(sendfile),
    SCMP_SYS(setxattr), SCMP_SYS(stat), SCMP_SYS(statfs), SCMP_SYS(statx), SCMP_SYS(symlink),
    SCMP_SYS(symlinkat), SCMP_SYS(sync_file_range), SCMP_SYS(truncate), SCMP_SYS(umask),
    SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(utime), SCMP_SYS(utimensat), SCMP_SYS(utimes),
    SCMP_SYS(write), SCMP_SYS(writev),
    // Memory.
    SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(membarrier), SCMP_SYS(mincore), SCMP_SYS(mlock),
    SCMP_SYS(mlock2), SCMP_SYS(mlockall), SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(mremap),
    SCMP_SYS(msync), SCMP_SYS(munlock), SCMP_SYS(munlockall), SCMP_SYS(munmap),
    SCMP_SYS(pkey_alloc), SCMP_SYS(pkey_free), SCMP_SYS(pkey_mprotect),
    // Processes and threads.
    SCMP_SYS(arch_prctl), SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(execve), SCMP_SYS(execveat),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(fork), SCMP_SYS(futex), SCMP_SYS(futex_waitv),
    SCMP_SYS(get_robust_list), SCMP_SYS(getcpu), SCMP_SYS(getegid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getgroups), SCMP_SYS(getpgid), SCMP_SYS(getpgrp), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(getpriority), SCMP_SYS(getresgid), SCMP_SYS(getresuid),
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(getsid), SCMP_SYS(gettid), SCMP_SYS(getuid),
    SCMP_SYS(kill), SCMP_SYS(landlock_add_rule), SCMP_SYS(landlock_create_ruleset),
    SCMP_SYS(landlock_restrict_self), SCMP_SYS(pause), SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_send_signal), SCMP_SYS(prctl), SCMP_SYS(restart_syscall), SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getattr),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_rr_get_interval),
    SCMP_SYS(sched_yield), SCMP_SYS(seccomp), SCMP_SYS(set_robust_list), SCMP_SYS(set_tid_address),
    SCMP_SYS(setfsgid), SCMP_SYS(setfsuid), SCMP_SYS(setgid), SCMP_SYS(setgroups),
    SCMP_SYS(setpgid), SCMP_SYS(setregid), SCMP_SYS(setresgid), SCMP_SYS(setresuid),
    SCMP_SYS(setreuid), SCMP_SYS(setrlimit), SCMP_SYS(setsid), SCMP_SYS(setuid),
    SCMP_SYS(sigaltstack), SCMP_SYS(signalfd), SCMP_SYS(signalfd4), SCMP_SYS(tgkill),
    SCMP_SYS(tkill), SCMP_SYS(vfork), SCMP_SYS(wait4), SCMP_SYS(waitid),
    // Between processes. Sockets are made below, of one family only.
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(epoll_create),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_wait), SCMP_SYS(eventfd), SCMP_SYS(eventfd2), SCMP_SYS(getpeername),
    SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(listen), SCMP_SYS(msgctl),
    SCMP_SYS(msgget), SCMP_SYS(msgrcv), SCMP_SYS(msgsnd), SCMP_SYS(pipe), SCMP_SYS(pipe2),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(pselect6), SCMP_SYS(recvfrom), SCMP_SYS(recvmmsg),
    SCMP_SYS(recvmsg), SCMP_SYS(select), SCMP_SYS(semctl), SCMP_SYS(semget), SCMP_SYS(semop),
    SCMP_SYS(semtimedop), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto),
    SCMP_SYS(setsockopt), SCMP_SYS(shmat), SCMP_SYS(shmctl), SCMP_SYS(shmdt), SCMP_SYS(shutdown),
    SCMP_SYS(splice), SCMP_SYS(tee),
    // Time, chance and the machine's name.
    SCMP_SYS(alarm), SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(getitimer), SCMP_SYS(getrandom), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep),
    SCMP_SYS(setitimer), SCMP_SYS(sysinfo), SCMP_SYS(time), SCMP_SYS(timer_create),
    SCMP_SYS(timer_delete), SCMP_SYS(timer_getoverrun), SCMP_SYS(timer_gettime),
    SCMP_SYS(timer_settime), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_gettime),
    SCMP_SYS(timerfd_settime), SCMP_SYS(times), SCMP_SYS(uname)};

// Memory that is no process's: only a cgroup counts it.
constexpr std::initializer_list<int> kUncountedMemory = {SCMP_SYS(memfd_create), SCMP_SYS(shmget)};

// By which a program could see to it that it gets no CPU, and call the machine busy. Programs
// expect to be told no.
constexpr std::initializer_list<int> kScheduling = {
    SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setattr), SCMP_SYS(sched_setparam),
    SCMP_SYS(sched_setscheduler), SCMP_SYS(setpriority)};

// Not TIOCSTI and TIOCLINUX, which push characters into a terminal.
constexpr std::initializer_list<unsigned> kAllowedIoctls = {
    FIONREAD,   FIONBIO,   FIOASYNC,  FIOCLEX,  FIONCLEX, TCGETS,
    TCSETS,     TCSETSW,   TCSETSF,   TCFLSH,   TCSBRK,   TIOCGWINSZ,
    TIOCSWINSZ, TIOCGPGRP, TIOCSPGRP, TIOCGSID, FICLONE,  FS_IOC_GETFLAGS};

constexpr uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Adds rules to one context; the first failure is a negative errno, and ends it.
class Rules {
 public:
  explicit Rules(scmp_filter_ctx context) : context_(context) {}

  void Allow(int call) {
    if (result_ == 0) result_ = seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, 0);
  }
  void Refuse(int error, int call) {
    if (result_ == 0) result_ = seccomp_rule_add(context_, SCMP_ACT_ERRNO(error), call, 0);
  }
  void AllowIf(int call, scmp_arg_cmp condition) { If(SCMP_ACT_ALLOW, call, condition); }
  void RefuseIf(int error, int call, scmp_arg_cmp condition) {
    If(SCMP_ACT_ERRNO(error), call, condition);
  }
  void AllowIf2(int call, scmp_arg_cmp one, scmp_arg_cmp other) {
    if (result_ == 0) result_ = seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, 2, one, other);
  }
  void RefuseIf2(int error, int call, scmp_arg_cmp one, scmp_arg_cmp other) {
    if (result_ != 0) return;
    result_ = seccomp_rule_add(context_, SCMP_ACT_ERRNO(error), call, 2, one, other);
  }
  void Set(scmp_filter_attr attribute, uint32_t value) {
    if (result_ == 0) result_ = seccomp_attr_set(context_, attribute, value);
  }
  int result() const { return result_; }

 private:
  void If(uint32_t action, int call, scmp_arg_cmp condition) {
    if (result_ == 0) result_ = seccomp_rule_add(context_, action, call, 1, condition);
  }

  scmp_filter_ctx context_;
  int result_ = 0;
};

// Which families of sockets there are.
void AddFamilies(Rules& rules, bool loopback) {
  constexpr uint64_t kHighest = AF_NETLINK;
  for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
    if (!loopback) {
      rules.AllowIf(call, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
      rules.RefuseIf(EAFNOSUPPORT, call, SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
      continue;
    }
    for (uint64_t family = 0; family < kHighest; ++family) {
      const bool known = family == AF_UNIX || family == AF_INET || family == AF_INET6;
      if (known) {
        rules.AllowIf(call, SCMP_A0(SCMP_CMP_EQ, family, 0));
      } else {
        rules.RefuseIf(EAFNOSUPPORT, call, SCMP_A0(SCMP_CMP_EQ, family, 0));
      }
    }
    rules.AllowIf2(call, SCMP_A0(SCMP_CMP_EQ, kHighest, 0), SCMP_A2(SCMP_CMP_EQ, 0, 0));
    rules.RefuseIf2(EAFNOSUPPORT, call, SCMP_A0(SCMP_CMP_EQ, kHighest, 0),
                    SCMP_A2(SCMP_CMP_NE, 0, 0));
    rules.RefuseIf(EAFNOSUPPORT, call, SCMP_A0(SCMP_CMP_GT, kHighest, 0));
  }
}

int AddRules(scmp_filter_ctx context, const SyscallFilterOptions& options) {
  Rules rules(context);
  rules.Set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  for (const int call : kAllowed) rules.Allow(call);
  for (const int call : kUncountedMemory) {
    if (options.cgroups) rules.Allow(call);
  }
  for (const int call : kScheduling) rules.Refuse(EPERM, call);
  rules.AllowIf(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kNewNamespaces, 0));
  AddFamilies(rules, options.loopback);
  // Only the low half of a request counts for the kernel.
  for (const unsigned request : kAllowedIoctls) {
    rules.AllowIf(SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, request));
  }
  // Limits of itself: those of the init, which has the same user, are none of its business.
  rules.AllowIf(SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, 0));
  for (const uint64_t persona :
       {uint64_t{PER_LINUX}, uint64_t{ADDR_NO_RANDOMIZE}, uint64_t{0xffffffffu}}) {
    rules.AllowIf(SCMP_SYS(personality), SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, persona));
  }
  // A search tree instead of a list: every call of every program in the box pays for the length.
  rules.Set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  return rules.result();
}

}  // namespace

Result<std::string> BuildSyscallFilter(const SyscallFilterOptions& options) {
  const uint32_t architecture =
      options.architecture != 0 ? options.architecture : seccomp_arch_native();
  if (architecture != SCMP_ARCH_X86_64 && architecture != SCMP_ARCH_AARCH64) {
    return Unavailable("boxes know the system calls of x86_64 and aarch64 only");
  }
  // Not there, rather than not permitted: libraries then fall back to what is.
  const Context context(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), &seccomp_release);
  if (context == nullptr) return Internal("libseccomp gave no filter");
  int result = 0;
  if (architecture != seccomp_arch_native()) {
    result = seccomp_arch_add(context.get(), architecture);
    if (result == 0) result = seccomp_arch_remove(context.get(), SCMP_ARCH_NATIVE);
  }
  if (result == 0) result = AddRules(context.get(), options);
  if (result != 0) {
    return Internal(fmt::format("building the system call filter: {}", strerror(-result)));
  }
  return ExportFilter(context.get());
}

Result<std::string> ExportFilter(void* context) {
  const Fd file(memfd_create("tidemill-filter", MFD_CLOEXEC));
  if (!file) return Internal(fmt::format("memfd_create: {}", strerror(errno)));
  if (const int result = seccomp_export_bpf(context, file.get()); result != 0) {
    return Internal(fmt::format("exporting the system call filter: {}", strerror(-result)));
  }
  struct stat info = {};
  if (fstat(file.get(), &info) != 0 || info.st_size <= 0) return Internal("the filter is empty");
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (pread(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Internal("reading the filter back");
  }
  return bytes;
}

}  // namespace tidemill

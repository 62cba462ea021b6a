#include "tools/python/answer_filter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <seccomp.h>
#include <string.h>

#include <cerrno>
#include <initializer_list>
#include <memory>

#include "tools/box/syscall_filter.h"

namespace tidemill {
namespace {

using FilterContext = std::unique_ptr<void, decltype(&seccomp_release)>;

constexpr std::initializer_list<int> kAllowed = {
    // Pipes and files that are open.
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(writev),
    SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(dup), SCMP_SYS(fcntl), SCMP_SYS(poll),
    SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(ppoll),
    // Looking at files.
    SCMP_SYS(fstat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd), SCMP_SYS(fadvise64),
    // Memory.
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise),
    SCMP_SYS(brk), SCMP_SYS(futex), SCMP_SYS(membarrier),
    // Itself.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(times),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    // Time and chance.
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom)};

constexpr uint64_t kTemporaryFile = 020000000;  // the bit of O_TMPFILE that is not O_DIRECTORY
constexpr uint64_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | kTemporaryFile;

int AddAnswerRules(scmp_filter_ctx context) {
  int result = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  const auto allow_if = [&](int call, scmp_arg_cmp condition) {
    if (result == 0) result = seccomp_rule_add(context, SCMP_ACT_ALLOW, call, 1, condition);
  };
  for (const int call : kAllowed) {
    if (result == 0) result = seccomp_rule_add(context, SCMP_ACT_ALLOW, call, 0);
  }
  allow_if(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, 0));
  allow_if(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, 0));
  allow_if(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0, 0));  // asking, not setting
  // No terminal anywhere.
  if (result == 0) {
    result = seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 0);
  }
  if (result == 0) result = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  return result;
}

}  // namespace

Result<std::string> BuildAnswerFilter() {
  const FilterContext context(seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release);
  if (context == nullptr) return Internal("libseccomp gave no filter");
  if (const int result = AddAnswerRules(context.get()); result != 0) {
    return Internal(fmt::format("building the filter of answers: {}", strerror(-result)));
  }
  return ExportFilter(context.get());
}

}  // namespace tidemill

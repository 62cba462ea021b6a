#include "tools/box/syscall_filter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <initializer_list>
#include <memory>

#include "core/fd.h"

namespace tidemill {
namespace {

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

constexpr std::initializer_list<int> kNotPermitted = {
    // Looking into other processes.
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(process_madvise), SCMP_SYS(process_mrelease),
    // Mounts and name spaces.
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
    SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr), SCMP_SYS(unshare),
    SCMP_SYS(setns), SCMP_SYS(open_by_handle_at), SCMP_SYS(name_to_handle_at),
    // Kernel facilities with a long record of holes.
    SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(vmsplice), SCMP_SYS(fanotify_init),
    SCMP_SYS(fanotify_mark), SCMP_SYS(lookup_dcookie), SCMP_SYS(remap_file_pages),
    SCMP_SYS(modify_ldt), SCMP_SYS(memfd_secret), SCMP_SYS(move_pages), SCMP_SYS(migrate_pages),
    // The machine.
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(acct), SCMP_SYS(quotactl),
    SCMP_SYS(quotactl_fd), SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex), SCMP_SYS(syslog),
    SCMP_SYS(vhangup), SCMP_SYS(uselib), SCMP_SYS(nfsservctl), SCMP_SYS(_sysctl)};

constexpr std::initializer_list<int> kNotThere = {SCMP_SYS(io_uring_setup),
                                                  SCMP_SYS(io_uring_enter),
                                                  SCMP_SYS(io_uring_register), SCMP_SYS(clone3)};

constexpr uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// 0, or the first failure as a negative errno.
int AddRules(scmp_filter_ctx context) {
  int result = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  const auto refuse = [&](int error, int call) {
    if (result == 0) result = seccomp_rule_add(context, SCMP_ACT_ERRNO(error), call, 0);
  };
  const auto refuse_if = [&](int error, int call, scmp_arg_cmp condition) {
    if (result == 0) result = seccomp_rule_add(context, SCMP_ACT_ERRNO(error), call, 1, condition);
  };
  for (const int call : kNotPermitted) refuse(EPERM, call);
  for (const int call : kNotThere) refuse(ENOSYS, call);
  for (uint64_t bit = 1; bit <= kNewNamespaces; bit <<= 1) {
    if ((kNewNamespaces & bit) != 0) {
      refuse_if(EPERM, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
    }
  }
  refuse_if(EAFNOSUPPORT, SCMP_SYS(socket), SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
  refuse_if(EAFNOSUPPORT, SCMP_SYS(socketpair), SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
  // Pushing characters into a terminal; only the low half of the request counts for the kernel.
  refuse_if(EPERM, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCSTI));
  refuse_if(EPERM, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCLINUX));
  // A search tree instead of a list: every call of every program in the box pays for the length.
  if (result == 0) result = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  return result;
}

}  // namespace

Result<std::string> BuildSyscallFilter() {
  const Context context(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (context == nullptr) return Internal("libseccomp gave no filter");
  if (const int result = AddRules(context.get()); result != 0) {
    return Internal(fmt::format("building the system call filter: {}", strerror(-result)));
  }
  const Fd file(memfd_create("tidemill-filter", MFD_CLOEXEC));
  if (!file) return Internal(fmt::format("memfd_create: {}", strerror(errno)));
  if (const int result = seccomp_export_bpf(context.get(), file.get()); result != 0) {
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

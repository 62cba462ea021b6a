#include "tools/box/syscall_filter.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>
#include <initializer_list>
#include <vector>

namespace tidemill {
namespace {

// Runs a filter as the kernel would. Only the instructions libseccomp writes.
uint32_t Judge(const std::vector<sock_filter>& program, const seccomp_data& data) {
  uint32_t accumulator = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        memcpy(&accumulator, reinterpret_cast<const char*>(&data) + step.k, sizeof accumulator);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step.k;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += accumulator > step.k ? step.jt : step.jf;
        break;
      case BPF_RET | BPF_K:
        return step.k;
      default:
        ADD_FAILURE() << "an instruction of another kind: " << step.code;
        return SECCOMP_RET_KILL_PROCESS;
    }
  }
  ADD_FAILURE() << "the filter has no end";
  return SECCOMP_RET_KILL_PROCESS;
}

class SyscallFilter : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    const Result<std::string> bytes = BuildSyscallFilter({.architecture = GetParam()});
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    ASSERT_EQ(bytes->size() % sizeof(sock_filter), 0u);
    program_.resize(bytes->size() / sizeof(sock_filter));
    memcpy(program_.data(), bytes->data(), bytes->size());
  }
  uint32_t Number(const char* name) const {
    return static_cast<uint32_t>(seccomp_syscall_resolve_name_arch(GetParam(), name));
  }
  uint32_t Ask(uint32_t call, std::initializer_list<uint64_t> arguments = {},
               uint32_t architecture = 0) const {
    seccomp_data data = {};
    data.nr = static_cast<int>(call);
    data.arch = architecture != 0 ? architecture : GetParam();
    size_t index = 0;
    for (const uint64_t argument : arguments) data.args[index++] = argument;
    return Judge(program_, data);
  }
  std::vector<sock_filter> program_;
};

constexpr uint32_t kNotThere = SECCOMP_RET_ERRNO | ENOSYS;

TEST_P(SyscallFilter, NumbersNobodyNamedAreNotThere) {
  // From behind the newest call of this writing to far beyond, and among them open_tree_attr.
  for (const uint32_t made_up : {467u, 468u, 469u, 500u, 511u, 1000u, 9999u, 0x3fffffffu}) {
    EXPECT_EQ(Ask(made_up), kNotThere) << made_up;
  }
  size_t allowed = 0;
  for (uint32_t call = 0; call < 4096; ++call) {
    if (Ask(call) == SECCOMP_RET_ALLOW) ++allowed;
  }
  EXPECT_GT(allowed, 150u);
  EXPECT_LT(allowed, 300u);
}

TEST_P(SyscallFilter, WhatReachesOutOfABoxIsNotThere) {
  for (const char* name : {"ptrace",
                           "process_vm_readv",
                           "process_vm_writev",
                           "pidfd_getfd",
                           "kcmp",
                           "mount",
                           "umount2",
                           "pivot_root",
                           "chroot",
                           "move_mount",
                           "open_tree",
                           "fsopen",
                           "fsmount",
                           "mount_setattr",
                           "unshare",
                           "setns",
                           "open_by_handle_at",
                           "name_to_handle_at",
                           "keyctl",
                           "add_key",
                           "request_key",
                           "bpf",
                           "perf_event_open",
                           "userfaultfd",
                           "vmsplice",
                           "fanotify_init",
                           "io_uring_setup",
                           "io_uring_enter",
                           "io_uring_register",
                           "io_setup",
                           "clone3",
                           "init_module",
                           "finit_module",
                           "delete_module",
                           "kexec_load",
                           "reboot",
                           "swapon",
                           "sethostname",
                           "settimeofday",
                           "clock_settime",
                           "adjtimex",
                           "syslog",
                           "acct",
                           "quotactl",
                           "sync",
                           "syncfs",
                           "memfd_secret",
                           "process_madvise",
                           "remap_file_pages"}) {
    EXPECT_EQ(Ask(Number(name)), kNotThere) << name;
  }
}

TEST_P(SyscallFilter, NobodyGivesUpTheCpuItIsMeasuredBy) {
  for (const char* name : {"sched_setscheduler", "sched_setattr", "sched_setparam",
                           "sched_setaffinity", "setpriority"}) {
    EXPECT_EQ(Ask(Number(name)), SECCOMP_RET_ERRNO | EPERM) << name;
  }
  EXPECT_EQ(Ask(Number("ioprio_set")), kNotThere);
  EXPECT_EQ(Ask(Number("sched_getaffinity")), SECCOMP_RET_ALLOW);
}

TEST_P(SyscallFilter, ArgumentsDecideWhereTheyMatter) {
  EXPECT_EQ(Ask(Number("clone"), {0x11}), SECCOMP_RET_ALLOW);
  for (const uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID}) {
    EXPECT_EQ(Ask(Number("clone"), {flag | 0x11}), kNotThere);
  }
  EXPECT_EQ(Ask(Number("socket"), {AF_UNIX}), SECCOMP_RET_ALLOW);
  for (const uint64_t family : {uint64_t{AF_INET}, uint64_t{AF_NETLINK}, uint64_t{AF_VSOCK},
                                uint64_t{AF_ALG}, uint64_t{0x100000001}}) {
    EXPECT_EQ(Ask(Number("socket"), {family}), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
  }
  EXPECT_EQ(Ask(Number("ioctl"), {0, 0x5401}), SECCOMP_RET_ALLOW) << "TCGETS";
  EXPECT_EQ(Ask(Number("ioctl"), {0, 0x5412}), kNotThere) << "TIOCSTI";
  EXPECT_EQ(Ask(Number("ioctl"), {0, 0xffffffff00005412}), kNotThere);
  EXPECT_EQ(Ask(Number("prlimit64"), {0}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(Ask(Number("prlimit64"), {1}), kNotThere);
  EXPECT_EQ(Ask(Number("personality"), {0x0400000}), kNotThere) << "READ_IMPLIES_EXEC";
}

TEST_P(SyscallFilter, AnotherArchitectureEndsTheProcess) {
  EXPECT_EQ(Ask(1, {}, SCMP_ARCH_X86), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(Ask(1, {}, SCMP_ARCH_ARM), SECCOMP_RET_KILL_PROCESS);
  if (GetParam() == SCMP_ARCH_X86_64) {
    EXPECT_EQ(Ask(0x40000001), SECCOMP_RET_KILL_PROCESS) << "x32";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, SyscallFilter,
                         testing::Values(SCMP_ARCH_X86_64, SCMP_ARCH_AARCH64));

TEST(SyscallFilterOf, AnArchitectureWithoutAListHasNoBoxes) {
  EXPECT_EQ(BuildSyscallFilter({.architecture = SCMP_ARCH_S390X}).status().code(),
            Code::kUnavailable);
}

}  // namespace
}  // namespace tidemill

// Code that reaches for what is outside its box, or wants to lead us there: files, processes,
// sockets, system calls, links.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>

#include "tools/box/hostile_box.h"

namespace tidemill {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(HostileBox, TheRestOfTheFileSystemCannotBeWritten) {
  const RunReport report = Shell(
      "for p in / /usr /usr/bin /bin /etc /dev /box /proc /proc/sys/kernel "
      "/usr/lib/x86_64-linux-gnu;"
      " do if touch $p/planted 2>/dev/null; then echo wrote $p; fi; done;"
      " (echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo wrote sysctl;"
      " (echo b > /proc/sysrq-trigger) 2>/dev/null && echo wrote sysrq; true");
  // /box belongs to the box and its size limit holds there.
  EXPECT_THAT(report.out, AnyOf("", "wrote /box\n"));
  EXPECT_FALSE(std::filesystem::exists("/usr/planted"));
}

TEST_F(HostileBox, NothingOfTheHostCanBeRead) {
  const std::string secret = "/tmp/tidemill-secret-" + std::to_string(getpid());
  std::ofstream(secret) << "the secret";
  const RunReport report = Shell(
      fmt::format("cat /etc/shadow {0} /proc/{1}/environ /proc/{1}/maps /root/.bashrc 2>/dev/null;"
                  " ls /root /home /var /run /sys /mnt /srv {2} 2>/dev/null; true",
                  secret, getpid(), TIDEMILL_SOURCE_DIR));
  std::filesystem::remove(secret);
  EXPECT_EQ(report.out, "/var:\ntmp\n") << "only the link /var/tmp is there";
}

TEST_F(HostileBox, TheHostsProcessesAreNotInProc) {
  const RunReport report = Shell("cat /proc/[0-9]*/comm");
  EXPECT_THAT(report.out, Not(HasSubstr("tools_test")));
  EXPECT_THAT(report.out, Not(HasSubstr("bwrap")));
}

TEST_F(HostileBox, TheInitCannotBeReadOrKilled) {
  const RunReport report = Shell(
      "cat /proc/1/environ /proc/1/maps /proc/1/mem >/dev/null 2>&1 && echo read;"
      " ls -l /proc/1/fd 2>/dev/null | grep -c . ; readlink /proc/1/root /proc/1/exe;"
      " kill -9 1; kill -STOP 1; kill -9 -1; echo alive");
  EXPECT_THAT(report.out, Not(HasSubstr("read")));
  EXPECT_THAT(report.out, Not(HasSubstr("/box-init")));
  EXPECT_THAT(Name(report), AnyOf("ok", "signal"));
}

TEST_F(HostileBox, OtherBoxesAreInvisible) {
  auto other = OpenBox();
  ASSERT_TRUE(other->Put("secret.txt", "the neighbour's").ok());
  RunSpec spec;
  spec.command = {"true"};
  (void)other->Run(spec);
  const RunReport report =
      Shell(fmt::format("ls /proc/{0} /proc/{0}/root/box 2>/dev/null; kill -9 {0} 2>/dev/null;"
                        " find / -name secret.txt 2>/dev/null; true",
                        other->init_pid()));
  EXPECT_EQ(report.out, "");
  EXPECT_EQ(kill(other->init_pid(), 0), 0);
}

TEST_F(HostileBox, AServerOnTheHostsLoopbackCannotBeReached) {
  const Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(server.get(), 1), 0);
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const RunReport report = RunC(fmt::format(
      "#include <arpa/inet.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <errno.h>\n"
      "int main(){{int s=socket(AF_INET,SOCK_STREAM,0);struct sockaddr_in a={{AF_INET,htons({})}};"
      "a.sin_addr.s_addr=htonl(0x7f000001);if(connect(s,(void*)&a,sizeof a)==0){{puts(\"in\");"
      "return 0;}}printf(\"%d\\n\",s);return 1;}}",
      ntohs(address.sin_port)));
  EXPECT_EQ(Name(report), "failed");
  EXPECT_EQ(report.out, "-1\n");
}

TEST_F(HostileBox, SocketsOfTheHostCannotBeReached) {
  // By path, as a Redis server may have one, and in the abstract name space.
  const std::string path = fmt::format("/tmp/tidemill-{}.sock", getpid());
  const Fd by_path(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd abstract(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(by_path.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(by_path.get(), 1), 0);
  address.sun_path[0] = '\0';
  ASSERT_EQ(bind(abstract.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(abstract.get(), 1), 0);
  const RunReport report = RunC(fmt::format(
      "#include <sys/socket.h>\n#include <sys/un.h>\n#include <string.h>\n#include <stdio.h>\n"
      "int main(){{struct sockaddr_un a={{AF_UNIX}};strcpy(a.sun_path,\"{}\");"
      "int s=socket(AF_UNIX,SOCK_STREAM,0);if(connect(s,(void*)&a,sizeof a)==0)puts(\"path\");"
      "a.sun_path[0]=0;s=socket(AF_UNIX,SOCK_STREAM,0);"
      "if(connect(s,(void*)&a,sizeof a)==0)puts(\"abstract\");return 0;}}",
      path));
  std::filesystem::remove(path);
  EXPECT_EQ(Name(report), "ok");
  EXPECT_EQ(report.out, "");
}

TEST_F(HostileBox, NoSocketFamilyButUnix) {
  const RunReport report = RunC(
      "#include <sys/socket.h>\n#include <stdio.h>\nint main(){for(int f=0;f<64;f++)"
      "for(int t=1;t<=5;t++)if(socket(f,t,0)>=0)printf(\"%d \",f);return 0;}");
  EXPECT_EQ(report.out, "1 1 1 1 ");  // stream, datagram, raw (a datagram for AF_UNIX), seqpacket
}

TEST_F(HostileBox, ForbiddenSystemCallsAreRefused) {
  const RunReport report = RunC(R"(
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(name, call) do { errno = 0; if ((long)(call) >= 0) printf("%s worked\n", name); else if (errno != EPERM && errno != ENOSYS) printf("%s: %d\n", name, errno); } while (0)
int main() {
  char b[256] = {0};
  TRY("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
  TRY("attach", ptrace(PTRACE_ATTACH, 1, 0, 0));
  TRY("mount", mount("none", "/tmp", "tmpfs", 0, ""));
  TRY("umount", umount2("/usr", 2));
  TRY("unshare", unshare(CLONE_NEWUSER));
  TRY("unshare", unshare(CLONE_NEWNS));
  TRY("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  TRY("clone3", syscall(SYS_clone3, b, 88));
  TRY("setns", setns(0, 0));
  TRY("chroot", chroot("/tmp"));
  TRY("pivot_root", syscall(SYS_pivot_root, ".", "."));
  TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
  TRY("add_key", syscall(SYS_add_key, "user", "a", "b", 1, -3));
  TRY("bpf", syscall(SYS_bpf, 0, b, sizeof b));
  TRY("io_uring", syscall(SYS_io_uring_setup, 4, b));
  TRY("perf", syscall(SYS_perf_event_open, b, 0, -1, -1, 0));
  TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
  TRY("vm_readv", syscall(SYS_process_vm_readv, 1, b, 1, b, 1, 0));
  TRY("pidfd_getfd", syscall(SYS_pidfd_getfd, 0, 0, 0));
  TRY("handle", syscall(SYS_open_by_handle_at, 3, b, 0));
  TRY("module", syscall(SYS_init_module, b, 1, ""));
  TRY("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
  TRY("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
  TRY("hostname", sethostname("x", 1));
  TRY("mknod", syscall(SYS_mknod, "/tmp/dev", 0060600, 0x801));
  TRY("open_tree", syscall(SYS_open_tree, -100, "/", 1));
  TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
  return 0;
})");
  EXPECT_EQ(Name(report), "ok") << report.err;
  EXPECT_EQ(report.out, "");
}

TEST_F(HostileBox, TheThirtyTwoBitEntryEndsTheProcess) {
  // socket(AF_VSOCK) by int 0x80, which a filter for 64-bit calls does not see.
  const RunReport report = RunC(
      "#include <stdio.h>\nint main(){int r;__asm__ volatile(\"int $0x80\":\"=a\"(r):\"a\"(359),"
      "\"b\"(40),\"c\"(1),\"d\"(0));printf(\"%d\\n\",r);return 0;}");
  EXPECT_EQ(Name(report), "signal");
  EXPECT_EQ(report.exit_code, SIGSYS);
  EXPECT_EQ(report.out, "");
}

TEST_F(HostileBox, NoCapabilitiesAndNoNewPrivileges) {
  const RunReport report =
      Shell("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status");
  EXPECT_EQ(report.out,
            "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
            "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
}

TEST_F(HostileBox, PlantedLinksFifosAndDevicesAreNotCollected) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c",
                  "ln -s /etc/ld.so.cache link; ln -s /proc/1/environ deep; mkfifo fifo; mkdir d;"
                  "ln -s / d/root; ln -s ../.. up; echo fine > file; ln file hard;"
                  "ln -s /dev/zero zero; mknod dev c 1 5 2>/dev/null; true"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  for (const char* path : {"link", "deep", "fifo", "zero", "d/root/usr/bin/env", "up/etc", "d"}) {
    EXPECT_EQ(box->Get(path, 1 << 20).status().code(), Code::kNotFound) << path;
  }
  auto tree = box->Collect({});
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->files_size(), 2);
  EXPECT_EQ(tree->files(0).path(), "file");
  EXPECT_EQ(tree->files(1).path(), "hard");
  // Ours go over them, not through them.
  ASSERT_TRUE(box->Put("fifo", "now a file").ok());
  ASSERT_TRUE(box->Put("link", "now a file").ok());
  EXPECT_EQ(box->Get("fifo", 100).value(), "now a file");
  EXPECT_EQ(box->Get("link", 100).value(), "now a file");
}

TEST_F(HostileBox, AFolderMadeALinkDoesNotLeadOurFilesAway) {
  auto box = OpenBox();
  RunSpec spec;
  spec.command = {"/bin/sh", "-c", "mkdir /tmp/away; ln -s /tmp/away src"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  ASSERT_TRUE(box->Put("src/main.c", "ours").ok());
  spec.command = {"ls", "/tmp/away"};
  const RunReport report = box->Run(spec);
  EXPECT_EQ(Name(report), "unavailable") << "the failed Put is said: " << report.cause;
}

TEST_F(HostileBox, AWorkspaceMovedAwayIsNotMistakenForAnother) {
  auto box = OpenBox();
  ASSERT_TRUE(box->Put("ours.txt", "ours").ok());
  RunSpec spec;
  spec.command = {
      "/bin/sh", "-c",
      "cd /box && mv workspace elsewhere && mkdir workspace && echo planted > workspace/p"};
  ASSERT_EQ(Name(box->Run(spec)), "ok");
  auto tree = box->Collect({});
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->files_size(), 1);
  EXPECT_EQ(tree->files(0).path(), "ours.txt");
  ASSERT_TRUE(box->RemoveAll().ok());
  spec.command = {"true"};
  EXPECT_EQ(Name(box->Run(spec)), "unavailable") << "such a box is not used again";
}

TEST_F(HostileBox, KillingEverythingItCanSee) {
  const RunReport report = Shell("for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done; kill -9 -1");
  EXPECT_THAT(Name(report), AnyOf("ok", "failed", "signal"));
}

}  // namespace
}  // namespace tidemill

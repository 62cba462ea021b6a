/* The first process of a box. It reaps, runs commands as its children, moves files in and out, and
 * ends with its socket: when the host closes it or dies, the kernel ends everything in the box.
 *
 * Linked statically, because it runs before anything of the box's file system can be trusted to be
 * there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box_init.h"

int box_workspace_fd = -1, box_writable_fd = -1;

static void drop_capabilities(void) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int capability = 0; capability <= 63; ++capability) prctl(PR_CAPBSET_DROP, capability);
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  if (syscall(SYS_capset, &head, none) != 0) box_fail("dropping", "capabilities", errno);
}

static void configure(uint32_t size) {
  struct BoxConfig config;
  static struct sock_filter filter[BPF_MAXINSNS];
  const size_t filter_size = size - sizeof config;
  box_read_or_die(&config, sizeof config);
  box_read_or_die(filter, filter_size);
  char options[128];
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu",
           (unsigned long long)config.disk_bytes, (unsigned long long)config.files);
  if (mount("tmpfs", BOX_WRITABLE, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, options) != 0) {
    box_fail("limiting", BOX_WRITABLE, errno);
  }
  drop_capabilities();
  struct sock_fprog program = {(unsigned short)(filter_size / sizeof(struct sock_filter)), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    box_fail("installing", "the system call filter", errno);
  }
}

static void prepare(void) {
  /* Nobody in the box may look into this process or take its descriptors. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (!box_close_from(BOX_IMAGE_FD)) box_fail("closing", "inherited descriptors", errno);
  fcntl(BOX_SOCKET_FD, F_SETFD, FD_CLOEXEC);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) dup3(null, fd, O_CLOEXEC);
  if (null > 2) close(null);
  umask(0);
  if (mkdir(BOX_WORKSPACE, 0755) != 0 || mkdir(BOX_WRITABLE "/tmp", 01777) != 0 ||
      mkdir(BOX_WRITABLE "/shm", 01777) != 0 || mkdir(BOX_WRITABLE "/home", 0700) != 0) {
    box_fail("making", BOX_WORKSPACE, errno);
  }
  umask(022);
  box_workspace_fd = open(BOX_WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  box_writable_fd = open(BOX_WRITABLE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (box_workspace_fd < 0 || box_writable_fd < 0) box_fail("opening", BOX_WORKSPACE, errno);
  if (chdir(BOX_WORKSPACE) != 0) box_fail("entering", BOX_WORKSPACE, errno);
}

static void open_loopback(void) {
  struct BoxListen wanted;
  box_read_or_die(&wanted, sizeof wanted);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in place;
  memset(&place, 0, sizeof place);
  place.sin_family = AF_INET;
  place.sin_port = htons((uint16_t)wanted.port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || bind(fd, (struct sockaddr*)&place, sizeof place) != 0 || listen(fd, 128) != 0) {
    box_fail("listening on", "the box's loopback", errno);
  }
  if (!box_send_failure()) box_send_fd(BOX_LISTENING, fd);
  if (fd >= 0) close(fd);
}

/* The host is trusted; the checks are for a host of another build. */
static void serve(const struct BoxFrame* frame) {
  const uint32_t size = frame->size;
  switch (frame->type) {
    case BOX_CONFIG:
      if (size < sizeof(struct BoxConfig) ||
          size - sizeof(struct BoxConfig) > BPF_MAXINSNS * sizeof(struct sock_filter)) {
        _exit(1);
      }
      return configure(size);
    case BOX_PUT:
      if (size < sizeof(struct BoxPut)) _exit(1);
      return box_put(size);
    case BOX_REMOVE_ALL:
      if (size != 0) _exit(1);
      return box_remove_all();
    case BOX_GET:
      if (size < sizeof(struct BoxGet) || size - sizeof(struct BoxGet) >= BOX_PATH_MAX) _exit(1);
      return box_get(size);
    case BOX_RUN:
      if (size < sizeof(struct BoxRun) || size - sizeof(struct BoxRun) > BOX_ARGS_MAX) _exit(1);
      return box_run(size);
    case BOX_LISTEN:
      if (size != sizeof(struct BoxListen)) _exit(1);
      return open_loopback();
    case BOX_STOP: /* crossed with the end of the command */
      if (size != 0) _exit(1);
      return;
    default:
      if (!box_serve_files(frame)) _exit(1);
  }
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "launch") == 0) return box_launch(argc, argv);
  prepare();
  if (!box_send_failure()) box_send_frame(BOX_HELLO, NULL, 0);
  for (;;) {
    struct BoxFrame frame;
    if (!box_read(&frame, sizeof frame)) return 0;
    serve(&frame);
  }
}

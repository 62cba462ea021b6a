#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box_init.h"

static int complain(const char* what, const char* name) {
  dprintf(2, "%s %s: %s\n", what, name, strerror(errno));
  return 125;
}

/* launch UID COUNT FILE.. BWRAP ARGUMENT..: writes itself into COUNT cgroup.procs files, becomes
 * user and group UID unless that is "-", and then bubblewrap. Joining before anything else runs
 * means that nothing of the box is ever outside its cgroups; the children inherit them. */
int box_launch(int argc, char** argv) {
  if (argc < 5) return 125;
  const char* uid = argv[2];
  const int count = atoi(argv[3]);
  if (count < 0 || argc < 5 + count) return 125;
  for (int i = 0; i < count; ++i) {
    const char* path = argv[4 + i];
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return complain("opening", path);
    if (write(file, "0", 1) != 1) return complain("joining", path);
    close(file);
  }
  if (strcmp(uid, "-") != 0) {
    const unsigned number = (unsigned)strtoul(uid, NULL, 10);
    if (setgroups(0, NULL) != 0 || setresgid(number, number, number) != 0 ||
        setresuid(number, number, number) != 0) {
      return complain("becoming user", uid);
    }
  }
  if (!box_close_from(BOX_IMAGE_FD + 1)) return complain("closing", "inherited descriptors");
  execv(argv[4 + count], argv + 4 + count);
  return complain("running", argv[4 + count]);
}

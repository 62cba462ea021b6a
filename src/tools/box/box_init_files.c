/* Files go in and come out beneath the held folder of the workspace. No symbolic link is ever
 * followed, only regular files are read, and nothing here can block: whatever the agent planted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box_init.h"

static char buffer[64 * 1024];

static int open_beneath(int folder, const char* path, uint64_t flags) {
  struct open_how how = {
      .flags = flags | O_CLOEXEC,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
  return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

/* The folder a path beneath `root` lies in, made with its parents where missing; -1 with errno. */
static int open_parent(int root, char* path, char** name) {
  char* slash = strrchr(path, '/');
  if (slash == NULL) {
    *name = path;
    return fcntl(root, F_DUPFD_CLOEXEC, 0);
  }
  *slash = 0;
  *name = slash + 1;
  int folder = open_beneath(root, path, O_PATH | O_DIRECTORY);
  if (folder >= 0 || errno != ENOENT) return folder;
  for (char* at = path;; ++at) {
    if (*at != '/' && *at != 0) continue;
    const char kept = *at;
    *at = 0;
    char* last = strrchr(path, '/');
    int parent = root;
    if (last != NULL) {
      *last = 0;
      parent = open_beneath(root, path, O_PATH | O_DIRECTORY);
      *last = '/';
    }
    if (parent < 0) return -1;
    const int made = mkdirat(parent, last != NULL ? last + 1 : path, 0755);
    const int error = errno;
    if (parent != root) close(parent);
    errno = error;
    if (made != 0 && error != EEXIST) return -1;
    *at = kept;
    if (kept == 0) break;
  }
  return open_beneath(root, path, O_PATH | O_DIRECTORY);
}

/* Writes a new file of `left` bytes that follow on the socket, and takes them all. 0, or errno. */
static int write_new(int root, char* path, bool executable, size_t left) {
  char* name = NULL;
  const int folder = open_parent(root, path, &name);
  int error = folder < 0 ? errno : 0;
  int file = -1;
  if (folder >= 0) {
    /* What stands there goes first: it may be a link, a FIFO, or a file that is running. */
    unlinkat(folder, name, 0);
    file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  executable ? 0755 : 0644);
    if (file < 0) error = errno;
    close(folder);
  }
  while (left > 0) {
    const size_t part = left < sizeof buffer ? left : sizeof buffer;
    box_read_or_die(buffer, part);
    left -= part;
    if (error != 0) continue;
    const ssize_t written = write(file, buffer, part);
    if (written != (ssize_t)part) error = written < 0 ? errno : ENOSPC;
  }
  if (file >= 0) close(file);
  return error;
}

void box_put(uint32_t size) {
  struct BoxPut put;
  char path[BOX_PATH_MAX];
  char shown[BOX_PATH_MAX];
  box_read_or_die(&put, sizeof put);
  if (put.path_size >= BOX_PATH_MAX || put.path_size > size - sizeof put) _exit(1);
  box_read_or_die(path, put.path_size);
  path[put.path_size] = 0;
  strcpy(shown, path);
  const int root = put.outside ? box_writable_fd : box_workspace_fd;
  const int error = write_new(root, path, put.executable != 0, size - sizeof put - put.path_size);
  if (error != 0) box_fail("writing", shown, error);
}

static int remove_file(char* path) {
  char* slash = strrchr(path, '/');
  int folder = box_workspace_fd;
  if (slash != NULL) {
    *slash = 0;
    folder = open_beneath(box_workspace_fd, path, O_PATH | O_DIRECTORY);
  }
  if (folder < 0) return errno;
  const int error = unlinkat(folder, slash != NULL ? slash + 1 : path, 0) != 0 ? errno : 0;
  if (slash != NULL) close(folder);
  return error;
}

static void box_edit(uint32_t size) {
  struct BoxEdit edit;
  char path[BOX_PATH_MAX];
  box_read_or_die(&edit, sizeof edit);
  if (edit.path_size >= BOX_PATH_MAX || edit.path_size > size - sizeof edit) _exit(1);
  box_read_or_die(path, edit.path_size);
  path[edit.path_size] = 0;
  const size_t left = size - sizeof edit - edit.path_size;
  if (edit.removed != 0 && left > 0) _exit(1);
  const int error = edit.removed != 0
                        ? remove_file(path)
                        : write_new(box_workspace_fd, path, edit.executable != 0, left);
  const struct BoxEdited edited = {error};
  box_send_frame(BOX_EDITED, &edited, sizeof edited);
}

/* Sends a regular file; its size is fixed by the first look, a file that shrinks is filled with
 * zeros. */
static bool send_file(int file, const struct stat* info, const char* path) {
  const size_t path_size = strlen(path);
  const struct BoxPut put = {(uint32_t)path_size, (info->st_mode & 0100) != 0, 0};
  const struct BoxFrame frame = {BOX_FILE,
                                 (uint32_t)(sizeof put + path_size + (size_t)info->st_size)};
  char head[sizeof frame + sizeof put + BOX_PATH_MAX];
  memcpy(head, &frame, sizeof frame);
  memcpy(head + sizeof frame, &put, sizeof put);
  memcpy(head + sizeof frame + sizeof put, path, path_size);
  box_send(head, sizeof frame + sizeof put + path_size);
  size_t left = (size_t)info->st_size;
  while (left > 0) {
    const size_t part = left < sizeof buffer ? left : sizeof buffer;
    ssize_t got = read(file, buffer, part);
    if (got <= 0) {
      memset(buffer, 0, part);
      got = (ssize_t)part;
    }
    box_send(buffer, (size_t)got);
    left -= (size_t)got;
  }
  return true;
}

static void send_end(uint32_t reason, uint32_t skipped) {
  const struct BoxEnd end = {reason, skipped};
  box_send_frame(BOX_END, &end, sizeof end);
}

void box_get(uint32_t size) {
  struct BoxGet get;
  char path[BOX_PATH_MAX];
  box_read_or_die(&get, sizeof get);
  const size_t path_size = size - sizeof get;
  box_read_or_die(path, path_size);
  path[path_size] = 0;
  if (box_send_failure()) return;
  const int file = open_beneath(box_workspace_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    send_end(BOX_END_MISSING, 0);
  } else if ((uint64_t)info.st_size > get.bytes_max) {
    send_end(BOX_END_TOO_LARGE, 0);
  } else {
    send_file(file, &info, path);
    send_end(BOX_END_WHOLE, 0);
  }
  if (file >= 0) close(file);
}

struct Walk {
  uint64_t bytes_left;
  uint64_t files_left;
  uint32_t skipped;
  uint32_t reason;
};

static void visit(int folder, char* path, size_t length, int depth, struct Walk* walk);

static void visit_entry(int folder, const char* name, char* path, size_t length, int depth,
                        struct Walk* walk) {
  const size_t name_size = strlen(name);
  const size_t start = length + (length > 0);
  if (start + name_size >= BOX_PATH_MAX) {
    walk->reason = BOX_END_TOO_DEEP;
    return;
  }
  struct stat info;
  if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    ++walk->skipped;
    return;
  }
  if (length > 0) path[length] = '/';
  strcpy(path + start, name);
  const int fd = open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &info) != 0) {
    if (fd >= 0) close(fd);
    ++walk->skipped;
  } else if (S_ISDIR(info.st_mode)) {
    if (depth + 1 >= BOX_DEPTH_MAX) {
      walk->reason = BOX_END_TOO_DEEP;
      close(fd);
    } else {
      visit(fd, path, start + name_size, depth + 1, walk);
    }
  } else {
    if (walk->files_left == 0) {
      walk->reason = BOX_END_TOO_MANY;
    } else if ((uint64_t)info.st_size > walk->bytes_left) {
      walk->reason = BOX_END_TOO_LARGE;
    } else {
      walk->files_left -= 1;
      walk->bytes_left -= (uint64_t)info.st_size;
      send_file(fd, &info, path);
    }
    close(fd);
  }
  path[length] = 0;
}

/* Takes the descriptor of the folder. */
static void visit(int folder, char* path, size_t length, int depth, struct Walk* walk) {
  DIR* entries = fdopendir(folder);
  if (entries == NULL) {
    close(folder);
    return;
  }
  struct dirent* entry;
  while (walk->reason == BOX_END_WHOLE && (entry = readdir(entries)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    visit_entry(dirfd(entries), entry->d_name, path, length, depth, walk);
  }
  closedir(entries);
}

static void box_collect(uint32_t size) {
  struct BoxCollect collect;
  (void)size;
  box_read_or_die(&collect, sizeof collect);
  if (box_send_failure()) return;
  struct Walk walk = {collect.bytes_max, collect.files_max, 0, BOX_END_WHOLE};
  char path[BOX_PATH_MAX] = "";
  const int folder = openat(box_workspace_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) visit(folder, path, 0, 0, &walk);
  send_end(walk.reason, walk.skipped);
}

/* Empties a folder whose descriptor it takes; false: something is left. */
static bool empty_folder(int folder, int depth) {
  DIR* entries = fdopendir(folder);
  if (entries == NULL) {
    close(folder);
    return false;
  }
  bool emptied = true;
  struct dirent* entry;
  while (emptied && (entry = readdir(entries)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (unlinkat(dirfd(entries), entry->d_name, 0) == 0) continue;
    fchmodat(dirfd(entries), entry->d_name, 0700, 0);
    const int child =
        open_beneath(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    emptied = child >= 0 && depth + 1 < BOX_DEPTH_MAX && empty_folder(child, depth + 1) &&
              unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR) == 0;
  }
  closedir(entries);
  return emptied;
}

bool box_has_file(const char* path) {
  const int file = open_beneath(box_workspace_fd, path, O_PATH);
  if (file >= 0) close(file);
  return file >= 0;
}

/* False: the agent moved the workspace away and put something else in its place. */
static bool workspace_is_in_place(void) {
  struct stat held, named;
  return fstat(box_workspace_fd, &held) == 0 && lstat(BOX_WORKSPACE, &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

void box_remove_all(void) {
  static const char* const folders[] = {BOX_WORKSPACE, BOX_WRITABLE "/tmp", BOX_WRITABLE "/shm"};
  if (!workspace_is_in_place()) {
    box_fail("emptying", BOX_WORKSPACE, ENOENT);
    return;
  }
  for (int i = 0; i < 3; ++i) {
    fchmodat(AT_FDCWD, folders[i], i == 0 ? 0755 : 01777, 0);
    const int folder = open(folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0 || !empty_folder(folder, 0)) {
      box_fail("emptying", folders[i], folder < 0 ? errno : ELOOP);
      return;
    }
  }
}

bool box_serve_files(const struct BoxFrame* frame) {
  switch (frame->type) {
    case BOX_EDIT:
      if (frame->size < sizeof(struct BoxEdit)) _exit(1);
      box_edit(frame->size);
      return true;
    case BOX_COLLECT:
      if (frame->size != sizeof(struct BoxCollect)) _exit(1);
      box_collect(frame->size);
      return true;
    default:
      return false;
  }
}

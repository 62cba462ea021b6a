/* The parts of the init of a box. One process, one thread; everything it does is asked for by the
 * host. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box_protocol.h"

/* Where the writable file system of a box is; the workspace is a folder of it. */
#define BOX_WRITABLE "/box"
#define BOX_WORKSPACE "/box/workspace"

extern int box_workspace_fd, box_writable_fd;

/* box_init_io.c: the socket. A broken or closed one ends the process, and with it the box. */
bool box_read(void* bytes, size_t size);
void box_read_or_die(void* bytes, size_t size);
void box_send(const void* bytes, size_t size);
void box_send_frame(uint32_t type, const void* payload, size_t size);
/* Remembers the first failure; it is sent as the next answer. */
void box_fail(const char* what, const char* name, int error);
/* Sends the remembered failure instead of an answer; true if there was one. */
bool box_send_failure(void);
int box_take_fds(int* fds, int max);
void box_send_fd(uint32_t type, int fd);

/* box_init_files.c: the workspace. */
void box_put(uint32_t size);
void box_get(uint32_t size);
void box_remove_all(void);
bool box_has_file(const char* path);

/* Serves an EDIT or a COLLECT, which may come while a command runs; false: it is neither. */
bool box_serve_files(const struct BoxFrame* frame);

/* box_init_run.c: commands. */
void box_run(uint32_t size);

/* box_init_watch.c: what is alive in the box. */
struct BoxLife {
  uint64_t processes; /* threads counted as well */
  uint64_t cpu_us;
  uint64_t rss_bytes;
};
void box_look(struct BoxLife* life);
void box_scheduling(uint64_t* cpu_us, uint64_t* waited_us);
bool box_disk_full(void);

/* box_init_io.c: closes every descriptor from `first` on. False: it could not. */
bool box_close_from(int first);

/* box_init_launch.c: joins cgroups, gives up root, becomes bubblewrap. */
int box_launch(int argc, char** argv);

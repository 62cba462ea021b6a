/* What the host and the init of a box say to each other over their socket. Both ends are built
 * together, so structs travel as they lie in memory. C, because the init is.
 *
 *   host:  CONFIG, then any of PUT | EDIT | REMOVE_ALL | GET | COLLECT | LISTEN | RUN (three
 * descriptors); while a command runs EDIT, COLLECT and STOP
 *   init:  HELLO, then FILE* END for GET and COLLECT, EDITED for EDIT, LISTENING (one descriptor)
 * for LISTEN, DONE for RUN, FAILED whenever it cannot go on
 *
 * PUT, REMOVE_ALL and CONFIG have no answer of their own: a failure is the next answer, as FAILED.
 */
#pragma once

#include <stdint.h>

enum BoxFrameType {
  BOX_HELLO = 1,
  BOX_CONFIG = 2,
  BOX_PUT = 3,
  BOX_REMOVE_ALL = 4,
  BOX_GET = 5,
  BOX_COLLECT = 6,
  BOX_RUN = 7,
  BOX_STOP = 8,
  BOX_FILE = 9,
  BOX_END = 10,
  BOX_DONE = 11,
  BOX_FAILED = 12,
  BOX_LISTEN = 13,
  BOX_LISTENING = 14,
  BOX_EDIT = 15,
  BOX_EDITED = 16,
};

/* Before every frame's payload. */
struct BoxFrame {
  uint32_t type;
  uint32_t size;
};

enum {
  BOX_FRAME_MAX = 64 << 20, /* most bytes of a payload */
  BOX_ARGS_MAX = 1 << 20,   /* most bytes of a command line with its environment */
  BOX_PATH_MAX = 1024,      /* most bytes of a path, its end included */
  BOX_DEPTH_MAX = 32,       /* deepest folder that is collected or removed */
};

/* The descriptors the init is started with. */
enum { BOX_SOCKET_FD = 3, BOX_IMAGE_FD = 4 };

/* CONFIG: the size of what may be written, then the system call filter (struct sock_filter[]). From
 * here on the box has no capability and every process in it is under the filter. */
struct BoxConfig {
  uint64_t disk_bytes;
  uint64_t files;
};

/* PUT: this, then path_size bytes of path, then the content. The path is relative to the workspace,
 * or to the folder it lies in. */
struct BoxPut {
  uint32_t path_size;
  uint32_t executable;
  uint32_t outside; /* 1: of the workspace */
};

/* EDIT: a file of the workspace is written, or goes: this, then path_size bytes of path, then the
 * content. EDITED says how it went; unlike that of a PUT a failure is the end of nothing. */
struct BoxEdit {
  uint32_t path_size;
  uint32_t executable;
  uint32_t removed; /* 1: the file goes; there is no content */
};
struct BoxEdited {
  int32_t error; /* errno; 0: done */
};

/* LISTEN: a port of the box's own loopback. The socket that listens there comes back and nothing in
 * the box keeps it: who accepts is the host, from inside the box's network. */
struct BoxListen {
  uint32_t port;
};

/* GET: the most bytes wanted, then the path. */
struct BoxGet {
  uint64_t bytes_max;
};

/* COLLECT: every regular file of the workspace. */
struct BoxCollect {
  uint64_t bytes_max;
  uint64_t files_max;
};

/* FILE: as PUT. END: how a GET or COLLECT ended. */
enum BoxEndReason {
  BOX_END_WHOLE = 0,
  BOX_END_MISSING = 1,   /* no regular file of that name */
  BOX_END_TOO_LARGE = 2, /* over bytes_max */
  BOX_END_TOO_MANY = 3,  /* over files_max */
  BOX_END_TOO_DEEP = 4,  /* a folder below BOX_DEPTH_MAX */
};
struct BoxEnd {
  uint32_t reason;
  uint32_t skipped; /* symbolic links, FIFOs, sockets and devices, which are never collected */
};

/* What the init itself watches while a command runs. */
enum BoxWatch {
  BOX_WATCH_ALL = 1, /* no cgroup does it: CPU time, memory and processes too, not only the disk */
  BOX_WATCH_CPU = 2, /* the cgroup does not count CPU time */
};

/* RUN: this, then argc strings of command, envc of environment, the folder to run in (relative to
 * the workspace) and the file that ends the command when it is there (the same; empty: none), each
 * ended by a zero byte. */
struct BoxRun {
  uint32_t argc;
  uint32_t envc;
  uint32_t watch;
  uint32_t keep;         /* 1: what the command leaves running is stopped, not ended; see box.h */
  uint32_t tick_ms;      /* how often the init looks at what it watches */
  uint64_t cpu_us;       /* limit of everything together, where the init watches it */
  uint64_t memory_bytes; /* the same */
  uint64_t processes;    /* most processes and threads; enforced by the kernel too */
  uint64_t file_bytes;   /* largest file */
};

enum BoxLimitHit {
  BOX_LIMIT_NONE = 0,
  BOX_LIMIT_CPU = 1,
  BOX_LIMIT_MEMORY = 2,
  BOX_LIMIT_PROCESSES = 3,
  BOX_LIMIT_DISK = 4,
};

/* DONE: nothing of the command runs any more, its daemons included. After a RUN with `keep` they
 * are stopped (SIGSTOP) until the next one, and STOP ends only the command and its session. */
struct BoxDone {
  int32_t signalled; /* 1: `code` is a signal */
  int32_t code;
  uint32_t limit;   /* BoxLimitHit, as far as the init watches */
  uint32_t stopped; /* 1: the host asked for the end by STOP; 2: the last file is there */
  uint64_t cpu_us;
  uint64_t peak_rss_kb;    /* of the largest process */
  uint64_t stop_cpu_us;    /* on STOP: CPU time of what was alive */
  uint64_t stop_waited_us; /* on STOP: how long those waited for a CPU while they could have run */
  uint64_t padding;
};

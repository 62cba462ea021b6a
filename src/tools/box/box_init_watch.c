#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "box_init.h"

static size_t read_text(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = read(file, text, size - 1);
  close(file);
  if (got <= 0) return 0;
  text[got] = 0;
  return (size_t)got;
}

/* Of /proc/PID/stat: after the last ')' come state, ppid, .. ; utime is field 14, threads 20,
 * rss 24. */
static void add_process(const char* pid, struct BoxLife* life) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  if (read_text(path, text, sizeof text) == 0) return;
  const char* at = strrchr(text, ')');
  if (at == NULL) return;
  at += 2;
  const long tick_us = 1000000 / sysconf(_SC_CLK_TCK);
  for (int field = 3; field <= 24 && at != NULL; ++field) {
    const unsigned long long value = strtoull(at, NULL, 10);
    if (field >= 14 && field <= 17) life->cpu_us += value * (unsigned long long)tick_us;
    if (field == 20) life->processes += value;
    if (field == 24) life->rss_bytes += value * 4096;
    at = strchr(at, ' ');
    if (at != NULL) ++at;
  }
}

void box_look(struct BoxLife* life) {
  memset(life, 0, sizeof *life);
  DIR* proc = opendir("/proc");
  if (proc == NULL) return;
  struct dirent* entry;
  while ((entry = readdir(proc)) != NULL) {
    if (!isdigit((unsigned char)entry->d_name[0]) || strcmp(entry->d_name, "1") == 0) continue;
    add_process(entry->d_name, life);
  }
  closedir(proc);
}

static void add_tasks(const char* pid, uint64_t* cpu_us, uint64_t* waited_us) {
  char path[96], text[128];
  snprintf(path, sizeof path, "/proc/%.20s/task", pid);
  DIR* tasks = opendir(path);
  if (tasks == NULL) return;
  struct dirent* entry;
  while ((entry = readdir(tasks)) != NULL) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/schedstat", pid, entry->d_name);
    if (read_text(path, text, sizeof text) == 0) continue;
    char* at = NULL;
    *cpu_us += strtoull(text, &at, 10) / 1000;
    *waited_us += strtoull(at, NULL, 10) / 1000;
  }
  closedir(tasks);
}

void box_scheduling(uint64_t* cpu_us, uint64_t* waited_us) {
  *cpu_us = *waited_us = 0;
  DIR* proc = opendir("/proc");
  if (proc == NULL) return;
  struct dirent* entry;
  while ((entry = readdir(proc)) != NULL) {
    if (!isdigit((unsigned char)entry->d_name[0]) || strcmp(entry->d_name, "1") == 0) continue;
    add_tasks(entry->d_name, cpu_us, waited_us);
  }
  closedir(proc);
}

bool box_disk_full(void) {
  struct statfs info;
  if (statfs(BOX_WRITABLE, &info) != 0) return false;
  return info.f_bavail == 0 || info.f_ffree == 0;
}

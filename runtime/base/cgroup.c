/* cgroup.c: the memory that a control group leaves this process: a container's limit.
 *
 * Linux gives address space freely and kills without a word a process that touches more than the group may have. So
 * where there is such a limit, memory for tensors and bookkeeping is asked for here first, and refused while the
 * group still lives. Version 1 and 2 of control groups, and the tightest limit on the way up from the group to the
 * root.
 *
 * What was given and has not been touched is not in the group's account yet, and will be. How much that is cannot be
 * asked; it is at most what tensors have of address space beyond what the process has come to occupy since it began.
 */
#include "base/internal.h"
#include <stdio.h>
#include <unistd.h>

enum { PATH = 600 };
static struct {
  int64_t limit;              /* 0: there is none below what the machine has */
  int64_t resident;           /* what the process occupied before it had tensors */
  char    usage[PATH], stat[PATH];
  _Atomic int64_t given;      /* bytes since the group was last looked at */
} group;

static int64_t number_in(const char *path) {
  FILE *f = fopen(path, "re");
  long long n = -1;
  if (!f) return -1;
  if (fscanf(f, "%lld", &n) != 1) n = -1;                /* "max" */
  fclose(f);
  return n;
}

/* Takes the folder's limit where it is the tightest yet. */
static void look(const char *folder, bool second) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/%s", folder, second ? "memory.max" : "memory.limit_in_bytes");
  const int64_t limit = number_in(path), machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (limit <= 0 || (machine > 0 && limit >= machine) || (group.limit && limit >= group.limit)) return;
  group.limit = limit;
  snprintf(group.usage, sizeof group.usage, "%s/%s", folder, second ? "memory.current" : "memory.usage_in_bytes");
  snprintf(group.stat, sizeof group.stat, "%s/memory.stat", folder);
}

/* A line of /proc/self/cgroup: number:controllers:path. */
static void look_up(char *line) {
  char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path) return;
  *path++ = '\0';
  path[strcspn(path, "\n")] = '\0';
  const bool second = !controllers[1];
  if (!second && strcmp(controllers + 1, "memory")) return;
  for (;;) {
    char folder[PATH / 2];
    if (snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", second ? "" : "/memory", path) < (int)sizeof folder)
      look(folder, second);
    char *slash = strrchr(path, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

/* Bytes of memory that this process occupies. */
static int64_t resident(void) {
  FILE *f = fopen("/proc/self/statm", "re");
  long long pages = 0;
  if (f && fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * sysconf(_SC_PAGESIZE);
}

void dfi_cgroup_begin(void) {
  FILE *f = fopen("/proc/self/cgroup", "re");
  char line[PATH / 2];
  while (f && fgets(line, sizeof line, f)) look_up(line);
  if (f) fclose(f);
  if (group.limit) group.resident = resident();
}

/* What the group uses and could not give back: files that were read are no hindrance. */
static int64_t in_use(void) {
  int64_t used = number_in(group.usage);
  FILE *f = used < 0 ? NULL : fopen(group.stat, "re");
  char line[200];
  long long n;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "inactive_file %lld", &n) == 1 || sscanf(line, "active_file %lld", &n) == 1) used -= n;
  if (f) fclose(f);
  return used;
}

bool dfi_cgroup_refuses(int64_t bytes, int64_t has) {
  if (DFI_LIKELY(!group.limit)) return false;
  const int64_t step = group.limit / 32;                   /* looked at that often, and left to everything else */
  if (bytes < step && atomic_fetch_add_explicit(&group.given, bytes, memory_order_relaxed) + bytes < step) return false;
  const int64_t used = in_use();
  const int64_t untouched = has - (resident() - group.resident);
  if (used >= 0 && bytes > group.limit - used - step - (untouched > 0 ? untouched : 0)) return true;
  atomic_store_explicit(&group.given, 0, memory_order_relaxed);
  return false;
}

bool dfi_cgroup_refuses_more(size_t bytes) {
  if (DFI_LIKELY(!group.limit)) return false;
  return dfi_cgroup_refuses(bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX, dfi_memory_given());
}

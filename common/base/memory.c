#include "common/base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTHING UINT64_MAX // a file is not there, or names no number
#define PATH_BYTES 4096
#define LINE_BYTES 4096

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Return the number behind `key` at the beginning of a line of the file; "": of its first line.
static uint64_t read_number(const char *folder, const char *name, const char *key)
{
    char path[PATH_BYTES], line[256];
    uint64_t number = NOTHING;
    bool found = false;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length < PATH_BYTES ? fopen(path, "re") : NULL;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = strncmp(line, key, strlen(key)) == 0;
        if (found) {
            char *end, *begin = line + strlen(key);
            uint64_t read = strtoull(begin, &end, 10);
            number = end != begin ? read : NOTHING; // "max"
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

// ---- control groups ----

// Where the two versions of control groups have what.
typedef struct {
    const char *controllers; // in a line of /proc/self/cgroup
    const char *mount;
    const char *limit, *usage; // files of a group
    const char *cache[2];      // in its memory.stat: pages of files, which it can give back
} hierarchy_t;

static const hierarchy_t hierarchies[] = {
    {"", "sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {"memory",
     "sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static uint64_t room_of_group(const hierarchy_t *hierarchy, const char *folder)
{
    uint64_t limit = read_number(folder, hierarchy->limit, "");
    uint64_t usage = read_number(folder, hierarchy->usage, "");
    if (limit == NOTHING || usage == NOTHING) {
        return limit;
    }
    for (size_t i = 0; i < 2; i++) {
        uint64_t cache = read_number(folder, "memory.stat", hierarchy->cache[i]);
        usage -= cache != NOTHING ? least(cache, usage) : 0;
    }
    return limit - least(limit, usage);
}

// The group and all above it. In a container its path may be the host's, which is not there: the mount itself is then
// the container's group.
static uint64_t room_of_groups(const char *root, const hierarchy_t *hierarchy, const char *group)
{
    char folder[PATH_BYTES];
    uint64_t room = NOTHING;
    int mount = snprintf(folder, sizeof folder, "%s/%s", root, hierarchy->mount);
    if (mount + strlen(group) >= sizeof folder) {
        return room;
    }
    strcpy(folder + mount, group);
    while (strlen(folder) > (size_t)mount) {
        room = least(room, room_of_group(hierarchy, folder));
        *strrchr(folder, '/') = '\0';
    }
    return least(room, room_of_group(hierarchy, folder));
}

// A line of /proc/self/cgroup is "NUMBER:CONTROLLERS:PATH".
static uint64_t room_of_line(const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') {
        return NOTHING;
    }
    *group++ = '\0';
    uint64_t room = NOTHING;
    for (size_t i = 0; i < sizeof hierarchies / sizeof *hierarchies; i++) {
        if (strcmp(controllers + 1, hierarchies[i].controllers) == 0) {
            room = room_of_groups(root, &hierarchies[i], group);
        }
    }
    return room;
}

static uint64_t room_in_groups(const char *root)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    uint64_t room = NOTHING;
    int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = length < PATH_BYTES ? fopen(path, "re") : NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        room = least(room, room_of_line(root, line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return room;
}

// ---- all ----

uint64_t or_memory_available_in(const char *root)
{
    uint64_t kib = read_number(root, "proc/meminfo", "MemAvailable:");
    uint64_t bytes = kib <= NOTHING / 1024 ? kib * 1024 : NOTHING;
    return least(bytes, room_in_groups(root));
}

uint64_t or_memory_available(void)
{
    uint64_t bytes = or_memory_available_in("");
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bool known = pages > 0 && page > 0;
    return known ? least(bytes, (uint64_t)pages * (uint64_t)page) : bytes;
}

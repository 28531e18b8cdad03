#include "coordinator/journal/journal_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

#define NAME_BYTES (2 * OR_JOURNAL_HASH_BYTES + 1)
#define LOCK_TRIES 50 // of 20 ms, for a coordinator that is just ending
#define LOCK_NS (20 * OR_NS_PER_MS)

static void name_of(const uint8_t *hash, char name[NAME_BYTES])
{
    sodium_bin2hex(name, NAME_BYTES, hash, OR_JOURNAL_HASH_BYTES);
}

// Is this the name of a text?
static bool take_name(const char *name, uint8_t *hash)
{
    size_t bytes = 0;
    return strlen(name) == NAME_BYTES - 1 &&
           sodium_hex2bin(hash, OR_JOURNAL_HASH_BYTES, name, NAME_BYTES - 1, NULL, &bytes, NULL) ==
               0 &&
           bytes == OR_JOURNAL_HASH_BYTES;
}

// ---- the folder ----

static or_status_t check_folder(int folder, const char *path)
{
    struct stat found;
    if (fstat(folder, &found) != 0) {
        return or_fail(OR_ERR_IO, "cannot read the journal %s: %s", path, strerror(errno));
    }
    if (found.st_uid != geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return or_fail(OR_ERR_IO,
                       "the journal %s is not ours alone, and texts lie in it: chown it to this "
                       "user and chmod 700 it",
                       path);
    }
    return OR_OK;
}

static or_status_t lock_folder(int folder, const char *path)
{
    const struct timespec pause = {.tv_nsec = LOCK_NS};
    for (int i = 0; flock(folder, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return or_fail(OR_ERR_IO, "cannot lock the journal %s: %s", path, strerror(errno));
        }
        if (i >= LOCK_TRIES) {
            return or_fail(OR_ERR_IO,
                           "the journal %s is in use by another coordinator: stop that one, or "
                           "give this one a --journal of its own",
                           path);
        }
        nanosleep(&pause, NULL);
    }
    return OR_OK;
}

static or_status_t open_list(int folder, DIR **list_p)
{
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // closedir closes it
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    if (list == NULL) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot list the journal: %s", strerror(errno));
        if (again >= 0) {
            close(again);
        }
        return status;
    }
    *list_p = list;
    return OR_OK;
}

// A folder of somebody's that was named by mistake holds other things: no text is put among them.
static or_status_t check_content(int folder, const char *path)
{
    DIR *list;
    const struct dirent *item;
    uint8_t hash[OR_JOURNAL_HASH_BYTES];
    or_status_t status = open_list(folder, &list);
    if (status != OR_OK) {
        return status;
    }
    while (status == OR_OK && (item = readdir(list)) != NULL) {
        if (item->d_name[0] != '.' && strcmp(item->d_name, "lost+found") != 0 &&
            !take_name(item->d_name, hash)) {
            status = or_fail(OR_ERR_IO,
                             "%s is not a journal (%s lies in it): name another folder with "
                             "--journal",
                             path, item->d_name);
        }
    }
    closedir(list);
    return status;
}

static or_status_t fail_to_open(const char *path)
{
    if (errno == ENOTDIR) {
        return or_fail(OR_ERR_IO,
                       "the journal %s is not a folder: name another with --journal (releases "
                       "before kept a file there; its texts cannot go on)",
                       path);
    }
    return or_fail(OR_ERR_IO, "cannot open the journal %s: %s", path, strerror(errno));
}

or_status_t or_journal_disk_open(const char *path, int *folder_p)
{
    if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST) {
        return or_fail(OR_ERR_IO, "cannot make the journal %s: %s", path, strerror(errno));
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return fail_to_open(path);
    }
    or_status_t status = check_folder(folder, path);
    if (status == OR_OK) {
        status = check_content(folder, path);
    }
    if (status == OR_OK) {
        status = lock_folder(folder, path);
    }
    if (status != OR_OK) {
        close(folder);
        return status;
    }
    *folder_p = folder;
    return OR_OK;
}

or_status_t or_journal_disk_list(int folder, void (*visit)(void *context, const uint8_t *hash),
                                 void *context)
{
    DIR *list;
    const struct dirent *item;
    uint8_t hash[OR_JOURNAL_HASH_BYTES];
    or_status_t status = open_list(folder, &list);
    if (status != OR_OK) {
        return status;
    }
    while ((item = readdir(list)) != NULL) {
        if (take_name(item->d_name, hash)) {
            visit(context, hash);
        }
    }
    closedir(list);
    return OR_OK;
}

// ---- reading ----

static or_status_t read_all(int fd, size_t bytes, uint8_t **bytes_p, size_t *count)
{
    uint8_t *buffer = malloc(bytes + 1);
    size_t got = 0;
    ssize_t more = 1;
    if (buffer == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a text of %zu bytes", bytes);
    }
    while (got < bytes && more > 0) {
        more = read(fd, buffer + got, bytes - got);
        got += more > 0 ? (size_t)more : 0;
    }
    if (more < 0) {
        free(buffer);
        return or_fail(OR_ERR_IO, "the journal: cannot read a text: %s", strerror(errno));
    }
    *bytes_p = buffer;
    *count = got;
    return OR_OK;
}

or_status_t or_journal_disk_read(int folder, const uint8_t *hash, uint8_t **bytes_p, size_t *count)
{
    char name[NAME_BYTES];
    struct stat found;
    name_of(hash, name);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT
                   ? or_fail(OR_ERR_NOT_FOUND, "the journal has no such session")
                   : or_fail(OR_ERR_IO, "the journal: cannot open a text: %s", strerror(errno));
    }
    or_status_t status = OR_OK;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        status = or_fail(OR_ERR_IO, "the journal: %s is not a file", name);
    } else if (found.st_size > (off_t)OR_JOURNAL_FILE_BYTES_MAX) {
        status = or_fail(OR_ERR_FULL, "the journal: %s is too large to be a text", name);
    } else {
        status = read_all(fd, (size_t)found.st_size, bytes_p, count);
    }
    close(fd);
    return status;
}

// ---- writing ----

// One call for all, unless a signal or a full disk cuts it short.
static int write_all(int fd, const uint8_t *bytes, size_t count, size_t at)
{
    while (count > 0) {
        ssize_t done = pwrite(fd, bytes, count, (off_t)at);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? errno : ENOSPC;
        }
        bytes += done;
        count -= (size_t)done;
        at += (size_t)done;
    }
    return 0;
}

static int append(int fd, or_journal_work_t *work)
{
    uint64_t check = or_journal_seal(work->records.bytes, work->records.count, work->check);
    if (work->cut && ftruncate(fd, (off_t)work->at) != 0) {
        return errno;
    }
    work->cut = false;
    int error = write_all(fd, work->records.bytes, work->records.count, work->at);
    if (error != 0) {
        work->cut = ftruncate(fd, (off_t)work->at) != 0;
        return error;
    }
    work->at += work->records.count;
    work->check = check;
    return 0;
}

static int write_records(int folder, or_journal_work_t *work)
{
    char name[NAME_BYTES];
    int make = work->at == 0 ? O_CREAT | O_TRUNC : 0;
    name_of(work->hash, name);
    int fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | make,
                    S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return errno;
    }
    int error = append(fd, work);
    close(fd);
    if (work->at == 0) { // a file of no record would stay for ever
        unlinkat(folder, name, 0);
    }
    return error;
}

void or_journal_disk_do(int folder, or_journal_work_t *work)
{
    char name[NAME_BYTES];
    if (work->remove) {
        name_of(work->hash, name);
        work->error = unlinkat(folder, name, 0) == 0 || errno == ENOENT ? 0 : errno;
    } else {
        work->error = write_records(folder, work);
    }
}

void or_journal_disk_sync(int folder, const uint8_t *hash)
{
    char name[NAME_BYTES];
    name_of(hash, name);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) { // else it was deleted meanwhile
        fdatasync(fd);
        close(fd);
    }
}

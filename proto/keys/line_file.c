#include "proto/keys/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define TEXT_BYTES_MAX (4u << 20)
#define BLANKS " \t\r"

// ---- whose it is ----

or_status_t or_line_file_check_owner(const char *path, const struct stat *found)
{
    uid_t we = geteuid();
    if (found->st_uid == we || found->st_uid == 0 || we == 0) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID,
                   "%s belongs to another user (uid %u), who could change it: it must be ours (uid "
                   "%u) or root's",
                   path, (unsigned)found->st_uid, (unsigned)we);
}

// Stat the folder of a path.
static bool stat_folder(const char *path, struct stat *found)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    return stat(slash == NULL ? "." : length == 0 ? "/" : folder, found) == 0;
}

bool or_line_file_hand_over(int fd, const char *path)
{
    struct stat like;
    if (geteuid() != 0) { // nobody else may give files away
        return true;
    }
    return (stat(path, &like) == 0 || stat_folder(path, &like)) &&
           fchown(fd, like.st_uid, like.st_gid) == 0;
}

// ---- the file ----

static or_status_t check_file(const char *path, const struct stat *found)
{
    if (!S_ISREG(found->st_mode) || found->st_size > (off_t)TEXT_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "%s is not a file of lines (regular, at most 4 MiB)", path);
    }
    if ((found->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return or_fail(OR_ERR_INVALID, "others can write to %s: chmod 600 %s", path, path);
    }
    return or_line_file_check_owner(path, found);
}

static or_status_t read_open(const char *path, int fd, char **text_p, struct stat *found)
{
    if (fstat(fd, found) != 0) {
        return or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    or_status_t status = check_file(path, found);
    if (status != OR_OK) {
        return status;
    }
    char *text = calloc(1, (size_t)found->st_size + 1);
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    size_t used = 0;
    ssize_t got = 1;
    while (got > 0 && used < (size_t)found->st_size) {
        got = read(fd, text + used, (size_t)found->st_size - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        status = or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        free(text);
        return status;
    }
    *text_p = text;
    return OR_OK;
}

or_status_t or_line_file_read(const char *path, char **text_p, struct stat *found)
{
    struct stat unwanted;
    found = found != NULL ? found : &unwanted;
    memset(found, 0, sizeof *found);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *text_p = strdup("");
        return *text_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    if (fd < 0) {
        return or_fail(OR_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    or_status_t status = read_open(path, fd, text_p, found);
    close(fd);
    return status;
}

// The lock is a file of its own, since the other one is replaced. A link there would be another user's trap for root.
or_status_t or_line_file_lock(const char *path, int *lock)
{
    char lock_path[PATH_BYTES];
    if (snprintf(lock_path, sizeof lock_path, "%s.lock", path) >= (int)sizeof lock_path) {
        return or_fail(OR_ERR_INVALID, "%s: the name is too long", path);
    }
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    bool failed = fd < 0 || !or_line_file_hand_over(fd, path);
    while (!failed && flock(fd, LOCK_EX) != 0) {
        failed = errno != EINTR;
    }
    if (failed) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot lock %s: %s", lock_path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *lock = fd;
    return OR_OK;
}

// Give the new file the owner and mode of the old one.
static bool make_alike(int fd, const char *path)
{
    struct stat old;
    bool is_new = stat(path, &old) != 0;
    return or_line_file_hand_over(fd, path) &&
           (is_new || fchmod(fd, old.st_mode & (S_IRWXU | S_IRGRP | S_IROTH)) == 0);
}

static or_status_t write_all(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t done = write(fd, text, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return OR_ERR_IO;
        }
        text += done;
        left -= (size_t)done;
    }
    return fsync(fd) == 0 ? OR_OK : OR_ERR_IO;
}

or_status_t or_line_file_write(const char *path, const char *text)
{
    char new_path[PATH_BYTES];
    if (snprintf(new_path, sizeof new_path, "%s.new", path) >= (int)sizeof new_path) {
        return or_fail(OR_ERR_INVALID, "%s: the name is too long", path);
    }
    unlink(new_path); // of one that was killed: we hold the lock
    int fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    or_status_t status = fd >= 0 && make_alike(fd, path) ? write_all(fd, text) : OR_ERR_IO;
    if (status == OR_OK && rename(new_path, path) != 0) {
        status = OR_ERR_IO;
    }
    if (status != OR_OK) {
        status = or_fail(status, "cannot write %s: %s", path, strerror(errno));
        unlink(new_path);
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

// ---- its lines ----

char *or_line_next(const char **text, or_status_t *status)
{
    if (**text == '\0') {
        return NULL;
    }
    size_t length = strcspn(*text, "\n");
    char *line = strndup(*text, length);
    if (line == NULL) {
        *status = or_fail(OR_ERR_NO_MEMORY, "no memory for a line of text");
        return NULL;
    }
    *text += length + ((*text)[length] == '\n');
    return line;
}

static bool begins_with(const char *line, const char *word)
{
    const char *first = line + strspn(line, BLANKS);
    size_t length = strcspn(first, BLANKS);
    return length == strlen(word) && strncmp(first, word, length) == 0;
}

or_status_t or_line_replace(const char *text, const char *word, const char *line, char **edited_p)
{
    size_t bytes;
    char *edited = NULL, *old;
    or_status_t status = OR_OK;
    FILE *out = open_memstream(&edited, &bytes);
    if (out == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a file of lines");
    }
    while ((old = or_line_next(&text, &status)) != NULL) {
        if (!begins_with(old, word)) {
            fprintf(out, "%s\n", old);
        }
        free(old);
    }
    if (line != NULL) {
        fprintf(out, "%s\n", line);
    }
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (status == OR_OK && failed) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for a file of lines");
    }
    if (status != OR_OK) {
        free(edited);
        return status;
    }
    *edited_p = edited;
    return OR_OK;
}

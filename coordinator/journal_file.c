#include "coordinator/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x4f724a6c // "OrJl", in the file's header
#define SCHEMA 1
#define WAIT_MS 1000 // for a coordinator that is just ending to let go of the file

// `expires` is when a session may be deleted, in seconds of the calendar; 0 while somebody works on it. The rounds
// of a session are numbered upwards, so they are its order.
static const char schema[] =
    "CREATE TABLE sessions(number INTEGER PRIMARY KEY, token BLOB NOT NULL UNIQUE, owner TEXT NOT "
    "NULL, key TEXT NOT NULL, model INTEGER NOT NULL, request BLOB NOT NULL, seed INTEGER NOT "
    "NULL, arith_id TEXT NOT NULL DEFAULT '', finish INTEGER NOT NULL DEFAULT 0, expires INTEGER "
    "NOT NULL DEFAULT 0);"
    "CREATE TABLE tokens(session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, round "
    "INTEGER NOT NULL, ids BLOB NOT NULL, PRIMARY KEY(session, round)) WITHOUT ROWID;"
    "CREATE INDEX over ON sessions(expires) WHERE expires > 0;";

// Made with its mode, which SQLite gives to what it keeps beside it. *real is the whole path, malloc'd: for SQLite
// some short ones have a meaning of their own.
static or_status_t prepare_file(const char *path, char **real)
{
    struct stat found;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, S_IRUSR | S_IWUSR);
    if (fd < 0 || fstat(fd, &found) != 0) {
        or_status_t status =
            or_fail(OR_ERR_IO, "cannot open the journal %s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    close(fd);
    if (!S_ISREG(found.st_mode)) {
        return or_fail(OR_ERR_IO, "%s is not a file: it cannot be the journal", path);
    }
    if (found.st_uid != geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return or_fail(OR_ERR_IO,
                       "the journal %s is not ours alone, and texts lie in it: chown it to this "
                       "user and chmod 600 it",
                       path);
    }
    *real = realpath(path, NULL);
    return *real != NULL ? OR_OK : or_fail(OR_ERR_IO, "cannot find %s: %s", path, strerror(errno));
}

static int take_number(void *context, int columns, char **values, char **names)
{
    (void)names;
    if (columns > 0 && values[0] != NULL) {
        *(int64_t *)context = strtoll(values[0], NULL, 10);
    }
    return 0;
}

static int ask_number(sqlite3 *db, const char *text, int64_t *number)
{
    *number = 0;
    return sqlite3_exec(db, text, take_number, number, NULL);
}

static int take_first_word(void *context, int columns, char **values, char **names)
{
    (void)names;
    bool *good = context;
    *good = columns > 0 && values[0] != NULL && strcmp(values[0], "ok") == 0;
    return 1; // the first is enough
}

static bool is_whole(sqlite3 *db)
{
    bool good = false;
    sqlite3_exec(db, "PRAGMA quick_check(1)", take_first_word, &good, NULL);
    return good;
}

// The file is ours alone from the first read on: the mode is set before it.
static or_status_t take_possession(sqlite3 *db, const char *path, bool *empty)
{
    int64_t id = 0, version = 0, tables = 0;
    sqlite3_busy_timeout(db, WAIT_MS);
    int code = sqlite3_exec(db,
                            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY; PRAGMA "
                            "trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA secure_delete "
                            "= ON; PRAGMA cell_size_check = ON",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables);
    }
    if (code == SQLITE_OK) {
        code = ask_number(db, "PRAGMA application_id", &id);
    }
    if (code == SQLITE_OK) {
        code = ask_number(db, "PRAGMA user_version", &version);
    }
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
        return or_fail(OR_ERR_IO,
                       "the journal %s is in use by another coordinator: stop that one, or give "
                       "this one a --journal of its own",
                       path);
    }
    if (code == SQLITE_NOTADB || (code == SQLITE_OK && tables > 0 && id != APPLICATION_ID)) {
        return or_fail(OR_ERR_IO, "%s is not a journal: name another file with --journal", path);
    }
    if (code != SQLITE_OK) {
        return or_fail(OR_ERR_IO, "cannot read the journal %s: %s", path, sqlite3_errmsg(db));
    }
    if (tables > 0 && version != SCHEMA) {
        return or_fail(OR_ERR_IO,
                       "the journal %s was written by another release (format %" PRId64
                       ", this one knows %d): move it away, its texts cannot go on",
                       path, version, SCHEMA);
    }
    if (tables > 0 && !is_whole(db)) {
        return or_fail(OR_ERR_IO, "the journal %s is damaged: move it away, its texts cannot go on",
                       path);
    }
    *empty = tables == 0;
    return OR_OK;
}

static or_status_t prepare_tables(sqlite3 *db, const char *path, bool empty)
{
    static const char mode[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    char text[sizeof schema + 128];
    sqlite3_snprintf(
        sizeof text, text,
        "BEGIN EXCLUSIVE; PRAGMA application_id = %d; PRAGMA user_version = %d; %s COMMIT",
        APPLICATION_ID, SCHEMA, schema);
    if (sqlite3_exec(db, mode, NULL, NULL, NULL) != SQLITE_OK ||
        (empty && sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)) {
        return or_fail(OR_ERR_IO, "cannot write the journal %s: %s", path, sqlite3_errmsg(db));
    }
    return OR_OK;
}

or_status_t or_journal_file_open(const char *path, sqlite3 **db_p)
{
    char *real = NULL;
    sqlite3 *db = NULL;
    bool empty = false;
    or_status_t status = prepare_file(path, &real);
    if (status != OR_OK) {
        return status;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(real, &db, flags, NULL) != SQLITE_OK) {
        status = or_fail(OR_ERR_IO, "cannot open the journal %s: %s", path, sqlite3_errmsg(db));
    }
    free(real);
    if (status == OR_OK) {
        status = take_possession(db, path, &empty);
    }
    if (status == OR_OK) {
        status = prepare_tables(db, path, empty);
    }
    if (status != OR_OK) {
        sqlite3_close(db);
        return status;
    }
    *db_p = db;
    return OR_OK;
}

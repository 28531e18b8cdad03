#include "coordinator/journal.h"

#include <sodium.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "coordinator/journal_file.h"

#define HASH_BYTES 32
#define OWNER_BYTES 64
#define KEY_BYTES 64
#define ARITH_BYTES 64
#define TICK_NS (2 * OR_NS_PER_S)

enum {
    BEGIN,
    COMMIT,
    ROLLBACK,
    ADD_SESSION,
    ADD_TOKENS,
    TAKE_UP,
    END,
    KEEP,
    DELETE,
    FIND_SESSION,
    FIND_TOKENS,
    EXPIRE,
    COUNT,
    STATEMENTS
};

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [ADD_SESSION] = "INSERT INTO sessions(token, owner, key, model, request, seed) VALUES(?1, ?2, "
                    "?3, ?4, ?5, ?6)",
    [ADD_TOKENS] = "INSERT INTO tokens(session, round, ids) VALUES(?1, ?2, ?3)",
    [TAKE_UP] = "UPDATE sessions SET arith_id = ?2, expires = 0 WHERE number = ?1 AND (arith_id <> "
                "?2 OR expires <> 0)",
    [END] = "UPDATE sessions SET finish = ?2, expires = ?3 WHERE number = ?1",
    [KEEP] = "UPDATE sessions SET expires = ?2 WHERE number = ?1",
    [DELETE] = "DELETE FROM sessions WHERE number = ?1",
    [FIND_SESSION] = "SELECT number, owner, key, model, request, seed, arith_id, finish FROM "
                     "sessions WHERE token = ?1",
    [FIND_TOKENS] = "SELECT round, ids FROM tokens WHERE session = ?1 ORDER BY round",
    [EXPIRE] = "DELETE FROM sessions WHERE expires BETWEEN 1 AND ?1",
    [COUNT] = "SELECT count(*) FROM sessions",
};

struct or_journal {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    uint32_t retention_s, abandoned_s;
    bool deleted; // something that may still be in the log beside the file
    // What was found last.
    char owner[OWNER_BYTES], key[KEY_BYTES], arith_id[ARITH_BYTES];
    uint8_t *request;
    int32_t *tokens;
    size_t tokens_capacity;
};

// ---- statements ----

static or_status_t fail(const or_journal_t *journal, const char *what)
{
    return or_fail(OR_ERR_IO, "the journal: cannot %s: %s", what, sqlite3_errmsg(journal->db));
}

// Run a statement that gives no rows. What is bound to it is let go.
static or_status_t run(or_journal_t *journal, int which, const char *what)
{
    sqlite3_stmt *statement = journal->statements[which];
    int code = sqlite3_step(statement);
    or_status_t status = OR_OK;
    if (code == SQLITE_CONSTRAINT_FOREIGNKEY) {
        status = or_fail(OR_ERR_NOT_FOUND, "the journal: there is no such session any more");
    } else if (code != SQLITE_DONE) {
        status = fail(journal, what);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

// Numbers are the first parameters of a statement.
static void bind(or_journal_t *journal, int which, uint64_t first, uint64_t second)
{
    sqlite3_stmt *statement = journal->statements[which];
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)first);
    if (sqlite3_bind_parameter_count(statement) > 1) {
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)second);
    }
}

// From now on so many seconds.
static uint64_t seconds_after(uint32_t seconds)
{
    return (uint64_t)time(NULL) + seconds;
}

static void hash_token(const uint8_t *token, uint32_t bytes, uint8_t hash[HASH_BYTES])
{
    crypto_generichash(hash, HASH_BYTES, token, bytes, NULL, 0);
}

// ---- opening ----

static bool is_disk_trouble(int code)
{
    return (code & 0xFF) == SQLITE_FULL || (code & 0xFF) == SQLITE_IOERR;
}

// Nobody works on what the last coordinator left: its clients have until then to come. Where the disk is full they
// have until the next start: what is read from it goes on all the same.
static or_status_t abandon_all(or_journal_t *journal)
{
    char text[128];
    sqlite3_snprintf(sizeof text, text, "UPDATE sessions SET expires = %lld WHERE expires = 0",
                     (long long)seconds_after(journal->abandoned_s));
    int code = sqlite3_exec(journal->db, text, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        return OR_OK;
    }
    or_status_t status = fail(journal, "note what the last coordinator left");
    if (!is_disk_trouble(code)) {
        return status;
    }
    or_log(OR_LOG_WARN, "%s; its texts can go on", or_error_text());
    return OR_OK;
}

static or_status_t prepare(or_journal_t *journal)
{
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(journal->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &journal->statements[i], NULL) != SQLITE_OK) {
            return fail(journal, "prepare a statement");
        }
    }
    return abandon_all(journal);
}

or_status_t or_journal_open(const char *path, uint32_t retention_s, uint32_t abandoned_s,
                            or_journal_t **journal_p)
{
    or_journal_t *journal = calloc(1, sizeof *journal);
    if (journal == NULL || sodium_init() < 0) {
        free(journal);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a journal");
    }
    journal->retention_s = retention_s;
    journal->abandoned_s = abandoned_s;
    journal->deleted = true; // perhaps, by a coordinator that was killed before its log was cut
    or_status_t status = or_journal_file_open(path, &journal->db);
    if (status == OR_OK) {
        status = prepare(journal);
    }
    if (status != OR_OK) {
        or_journal_close(&journal);
        return status;
    }
    *journal_p = journal;
    return OR_OK;
}

void or_journal_close(or_journal_t **journal_p)
{
    or_journal_t *journal = *journal_p;
    if (journal == NULL) {
        return;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(journal->statements[i]);
    }
    sqlite3_close(journal->db);
    free(journal->request);
    free(journal->tokens);
    free(journal);
    *journal_p = NULL;
}

// ---- writing ----

or_status_t or_journal_begin(or_journal_t *journal, const or_journal_entry_t *entry,
                             uint64_t *number)
{
    uint8_t hash[HASH_BYTES];
    hash_token(entry->token, sizeof entry->token, hash);
    sqlite3_stmt *add = journal->statements[ADD_SESSION];
    sqlite3_bind_blob(add, 1, hash, sizeof hash, SQLITE_STATIC);
    sqlite3_bind_text(add, 2, entry->owner, -1, SQLITE_STATIC);
    sqlite3_bind_text(add, 3, entry->key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(add, 4, (sqlite3_int64)entry->model_hash);
    sqlite3_bind_blob64(add, 5, entry->request, entry->request_bytes, SQLITE_STATIC);
    sqlite3_bind_int64(add, 6, (sqlite3_int64)entry->seed);
    or_status_t status = run(journal, ADD_SESSION, "note a request");
    if (status == OR_OK) {
        *number = (uint64_t)sqlite3_last_insert_rowid(journal->db);
    }
    return status;
}

// Both statements of a commit, inside a transaction.
static or_status_t add_tokens(or_journal_t *journal, uint64_t number, const int32_t *tokens,
                              uint32_t count, uint64_t round, const char *arith_id)
{
    or_status_t status = OR_OK;
    if (count > 0) {
        bind(journal, ADD_TOKENS, number, round);
        sqlite3_bind_blob64(journal->statements[ADD_TOKENS], 3, tokens, count * sizeof *tokens,
                            SQLITE_STATIC);
        status = run(journal, ADD_TOKENS, "note tokens");
    }
    if (status == OR_OK) {
        sqlite3_stmt *take_up = journal->statements[TAKE_UP];
        sqlite3_bind_int64(take_up, 1, (sqlite3_int64)number);
        sqlite3_bind_text(take_up, 2, arith_id, -1, SQLITE_STATIC);
        status = run(journal, TAKE_UP, "note that a text goes on");
    }
    return status;
}

or_status_t or_journal_commit(or_journal_t *journal, uint64_t number, const int32_t *tokens,
                              uint32_t count, uint64_t round, const char *arith_id)
{
    or_status_t status = run(journal, BEGIN, "begin a commit");
    if (status != OR_OK) {
        return status;
    }
    status = add_tokens(journal, number, tokens, count, round, arith_id);
    if (status == OR_OK) {
        status = run(journal, COMMIT, "commit tokens");
    }
    if (status != OR_OK && !sqlite3_get_autocommit(journal->db)) {
        run(journal, ROLLBACK, "undo a commit"); // the first sentence tells more
    }
    return status;
}

or_status_t or_journal_end(or_journal_t *journal, uint64_t number, uint32_t finish)
{
    uint32_t kept_s =
        journal->retention_s > journal->abandoned_s ? journal->retention_s : journal->abandoned_s;
    bind(journal, END, number, finish);
    sqlite3_bind_int64(journal->statements[END], 3, (sqlite3_int64)seconds_after(kept_s));
    return run(journal, END, "note the end of a text");
}

or_status_t or_journal_forget(or_journal_t *journal, uint64_t number)
{
    if (journal->retention_s > 0) {
        bind(journal, KEEP, number, seconds_after(journal->retention_s));
        return run(journal, KEEP, "note that a text is not needed any more");
    }
    bind(journal, DELETE, number, 0);
    journal->deleted = true;
    return run(journal, DELETE, "delete a text");
}

// ---- reading ----

static bool copy_text(sqlite3_stmt *statement, int column, char *to, size_t capacity)
{
    const unsigned char *from = sqlite3_column_text(statement, column);
    size_t bytes = (size_t)sqlite3_column_bytes(statement, column);
    if (from == NULL || bytes >= capacity) {
        return false;
    }
    memcpy(to, from, bytes + 1);
    return true;
}

static or_status_t take_session(or_journal_t *journal, sqlite3_stmt *found,
                                or_journal_entry_t *entry, uint64_t *number)
{
    size_t bytes = (size_t)sqlite3_column_bytes(found, 4);
    const void *request = sqlite3_column_blob(found, 4);
    if (request == NULL || !copy_text(found, 1, journal->owner, sizeof journal->owner) ||
        !copy_text(found, 2, journal->key, sizeof journal->key) ||
        !copy_text(found, 6, journal->arith_id, sizeof journal->arith_id)) {
        return or_fail(OR_ERR_IO, "the journal: a session that makes no sense");
    }
    free(journal->request);
    journal->request = malloc(bytes);
    if (journal->request == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a request of %zu bytes", bytes);
    }
    memcpy(journal->request, request, bytes);
    *number = (uint64_t)sqlite3_column_int64(found, 0);
    *entry = (or_journal_entry_t){.owner = journal->owner,
                                  .key = journal->key,
                                  .model_hash = (uint64_t)sqlite3_column_int64(found, 3),
                                  .request = journal->request,
                                  .request_bytes = bytes,
                                  .seed = (uint64_t)sqlite3_column_int64(found, 5),
                                  .arith_id = journal->arith_id,
                                  .round = 1,
                                  .finish = (uint32_t)sqlite3_column_int(found, 7)};
    return OR_OK;
}

static or_status_t reserve_tokens(or_journal_t *journal, size_t count)
{
    if (count <= journal->tokens_capacity) {
        return OR_OK;
    }
    int32_t *larger = realloc(journal->tokens, 2 * count * sizeof *larger);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %zu tokens", count);
    }
    journal->tokens = larger;
    journal->tokens_capacity = 2 * count;
    return OR_OK;
}

static or_status_t take_tokens(or_journal_t *journal, sqlite3_stmt *found,
                               or_journal_entry_t *entry)
{
    size_t bytes = (size_t)sqlite3_column_bytes(found, 1);
    size_t more = bytes / sizeof *journal->tokens;
    const void *ids = sqlite3_column_blob(found, 1);
    if (ids == NULL || more * sizeof *journal->tokens != bytes ||
        more > OR_WIRE_TOKENS_MAX - entry->count) {
        return or_fail(OR_ERR_IO, "the journal: tokens that make no sense");
    }
    or_status_t status = reserve_tokens(journal, entry->count + more);
    if (status == OR_OK) {
        memcpy(journal->tokens + entry->count, ids, bytes);
        entry->count += (uint32_t)more;
        entry->round = (uint64_t)sqlite3_column_int64(found, 0);
    }
    return status;
}

// All rows of a query, or the first that is refused.
static or_status_t find_tokens(or_journal_t *journal, uint64_t number, or_journal_entry_t *entry)
{
    sqlite3_stmt *find = journal->statements[FIND_TOKENS];
    bind(journal, FIND_TOKENS, number, 0);
    or_status_t status = OR_OK;
    int code = sqlite3_step(find);
    while (code == SQLITE_ROW && status == OR_OK) {
        status = take_tokens(journal, find, entry);
        code = sqlite3_step(find);
    }
    if (status == OR_OK && code != SQLITE_DONE) {
        status = fail(journal, "read tokens");
    }
    sqlite3_reset(find);
    entry->tokens = journal->tokens;
    return status;
}

or_status_t or_journal_find(or_journal_t *journal, const uint8_t *token, uint32_t token_bytes,
                            or_journal_entry_t *entry, uint64_t *number)
{
    uint8_t hash[HASH_BYTES];
    or_journal_entry_t found;
    uint64_t named = 0;
    hash_token(token, token_bytes, hash);
    sqlite3_stmt *find = journal->statements[FIND_SESSION];
    sqlite3_bind_blob(find, 1, hash, sizeof hash, SQLITE_STATIC);
    int code = sqlite3_step(find);
    or_status_t status = code == SQLITE_ROW ? take_session(journal, find, &found, &named)
                         : code == SQLITE_DONE
                             ? or_fail(OR_ERR_NOT_FOUND, "the journal has no such session")
                             : fail(journal, "look for a session");
    sqlite3_reset(find);
    sqlite3_clear_bindings(find);
    if (status == OR_OK) {
        status = find_tokens(journal, named, &found);
    }
    if (status == OR_OK) {
        *entry = found;
        *number = named;
    }
    return status;
}

uint32_t or_journal_count(const or_journal_t *journal)
{
    sqlite3_stmt *count = journal->statements[COUNT];
    uint32_t sessions =
        sqlite3_step(count) == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(count, 0) : 0;
    sqlite3_reset(count);
    return sessions;
}

int64_t or_journal_tick(or_journal_t *journal, int64_t now_ns)
{
    bind(journal, EXPIRE, seconds_after(0), 0);
    if (run(journal, EXPIRE, "delete what is over") != OR_OK) {
        or_log(OR_LOG_DEBUG, "%s", or_error_text());
    }
    journal->deleted |= sqlite3_changes(journal->db) > 0;
    // What was deleted is still in the log that SQLite keeps beside the file, until that is cut. SQLite moves it into
    // the file every thousand pages anyway, so there is never much to move.
    if (journal->deleted) {
        journal->deleted = sqlite3_wal_checkpoint_v2(journal->db, NULL, SQLITE_CHECKPOINT_TRUNCATE,
                                                     NULL, NULL) != SQLITE_OK;
    }
    return now_ns + TICK_NS;
}

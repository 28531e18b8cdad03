// Goal: what a journal was told it still knows after a death at any instant, whole commits in their order and no
// others; nobody else can read or use its file; what is over is gone from the disk; and a file that is none is
// refused with a sentence.
// Method: children that are killed between and during calls, and whose log is then cut at every length; files
// that others made, of other formats, damaged; a limit on the file's size for a full disk.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/journal.h"
#include "tests/support/test_support.h"

#define PATH 256
#define FAR_S 1000

static const uint8_t token[OR_SESSION_TOKEN_BYTES] = "0123456789abcdef";
static const char request[] = "a request with a secret prompt";

typedef struct {
    char folder[PATH / 2];
    char path[PATH];
} world_t;

static int set_up(void **state)
{
    static world_t w;
    snprintf(w.folder, sizeof w.folder, "/tmp/journal-test-XXXXXX");
    assert_non_null(mkdtemp(w.folder));
    snprintf(w.path, sizeof w.path, "%s/journal", w.folder);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    world_t *w = *state;
    const char *const names[] = {"journal", "journal-wal", "journal-shm",
                                 "copy",    "copy-wal",    "copy-shm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/%s", w->folder, names[i]);
        unlink(path);
    }
    return rmdir(w->folder);
}

static or_journal_t *open_for(const char *path, uint32_t retention_s, uint32_t abandoned_s)
{
    or_journal_t *journal = NULL;
    if (or_journal_open(path, retention_s, abandoned_s, &journal) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return journal;
}

static or_journal_t *open_usual(const char *path)
{
    return open_for(path, 0, FAR_S);
}

static uint64_t begin(or_journal_t *journal, const uint8_t name[OR_SESSION_TOKEN_BYTES])
{
    uint64_t number = 0;
    or_journal_entry_t entry = {.owner = "ada",
                                .key = "a key",
                                .model_hash = UINT64_MAX - 1,
                                .request = (const uint8_t *)request,
                                .request_bytes = sizeof request,
                                .seed = UINT64_MAX - 2};
    memcpy(entry.token, name, sizeof entry.token);
    assert_int_equal(or_journal_begin(journal, &entry, &number), OR_OK);
    assert_true(number != 0);
    return number;
}

// The n-th commit of a text: some tokens, counted through the text.
static uint32_t commit_length(uint32_t n)
{
    return 1 + n % 4;
}

static uint32_t length_before(uint32_t n)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < n; i++) {
        length += commit_length(i);
    }
    return length;
}

static or_status_t try_commit(or_journal_t *journal, uint64_t number, uint32_t n)
{
    int32_t ids[4];
    uint32_t first = length_before(n);
    for (uint32_t i = 0; i < commit_length(n); i++) {
        ids[i] = (int32_t)(first + i);
    }
    return or_journal_commit(journal, number, ids, commit_length(n), n + 2, "arithmetic");
}

static void commit(or_journal_t *journal, uint64_t number, uint32_t n)
{
    assert_int_equal(try_commit(journal, number, n), OR_OK);
}

// How many whole commits the journal has of the text; -1: it does not know it.
static int commits_of(or_journal_t *journal, const uint8_t name[OR_SESSION_TOKEN_BYTES])
{
    or_journal_entry_t entry;
    uint64_t number;
    if (or_journal_find(journal, name, OR_SESSION_TOKEN_BYTES, &entry, &number) != OR_OK) {
        return -1;
    }
    uint32_t n = (uint32_t)entry.round - 1;
    assert_int_equal(entry.count, length_before(n));
    for (uint32_t i = 0; i < entry.count; i++) {
        assert_int_equal(entry.tokens[i], i);
    }
    return (int)n;
}

static void everything_is_found_again(void **state)
{
    world_t *w = *state;
    or_journal_entry_t entry;
    uint64_t found = 0;
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "0123456789abcdeF";
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    assert_int_equal(commits_of(journal, token), 0);
    uint64_t second = begin(journal, other);
    assert_true(number != second);
    for (uint32_t n = 0; n < 5; n++) {
        commit(journal, number, n);
        commit(journal, second, n);
    }
    commit(journal, second, 5);
    assert_int_equal(or_journal_end(journal, second, OR_FINISH_LENGTH), OR_OK);
    assert_int_equal(or_journal_count(journal), 2);
    or_journal_close(&journal);
    assert_null(journal);
    journal = open_usual(w->path);
    assert_int_equal(or_journal_count(journal), 2);
    assert_int_equal(or_journal_find(journal, token, sizeof token, &entry, &found), OR_OK);
    assert_int_equal(found, number);
    assert_string_equal(entry.owner, "ada");
    assert_string_equal(entry.key, "a key");
    assert_string_equal(entry.arith_id, "arithmetic");
    assert_int_equal(entry.request_bytes, sizeof request);
    assert_memory_equal(entry.request, request, sizeof request);
    assert_true(entry.seed == UINT64_MAX - 2 && entry.model_hash == UINT64_MAX - 1);
    assert_int_equal(entry.round, 6);
    assert_int_equal(entry.finish, OR_FINISH_NONE);
    assert_int_equal(commits_of(journal, token), 5);
    commit(journal, number, 5); // it goes on
    assert_int_equal(commits_of(journal, token), 6);
    assert_int_equal(commits_of(journal, other), 6);
    assert_int_equal(or_journal_find(journal, other, sizeof other, &entry, &found), OR_OK);
    assert_int_equal(entry.finish, OR_FINISH_LENGTH);
    assert_int_equal(or_journal_find(journal, token, sizeof token - 1, &entry, &found),
                     OR_ERR_NOT_FOUND);
    or_journal_close(&journal);
}

// ---- deaths ----

// The work of a coordinator: two texts in turn. Each call that is done is said on the pipe.
static void work(const char *path, int done, uint32_t calls)
{
    const uint8_t names[2][OR_SESSION_TOKEN_BYTES] = {"first text ....", "second text ..."};
    uint64_t numbers[2];
    or_journal_t *journal = NULL;
    if (or_journal_open(path, 0, FAR_S, &journal) != OR_OK) {
        _exit(1);
    }
    for (uint32_t call = 0; call < calls; call++) {
        uint32_t text = call % 2, n = call / 2;
        if (n == 0) {
            numbers[text] = begin(journal, names[text]);
        } else if (try_commit(journal, numbers[text], n - 1) != OR_OK) {
            _exit(1);
        }
        if (write(done, "", 1) != 1) {
            _exit(1);
        }
    }
    _exit(0); // like a death: nothing is closed
}

// Fork the work; kill it after so many microseconds, or let it do all its calls. Returns how many were done.
static uint32_t run_and_kill(const char *path, uint32_t calls, useconds_t after_us)
{
    int done[2];
    char said[64];
    uint32_t count = 0;
    int wait_status;
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        work(path, done[1], calls);
    }
    close(done[1]);
    if (after_us > 0) {
        usleep(after_us);
        kill(child, SIGKILL);
    }
    for (ssize_t got; (got = read(done[0], said, sizeof said)) > 0;) {
        count += (uint32_t)got;
    }
    close(done[0]);
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFSIGNALED(wait_status) || WEXITSTATUS(wait_status) == 0);
    return count;
}

// What was said to be done is there, and at most the one call more that was not said any more.
static void assert_holds(const char *path, uint32_t calls)
{
    const uint8_t names[2][OR_SESSION_TOKEN_BYTES] = {"first text ....", "second text ..."};
    or_journal_t *journal = open_usual(path);
    int held = 0;
    for (uint32_t text = 0; text < 2; text++) {
        held += commits_of(journal, names[text]) + 1;
    }
    if ((uint32_t)held != calls && (uint32_t)held != calls + 1) {
        fail_msg("%u calls were done, %d are there", calls, held);
    }
    or_journal_close(&journal);
}

static void a_death_between_two_calls_loses_nothing(void **state)
{
    world_t *w = *state;
    for (uint32_t calls = 0; calls <= 12; calls++) {
        assert_int_equal(run_and_kill(w->path, calls, 0), calls);
        assert_holds(w->path, calls);
        unlink(w->path);
    }
}

static void a_kill_at_any_moment_loses_nothing(void **state)
{
    world_t *w = *state;
    uint64_t seed = test_seed();
    for (int t = 0; t < 25; t++) {
        uint32_t done =
            run_and_kill(w->path, 1u << 20, 1000 + (useconds_t)test_below(&seed, 20000));
        if (access(w->path, F_OK) == 0) {
            assert_holds(w->path, done);
        }
        unlink(w->path);
    }
}

static void copy_file(const char *from, const char *to, size_t bytes)
{
    static char buffer[1 << 20];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    ssize_t got = read(in, buffer, bytes < sizeof buffer ? bytes : sizeof buffer);
    assert_true(got >= 0);
    assert_int_equal(write(out, buffer, (size_t)got), got);
    close(in);
    close(out);
}

// Of a log that was cut anywhere, as by a machine that lost its power, what is read is a beginning.
static void a_torn_log_is_a_shorter_text(void **state)
{
    world_t *w = *state;
    char wal[PATH + 8], copy[PATH], copy_wal[PATH + 8];
    struct stat found;
    int last = -1;
    snprintf(wal, sizeof wal, "%s-wal", w->path);
    snprintf(copy, sizeof copy, "%s/copy", w->folder);
    snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
    or_journal_t *journal = open_usual(w->path);
    or_journal_close(&journal); // the tables are in the file now
    assert_int_equal(run_and_kill(w->path, 16, 0), 16);
    assert_int_equal(stat(wal, &found), 0);
    for (size_t bytes = 0; bytes <= (size_t)found.st_size + 1370; bytes += 1371) {
        copy_file(w->path, copy, SIZE_MAX);
        copy_file(wal, copy_wal, bytes);
        journal = open_usual(copy);
        int held = 2 + commits_of(journal, (const uint8_t *)"first text ....") +
                   commits_of(journal, (const uint8_t *)"second text ...");
        or_journal_close(&journal);
        assert_true(held >= last); // -1 and -1 for a text: none
        last = held;
    }
    assert_int_equal(last, 16);
}

// ---- who may ----

static void one_process_at_a_time(void **state)
{
    world_t *w = *state;
    or_journal_t *second = NULL;
    int ready[2];
    char said;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        or_journal_t *journal = NULL;
        bool good = or_journal_open(w->path, 0, FAR_S, &journal) == OR_OK;
        _exit(write(ready[1], good ? "+" : "-", 1) == 1 && pause() == -1);
    }
    assert_int_equal(read(ready[0], &said, 1), 1);
    assert_int_equal(said, '+');
    assert_int_equal(or_journal_open(w->path, 0, FAR_S, &second), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "in use by another coordinator"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    second = open_usual(w->path); // nothing is left of it that would stand in the way
    or_journal_close(&second);
}

static void assert_mode(const char *path, mode_t mode)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, mode);
}

static void only_we_can_read_it(void **state)
{
    world_t *w = *state;
    char beside[PATH + 8];
    mode_t old = umask(0);
    or_journal_t *journal = open_usual(w->path);
    begin(journal, token);
    umask(old);
    assert_mode(w->path, 0600);
    snprintf(beside, sizeof beside, "%s-wal", w->path);
    assert_mode(beside, 0600);
    snprintf(beside, sizeof beside, "%s-shm", w->path);
    assert_int_equal(access(beside, F_OK), -1);
    or_journal_close(&journal);
    assert_int_equal(chmod(w->path, 0640), 0);
    assert_int_equal(or_journal_open(w->path, 0, FAR_S, &journal), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "chmod 600"));
}

static void assert_refused(const char *path, const char *word)
{
    or_journal_t *journal = NULL;
    assert_int_equal(or_journal_open(path, 0, FAR_S, &journal), OR_ERR_IO);
    assert_null(journal);
    if (strstr(or_error_text(), word) == NULL || strstr(or_error_text(), path) == NULL) {
        fail_msg("neither %s nor %s: %s", word, path, or_error_text());
    }
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void run_sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(chmod(path, 0600), 0);
}

static void what_is_no_journal_is_refused_and_left_alone(void **state)
{
    world_t *w = *state;
    static const char prose[] =
        "Dear diary, this is a text of more than a hundred bytes, so that nothing takes "
        "it for an empty file, and it should stay.";
    char kept[sizeof prose] = "";
    write_file(w->path, prose);
    assert_refused(w->path, "is not a journal");
    int fd = open(w->path, O_RDONLY);
    assert_int_equal(read(fd, kept, sizeof kept - 1), sizeof prose - 1);
    close(fd);
    assert_string_equal(kept, prose);
    unlink(w->path);
    run_sql(w->path, "CREATE TABLE sessions(number INTEGER)");
    assert_refused(w->path, "is not a journal");
    unlink(w->path);
    or_journal_t *journal = open_usual(w->path);
    or_journal_close(&journal);
    run_sql(w->path, "PRAGMA user_version = 7");
    assert_refused(w->path, "another release");
    assert_refused(w->folder, w->folder);
    assert_refused("/nowhere/journal", "No such file");
}

static void a_damaged_journal_is_refused(void **state)
{
    world_t *w = *state;
    const uint8_t noise[512] = {0xAA, 0x55};
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    for (uint32_t n = 0; n < 2000; n++) {
        commit(journal, number, n);
    }
    or_journal_close(&journal);
    int fd = open(w->path, O_WRONLY);
    for (off_t at = 4096; at < 12 * 4096; at += 4096) { // the heads of pages behind the first
        assert_int_equal(pwrite(fd, noise, sizeof noise, at), sizeof noise);
    }
    close(fd);
    assert_refused(w->path, "damaged");
}

// ---- what stays ----

static bool file_has(const char *path, const void *bytes, size_t count)
{
    static char buffer[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, buffer, sizeof buffer) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return got > 0 && memmem(buffer, (size_t)got, bytes, count) != NULL;
}

static void no_token_is_written_and_no_text_stays(void **state)
{
    world_t *w = *state;
    char wal[PATH + 8];
    int32_t ids[4] = {0x5a5a1234, 0x5a5a1235, 0x5a5a1236, 0x5a5a1237};
    snprintf(wal, sizeof wal, "%s-wal", w->path);
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    assert_int_equal(or_journal_commit(journal, number, ids, 4, 2, "a"), OR_OK);
    assert_true(file_has(wal, request, sizeof request)); // or this test would see nothing
    assert_true(file_has(wal, ids, sizeof ids));
    assert_false(file_has(wal, token, sizeof token));
    or_journal_close(&journal); // it is in the file itself now
    assert_true(file_has(w->path, ids, sizeof ids));
    journal = open_usual(w->path);
    assert_int_equal(or_journal_end(journal, number, OR_FINISH_STOP), OR_OK);
    assert_int_equal(commits_of(journal, (const uint8_t *)"................"), -1);
    assert_int_equal(or_journal_count(journal), 1); // its client may have missed the end
    assert_int_equal(or_journal_forget(journal, number), OR_OK);
    assert_int_equal(or_journal_count(journal), 0);
    assert_true(or_journal_tick(journal, 5) > 5);
    assert_false(file_has(wal, request, sizeof request) || file_has(wal, ids, sizeof ids));
    assert_false(file_has(w->path, request, sizeof request) || file_has(w->path, ids, sizeof ids));
    assert_int_equal(or_journal_commit(journal, number, ids, 4, 3, "a"), OR_ERR_NOT_FOUND);
    or_journal_close(&journal);
}

// Texts of others stay, parked perhaps for long: what has ended is gone all the same, wherever it lay.
static void what_has_ended_is_gone_while_others_stay(void **state)
{
    world_t *w = *state;
    char wal[PATH + 8];
    const uint8_t others[2][OR_SESSION_TOKEN_BYTES] = {"first text ....", "second text ..."};
    static char secret[20000]; // more than a page
    snprintf(wal, sizeof wal, "%s-wal", w->path);
    or_journal_t *journal = open_usual(w->path);
    uint64_t stays = begin(journal, others[0]);
    uint64_t goes = 0;
    for (uint32_t i = 0; i < sizeof secret; i++) {
        secret[i] = (char)('a' + i % 26);
    }
    or_journal_entry_t entry = {.owner = "ada",
                                .key = "",
                                .request = (const uint8_t *)secret,
                                .request_bytes = sizeof secret};
    assert_int_equal(or_journal_begin(journal, &entry, &goes), OR_OK);
    uint64_t later = begin(journal, others[1]);
    for (uint32_t n = 0; n < 300; n++) { // side by side, over many pages
        int32_t ids[] = {0x5a5a1234, 0x5a5a1235, (int32_t)n};
        commit(journal, stays, n);
        assert_int_equal(or_journal_commit(journal, goes, ids, 3, n + 2, "a"), OR_OK);
        commit(journal, later, n);
    }
    or_journal_tick(journal, 5);
    const int32_t ids[] = {0x5a5a1234, 0x5a5a1235};
    assert_true(file_has(w->path, secret, 40) || file_has(wal, secret, 40));
    assert_int_equal(or_journal_end(journal, goes, OR_FINISH_STOP), OR_OK);
    assert_int_equal(or_journal_forget(journal, goes), OR_OK);
    or_journal_tick(journal, 5);
    assert_false(file_has(wal, secret, 40) || file_has(w->path, secret, 40));
    assert_false(file_has(wal, ids, sizeof ids) || file_has(w->path, ids, sizeof ids));
    assert_int_equal(commits_of(journal, others[0]), 300);
    assert_int_equal(commits_of(journal, others[1]), 300);
    or_journal_close(&journal);
}

// One that was killed before it had cut its log: the next one does.
static void what_a_dead_coordinator_deleted_is_gone(void **state)
{
    world_t *w = *state;
    char wal[PATH + 8];
    snprintf(wal, sizeof wal, "%s-wal", w->path);
    pid_t child = fork();
    if (child == 0) {
        or_journal_t *journal = open_usual(w->path);
        begin(journal, (const uint8_t *)"another session");
        uint64_t number = begin(journal, token);
        const int32_t ids[] = {0x5a5a1234, 0x5a5a1235};
        or_status_t status = or_journal_commit(journal, number, ids, 2, 2, "a");
        _exit(status != OR_OK || or_journal_forget(journal, number) != OR_OK);
    }
    int wait_status;
    const int32_t ids[] = {0x5a5a1234, 0x5a5a1235};
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
    assert_true(file_has(wal, ids, sizeof ids));
    or_journal_t *journal = open_usual(w->path);
    or_journal_tick(journal, 5);
    assert_int_equal(or_journal_count(journal), 1);
    assert_false(file_has(wal, ids, sizeof ids) || file_has(w->path, ids, sizeof ids));
    or_journal_close(&journal);
}

static uint32_t count_after_tick(or_journal_t *journal)
{
    or_journal_tick(journal, 0);
    return or_journal_count(journal);
}

// One journal whose sessions are kept for a second by retention, one whose clients have a second to come back.
static void what_is_over_is_deleted_in_time(void **state)
{
    world_t *w = *state;
    char copy[PATH];
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "another session";
    const uint8_t third[OR_SESSION_TOKEN_BYTES] = "a third one ...";
    snprintf(copy, sizeof copy, "%s/copy", w->folder);
    or_journal_t *keeping = open_for(w->path, 1, FAR_S);
    begin(keeping, token);
    uint64_t acknowledged = begin(keeping, other), missed = begin(keeping, third);
    or_journal_end(keeping, acknowledged, OR_FINISH_STOP);
    or_journal_end(keeping, missed, OR_FINISH_STOP);
    or_journal_forget(keeping, acknowledged);
    assert_int_equal(count_after_tick(keeping), 3);

    or_journal_t *waiting = open_for(copy, 0, 1);
    begin(waiting, token);
    uint64_t resumed = begin(waiting, other);
    begin(waiting, third);
    or_journal_close(&waiting);
    waiting = open_for(copy, 0, 1);
    assert_int_equal(or_journal_commit(waiting, resumed, NULL, 0, 1, "a"), OR_OK); // it goes on
    uint64_t number = begin(waiting, (const uint8_t *)"a new session ..");
    assert_int_equal(count_after_tick(waiting), 4);
    usleep(2100000);
    assert_int_equal(count_after_tick(waiting), 2);
    assert_int_equal(commits_of(waiting, token), -1);
    assert_int_equal(commits_of(waiting, other), 0);
    assert_int_equal(or_journal_end(waiting, number, OR_FINISH_STOP), OR_OK);
    assert_int_equal(count_after_tick(waiting), 2);
    or_journal_close(&waiting);

    assert_int_equal(count_after_tick(keeping), 2);
    assert_int_equal(commits_of(keeping, other), -1);
    assert_int_equal(commits_of(keeping, token), 0); // it goes on
    or_journal_close(&keeping);
}

static void a_full_disk_makes_no_gap(void **state)
{
    world_t *w = *state;
    struct rlimit old;
    signal(SIGXFSZ, SIG_IGN);
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    commit(journal, number, 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    or_status_t status = try_commit(journal, number, 1);
    or_status_t again = try_commit(journal, number, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, OR_ERR_IO);
    assert_int_equal(again, OR_ERR_IO);
    assert_int_equal(commits_of(journal, token), 1);
    commit(journal, number, 1);
    assert_int_equal(commits_of(journal, token), 2);
    or_journal_close(&journal);
}

// What was written before can be read, and goes on.
static void a_full_disk_is_no_reason_not_to_start(void **state)
{
    world_t *w = *state;
    struct rlimit old;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(run_and_kill(w->path, 8, 0), 8);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    or_journal_t *journal = NULL;
    or_status_t status = or_journal_open(w->path, 0, FAR_S, &journal);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, OR_OK);
    assert_int_equal(commits_of(journal, (const uint8_t *)"first text ...."), 3);
    or_journal_close(&journal);
    assert_holds(w->path, 8);
}

// ---- what an option means ----

static void an_option_names_the_file_or_none(void **state)
{
    world_t *w = *state;
    or_journal_t *journal = NULL;
    char usual[PATH];
    assert_int_equal(or_journal_open_option("none", "tcp://127.0.0.1:5577", 0, 1, &journal), OR_OK);
    assert_null(journal);
    assert_int_equal(or_journal_open_option(w->folder, "tcp://127.0.0.1:5577", 0, 1, &journal),
                     OR_ERR_IO);
    setenv("XDG_STATE_HOME", w->folder, 1);
    assert_int_equal(or_journal_open_option(NULL, "tcp://127.0.0.1:*", 0, 1, &journal), OR_OK);
    assert_null(journal);
    assert_int_equal(or_journal_open_option(NULL, "tcp://127.0.0.1:0", 0, 1, &journal), OR_OK);
    assert_null(journal); // any free port, too: several coordinators would share its name
    assert_int_equal(or_journal_open_option(NULL, "ipc:///tmp/a:1", 0, 1, &journal), OR_OK);
    assert_null(journal);
    assert_int_equal(or_journal_open_option(NULL, "tcp://[::1]:5577", 0, 1, &journal), OR_OK);
    assert_non_null(journal);
    or_journal_close(&journal);
    snprintf(usual, sizeof usual, "%s/outrider/coordinator-5577.journal", w->folder);
    assert_mode(usual, 0600);
    unlink(usual);
    snprintf(usual, sizeof usual, "%s/outrider", w->folder);
    assert_mode(usual, 0700);
    assert_int_equal(rmdir(usual), 0);
    write_file(usual, "in the way"); // what cannot be had unasked is done without
    assert_int_equal(or_journal_open_option(NULL, "tcp://[::1]:5577", 0, 1, &journal), OR_OK);
    assert_null(journal);
    unlink(usual);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        TEST(everything_is_found_again),
        TEST(a_death_between_two_calls_loses_nothing),
        TEST(a_kill_at_any_moment_loses_nothing),
        TEST(a_torn_log_is_a_shorter_text),
        TEST(one_process_at_a_time),
        TEST(only_we_can_read_it),
        TEST(what_is_no_journal_is_refused_and_left_alone),
        TEST(a_damaged_journal_is_refused),
        TEST(no_token_is_written_and_no_text_stays),
        TEST(what_is_over_is_deleted_in_time),
        TEST(what_has_ended_is_gone_while_others_stay),
        TEST(what_a_dead_coordinator_deleted_is_gone),
        TEST(a_full_disk_makes_no_gap),
        TEST(a_full_disk_is_no_reason_not_to_start),
        TEST(an_option_names_the_file_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

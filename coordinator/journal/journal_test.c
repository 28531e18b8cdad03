// Goal: what a journal was told it still knows after a death at any instant, whole commits in their order and no
// others; nobody else can read or use its folder; what is over is gone from the disk, and nothing earlier than in its time; and
// a folder that is none is refused with a sentence.
// Method: children that are killed between and during calls; files that others made, of other releases, cut off, damaged; a
// limit on the size of files for a full disk; a calendar and a machine's clock of our own.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/journal/journal.h"
#include "tests/support/full_disk.h"
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
    const world_t *w = *state;
    test_remove_folder(w->folder);
    return 0;
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

// Return the number of whole commits that the journal has of the text. -1: it does not know it.
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
    const world_t *w = *state;
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

// Return the status of the call that is under way in the thread, if there is one.
static or_status_t outcome(or_journal_t *journal, uint64_t number, or_status_t status)
{
    while (status == OR_OK && or_journal_is_busy(journal, number)) {
        or_journal_wait(journal, 10000);
        or_journal_next(journal, &number, &status);
    }
    return status;
}

// The work of a coordinator: two texts in turn. Each call that is done is said on the pipe.
static void work(const char *path, int done, uint32_t calls, bool threaded)
{
    const uint8_t names[2][OR_SESSION_TOKEN_BYTES] = {"first text ....", "second text ..."};
    uint64_t numbers[2];
    or_journal_t *journal = NULL;
    if (or_journal_open(path, 0, FAR_S, &journal) != OR_OK ||
        (threaded && or_journal_start(journal) != OR_OK)) {
        _exit(1);
    }
    for (uint32_t call = 0; call < calls; call++) {
        uint32_t text = call % 2, n = call / 2;
        or_status_t status = OR_OK;
        if (n == 0) {
            numbers[text] = begin(journal, names[text]);
        } else {
            status = try_commit(journal, numbers[text], n - 1);
        }
        if (outcome(journal, numbers[text], status) != OR_OK) {
            _exit(1);
        }
        if (write(done, "", 1) != 1) {
            _exit(1);
        }
    }
    _exit(0); // like a death: nothing is closed
}

// Fork the work; kill it after so many microseconds, or let it do all its calls. Returns how many were done.
static uint32_t run_and_kill(const char *path, uint32_t calls, useconds_t after_us, bool threaded)
{
    int done[2];
    char said[64];
    uint32_t count = 0;
    int wait_status;
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        work(path, done[1], calls, threaded);
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

// Check that all reported calls are there, and at most the one after them, whose end was not reported any more.
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
    const world_t *w = *state;
    for (uint32_t calls = 0; calls <= 12; calls++) {
        assert_int_equal(run_and_kill(w->path, calls, 0, calls % 2 == 1), calls);
        assert_holds(w->path, calls);
        test_remove_folder(w->path);
    }
}

static void a_kill_at_any_moment_loses_nothing(void **state)
{
    const world_t *w = *state;
    uint64_t seed = test_seed();
    for (int t = 0; t < 25; t++) {
        uint32_t done = run_and_kill(w->path, 1u << 20, 1000 + (useconds_t)test_below(&seed, 20000),
                                     t % 2 == 1);
        if (access(w->path, F_OK) == 0) {
            assert_holds(w->path, done);
        }
        test_remove_folder(w->path);
    }
}

// ---- who may ----

static void one_process_at_a_time(void **state)
{
    const world_t *w = *state;
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

static void what_is_no_journal_is_refused_and_left_alone(void **state)
{
    const world_t *w = *state;
    char other[2 * PATH], kept[16] = "";
    write_file(w->path, "Dear diary");
    assert_refused(w->path, "is not a folder");
    int fd = open(w->path, O_RDONLY);
    assert_int_equal(read(fd, kept, sizeof kept - 1), 10);
    close(fd);
    assert_string_equal(kept, "Dear diary");
    unlink(w->path);
    assert_int_equal(mkdir(w->path, 0700), 0);
    snprintf(other, sizeof other, "%s/letters.txt", w->path);
    write_file(other, "Dear diary");
    assert_refused(w->path, "is not a journal");
    assert_int_equal(access(other, F_OK), 0);
    assert_refused("/nowhere/journal", "No such file");
}

// The name of the file of `token`, which is all that the folder has.
static void only_file(const world_t *w, char path[2 * PATH])
{
    DIR *list = opendir(w->path);
    const struct dirent *item;
    path[0] = '\0';
    while ((item = readdir(list)) != NULL) {
        if (item->d_name[0] != '.') {
            assert_int_equal(path[0], '\0');
            snprintf(path, 2 * PATH, "%s/%s", w->path, item->d_name);
        }
    }
    closedir(list);
    assert_true(path[0] != '\0');
}

static void write_at(const char *path, off_t at, uint8_t byte)
{
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void only_we_can_read_it(void **state)
{
    const world_t *w = *state;
    char path[2 * PATH];
    mode_t old = umask(0);
    or_journal_t *journal = open_usual(w->path);
    begin(journal, token);
    umask(old);
    only_file(w, path);
    assert_mode(w->path, 0700);
    assert_mode(path, 0600);
    or_journal_close(&journal);
    assert_int_equal(chmod(w->path, 0750), 0);
    assert_refused(w->path, "chmod 700");
}

// Its text is lost, as are those that another release wrote: no other, and no start.
static void a_damaged_text_costs_only_itself(void **state)
{
    const world_t *w = *state;
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "another session";
    char path[2 * PATH];
    or_journal_t *journal = open_usual(w->path);
    commit(journal, begin(journal, token), 0);
    only_file(w, path);
    commit(journal, begin(journal, other), 0);
    or_journal_close(&journal);
    write_at(path, 24, 7); // the version, behind the record's head and the magic word
    journal = open_usual(w->path);
    assert_int_equal(or_journal_count(journal), 1);
    or_journal_close(&journal);
    assert_int_equal(access(path, F_OK), 0); // that release may read it
    write_at(path, 24, 1);
    write_at(path, 100, 0xAA);
    journal = open_usual(w->path);
    assert_int_equal(commits_of(journal, token), -1);
    assert_int_equal(commits_of(journal, other), 1);
    assert_int_equal(access(path, F_OK), -1);
    or_journal_close(&journal);
}

// A power loss leaves a file of any length, or of zeros: its text is gone, and so is it.
static void a_file_without_a_beginning_is_deleted(void **state)
{
    const world_t *w = *state;
    char path[2 * PATH];
    for (off_t length = 0; length < 64; length++) {
        or_journal_t *journal = open_usual(w->path);
        begin(journal, token);
        only_file(w, path);
        or_journal_close(&journal);
        assert_int_equal(truncate(path, length % 32), 0);
        if (length >= 32) { // zeros, as many as there were bytes and more
            assert_int_equal(truncate(path, 0), 0);
            assert_int_equal(truncate(path, 16 * length), 0);
        }
        journal = open_usual(w->path);
        assert_int_equal(or_journal_count(journal), 0);
        or_journal_close(&journal);
        assert_int_equal(access(path, F_OK), -1);
    }
}

// A write that did not come to its end, and then the text goes on: what it left is in nobody's way.
static void a_torn_end_is_cut_off(void **state)
{
    const world_t *w = *state;
    char path[2 * PATH];
    struct stat whole;
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token), found;
    or_journal_entry_t entry;
    for (uint32_t n = 0; n < 3; n++) {
        commit(journal, number, n);
    }
    or_journal_close(&journal);
    only_file(w, path);
    assert_int_equal(stat(path, &whole), 0);
    for (off_t cut = 1; cut < 130; cut += 7) {
        assert_int_equal(truncate(path, whole.st_size - cut), 0);
        journal = open_usual(w->path);
        int held = commits_of(journal, token);
        assert_in_range(held, 1, 3);
        assert_int_equal(or_journal_find(journal, token, sizeof token, &entry, &found), OR_OK);
        for (uint32_t n = (uint32_t)held; n < 3; n++) {
            commit(journal, found, n);
        }
        or_journal_close(&journal);
        journal = open_usual(w->path);
        assert_int_equal(commits_of(journal, token), 3);
        or_journal_close(&journal);
        assert_int_equal(stat(path, &whole), 0);
    }
}

// While its coordinator runs: what it writes from then on is where the next one looks for it.
static void a_text_goes_on_where_it_was_damaged_meanwhile(void **state)
{
    const world_t *w = *state;
    char path[2 * PATH];
    struct stat whole;
    or_journal_entry_t entry;
    uint64_t found;
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    for (uint32_t n = 0; n < 3; n++) {
        commit(journal, number, n);
    }
    only_file(w, path);
    assert_int_equal(stat(path, &whole), 0);
    write_at(path, whole.st_size - 1, 0xAA);
    assert_int_equal(commits_of(journal, token), 2);
    assert_int_equal(or_journal_find(journal, token, sizeof token, &entry, &found), OR_OK);
    commit(journal, found, 2);
    commit(journal, found, 3);
    or_journal_close(&journal);
    journal = open_usual(w->path);
    assert_int_equal(commits_of(journal, token), 4);
    or_journal_close(&journal);
}

// ---- what stays ----

// Do the texts' files have these bytes somewhere?
static bool folder_has(const world_t *w, const void *bytes, size_t count)
{
    static char buffer[1 << 20];
    char path[2 * PATH];
    bool has = false;
    DIR *list = opendir(w->path);
    const struct dirent *item;
    while ((item = readdir(list)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", w->path, item->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t got = read(fd, buffer, sizeof buffer);
        has |= got > 0 && memmem(buffer, (size_t)got, bytes, count) != NULL;
        close(fd);
    }
    closedir(list);
    return has;
}

static void no_token_is_written_and_no_text_stays(void **state)
{
    const world_t *w = *state;
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "another session";
    const int32_t ids[4] = {0x5a5a1234, 0x5a5a1235, 0x5a5a1236, 0x5a5a1237};
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    assert_int_equal(or_journal_commit(journal, number, ids, 4, 2, "a"), OR_OK);
    assert_true(folder_has(w, request, sizeof request)); // or this test would see nothing
    assert_true(folder_has(w, ids, sizeof ids));
    assert_false(folder_has(w, token, sizeof token));
    assert_int_equal(or_journal_end(journal, number, OR_FINISH_STOP), OR_OK);
    assert_int_equal(or_journal_count(journal), 1); // its client may have missed the end
    commit(journal, begin(journal, other), 0);
    or_journal_forget(journal, number);
    assert_int_equal(or_journal_count(journal), 1);
    assert_true(or_journal_tick(journal, 5) > 5);
    assert_false(folder_has(w, ids, sizeof ids));
    assert_int_equal(or_journal_commit(journal, number, ids, 4, 3, "a"), OR_ERR_NOT_FOUND);
    assert_int_equal(commits_of(journal, other), 1);
    or_journal_close(&journal);
}

// 8 MiB of texts, in twos: what is forgotten is no bytes on disk any more.
static void disk_space_is_given_back(void **state)
{
    const world_t *w = *state;
    static int32_t ids[1 << 18];
    uint8_t name[OR_SESSION_TOKEN_BYTES] = "text number    ";
    or_journal_t *journal = open_usual(w->path);
    for (uint8_t i = 0; i < 8; i++) {
        name[0] = i;
        uint64_t number = begin(journal, name);
        assert_int_equal(or_journal_commit(journal, number, ids, 1 << 18, 2, "a"), OR_OK);
        assert_true(test_folder_bytes(w->path) >= sizeof ids);
        assert_true(test_folder_bytes(w->path) < 2 * sizeof ids);
        or_journal_forget(journal, number);
        or_journal_tick(journal, 5);
        assert_int_equal(test_folder_bytes(w->path), 0);
    }
    or_journal_close(&journal);
}

// ---- time ----

// The calendar's clock. The functions below stand in place of the system's in the whole program.
static time_t calendar_step_s;

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) {
        *at = now.tv_sec + calendar_step_s;
    }
    return now.tv_sec + calendar_step_s;
}

static void a_step_of_the_calendar_deletes_nothing(void **state)
{
    const world_t *w = *state;
    static const time_t steps[] = {86400, -86400, 10000 * (time_t)86400};
    or_journal_t *journal = open_usual(w->path);
    assert_int_equal(or_journal_end(journal, begin(journal, token), OR_FINISH_STOP), OR_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        calendar_step_s = steps[i];
        or_journal_tick(journal, 5);
        assert_int_equal(or_journal_count(journal), 1);
        or_journal_close(&journal);
        journal = open_usual(w->path);
        or_journal_tick(journal, 5);
        assert_int_equal(or_journal_count(journal), 1);
    }
    calendar_step_s = 0;
    or_journal_close(&journal);
}

static or_journal_t *open_at(const world_t *w, const or_virtual_clock_t *clock, const char *boot,
                             uint32_t retention_s, uint32_t abandoned_s)
{
    or_journal_t *journal = NULL;
    const or_journal_config_t config = {.path = w->path,
                                        .retention_s = retention_s,
                                        .abandoned_s = abandoned_s,
                                        .clock = &clock->clock,
                                        .boot = boot};
    assert_int_equal(or_journal_open_with(&config, &journal), OR_OK);
    return journal;
}

static uint32_t count_after(or_journal_t *journal, or_virtual_clock_t *clock, int64_t seconds)
{
    clock->now_ns += seconds * OR_NS_PER_S;
    or_journal_tick(journal, 0);
    return or_journal_count(journal);
}

static void what_is_over_is_deleted_in_time(void **state)
{
    const world_t *w = *state;
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "another session";
    const uint8_t third[OR_SESSION_TOKEN_BYTES] = "a third one ...";
    or_virtual_clock_t clock;
    or_virtual_clock_init(&clock, OR_NS_PER_S);
    or_journal_t *keeping = open_at(w, &clock, "boot", 10, 100);
    begin(keeping, token);
    uint64_t acknowledged = begin(keeping, other), missed = begin(keeping, third);
    assert_int_equal(or_journal_end(keeping, acknowledged, OR_FINISH_STOP), OR_OK);
    assert_int_equal(or_journal_end(keeping, missed, OR_FINISH_STOP), OR_OK);
    or_journal_forget(keeping, acknowledged);
    assert_int_equal(count_after(keeping, &clock, 9), 3);
    assert_int_equal(count_after(keeping, &clock, 2), 2);
    assert_int_equal(commits_of(keeping, other), -1);
    assert_int_equal(count_after(keeping, &clock, 100), 1);
    assert_int_equal(commits_of(keeping, token), 0); // it goes on
    or_journal_close(&keeping);
}

// The time in which no coordinator runs counts if it passes in one boot.
static void who_is_away_is_waited_for(void **state)
{
    const world_t *w = *state;
    const uint8_t other[OR_SESSION_TOKEN_BYTES] = "another session";
    or_journal_entry_t entry;
    uint64_t number;
    or_virtual_clock_t clock;
    or_virtual_clock_init(&clock, OR_NS_PER_S);
    or_journal_t *journal = open_at(w, &clock, "first", 0, 100);
    begin(journal, token);
    begin(journal, other);
    assert_int_equal(count_after(journal, &clock, 1000), 2);
    or_journal_close(&journal);
    journal = open_at(w, &clock, "first", 0, 100); // from here on they have so long
    or_journal_close(&journal);
    clock.now_ns += 60 * OR_NS_PER_S;
    journal = open_at(w, &clock, "first", 0, 100);
    assert_int_equal(or_journal_find(journal, other, sizeof other, &entry, &number), OR_OK);
    assert_int_equal(or_journal_commit(journal, number, NULL, 0, 1, ""), OR_OK); // it goes on
    assert_int_equal(count_after(journal, &clock, 39), 2);
    or_journal_close(&journal);
    clock.now_ns = 5 * OR_NS_PER_S; // the machine was started anew
    journal = open_at(w, &clock, "second", 0, 100);
    assert_int_equal(count_after(journal, &clock, 99), 2);
    assert_int_equal(count_after(journal, &clock, 2), 0);
    or_journal_close(&journal);
    assert_int_equal(test_folder_bytes(w->path), 0);
}

// A machine that was away for long has a clock that is beyond what the last one said.
static void a_boot_begins_the_countdown_anew(void **state)
{
    const world_t *w = *state;
    or_virtual_clock_t clock;
    or_virtual_clock_init(&clock, OR_NS_PER_S);
    or_journal_t *journal = open_at(w, &clock, "first", 0, 100);
    assert_int_equal(or_journal_end(journal, begin(journal, token), OR_FINISH_STOP), OR_OK);
    or_journal_close(&journal);
    clock.now_ns = 1000 * OR_NS_PER_S;
    journal = open_at(w, &clock, "second", 0, 100);
    assert_int_equal(count_after(journal, &clock, 99), 1);
    assert_int_equal(count_after(journal, &clock, 2), 0);
    or_journal_close(&journal);
}

// ---- a disk that refuses ----

static void a_full_disk_makes_no_gap(void **state)
{
    const world_t *w = *state;
    or_journal_t *journal = open_usual(w->path);
    uint64_t number = begin(journal, token);
    commit(journal, number, 0);
    fill_disk();
    or_status_t status = try_commit(journal, number, 1);
    or_status_t again = try_commit(journal, number, 1);
    or_status_t end = or_journal_end(journal, number, OR_FINISH_STOP);
    empty_disk();
    assert_int_equal(status, OR_ERR_IO);
    assert_int_equal(again, OR_ERR_IO);
    assert_int_equal(end, OR_ERR_IO);
    assert_int_equal(commits_of(journal, token), 1);
    commit(journal, number, 1);
    assert_int_equal(commits_of(journal, token), 2);
    or_journal_close(&journal);
}

static void a_text_begun_while_the_disk_was_full_is_there_later(void **state)
{
    const world_t *w = *state;
    uint64_t number = 0;
    or_journal_entry_t entry = {.owner = "ada",
                                .key = "",
                                .request = (const uint8_t *)request,
                                .request_bytes = sizeof request};
    memcpy(entry.token, token, sizeof entry.token);
    or_journal_t *journal = open_usual(w->path);
    fill_disk();
    or_status_t begun = or_journal_begin(journal, &entry, &number);
    or_status_t status = try_commit(journal, number, 0);
    uint64_t bytes = test_folder_bytes(w->path);
    empty_disk();
    assert_int_equal(begun, OR_ERR_IO);
    assert_int_equal(status, OR_ERR_IO);
    assert_int_equal(bytes, 0); // not even an empty file
    assert_true(number != 0);
    commit(journal, number, 0);
    or_journal_close(&journal);
    journal = open_usual(w->path);
    assert_int_equal(commits_of(journal, token), 1);
    or_journal_close(&journal);
}

// Texts that were written before can be read, and go on.
static void a_full_disk_is_no_reason_not_to_start(void **state)
{
    const world_t *w = *state;
    or_journal_t *journal = NULL;
    assert_int_equal(run_and_kill(w->path, 8, 0, false), 8);
    fill_disk();
    or_status_t status = or_journal_open(w->path, 0, FAR_S, &journal);
    empty_disk();
    assert_int_equal(status, OR_OK);
    assert_int_equal(commits_of(journal, (const uint8_t *)"first text ...."), 3);
    or_journal_close(&journal);
    assert_holds(w->path, 8);
}

// ---- what owners hold ----

static uint64_t charged(or_ledger_t *ledger)
{
    or_ledger_usage_t usage;
    or_ledger_usage(ledger, &usage);
    return usage.bytes[OR_HELD_JOURNAL];
}

// Half of the disk is one owner's: its ended texts go first, then what grows is refused; others are not asked.
static void an_owner_has_so_much_disk(void **state)
{
    const world_t *w = *state;
    const uint8_t ended[OR_SESSION_TOKEN_BYTES] = "an ended text ..";
    static const int32_t ids[4096];
    or_ledger_t *ledger = NULL;
    assert_int_equal(or_ledger_create(1 << 20, 16 << 12, &ledger), OR_OK);
    or_journal_t *journal = open_usual(w->path);
    uint64_t first = begin(journal, ended), number = begin(journal, token);
    or_journal_set_ledger(journal, ledger);
    assert_int_equal(charged(ledger), 2 << 12);
    assert_int_equal(or_journal_commit(journal, number, ids, 4096, 2, "a"), OR_OK);
    assert_int_equal(charged(ledger), 6 << 12);
    assert_int_equal(or_journal_end(journal, first, OR_FINISH_STOP), OR_OK);
    assert_int_equal(or_journal_commit(journal, number, ids, 3072, 3, "a"), OR_OK);
    assert_int_equal(commits_of(journal, ended), -1);
    assert_int_equal(charged(ledger), 8 << 12);
    assert_int_equal(or_journal_commit(journal, number, ids, 1024, 4, "a"), OR_ERR_FULL);
    assert_non_null(strstr(or_error_text(), "ada"));
    assert_int_equal(charged(ledger), 8 << 12);
    or_journal_close(&journal);
    assert_int_equal(charged(ledger), 0);
    journal = open_usual(w->path); // what is there counts
    or_journal_set_ledger(journal, ledger);
    assert_int_equal(charged(ledger), 8 << 12);
    or_journal_close(&journal);
    or_ledger_destroy(&ledger);
}

// ---- in a thread ----

static or_status_t next(or_journal_t *journal, uint64_t number)
{
    uint64_t done;
    or_status_t status;
    or_journal_wait(journal, 10000);
    assert_true(or_journal_next(journal, &done, &status));
    assert_int_equal(done, number);
    assert_false(or_journal_is_busy(journal, number));
    return status;
}

static void a_thread_does_the_same(void **state)
{
    const world_t *w = *state;
    uint64_t done;
    or_status_t status;
    or_journal_t *journal = open_usual(w->path);
    assert_int_equal(or_journal_fd(journal), -1);
    assert_int_equal(or_journal_start(journal), OR_OK);
    uint64_t number = begin(journal, token);
    assert_true(or_journal_is_busy(journal, number));
    assert_int_equal(try_commit(journal, number, 0), OR_ERR_AGAIN);
    struct pollfd wake = {.fd = or_journal_fd(journal), .events = POLLIN};
    assert_int_equal(poll(&wake, 1, 10000), 1);
    assert_int_equal(next(journal, number), OR_OK);
    assert_false(or_journal_next(journal, &done, &status));
    assert_int_equal(poll(&wake, 1, 0), 0);
    commit(journal, number, 0);
    assert_int_equal(next(journal, number), OR_OK);
    fill_disk();
    commit(journal, number, 1);
    status = next(journal, number);
    empty_disk();
    assert_int_equal(status, OR_ERR_IO);
    commit(journal, number, 1);
    assert_int_equal(next(journal, number), OR_OK);
    assert_int_equal(commits_of(journal, token), 2);
    commit(journal, number, 2);
    or_journal_forget(journal, number); // it is busy: after that
    assert_int_equal(or_journal_count(journal), 0);
    or_journal_close(&journal);
    assert_int_equal(test_folder_bytes(w->path), 0);
}

// ---- what an option means ----

static void an_option_names_the_folder_or_none(void **state)
{
    const world_t *w = *state;
    or_journal_t *journal = NULL;
    char usual[PATH];
    write_file(w->path, "in the way");
    assert_int_equal(or_journal_open_option("none", "tcp://127.0.0.1:5577", 0, 1, &journal), OR_OK);
    assert_null(journal);
    assert_int_equal(or_journal_open_option(w->path, "tcp://127.0.0.1:5577", 0, 1, &journal),
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
    snprintf(usual, sizeof usual, "%s/outrider/coordinator-5577.texts", w->folder);
    assert_mode(usual, 0700);
    assert_int_equal(rmdir(usual), 0);
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
        TEST(one_process_at_a_time),
        TEST(what_is_no_journal_is_refused_and_left_alone),
        TEST(only_we_can_read_it),
        TEST(a_damaged_text_costs_only_itself),
        TEST(a_torn_end_is_cut_off),
        TEST(a_text_goes_on_where_it_was_damaged_meanwhile),
        TEST(a_file_without_a_beginning_is_deleted),
        TEST(no_token_is_written_and_no_text_stays),
        TEST(disk_space_is_given_back),
        TEST(a_step_of_the_calendar_deletes_nothing),
        TEST(what_is_over_is_deleted_in_time),
        TEST(who_is_away_is_waited_for),
        TEST(a_boot_begins_the_countdown_anew),
        TEST(a_full_disk_makes_no_gap),
        TEST(a_text_begun_while_the_disk_was_full_is_there_later),
        TEST(a_full_disk_is_no_reason_not_to_start),
        TEST(an_owner_has_so_much_disk),
        TEST(a_thread_does_the_same),
        TEST(an_option_names_the_folder_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

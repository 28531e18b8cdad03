// Goal: the rounds of a text never wait for the disk, and its client hears of no token, no end and not of the text itself before
// that is written; unless the disk refuses, or does not answer at all: then it hears everything, and the journal has it later.
// Method: the real coordinator with the journal's real thread, on a disk of the test's: a pwrite in the place of the system's,
// which can be held up or refuse. What is on disk is read from the files.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/clients/parking_test_support.h"
#include "coordinator/hub.h"
#include "coordinator/journal/journal_disk.h"

// ---- the disk ----

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    int refuses; // errno
    uint32_t asked;
} disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, 0};

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    pthread_mutex_lock(&disk.lock);
    disk.asked++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.held) {
        pthread_cond_wait(&disk.changed, &disk.lock);
    }
    int refuses = disk.refuses;
    pthread_mutex_unlock(&disk.lock);
    if (refuses != 0) {
        errno = refuses;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}

static void set_disk(bool held, int refuses)
{
    pthread_mutex_lock(&disk.lock);
    disk.held = held;
    disk.refuses = refuses;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static uint32_t writes(void)
{
    pthread_mutex_lock(&disk.lock);
    uint32_t asked = disk.asked;
    pthread_mutex_unlock(&disk.lock);
    return asked;
}

// The next write has come as far as the disk; or none has for a moment, for the one that is awaited came before.
static void wait_for_write(uint32_t before)
{
    struct timespec end;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    pthread_mutex_lock(&disk.lock);
    while (disk.asked == before && error == 0) {
        error = pthread_cond_timedwait(&disk.changed, &disk.lock, &end);
    }
    pthread_mutex_unlock(&disk.lock);
}

// ---- the world ----

static char journal_path[64];

static int set_up(void **state)
{
    int failed = parking_setup(state);
    world_t *w = *state;
    snprintf(journal_path, sizeof journal_path, "/tmp/journaling-slow-%d", (int)getpid());
    test_remove_folder(journal_path);
    assert_int_equal(or_journal_open(journal_path, 0, RESUME_MS / 1000, &w->config.journal), OR_OK);
    assert_int_equal(or_journal_start(w->config.journal), OR_OK);
    begin_anew(w);
    set_disk(false, 0);
    return failed;
}

static int tear_down(void **state)
{
    world_t *w = *state;
    or_journal_t *journal = w->config.journal;
    int failed = world_teardown(state);
    set_disk(false, 0);
    or_journal_close(&journal);
    test_remove_folder(journal_path);
    return failed;
}

// The part of the only text that the disk has.
typedef struct {
    uint32_t texts, tokens, finish;
} found_t;

static void visit(void *context, const uint8_t *hash)
{
    found_t *found = context;
    or_journal_file_t file;
    uint8_t *bytes = NULL;
    size_t count = 0;
    int folder;
    found->texts++;
    folder = open(journal_path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(or_journal_disk_read(folder, hash, &bytes, &count), OR_OK);
    if (or_journal_file_read(bytes, count, hash, &file) == OR_OK) {
        found->tokens = file.entry.count;
        found->finish = file.entry.finish;
    }
    free(bytes);
    close(folder);
}

static found_t read_disk(void)
{
    found_t found = {0};
    int folder = open(journal_path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(or_journal_disk_list(folder, visit, &found), OR_OK);
    close(folder);
    return found;
}

static or_csession_t *only_session(const world_t *w)
{
    for (uint32_t i = 0; i < w->coordinator->sessions.places; i++) {
        if (w->coordinator->sessions.all[i] != NULL) {
            return w->coordinator->sessions.all[i];
        }
    }
    fail_msg("there is no session");
    return NULL;
}

// Until nothing is under way.
static void settle(world_t *w, client_t *client)
{
    for (int i = 0; i < 5; i++) {
        or_journal_wait(w->config.journal, 10000);
        run_hearing(w, client, 2);
    }
}

static void nothing_is_told_before_it_is_written(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter(w, &client, "a");
    run_hearing(w, &client, 5);
    set_disk(true, 0);
    ask_for(w, &client, 1, WANTED);
    run_hearing(w, &client, 60);
    assert_int_equal(client.session.value, 0); // nor that it was taken in
    assert_int_equal(or_csession_written(only_session(w)), WANTED);
    assert_int_equal(only_session(w)->phase, OR_PHASE_DONE);
    set_disk(false, 0);
    settle(w, &client);
    assert_whole(&client);
    assert_int_equal(read_disk().finish, OR_FINISH_LENGTH);
    leave(&client.edge);
}

// A text with some words told, and others that the disk does not have.
static void stop_the_disk(world_t *w, client_t *client)
{
    join_target(w);
    enter(w, client, "a");
    run_hearing(w, client, 5);
    w->step_ms = 3;
    ask_for(w, client, 1, WANTED);
    while (client->count == 0) {
        or_journal_wait(w->config.journal, 10000);
        run_hearing(w, client, 1);
    }
    settle(w, client);
    uint32_t asked = writes();
    set_disk(true, 0);
    while (writes() == asked) { // held before anything of it is on disk
        run_hearing(w, client, 1);
        if (or_journaling_holds(w->coordinator, only_session(w))) {
            wait_for_write(asked);
        }
    }
}

static void what_is_told_is_on_disk_whenever_we_die(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    stop_the_disk(w, &client);
    uint32_t told = client.count;
    run_hearing(w, &client, 30);
    assert_int_equal(client.count, told);
    assert_true(or_csession_written(only_session(w)) > told);
    assert_int_equal(read_disk().tokens, told); // of a coordinator that were killed now
    ask_for(w, &client, 1, WANTED);             // a client that repeats itself
    run_hearing(w, &client, 5);
    assert_int_equal(client.count, told);
    set_disk(false, 0);
    run_hearing(w, &client, 100);
    settle(w, &client);
    assert_whole(&client);
    assert_int_equal(read_disk().tokens, WANTED);
    leave(&client.edge);
}

static void a_disk_that_does_not_answer_holds_up_nothing(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    stop_the_disk(w, &client);
    run_hearing(w, &client, 8000);
    assert_whole(&client);
    assert_in_range(read_disk().tokens, 1, WANTED - 1);
    set_disk(false, 0);
    settle(w, &client);
    assert_int_equal(read_disk().tokens, WANTED);
    assert_int_equal(read_disk().finish, OR_FINISH_LENGTH);
    leave(&client.edge);
}

// From the beginning: when there is space again, all of it is there.
static void a_disk_that_refuses_holds_up_nothing(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    set_disk(false, ENOSPC);
    join_target(w);
    enter(w, &client, "a");
    run_hearing(w, &client, 5);
    ask_for(w, &client, 1, WANTED);
    for (int i = 0; i < 60; i++) {
        or_journal_wait(w->config.journal, 10000);
        run_hearing(w, &client, 1);
    }
    assert_whole(&client);
    assert_int_equal(read_disk().texts, 0);
    set_disk(false, 0);
    run_hearing(w, &client, 2100);
    settle(w, &client);
    assert_int_equal(read_disk().tokens, WANTED);
    assert_int_equal(read_disk().finish, OR_FINISH_LENGTH);
    leave(&client.edge);
}

// Whoever cancels a text whose end is being written is told so at once, and it leaves the disk.
static void who_cancels_waits_for_nothing(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    stop_the_disk(w, &client);
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = client.session, .body.cancel = {.reason = "test"}};
    assert_int_equal(or_link_send(client.edge.link, OR_PEER_HUB, &message), OR_OK);
    run_hearing(w, &client, 3);
    assert_int_equal(client.finish, OR_FINISH_CANCELLED);
    set_disk(false, 0);
    settle(w, &client);
    assert_int_equal(read_disk().texts, 0);
    leave(&client.edge);
}

// The requests of texts that begin are all that may be large: of them 64 MiB wait, and the next text goes without.
static void what_waits_for_the_disk_is_bounded(void **state)
{
    world_t *w = *state;
    or_journal_t *journal = w->config.journal;
    or_journal_entry_t entry = {.owner = "ada", .key = "", .request_bytes = 15 << 20};
    uint64_t number;
    entry.request = calloc(1, entry.request_bytes);
    assert_non_null(entry.request);
    set_disk(true, 0);
    for (uint8_t i = 0; i < 4; i++) {
        entry.token[0] = i;
        assert_int_equal(or_journal_begin(journal, &entry, &number), OR_OK);
    }
    entry.token[0] = 4;
    assert_int_equal(or_journal_begin(journal, &entry, &number), OR_ERR_FULL);
    assert_int_equal(number, 0);
    assert_int_equal(or_journal_count(journal), 4);
    set_disk(false, 0);
    or_journal_wait(journal, 10000);
    run(w, 1); // takes what is done
    assert_int_equal(or_journal_begin(journal, &entry, &number), OR_OK);
    or_journal_wait(journal, 10000);
    free((void *)entry.request);
}

// ---- what is seen of rounds ----

static uint32_t trees_told, tree_nodes, tree_accepted;

static void look(world_t *w, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    (void)w;
    if (message->type == OR_MSG_GENERATE_DELTA && delta->tree != NULL) {
        trees_told++;
        tree_nodes = delta->tree->count;
        tree_accepted = delta->tree_accepted_count;
    }
}

static void a_tree_is_told_with_its_tokens(void **state)
{
    world_t *w = *state;
    trees_told = 0;
    w->judges = false;
    w->look = look;
    join_usual(w);
    or_generate_request_t request = usual_request(6);
    request.details = true;
    ask(w, request);
    run(w, 5);
    or_journal_wait(w->config.journal, 10000);
    run(w, 5);
    set_disk(true, 0);
    w->path_count = 2;
    w->path[0] = 1;
    w->path[1] = 2;
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 3);
    run(w, 1500);
    assert_int_equal(trees_told, 0);
    set_disk(false, 0);
    for (int i = 0; i < 4; i++) {
        or_journal_wait(w->config.journal, 10000);
        run(w, 2);
    }
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->written_count, 6);
    assert_int_equal(trees_told, 1);
    assert_int_equal(tree_nodes, 3);
    assert_int_equal(tree_accepted, 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_told_before_it_is_written),
        TEST(what_is_told_is_on_disk_whenever_we_die),
        TEST(a_disk_that_does_not_answer_holds_up_nothing),
        TEST(a_disk_that_refuses_holds_up_nothing),
        TEST(who_cancels_waits_for_nothing),
        TEST(what_waits_for_the_disk_is_bounded),
        TEST(a_tree_is_told_with_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

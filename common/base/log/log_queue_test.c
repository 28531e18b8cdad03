// Goal: a caller that logs never waits for the reader of standard error. Dropped lines are counted exactly, where
// they are missing. Lines keep their order and are whole. A child of fork writes its own lines only, and no line is
// lost at exit.
// Method: make standard error a small pipe that nobody reads, or that is read slowly. A thread that writes behind a
// full pipe would hang the test, which an alarm ends.
#include "common/base/log/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define PATIENCE_S 60
#define LINES 8000 // of 80 bytes and more: twice what the queue and the pipe hold
#define HEARD_BYTES (4u * 1024 * 1024)
#define THREADS 4

static char heard[HEARD_BYTES];
static size_t heard_bytes;

typedef struct {
    int ends[2], kept;
} unread_t;

// Make standard error a pipe of one page.
static unread_t begin(void)
{
    unread_t pipe_of;
    assert_int_equal(pipe(pipe_of.ends), 0);
    assert_true(fcntl(pipe_of.ends[1], F_SETPIPE_SZ, 4096) > 0);
    or_log_flush();
    pipe_of.kept = dup(STDERR_FILENO);
    assert_true(dup2(pipe_of.ends[1], STDERR_FILENO) >= 0);
    heard_bytes = 0;
    alarm(PATIENCE_S);
    return pipe_of;
}

// Read until `words` has come.
static void read_until(const unread_t *from, const char *words)
{
    heard[heard_bytes] = '\0';
    while (strstr(heard, words) == NULL) {
        ssize_t length = read(from->ends[0], heard + heard_bytes, sizeof heard - 1 - heard_bytes);
        assert_true(length > 0);
        heard_bytes += (size_t)length;
        heard[heard_bytes] = '\0';
    }
}

static void end(unread_t *pipe_of)
{
    or_log_flush();
    assert_true(dup2(pipe_of->kept, STDERR_FILENO) >= 0);
    close(pipe_of->kept);
    close(pipe_of->ends[0]);
    close(pipe_of->ends[1]);
    alarm(0);
}

static void say(int from, int count)
{
    for (int i = from; i < from + count; i++) {
        or_log(OR_LOG_INFO, "line %08d of a service that nobody listens to at this moment.", i);
    }
}

// Check that the lines in `heard` are consecutive but for one gap. Returns how many lines lie in the gap; *told
// is the number that the log reports there.
static uint64_t check_order(int count, uint64_t *told)
{
    int next = 0;
    uint64_t missing = 0, lines = 0;
    char *rest = heard, *line;
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        int number;
        const char *at = strstr(line, "line ");
        if (strstr(line, "standard error was not read") != NULL) {
            assert_int_equal(sscanf(strstr(line, "test: ") + 6, "%lu lines were dropped", told), 1);
            missing = *told;
            next += (int)missing; // the gap must be exactly here
        } else if (at != NULL) {
            assert_int_equal(sscanf(at, "line %d of", &number), 1);
            assert_int_equal(number, next);
            next++;
            lines++;
        }
    }
    assert_int_equal(next, count);
    assert_int_equal(lines + missing, count);
    return missing;
}

static void who_logs_never_waits(void **state)
{
    (void)state;
    uint64_t told = 0;
    unread_t nobody = begin();
    say(0, LINES); // a log that waits would hang here
    read_until(&nobody, "standard error was not read");
    say(0, 0);
    or_log(OR_LOG_INFO, "heard again");
    read_until(&nobody, "heard again\n");
    end(&nobody);
    assert_true(check_order(LINES, &told) > 0);
}

static void the_next_lines_follow_the_count(void **state)
{
    (void)state;
    unread_t nobody = begin();
    say(0, LINES);
    read_until(&nobody, "standard error was not read\n");
    or_log(OR_LOG_INFO, "line %08d of", LINES);
    read_until(&nobody, "line 00008000 of\n");
    end(&nobody);
    const char *count = strstr(heard, "standard error was not read\n");
    assert_non_null(strstr(count, "line 00008000 of\n"));
    assert_null(strstr(strchr(count, '\n'), "line 00007999"));
}

static void *say_from_a_thread(void *name)
{
    for (int i = 0; i < 200; i++) {
        or_log(OR_LOG_INFO, "thread %s says %d.", (const char *)name, i);
    }
    return NULL;
}

static void lines_of_threads_are_whole_and_in_order(void **state)
{
    (void)state;
    static char names[THREADS][12];
    pthread_t threads[THREADS];
    int next[THREADS] = {0};
    unread_t slow = begin();
    for (int i = 0; i < THREADS; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, say_from_a_thread, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    or_log(OR_LOG_INFO, "all said");
    read_until(&slow, "all said\n");
    end(&slow);
    char *rest = heard, *line;
    while ((line = strsep(&rest, "\n")) != NULL && strstr(line, "all said") == NULL) {
        int thread, number;
        assert_int_equal(sscanf(strstr(line, "thread"), "thread %d says %d.", &thread, &number), 2);
        assert_true(thread >= 0 && thread < THREADS);
        assert_int_equal(number, next[thread]++);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(next[i], 200);
    }
}

static void a_descriptor_that_others_made_non_blocking_loses_nothing(void **state)
{
    (void)state;
    uint64_t told = 0;
    unread_t slow = begin();
    assert_int_equal(fcntl(slow.ends[1], F_SETFL, O_NONBLOCK), 0);
    say(0, 500);
    read_until(&slow, "line 00000499 of a service that nobody listens to at this moment.\n");
    end(&slow);
    assert_int_equal(check_order(500, &told), 0);
}

// ---- processes ----

static void live_as_child(int output, bool unread)
{
    dup2(output, STDERR_FILENO);
    if (unread) {
        alarm(PATIENCE_S);
        say(0, LINES);
    } else {
        or_log(OR_LOG_ERROR, "the last words");
    }
#ifdef __SANITIZE_ADDRESS__
    // At exit LeakSanitizer would write about the parent's threads into the pipe that nobody
    // reads.
    or_log_flush();
    _exit(7);
#else
    exit(7);
#endif
}

// ThreadSanitizer does not support threads in a child of a process that had some, so this is not
// run with it.
static void a_child_writes_its_own_lines_and_ends_with_all_of_them(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    for (int unread = 0; unread < 2; unread++) {
        int wait_status;
        unread_t pipe_of = begin();
        or_log(OR_LOG_INFO, "%s", "the parent's");
        or_log_flush();
        pid_t pid = fork();
        if (pid == 0) {
            live_as_child(pipe_of.ends[1], unread != 0);
        }
        if (unread == 0) {
            read_until(&pipe_of, "error test: the last words\n");
        }
        assert_int_equal(waitpid(pid, &wait_status, 0), pid); // although nobody reads
        assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 7);
        end(&pipe_of);
        const char *first = strstr(heard, "the parent's");
        assert_true(unread != 0 || strstr(first + 1, "the parent's") == NULL);
    }
}

static int set_up(void **state)
{
    (void)state;
    or_log_init("test", OR_LOG_INFO);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_logs_never_waits),
        cmocka_unit_test(the_next_lines_follow_the_count),
        cmocka_unit_test(lines_of_threads_are_whole_and_in_order),
        cmocka_unit_test(a_descriptor_that_others_made_non_blocking_loses_nothing),
        cmocka_unit_test(a_child_writes_its_own_lines_and_ends_with_all_of_them),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

// Goal: a wait that does not end ends the process, with a line that says what was waited for; many short
// waits, and long rests between them, do not.
// Method: the watchdog at work in child processes with a time-out of a second.
#include "verifier/ranks/watchdog.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define OUTLIVED 42

static void pause_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void wait_long(void)
{
    or_watchdog_begin("the first exchange");
    or_watchdog_end();
    or_watchdog_begin("the second exchange");
    pause_ms(5000);
}

static void wait_often_and_rest(void)
{
    for (int i = 0; i < 18; i++) { // of a kind that every look finds waiting
        or_watchdog_begin("an exchange");
        pause_ms(100);
        or_watchdog_end();
    }
    pause_ms(1800);
}

// Run a child that does this; return its exit code, and what it wrote into `text`.
static int live(void (*life)(void), char *text, size_t capacity)
{
    int output[2];
    int wait_status;
    assert_int_equal(pipe(output), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(output[1], STDERR_FILENO);
        if (or_watchdog_start(1) == OR_OK) {
            life();
        }
        _exit(OUTLIVED);
    }
    close(output[1]);
    ssize_t length = read(output[0], text, capacity - 1);
    text[length > 0 ? length : 0] = '\0';
    close(output[0]);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

static void a_wait_without_end_ends_the_process(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(live(wait_long, text, sizeof text), 1);
    assert_non_null(strstr(text, "nothing from the other ranks for 1 s in the second exchange"));
}

static void short_waits_and_long_rests_do_not(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(live(wait_often_and_rest, text, sizeof text), OUTLIVED);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_without_end_ends_the_process),
        cmocka_unit_test(short_waits_and_long_rests_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

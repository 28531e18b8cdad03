// Goal: a file is there exactly while the verifier serves, a stale one never counts, and systemd hears
// READY=1 once, at the right moment.
// Method: a temporary folder and a datagram socket in systemd's place.
#include "verifier/readiness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test_support.h"

static char folder[] = "/tmp/readiness_test_XXXXXX";
static char file[sizeof folder + 8];
static int systemd = -1;

static int set_up(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/ready", folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", folder);
    systemd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(systemd, (struct sockaddr *)&address, sizeof address), 0);
    return setenv("NOTIFY_SOCKET", address.sun_path, 1);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(getenv("NOTIFY_SOCKET"));
    close(systemd);
    return rmdir(folder); // fails if anything was left in it
}

static void assert_heard(const char *expected)
{
    char text[256] = "";
    ssize_t length = recv(systemd, text, sizeof text - 1, 0);
    assert_string_equal(length > 0 ? text : "", expected);
}

static bool file_is_there(void)
{
    return access(file, F_OK) == 0;
}

static void the_file_and_systemd_follow_the_state(void **state)
{
    (void)state;
    or_readiness_t readiness;
    FILE *stale = fopen(file, "w");
    assert_non_null(stale);
    fclose(stale);
    or_readiness_init(&readiness, file);
    assert_false(file_is_there());
    assert_heard("STATUS=starting");
    or_readiness_set(&readiness, false);
    assert_heard(""); // no news
    or_readiness_set(&readiness, true);
    assert_true(file_is_there());
    assert_heard("READY=1\nSTATUS=serving");
    or_readiness_set(&readiness, true);
    assert_heard("");
    or_readiness_set(&readiness, false);
    assert_false(file_is_there());
    assert_heard("STATUS=the coordinator is silent; calling it again");
    or_readiness_set(&readiness, true);
    assert_true(file_is_there());
    assert_heard("STATUS=serving");
    or_readiness_fini(&readiness);
    assert_false(file_is_there());
    assert_heard("STOPPING=1\nSTATUS=ending");
}

static void without_a_file_and_systemd_nothing_happens(void **state)
{
    (void)state;
    char *socket_path = strdup(getenv("NOTIFY_SOCKET"));
    or_readiness_t readiness;
    unsetenv("NOTIFY_SOCKET");
    or_readiness_init(&readiness, NULL);
    or_readiness_set(&readiness, true);
    or_readiness_fini(&readiness);
    setenv("NOTIFY_SOCKET", socket_path, 1);
    free(socket_path);
    assert_heard("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_and_systemd_follow_the_state),
        cmocka_unit_test(without_a_file_and_systemd_nothing_happens),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

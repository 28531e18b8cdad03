// Goal: a hub listens where it was told, says where that is, and takes a path from nobody who still listens there.
// Method: real sockets of every kind; connections to what was said.
#include "proto/net/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test_support.h"

static void expect_failure(const char *endpoint, const char *why)
{
    int fd;
    char bound[128];
    assert_int_not_equal(or_listen(endpoint, &fd, bound, sizeof bound), OR_OK);
    assert_non_null(strstr(or_error_text(), why));
}

static int expect_bound(const char *endpoint, const char *prefix)
{
    int fd = -1;
    char bound[128];
    assert_int_equal(or_listen(endpoint, &fd, bound, sizeof bound), OR_OK);
    assert_memory_equal(bound, prefix, strlen(prefix));
    return fd;
}

static void addresses_of_every_kind(void **context)
{
    (void)context;
    int fds[] = {
        expect_bound("tcp://127.0.0.1:*", "tcp://127.0.0.1:"),
        expect_bound("tcp://127.0.0.1:0", "tcp://127.0.0.1:"),
        expect_bound("tcp://*:*", "tcp://0.0.0.0:"),
        expect_bound("tcp://lo:*", "tcp://127.0.0.1:"),
        expect_bound("ipc://@outrider-listen-test", "ipc://@outrider-listen-test"),
    };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        or_listen_end(fds[i]);
    }
}

static void what_is_not_of_this_machine_is_refused(void **context)
{
    (void)context;
    expect_failure("tcp://192.0.2.1:5555", "this machine has no such address");
    expect_failure("tcp://nosuchinterface:5555", "this machine has no such address");
    expect_failure("ipc:///nosuchfolder/socket", "cannot listen on ipc:///nosuchfolder/socket");
    expect_failure("nonsense", "not an endpoint");
}

static void a_port_is_taken_once(void **context)
{
    (void)context;
    int fd;
    char bound[128], again[128];
    assert_int_equal(or_listen("tcp://127.0.0.1:*", &fd, bound, sizeof bound), OR_OK);
    int second;
    assert_int_equal(or_listen(bound, &second, again, sizeof again), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "address already in use"));
    or_listen_end(fd);
    second = expect_bound(bound, bound);
    or_listen_end(second);
}

static void a_path_is_taken_from_nobody_who_listens(void **context)
{
    (void)context;
    char endpoint[128];
    struct stat found;
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/outrider-listen-test-%d", (int)getpid());
    const char *path = endpoint + strlen("ipc://");
    int fd = expect_bound(endpoint, endpoint);
    expect_failure(endpoint, "address already in use");
    close(fd); // as a process that was killed leaves it
    assert_int_equal(stat(path, &found), 0);
    fd = expect_bound(endpoint, endpoint);
    or_listen_end(fd);
    assert_int_not_equal(stat(path, &found), 0);
}

static void what_is_no_socket_stays(void **context)
{
    (void)context;
    char endpoint[128];
    struct stat found;
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/outrider-listen-file-%d", (int)getpid());
    const char *path = endpoint + strlen("ipc://");
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    expect_failure(endpoint, "address already in use");
    assert_int_equal(stat(path, &found), 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_every_kind),
        cmocka_unit_test(what_is_not_of_this_machine_is_refused),
        cmocka_unit_test(a_port_is_taken_once),
        cmocka_unit_test(a_path_is_taken_from_nobody_who_listens),
        cmocka_unit_test(what_is_no_socket_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

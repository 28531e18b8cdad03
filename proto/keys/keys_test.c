// Goal: key files keep their secret and are never lost or believed when they should not be; whoever connects knows
// whether to encrypt, as whom and to whom, or is told what to do.
// Method: a folder of our own named by OUTRIDER_KEYS, and files with every fault; a table of endpoints.
#include "proto/keys/keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define REMOTE "tcp://192.0.2.1:5577"

static char folder[64]; // OUTRIDER_KEYS, a name that is free

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static mode_t mode_of(const char *path)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return found.st_mode & 07777;
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static int set_up(void **context)
{
    (void)context;
    snprintf(folder, sizeof folder, "/tmp/outrider-keys-test-%d", (int)getpid());
    remove_folder();
    setenv("OUTRIDER_KEYS", folder, 1);
    unsetenv("OUTRIDER_SERVER_KEY");
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    remove_folder();
    return 0;
}

static or_key_pair_t make_pair(void)
{
    or_key_pair_t pair;
    assert_int_equal(or_key_pair_create(&pair), OR_OK);
    return pair;
}

static void assert_says(or_status_t status, or_status_t expected, const char *words)
{
    assert_int_equal(status, expected);
    if (strstr(or_error_text(), words) == NULL) {
        fail_msg("'%s' is not in '%s'", words, or_error_text());
    }
}

static void pairs_are_keys_and_differ(void **context)
{
    (void)context;
    or_key_pair_t one = make_pair(), two = make_pair();
    assert_int_equal(or_key_check(one.public_key), OR_OK);
    assert_string_not_equal(one.public_key, two.public_key);
    assert_string_not_equal(one.secret_key, two.secret_key);
    char name[9];
    or_key_short(one.public_key, name);
    assert_int_equal(strlen(name), 8);
    assert_memory_equal(name, one.public_key, 8);
    static const or_key_pair_t nothing;
    or_key_pair_wipe(&one);
    assert_memory_equal(&one, &nothing, sizeof one);
}

static void what_is_no_key_is_not_taken_for_one(void **context)
{
    (void)context;
    assert_says(or_key_check(""), OR_ERR_INVALID, "has 0 characters");
    assert_says(or_key_check("abc"), OR_ERR_INVALID, "has 3 characters");
    assert_says(or_key_check("0123456789012345678901234567890123456789\n"), OR_ERR_INVALID,
                "has 41 characters");
    assert_says(or_key_check("01234567890123456789 1234567890123456789"), OR_ERR_INVALID, "Z85");
    assert_says(or_key_check("#####################################%%%"), OR_ERR_INVALID, "Z85");
    assert_int_equal(or_key_check("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"), OR_OK);
}

static void a_file_gives_back_its_pair_and_nobody_else_reads_it(void **context)
{
    (void)context;
    char path[128];
    or_key_pair_t pair = make_pair(), back;
    assert_int_equal(or_keys_path("identity.key", path, sizeof path), OR_OK);
    assert_string_equal(path, in_folder("identity.key"));
    assert_int_equal(mode_of(folder), 0700);
    assert_says(or_key_file_read(path, &back), OR_ERR_NOT_FOUND, "outrider keys new");
    mode_t before = umask(0);
    assert_int_equal(or_key_file_write(path, &pair, "a test's"), OR_OK);
    umask(before);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(or_key_file_read(path, &back), OR_OK);
    assert_memory_equal(&back, &pair, sizeof pair);
    const mode_t open_modes[] = {0640, 0604, 0620, 0601};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_says(or_key_file_read(path, &back), OR_ERR_INVALID, "chmod 600");
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(or_key_file_read(path, &back), OR_OK);
}

static void what_root_makes_is_the_folders_owners(void **context)
{
    (void)context;
    enum { SERVICE = 12345, STRANGER = 12346 };
    char path[128];
    struct stat found;
    or_key_pair_t pair = make_pair(), back;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(or_keys_path("identity.key", path, sizeof path), OR_OK);
    assert_int_equal(chown(folder, SERVICE, SERVICE), 0);
    assert_int_equal(or_key_file_write(path, &pair, "a test's"), OR_OK);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_uid, SERVICE);
    assert_int_equal(found.st_gid, SERVICE);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(seteuid(SERVICE), 0);
    or_status_t its_own = or_key_file_read(path, &back);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(its_own, OR_OK);
    // The owner of a folder can put any file into it.
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(seteuid(STRANGER), 0);
    or_status_t anothers = or_keys_path("identity.key", path, sizeof path);
    assert_int_equal(seteuid(0), 0);
    assert_says(anothers, OR_ERR_INVALID, "another user");
    assert_int_equal(or_keys_path("identity.key", path, sizeof path), OR_OK);
}

static void a_key_that_is_there_is_never_replaced(void **context)
{
    (void)context;
    char path[128];
    bool created;
    or_key_pair_t first, second = make_pair(), back;
    assert_int_equal(or_keys_path("coordinator.key", path, sizeof path), OR_OK);
    assert_int_equal(or_key_file_obtain(path, "a test's", &first, &created), OR_OK);
    assert_true(created);
    assert_says(or_key_file_write(path, &second, "another"), OR_ERR_INVALID, "there already");
    assert_int_equal(or_key_file_obtain(path, "a test's", &back, &created), OR_OK);
    assert_false(created);
    assert_memory_equal(&back, &first, sizeof back);
    // Nothing is left beside it.
    char command[160];
    snprintf(command, sizeof command, "test \"$(ls -A '%s')\" = coordinator.key", folder);
    assert_int_equal(system(command), 0);
    // One that others can read is not replaced by a new one either.
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(or_key_file_obtain(path, "a test's", &back, &created), OR_ERR_INVALID);
}

static void files_that_are_no_pair_are_refused(void **context)
{
    (void)context;
    char text[512];
    or_key_pair_t one = make_pair(), two = make_pair(), back;
    assert_int_equal(or_keys_folder(text, sizeof text), OR_OK);
    const char *path = in_folder("bad.key");
    const char *const bad[] = {"", "public\nsecret\n", "\n\n\n", "public x\nsecret y\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(path, 0600, bad[i]);
        assert_says(or_key_file_read(path, &back), OR_ERR_INVALID, "not a key file");
    }
    snprintf(text, sizeof text, "public %s\n", one.public_key);
    write_file(path, 0600, text);
    assert_says(or_key_file_read(path, &back), OR_ERR_INVALID, "not a key file");
    snprintf(text, sizeof text, "public %s\nsecret %s\n", one.public_key, two.secret_key);
    write_file(path, 0600, text);
    assert_says(or_key_file_read(path, &back), OR_ERR_INVALID, "of one pair");
    assert_null(strstr(or_error_text(), two.secret_key));
    snprintf(text, sizeof text, "secret %s \r\n# a comment\n\npublic\t%s", one.secret_key,
             one.public_key);
    write_file(path, 0600, text);
    assert_int_equal(or_key_file_read(path, &back), OR_OK);
    assert_says(or_key_file_read(folder, &back), OR_ERR_INVALID, "not a file of keys");
}

static void the_folder_is_where_it_is_said_to_be(void **context)
{
    (void)context;
    char path[128], deep[128];
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    setenv("OUTRIDER_KEYS", deep, 1);
    assert_int_equal(or_keys_folder(path, sizeof path), OR_OK);
    assert_string_equal(path, deep);
    assert_int_equal(mode_of(deep), 0700);
    assert_int_equal(chmod(deep, 0770), 0);
    assert_says(or_keys_folder(path, sizeof path), OR_ERR_INVALID, "chmod go-w");
    char *home = strdup(getenv("HOME") != NULL ? getenv("HOME") : "");
    unsetenv("OUTRIDER_KEYS");
    setenv("HOME", folder, 1);
    assert_int_equal(or_keys_folder(path, sizeof path), OR_OK);
    assert_string_equal(path, in_folder(".config/outrider"));
    unsetenv("HOME");
    assert_says(or_keys_folder(path, sizeof path), OR_ERR_IO, "OUTRIDER_KEYS");
    setenv("HOME", home, 1);
    free(home);
}

static void only_what_stays_here_is_loopback(void **context)
{
    (void)context;
    static const char *const here[] = {"tcp://127.0.0.1:5577", "tcp://127.0.0.1:*",
                                       "tcp://127.8.9.1:1",    "tcp://localhost:5577",
                                       "tcp://[::1]:5577",     "tcp://[::ffff:127.0.0.1]:1",
                                       "ipc:///tmp/socket"};
    static const char *const elsewhere[] = {"tcp://10.0.0.1:5577",
                                            "tcp://*:5577",
                                            "tcp://0.0.0.0:5577",
                                            "tcp://[::]:5577",
                                            "tcp://[::ffff:10.0.0.1]:5577",
                                            "tcp://[2001:db8::7f]:5577",
                                            "tcp://127.example.org:1",
                                            "tcp://localhost.example.org:1",
                                            "tcp://example.org:1",
                                            "tcp://127.0.0.1:0;10.0.0.1:5577",
                                            "tcp://128.0.0.1:1",
                                            "tcp://1270.0.0.1:5577",
                                            "tcp://eth0:5577",
                                            "",
                                            "tcp://",
                                            "tcp://127.0.0.1"};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        assert_true(or_endpoint_is_loopback(here[i]));
    }
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        if (or_endpoint_is_loopback(elsewhere[i])) {
            fail_msg("%s is not on this machine", elsewhere[i]);
        }
    }
}

static void loopback_needs_no_key_and_leaves_no_file(void **context)
{
    (void)context;
    or_connect_keys_t keys;
    memset(&keys, 0xAA, sizeof keys);
    assert_int_equal(or_keys_for_connecting("tcp://127.0.0.1:5577", NULL, &keys), OR_OK);
    assert_false(keys.encrypted);
    const or_key_options_t off = {.mode = "off"};
    assert_int_equal(or_keys_for_connecting(REMOTE, &off, &keys), OR_OK);
    assert_false(keys.encrypted);
    assert_int_not_equal(access(folder, F_OK), 0);
    const or_key_options_t wrong = {.mode = "maybe"};
    assert_says(or_keys_for_connecting(REMOTE, &wrong, &keys), OR_ERR_INVALID, "auto, on or off");
}

static void afar_the_servers_key_must_be_known(void **context)
{
    (void)context;
    or_connect_keys_t keys;
    or_key_pair_t server = make_pair(), other = make_pair();
    assert_says(or_keys_for_connecting("http://192.0.2.1:80", NULL, &keys), OR_ERR_INVALID,
                "not an endpoint");
    assert_says(or_keys_for_connecting(REMOTE, NULL, &keys), OR_ERR_INVALID, "outrider keys new");
    assert_non_null(strstr(or_error_text(), "--server-key"));
    const or_key_options_t on = {.mode = "on"};
    assert_says(or_keys_for_connecting("ipc:///tmp/x", &on, &keys), OR_ERR_INVALID, "server-key");
    // From the file of known servers, by the very same endpoint.
    char text[256];
    snprintf(text, sizeof text, "# ours\n%s7 %s\n%s %s\n", REMOTE, other.public_key, REMOTE,
             server.public_key);
    write_file(in_folder("servers"), 0600, text);
    assert_int_equal(or_keys_for_connecting(REMOTE, NULL, &keys), OR_OK);
    assert_true(keys.encrypted);
    assert_string_equal(keys.server_key, server.public_key);
    assert_int_equal(or_keys_for_connecting("tcp://192.0.2.1:557", NULL, &keys), OR_ERR_INVALID);
    // A user who can write to it can pass for any server.
    write_file(in_folder("servers"), 0660, text);
    assert_says(or_keys_for_connecting(REMOTE, NULL, &keys), OR_ERR_INVALID, "others can write");
    // The environment comes first, and what is said before all.
    setenv("OUTRIDER_SERVER_KEY", other.public_key, 1);
    assert_int_equal(or_keys_for_connecting(REMOTE, NULL, &keys), OR_OK);
    assert_string_equal(keys.server_key, other.public_key);
    const or_key_options_t said = {.server_key = server.public_key};
    assert_int_equal(or_keys_for_connecting(REMOTE, &said, &keys), OR_OK);
    assert_string_equal(keys.server_key, server.public_key);
}

static void a_server_key_may_be_in_a_file(void **context)
{
    (void)context;
    or_connect_keys_t keys;
    char path[128], text[64];
    or_key_pair_t server = make_pair();
    assert_int_equal(or_keys_path("theirs", path, sizeof path), OR_OK);
    const or_key_options_t options = {.server_key = path};
    assert_says(or_keys_for_connecting(REMOTE, &options, &keys), OR_ERR_INVALID, "neither a key");
    write_file(path, 0644, "nothing\n");
    assert_says(or_keys_for_connecting(REMOTE, &options, &keys), OR_ERR_INVALID, "no line");
    snprintf(text, sizeof text, "public %s\n", server.public_key);
    write_file(path, 0644, text); // it is no secret
    assert_int_equal(or_keys_for_connecting(REMOTE, &options, &keys), OR_OK);
    assert_string_equal(keys.server_key, server.public_key);
}

static void we_are_the_same_every_time(void **context)
{
    (void)context;
    or_key_pair_t server = make_pair(), mine = make_pair();
    or_connect_keys_t first, again, other;
    or_key_options_t options = {.server_key = server.public_key};
    assert_int_equal(or_keys_for_connecting(REMOTE, &options, &first), OR_OK);
    assert_int_equal(mode_of(in_folder("identity.key")), 0600);
    assert_int_equal(or_keys_for_connecting(REMOTE, &options, &again), OR_OK);
    assert_memory_equal(&again.own, &first.own, sizeof first.own);
    char path[128];
    assert_int_equal(or_keys_path("mine.key", path, sizeof path), OR_OK);
    options.key_file = path;
    assert_says(or_keys_for_connecting(REMOTE, &options, &other), OR_ERR_NOT_FOUND, "mine.key");
    assert_int_equal(or_key_file_write(path, &mine, "mine"), OR_OK);
    assert_int_equal(or_keys_for_connecting(REMOTE, &options, &other), OR_OK);
    assert_string_equal(other.own.secret_key, mine.secret_key);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(pairs_are_keys_and_differ),
        WITH_FOLDER(what_is_no_key_is_not_taken_for_one),
        WITH_FOLDER(a_file_gives_back_its_pair_and_nobody_else_reads_it),
        WITH_FOLDER(what_root_makes_is_the_folders_owners),
        WITH_FOLDER(a_key_that_is_there_is_never_replaced),
        WITH_FOLDER(files_that_are_no_pair_are_refused),
        WITH_FOLDER(the_folder_is_where_it_is_said_to_be),
        WITH_FOLDER(only_what_stays_here_is_loopback),
        WITH_FOLDER(loopback_needs_no_key_and_leaves_no_file),
        WITH_FOLDER(afar_the_servers_key_must_be_known),
        WITH_FOLDER(a_server_key_may_be_in_a_file),
        WITH_FOLDER(we_are_the_same_every_time),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

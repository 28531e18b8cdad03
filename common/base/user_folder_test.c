// Goal: the user's folders are where the XDG base directory specification has them, and are made with those above them.
// Method: variables and a home of the test's own.
#include "common/base/user_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define PATH_BYTES 256

static void assert_is(or_user_folder_t which, const char *expected)
{
    char path[PATH_BYTES] = "poison";
    assert_int_equal(or_user_folder_find(which, path, sizeof path), OR_OK);
    assert_string_equal(path, expected);
}

static void variables_name_them(void **state)
{
    (void)state;
    setenv("HOME", "/home/ada", 1);
    setenv("XDG_CACHE_HOME", "/fast", 1);
    setenv("XDG_STATE_HOME", "state", 1); // relative: none
    assert_is(OR_USER_CACHE, "/fast/outrider");
    assert_is(OR_USER_STATE, "/home/ada/.local/state/outrider");
    setenv("XDG_STATE_HOME", "/kept", 1);
    unsetenv("XDG_CACHE_HOME");
    assert_is(OR_USER_STATE, "/kept/outrider");
    assert_is(OR_USER_CACHE, "/home/ada/.cache/outrider");
}

static void there_may_be_none(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "here", 1);
    assert_int_equal(or_user_folder_find(OR_USER_CACHE, path, sizeof path), OR_ERR_NOT_FOUND);
    assert_non_null(strstr(or_error_text(), "XDG_CACHE_HOME"));
    unsetenv("HOME");
    assert_int_equal(or_user_folder_make(OR_USER_CACHE, path, sizeof path), OR_ERR_NOT_FOUND);
}

static void a_path_has_room_or_is_refused(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    setenv("XDG_CACHE_HOME", "/fast", 1);
    assert_int_equal(or_user_folder_find(OR_USER_CACHE, path, sizeof "/fast/outrider"), OR_OK);
    assert_int_equal(or_user_folder_find(OR_USER_CACHE, path, sizeof "/fast/outrider" - 1),
                     OR_ERR_INVALID);
}

static void it_is_made(void **state)
{
    (void)state;
    char home[] = "/tmp/user_folder.XXXXXX", expected[PATH_BYTES], path[PATH_BYTES];
    struct stat info;
    assert_non_null(mkdtemp(home));
    setenv("HOME", home, 1);
    unsetenv("XDG_STATE_HOME");
    snprintf(expected, sizeof expected, "%s/.local/state/outrider", home);
    for (int i = 0; i < 2; i++) { // the second time it is there
        assert_int_equal(or_user_folder_make(OR_USER_STATE, path, sizeof path), OR_OK);
        assert_string_equal(path, expected);
    }
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO), S_IRWXU);
    setenv("XDG_STATE_HOME", "/dev/null", 1);
    assert_int_equal(or_user_folder_make(OR_USER_STATE, path, sizeof path), OR_ERR_IO);
    assert_non_null(strstr(or_error_text(), "/dev/null"));
    for (char *end = expected + strlen(expected); end - expected >= (long)strlen(home);
         end = strrchr(expected, '/')) {
        *end = '\0';
        assert_int_equal(rmdir(expected), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_name_them),
        cmocka_unit_test(there_may_be_none),
        cmocka_unit_test(a_path_has_room_or_is_refused),
        cmocka_unit_test(it_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

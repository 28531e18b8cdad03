// Goal: the keys of a file, and nothing else, open; a file that is wrong is refused with its line, and no key is told.
// Method: files of all kinds, and headers as clients send them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/http/api_keys.h"
#include "tests/support/test_support.h"

static or_status_t read_text(const char *text, unsigned mode, or_api_keys_t **keys_p)
{
    char path[] = "/tmp/outrider_api_keys_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    fchmod(fd, mode);
    close(fd);
    or_status_t status = or_api_keys_read(path, keys_p);
    unlink(path);
    return status;
}

static void keys_open(void **state)
{
    (void)state;
    or_api_keys_t *keys = NULL;
    assert_int_equal(
        read_text("# who may\n\n  sk-alices-key\talice \r\nsk-of-nobody\nsk-bobs-key bob", 0600,
                  &keys),
        OR_OK);
    assert_string_equal(or_api_keys_owner(keys, "Bearer sk-alices-key"), "alice");
    assert_string_equal(or_api_keys_owner(keys, "bearer   sk-bobs-key"), "bob");
    assert_string_equal(or_api_keys_owner(keys, "Bearer sk-of-nobody"), "");
    assert_string_equal(or_api_keys_owner(keys, "Basic YW55Ym9keTpzay1hbGljZXMta2V5"), "alice");
    assert_string_equal(or_api_keys_owner(keys, "BASIC OnNrLWFsaWNlcy1rZXk="), "alice"); // no user
    or_api_keys_destroy(&keys);
    assert_null(keys);
    or_api_keys_destroy(&keys);
}

static void nothing_else_opens(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "Bearer",
        "Bearer ",
        "sk-alices-key",
        "Bearer sk-alices-ke",
        "Bearer sk-alices-keyy",
        "Bearer SK-ALICES-KEY",
        "Bearer alice",
        "Bearersk-alices-key",
        "Digest sk-alices-key",
        "Basic",
        "Basic sk-alices-key",
        "Basic !!!!",
        "Basic c2stYWxpY2VzLWtleQ==",             // no colon
        "Basic c2stYWxpY2VzLWtleTphbnlib2R5",     // the wrong way round
        "Basic YW55Ym9keTpzay1hbGljZXMta2V5LQ==", // one byte more
    };
    or_api_keys_t *keys = NULL;
    assert_int_equal(or_api_keys_one("sk-alices-key", &keys), OR_OK);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(or_api_keys_owner(keys, wrong[i]));
    }
    char *endless = malloc(100001); // longer than any key
    memset(endless, 'A', 100000);
    memcpy(endless, "Basic ", 6);
    endless[100000] = '\0';
    assert_null(or_api_keys_owner(keys, endless));
    free(endless);
    or_api_keys_destroy(&keys);
}

static void assert_refused(const char *text, unsigned mode, const char *because)
{
    or_api_keys_t *keys = NULL;
    assert_int_equal(read_text(text, mode, &keys), OR_ERR_INVALID);
    assert_null(keys);
    if (strstr(or_error_text(), because) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), because);
    }
    assert_null(strstr(or_error_text(), "sk-"));
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    char endless[3000] = "sk-alices-key alice\n#";
    memset(endless + strlen(endless), 'x', sizeof endless - 1 - strlen(endless));
    assert_refused("sk-alices-key alice\n", 0640, "chmod 600 /tmp/");
    assert_refused("sk-alices-key alice\n", 0604, "chmod 600 /tmp/");
    assert_refused("", 0600, "has no key");
    assert_refused("# nothing\n", 0600, "has no key");
    assert_refused("sk-alices-key alice\nsk-bob\n", 0600, "line 2: a key has 8 to");
    assert_refused("sk-alices-key alice smith\n", 0600, "line 1: a line is KEY or KEY OWNER");
    assert_refused("sk-alices-key\n#\nsk-alices-key bob\n", 0600,
                   "line 3: this key has been there");
    assert_refused("sk-alices-key "
                   "a123456789012345678901234567890123456789012345678901234567890123\n",
                   0600, "line 1: an owner has at most 63");
    assert_refused(endless, 0600, "line 2: the line is too long");
    or_api_keys_t *keys = NULL;
    assert_int_equal(or_api_keys_read("/nowhere/at/all", &keys), OR_ERR_NOT_FOUND);
    assert_int_equal(or_api_keys_one("short", &keys), OR_ERR_INVALID);
    assert_null(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_open),
        cmocka_unit_test(nothing_else_opens),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

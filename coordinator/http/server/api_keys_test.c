// Goal: the keys of a file, and nothing else, open; a file that is wrong is refused with its line, and no key is told.
// Method: files of all kinds, and headers as clients send them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/http/server/api_keys.h"
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

// Return the owner of the key; NULL if there is none.
static const char *owner_of(const or_api_keys_t *keys, const char *authorization)
{
    const or_key_grant_t *grant = or_api_keys_find(keys, authorization);
    return grant != NULL ? grant->owner : NULL;
}

static void keys_open(void **state)
{
    (void)state;
    or_api_keys_t *keys = NULL;
    assert_int_equal(
        read_text("# who may\n\n  sk-alices-key\talice \r\nsk-of-nobody\nsk-bobs-key bob", 0600,
                  &keys),
        OR_OK);
    assert_string_equal(owner_of(keys, "Bearer sk-alices-key"), "alice");
    assert_string_equal(owner_of(keys, "bearer   sk-bobs-key"), "bob");
    assert_string_equal(owner_of(keys, "Bearer sk-of-nobody"), "");
    assert_string_equal(owner_of(keys, "Basic YW55Ym9keTpzay1hbGljZXMta2V5"), "alice");
    assert_string_equal(owner_of(keys, "BASIC OnNrLWFsaWNlcy1rZXk="), "alice"); // no user
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
        assert_null(owner_of(keys, wrong[i]));
    }
    char *endless = malloc(100001); // longer than any key
    memset(endless, 'A', 100000);
    memcpy(endless, "Basic ", 6);
    endless[100000] = '\0';
    assert_null(owner_of(keys, endless));
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
    char endless[3000] = "sk-alices-key alice\nsk-";
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
    assert_refused(endless, 0600, "line 2: a key has 8 to");
    assert_refused("sk-alices-key alice sk-bobs-key\n", 0600, "line 1: a line is KEY");
    assert_refused("sk-alices-key sessions=x\n", 0600, "line 1: sessions=x: a whole number");
    assert_refused("sk-alices-key roles=client\n", 0600, "line 1: an API key has owner");
    assert_refused("sk-alices-key trusted=yes\n", 0600, "line 1: an API key has owner");
    assert_refused("sk-alices-key colour=red\n", 0600, "line 1: an API key has owner");
    or_api_keys_t *keys = NULL;
    assert_int_equal(or_api_keys_read("/nowhere/at/all", &keys), OR_ERR_NOT_FOUND);
    assert_int_equal(or_api_keys_one("short", &keys), OR_ERR_INVALID);
    assert_null(keys);
}

static void limits_stand_behind_the_owner(void **state)
{
    (void)state;
    or_api_keys_t *keys = NULL;
    assert_int_equal(read_text("sk-alices-key alice sessions=4 tokens-per-minute=6000\n"
                               "sk-bobs-key nodes=8 owner=bob\n",
                               0600, &keys),
                     OR_OK);
    const or_key_grant_t *alice = or_api_keys_find(keys, "Bearer sk-alices-key");
    const or_key_grant_t *bob = or_api_keys_find(keys, "Bearer sk-bobs-key");
    assert_string_equal(alice->owner, "alice");
    assert_int_equal(alice->sessions_max, 4);
    assert_int_equal(alice->tokens_per_minute, 6000);
    assert_string_equal(bob->owner, "bob");
    assert_int_equal(bob->nodes_max, 8);
    assert_string_not_equal(alice->key, bob->key); // their names, of which nobody makes a key
    assert_null(strstr(alice->key, "alice"));
    or_api_keys_destroy(&keys);
}

static void rewrite(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_file_is_read_again(void **state)
{
    (void)state;
    char path[] = "/tmp/outrider_api_keys_XXXXXX";
    bool changed = true;
    or_api_keys_t *keys = NULL;
    close(mkstemp(path));
    rewrite(path, "sk-alices-key alice sessions=1\nsk-bobs-key bob\n");
    assert_int_equal(or_api_keys_read(path, &keys), OR_OK);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_false(changed);
    const or_key_grant_t alice = *or_api_keys_find(keys, "Bearer sk-alices-key");
    const or_key_grant_t bob = *or_api_keys_find(keys, "Bearer sk-bobs-key");
    // Another limit, and another owner: who was bob is bob's no more.
    rewrite(path, "sk-alices-key alice sessions=22\nsk-bobs-key benno\n");
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_AGAIN);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_true(changed);
    assert_int_equal(or_api_keys_still(keys, &alice)->sessions_max, 22);
    assert_null(or_api_keys_still(keys, &bob));
    // A file that makes no sense changes nothing, and is reported once.
    rewrite(path, "sk-alices-key alice sessions=many\n");
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_INVALID);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_non_null(or_api_keys_find(keys, "Bearer sk-bobs-key"));
    chmod(path, 0644);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_INVALID);
    chmod(path, 0600);
    // One that is gone is missed for a look, and then as good as senseless.
    unlink(path);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_INVALID);
    assert_non_null(or_api_keys_still(keys, &alice));
    // Empty, it revokes all.
    rewrite(path, "# nobody\n");
    chmod(path, 0600);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_AGAIN);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_true(changed);
    assert_null(or_api_keys_still(keys, &alice));
    assert_null(or_api_keys_find(keys, "Bearer sk-alices-key"));
    unlink(path);
    or_api_keys_destroy(&keys);
}

// Emptied, written to the middle of a key, to the middle of an owner, and whole, with a look at each.
static void a_file_that_is_written_in_place_revokes_nothing(void **state)
{
    (void)state;
    static const char whole[] = "sk-alices-key alice\nsk-bobs-key bob\nsk-carols-key carol\n";
    static const size_t parts[] = {0, 12, 17, 30, 35, sizeof whole - 3};
    char path[] = "/tmp/outrider_api_keys_XXXXXX", part[sizeof whole];
    bool changed = true;
    or_api_keys_t *keys = NULL;
    close(mkstemp(path));
    rewrite(path, whole);
    assert_int_equal(or_api_keys_read(path, &keys), OR_OK);
    const or_key_grant_t alice = *or_api_keys_find(keys, "Bearer sk-alices-key");
    const or_key_grant_t carol = *or_api_keys_find(keys, "Bearer sk-carols-key");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(part, sizeof part, "%.*s", (int)parts[i], whole);
        rewrite(path, part);
        (void)or_api_keys_refresh(keys, &changed);
        assert_false(changed);
        assert_non_null(or_api_keys_still(keys, &alice));
        assert_non_null(or_api_keys_still(keys, &carol));
    }
    rewrite(path, "sk-alices-key alice\nsk-bobs-key bob\nsk-carols-key carol\nsk-dons-key\n");
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK); // who is new waits for nothing
    assert_non_null(or_api_keys_find(keys, "Bearer sk-dons-key"));
    rewrite(path, "sk-bobs-key bob\n"); // and is so to stay
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_ERR_AGAIN);
    assert_int_equal(or_api_keys_refresh(keys, &changed), OR_OK);
    assert_true(changed);
    assert_null(or_api_keys_still(keys, &alice));
    unlink(path);
    or_api_keys_destroy(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_open),
        cmocka_unit_test(nothing_else_opens),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(limits_stand_behind_the_owner),
        cmocka_unit_test(a_file_is_read_again),
        cmocka_unit_test(a_file_that_is_written_in_place_revokes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

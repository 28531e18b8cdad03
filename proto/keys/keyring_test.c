// Goal: exactly the keys in the file may come in, with what their lines say; a file that makes no
// sense is refused with its line number and changes nothing; a change reaches the file whole, and
// loses nobody else's; a revocation is never missed, whatever hindered the first look at it; what root
// changes the service that it belongs to can still read. Method: files written by hand and by the
// functions, looked at with a second ring; processes that authorise keys at the same time; the ring
// before and after every kind of damage, and without descriptors; other users where we are root.
#include "proto/keys/keyring.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define KEY_A "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7" // of ZeroMQ's RFC 32
#define KEY_B "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define SERVICE 12345 // a user's number, and another's
#define STRANGER 12346

typedef struct {
    char folder[64], path[96];
    or_keyring_t *ring;
} world_t;

static int setup(void **state)
{
    world_t *w = calloc(1, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/keyring-test-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->path, sizeof w->path, "%s/authorized", w->folder);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    static const char *const endings[] = {"", ".lock", ".new"};
    world_t *w = *state;
    char path[128];
    or_keyring_close(&w->ring);
    assert_null(w->ring);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(path, sizeof path, "%s%s", w->path, endings[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(w->folder), 0);
    free(w);
    return 0;
}

static void write_file(const world_t *w, const char *text)
{
    unlink(w->path); // another inode: a clock of coarse ticks hides no change
    FILE *out = fopen(w->path, "w");
    assert_non_null(out);
    assert_int_equal(fputs(text, out) < 0, 0);
    assert_int_equal(fclose(out), 0);
}

static void read_file(const world_t *w, char *text, size_t capacity)
{
    FILE *in = fopen(w->path, "r");
    assert_non_null(in);
    text[fread(text, 1, capacity - 1, in)] = '\0';
    fclose(in);
}

static or_key_grant_t grant_for(const char *key, const char *name, const char *owner)
{
    or_key_grant_t grant = {.roles = OR_KEY_CLIENT};
    snprintf(grant.key, sizeof grant.key, "%s", key);
    snprintf(grant.name, sizeof grant.name, "%s", name);
    snprintf(grant.owner, sizeof grant.owner, "%s", owner);
    return grant;
}

// A number as a key that decodes.
static void numbered_key(uint32_t number, char key[OR_KEY_BYTES])
{
    snprintf(key, OR_KEY_BYTES, "%040u", number);
}

static void a_line_says_what_a_key_may_do(void **state)
{
    world_t *w = *state;
    write_file(w,
               "# who may come in\n"
               "\n"
               "  " KEY_A "\tname=laptop owner=ada roles=drafter,verifier trusted=yes sessions=4 "
               "tokens-per-minute=6000 nodes=64\r\n"
               "#comment\n" KEY_B);
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), 2);
    const or_key_grant_t *a = or_keyring_find(w->ring, KEY_A);
    assert_non_null(a);
    assert_ptr_equal(a, or_keyring_at(w->ring, 0));
    assert_string_equal(a->name, "laptop");
    assert_string_equal(a->owner, "ada");
    assert_int_equal(a->roles, OR_KEY_DRAFTER | OR_KEY_VERIFIER);
    assert_true(a->trusted);
    assert_int_equal(a->sessions_max, 4);
    assert_int_equal(a->tokens_per_minute, 6000);
    assert_int_equal(a->nodes_max, 64);
    const or_key_grant_t *b = or_keyring_find(w->ring, KEY_B); // a bare key: the least
    assert_non_null(b);
    assert_int_equal(b->roles, OR_KEY_CLIENT | OR_KEY_DRAFTER);
    assert_false(b->trusted);
    assert_true(b->owner[0] != '\0'); // never everybody's
    assert_string_equal(b->owner, b->name);
    assert_int_equal(b->sessions_max + b->tokens_per_minute + b->nodes_max, 0);
    char other[OR_KEY_BYTES];
    numbered_key(1, other);
    assert_null(or_keyring_find(w->ring, other));
    assert_null(or_keyring_find(w->ring, ""));
}

static void nonsense_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *line, *says;
    } all[] = {
        {"abc", "characters"},
        {KEY_A "x", "characters"},
        {KEY_A " owner", "name=value"},
        {KEY_A " owner=", "1 to 63"},
        {KEY_A " owner=0123456789012345678901234567890123456789012345678901234567890123",
         "1 to 63"},
        {KEY_A " name=a\"b", "quotes"},
        {KEY_A " roles=client,boss", "boss"},
        {KEY_A " roles=", "no role"},
        {KEY_A " roles=client,", "no role"},
        {KEY_A " trusted=true", "yes or no"},
        {KEY_A " sessions=-1", "whole number"},
        {KEY_A " sessions=4294967296", "whole number"},
        {KEY_A " nodes=6 4", "name=value"},
        {KEY_A " tokens-per-minute=1e3", "whole number"},
        {KEY_B " name=again", "above"},
    };
    world_t *w = *state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[512];
        snprintf(text, sizeof text, KEY_B "\n# one\n%s\n", all[i].line);
        write_file(w, text);
        assert_int_equal(or_keyring_open(w->path, &w->ring), OR_ERR_INVALID);
        assert_null(w->ring);
        assert_non_null(strstr(or_error_text(), "line 3"));
        assert_non_null(strstr(or_error_text(), w->path));
        assert_non_null(strstr(or_error_text(), all[i].says));
    }
}

static void files_others_can_write_to_are_refused(void **state)
{
    world_t *w = *state;
    write_file(w, KEY_A "\n");
    assert_int_equal(chmod(w->path, 0620), 0);
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "chmod 600"));
    assert_int_equal(chmod(w->path, 0644), 0); // public keys: others may read them
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
}

static void unknown_names_are_kept(void **state)
{
    world_t *w = *state;
    char text[1024];
    write_file(w, "# mine\n" KEY_A " name=a colour=red\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    or_key_grant_t grant = grant_for(KEY_B, "b", "b");
    assert_int_equal(or_keyring_authorize(w->ring, &grant), OR_OK);
    read_file(w, text, sizeof text);
    assert_non_null(strstr(text, "# mine\n" KEY_A " name=a colour=red\n"));
}

static void what_is_authorised_is_read_back(void **state)
{
    world_t *w = *state;
    struct stat found;
    or_key_grant_t grant = grant_for(KEY_A, "laptop", "ada");
    grant.roles = OR_KEY_CLIENT | OR_KEY_DRAFTER | OR_KEY_VERIFIER;
    grant.trusted = true;
    grant.sessions_max = UINT32_MAX;
    grant.tokens_per_minute = 2;
    grant.nodes_max = 3;
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK); // no file: nobody
    assert_int_equal(or_keyring_count(w->ring), 0);
    assert_int_equal(or_keyring_authorize(w->ring, &grant), OR_OK);
    assert_int_equal(stat(w->path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    or_keyring_close(&w->ring);
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    const or_key_grant_t *read = or_keyring_find(w->ring, KEY_A);
    assert_non_null(read);
    assert_memory_equal(read, &grant, sizeof grant);
    grant.owner[0] = 'A'; // replaced, not added
    assert_int_equal(or_keyring_authorize(w->ring, &grant), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), 1);
    assert_string_equal(or_keyring_find(w->ring, KEY_A)->owner, "Ada");
}

// A name that ends the line would let its sender write the next one.
static void no_name_can_write_a_line(void **state)
{
    static const char *const names[] = {"", "a b", "a\nb", "a\tb", "a\"", "\\"};
    world_t *w = *state;
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        or_key_grant_t grant = grant_for(KEY_A, "a", names[i]);
        assert_int_equal(or_keyring_authorize(w->ring, &grant), OR_ERR_INVALID);
        grant = grant_for(KEY_A, names[i], "a");
        assert_int_equal(or_keyring_authorize(w->ring, &grant), OR_ERR_INVALID);
    }
    or_key_grant_t nothing = grant_for(KEY_A, "a", "a");
    nothing.roles = 0;
    assert_int_equal(or_keyring_authorize(w->ring, &nothing), OR_ERR_INVALID);
    assert_int_not_equal(access(w->path, F_OK), 0);
}

static void revoking_takes_one_key(void **state)
{
    world_t *w = *state;
    write_file(w, KEY_A " name=one\n" KEY_B " name=two\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_revoke(w->ring, "three"), OR_ERR_NOT_FOUND);
    assert_int_equal(or_keyring_revoke(w->ring, "one"), OR_OK);
    assert_null(or_keyring_find(w->ring, KEY_A));
    assert_non_null(or_keyring_find(w->ring, KEY_B));
    assert_int_equal(or_keyring_revoke(w->ring, KEY_B), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), 0);
}

static void a_name_of_two_keys_revokes_none(void **state)
{
    world_t *w = *state;
    write_file(w, KEY_A " name=twin\n" KEY_B " name=twin\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_revoke(w->ring, "twin"), OR_ERR_INVALID);
    assert_int_equal(or_keyring_count(w->ring), 2);
    assert_int_equal(or_keyring_revoke(w->ring, KEY_B), OR_OK);
    assert_int_equal(or_keyring_revoke(w->ring, "twin"), OR_OK);
}

static void a_ring_follows_its_file(void **state)
{
    world_t *w = *state;
    bool changed = true;
    write_file(w, KEY_A "\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_false(changed);
    write_file(w, KEY_B "\n"); // the same length
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_true(changed);
    assert_null(or_keyring_find(w->ring, KEY_A));
    assert_non_null(or_keyring_find(w->ring, KEY_B));
}

// A slip of the operator's locks nobody out, and is told once.
static void nonsense_leaves_the_ring_as_it_was(void **state)
{
    world_t *w = *state;
    bool changed = true;
    write_file(w, KEY_A "\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    write_file(w, "nonsense\n");
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_ERR_INVALID);
    assert_non_null(or_keyring_find(w->ring, KEY_A));
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_false(changed);
    assert_int_equal(or_keyring_revoke(w->ring, KEY_A), OR_ERR_INVALID); // and is not written over
    write_file(w, "\n");
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_true(changed);
    assert_int_equal(or_keyring_count(w->ring), 0);
}

// Editors move a file away for a moment; who deletes it means it.
static void a_file_that_is_gone_for_good_lets_nobody_in(void **state)
{
    world_t *w = *state;
    bool changed;
    write_file(w, KEY_A "\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    unlink(w->path);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_false(changed);
    write_file(w, KEY_A "\n" KEY_B "\n");
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), 2);
    unlink(w->path);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), 2);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_true(changed);
    assert_int_equal(or_keyring_count(w->ring), 0);
}

// ---- revocations that are hard to see ----

// A ring of KEY_A whose file now has KEY_B only.
static void revoke_unseen(world_t *w)
{
    write_file(w, KEY_A "\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    write_file(w, KEY_B "\n");
}

static void assert_seen(world_t *w)
{
    bool changed;
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK);
    assert_true(changed);
    assert_null(or_keyring_find(w->ring, KEY_A));
    assert_non_null(or_keyring_find(w->ring, KEY_B));
}

static rlim_t limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void a_failed_look_is_repeated(void **state)
{
    world_t *w = *state;
    bool changed;
    revoke_unseen(w);
    rlim_t before = limit_descriptors(3); // not even those that are kept
    or_status_t first = or_keyring_refresh(w->ring, &changed);
    or_status_t second = or_keyring_refresh(w->ring, &changed);
    limit_descriptors(before);
    assert_int_equal(first, OR_ERR_IO);
    assert_int_equal(second, OR_ERR_IO);
    assert_non_null(or_keyring_find(w->ring, KEY_A));
    assert_seen(w);
}

static void a_crowd_does_not_hinder_reading(void **state)
{
    enum { CROWD = 64 };
    world_t *w = *state;
    int taken[CROWD], count = 0;
    revoke_unseen(w);
    rlim_t before = limit_descriptors(CROWD);
    while (count < CROWD && (taken[count] = dup(STDIN_FILENO)) >= 0) {
        count++;
    }
    assert_true(count < CROWD);
    assert_seen(w);
    while (count > 0) {
        close(taken[--count]);
    }
    limit_descriptors(before);
}

static void a_wrong_mode_that_is_mended_is_noticed(void **state)
{
    world_t *w = *state;
    bool changed;
    revoke_unseen(w);
    assert_int_equal(chmod(w->path, 0620), 0);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_ERR_INVALID);
    assert_int_equal(or_keyring_refresh(w->ring, &changed), OR_OK); // told once
    assert_false(changed);
    assert_int_equal(chmod(w->path, 0600), 0);
    assert_seen(w);
}

// Written into the file as it is, of the same length, with its old date.
static void an_old_date_hides_nothing(void **state)
{
    world_t *w = *state;
    struct stat before;
    write_file(w, KEY_A "\n");
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(stat(w->path, &before), 0);
    usleep(20000); // more than a tick of the file system's clock
    int fd = open(w->path, O_WRONLY);
    assert_int_equal(write(fd, KEY_B, OR_KEY_CHARS), OR_KEY_CHARS);
    close(fd);
    const struct timespec dates[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, w->path, dates, 0), 0);
    assert_seen(w);
}

// ---- whose files they are ----

static void skip_unless_root(void)
{
    if (geteuid() != 0) {
        skip();
    }
}

static void assert_owned(const char *path, uid_t owner, mode_t mode)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_uid, owner);
    assert_int_equal(found.st_gid, owner);
    assert_int_equal(found.st_mode & 07777, mode);
}

static void what_root_changes_stays_the_services(void **state)
{
    world_t *w = *state;
    char lock[128];
    const or_key_grant_t a = grant_for(KEY_A, "a", "a"), b = grant_for(KEY_B, "b", "b");
    skip_unless_root();
    assert_int_equal(chown(w->folder, SERVICE, SERVICE), 0);
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_authorize(w->ring, &a), OR_OK);
    assert_owned(w->path, SERVICE, 0600); // new: as its folder
    snprintf(lock, sizeof lock, "%s.lock", w->path);
    assert_owned(lock, SERVICE, 0600);
    assert_int_equal(chmod(w->path, 0640), 0);
    assert_int_equal(or_keyring_authorize(w->ring, &b), OR_OK);
    assert_owned(w->path, SERVICE, 0640); // as it was
    assert_int_equal(or_keyring_revoke(w->ring, "a"), OR_OK);
    assert_owned(w->path, SERVICE, 0640);
}

static void another_users_list_is_not_believed(void **state)
{
    world_t *w = *state;
    skip_unless_root();
    write_file(w, KEY_A "\n");
    assert_int_equal(chmod(w->folder, 0755), 0);
    assert_int_equal(chown(w->path, SERVICE, SERVICE), 0);
    assert_int_equal(seteuid(STRANGER), 0);
    or_status_t of_another = or_keyring_open(w->path, &w->ring);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(of_another, OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "another user"));
    assert_int_equal(chown(w->path, 0, 0), 0);
    assert_int_equal(seteuid(STRANGER), 0);
    or_status_t of_root = or_keyring_open(w->path, &w->ring);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(of_root, OR_OK);
}

static void a_lock_is_no_trap(void **state)
{
    world_t *w = *state;
    char lock[128], elsewhere[128];
    const or_key_grant_t a = grant_for(KEY_A, "a", "a");
    snprintf(lock, sizeof lock, "%s.lock", w->path);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", w->folder);
    assert_int_equal(symlink(elsewhere, lock), 0);
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_authorize(w->ring, &a), OR_ERR_IO);
    assert_int_equal(access(elsewhere, F_OK), -1);
}

static void changes_at_the_same_time_lose_nothing(void **state)
{
    enum { WRITERS = 4, EACH = 12 };
    world_t *w = *state;
    for (uint32_t i = 0; i < WRITERS; i++) {
        if (fork() == 0) {
            bool good = or_keyring_open(w->path, &w->ring) == OR_OK;
            for (uint32_t k = 0; good && k < EACH; k++) {
                char key[OR_KEY_BYTES];
                numbered_key(1 + i * EACH + k, key);
                or_key_grant_t grant = grant_for(key, "n", "n");
                good = or_keyring_authorize(w->ring, &grant) == OR_OK;
            }
            _exit(good ? 0 : 1);
        }
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(or_keyring_open(w->path, &w->ring), OR_OK);
    assert_int_equal(or_keyring_count(w->ring), WRITERS * EACH);
}

static void roles_have_names(void **state)
{
    (void)state;
    char text[32];
    uint32_t roles = 0;
    for (uint32_t all = 1; all < 8; all++) {
        or_key_roles_name(all, text);
        assert_int_equal(or_key_roles_parse(text, &roles), OR_OK);
        assert_int_equal(roles, all);
    }
    assert_int_equal(or_key_roles_parse("Client", &roles), OR_ERR_INVALID);
    assert_int_equal(roles, 7); // set on success only
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_says_what_a_key_may_do, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused_with_its_line, setup, teardown),
        cmocka_unit_test_setup_teardown(files_others_can_write_to_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_names_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_authorised_is_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(no_name_can_write_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(revoking_takes_one_key, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_of_two_keys_revokes_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ring_follows_its_file, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_leaves_the_ring_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_gone_for_good_lets_nobody_in, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failed_look_is_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_does_not_hinder_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_mode_that_is_mended_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_date_hides_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_root_changes_stays_the_services, setup, teardown),
        cmocka_unit_test_setup_teardown(another_users_list_is_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_is_no_trap, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_at_the_same_time_lose_nothing, setup, teardown),
        cmocka_unit_test(roles_have_names),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

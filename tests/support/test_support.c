#include "tests/support/test_support.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log/log.h"

#ifdef __SANITIZE_THREAD__
// libzmq is not instrumented, so memory that it hands from thread to thread would count as a
// race.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\n";
}
#endif

static const char *path_of(const char *folder, const char *name)
{
    static char buffers[8][1024];
    static unsigned turn;
    char *path = buffers[turn++ % 8];
    snprintf(path, sizeof buffers[0], "%s/%s", folder, name);
    return path;
}

static size_t skipped;

void test_note_skip(void)
{
    skipped++;
}

int test_status(int failed, size_t tests)
{
    if (failed == 0 && tests > 0 && skipped >= tests) {
        print_message("every test was skipped\n");
        return 77;
    }
    return failed != 0; // their number could be 77
}

static bool data_missing;

// LeakSanitizer asks for this by name at the end: a test that is skipped in its middle has not freed what it had loaded.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return data_missing;
}

const char *test_data(const char *name)
{
    const char *folder = getenv("OUTRIDER_TEST_DATA");
    const char *path = path_of(folder != NULL && *folder != '\0' ? folder : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        const char *ci = getenv("CI");
        if (ci != NULL && strcmp(ci, "true") == 0) {
            fail_msg("test data %s is missing; set OUTRIDER_TEST_DATA", path);
        }
        print_message("skipped: test data %s is missing; set OUTRIDER_TEST_DATA\n", path);
        data_missing = true;
        skip();
    }
    return path;
}

const char *test_model(const char *name)
{
    return path_of("launch/models", name);
}

uint32_t test_runs(uint32_t few)
{
    const char *text = getenv("OR_TEST_RUNS");
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : few;
}

uint32_t test_share(uint32_t parts)
{
    return getenv("OR_TEST_WHOLE") != NULL ? 1 : parts;
}

uint64_t test_seed(void)
{
    const char *text = getenv("OR_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : UINT64_C(0x0123456789abcdef);
    print_message("seed %" PRIu64 " (replay with OR_TEST_SEED)\n", seed);
    return seed;
}

static char own_folder[] = "/tmp/or_test_XXXXXX";

const char *test_folder(void)
{
    return own_folder;
}

int test_folder_setup(void **state)
{
    (void)state;
    strcpy(own_folder + sizeof own_folder - sizeof "XXXXXX", "XXXXXX");
    return mkdtemp(own_folder) != NULL ? 0 : -1;
}

int test_folder_teardown(void **state)
{
    (void)state;
    test_remove_folder(own_folder);
    return 0;
}

void test_write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", own_folder, name);
    for (char *at = strchr(path + strlen(own_folder) + 1, '/'); at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0777); // it may be there
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *at)
{
    (void)found;
    (void)type;
    (void)at;
    return remove(path);
}

void test_remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static uint64_t folder_bytes; // nftw has no context

static int add_one(const char *path, const struct stat *found, int type, struct FTW *at)
{
    (void)path;
    (void)at;
    folder_bytes += type == FTW_F ? (uint64_t)found->st_size : 0;
    return 0;
}

uint64_t test_folder_bytes(const char *path)
{
    folder_bytes = 0;
    nftw(path, add_one, 16, FTW_PHYS);
    return folder_bytes;
}

void test_log_init(void)
{
    or_log_level_t level = OR_LOG_ERROR;
    const char *text = getenv("OR_TEST_LOG");
    if (text != NULL && or_log_parse_level(text, &level) != OR_OK) {
        print_message("%s\n", or_error_text());
    }
    or_log_init("test", level);
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

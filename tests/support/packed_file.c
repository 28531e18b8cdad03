#include "tests/support/packed_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/model/pack.h"
#include "tests/support/test_support.h"

char packed_folder[64];
char packed_path[128];

int packed_folder_make(void **state)
{
    (void)state;
    snprintf(packed_folder, sizeof packed_folder, "/tmp/outrider-packed-XXXXXX");
    if (mkdtemp(packed_folder) == NULL) {
        return -1;
    }
    snprintf(packed_path, sizeof packed_path, "%s/model.packed", packed_folder);
    test_log_init();
    return 0;
}

int packed_folder_remove(void **state)
{
    (void)state;
    test_remove_folder(packed_folder);
    return 0;
}

static bool always(void *context, uint64_t done, uint64_t all, const char *name)
{
    (void)context;
    assert_true(done <= all && name[0] != '\0');
    return true;
}

void packed_file_make(const char *path)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    if (or_model_pack(gguf, 2, packed_path, always, NULL) != OR_OK) {
        fail_msg("%s: %s", path, or_error_text());
    }
    or_gguf_close(&gguf);
}

void packed_file_flip(uint64_t at)
{
    struct stat info;
    unsigned char byte;
    int fd = open(packed_path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

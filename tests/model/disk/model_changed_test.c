// Goal: a model gives no logits once its own file was written to, from which it reads embeddings in every pass, wherever
// the other weights come from. A file that was removed, or that another took the place of, does no harm.
// Method: a copy of a model in the test's folder is loaded, alone and on several ranks (threads of thread_world), with its
// weights in memory of its own and with a packed file, and written to between two passes.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/gguf/gguf_internal.h"
#include "common/gguf/gguf_test_file.h"
#include "tests/model/model_fixture.h"
#include "tests/support/packed_file.h"
#include "tests/support/thread_world.h"

static char copy_path[128];

// Its time is long ago, as that of most models.
static void make_copy(void)
{
    const struct timespec times[2] = {{1, 1}, {1, 1}};
    snprintf(copy_path, sizeof copy_path, "%s/model.gguf", packed_folder);
    test_gguf_copy(test_model("tales-1m-f16.gguf"), copy_path);
    assert_int_equal(utimensat(AT_FDCWD, copy_path, times, 0), 0);
}

// The embedding of token 1 gets other signs.
static void write_to_embedding(void)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(or_gguf_open(copy_path, &gguf), OR_OK);
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, "token_embd.weight");
    const size_t bytes = tensor->bytes / tensor->dims[1];
    unsigned char *row = test_alloc(bytes, 1);
    const off_t at = (const unsigned char *)tensor->data - gguf->map + (off_t)bytes;
    int fd = open(copy_path, O_RDWR);
    assert_int_equal(pread(fd, row, bytes, at), bytes);
    for (size_t i = 1; i < bytes; i += 2) {
        row[i] ^= 0x80;
    }
    assert_int_equal(pwrite(fd, row, bytes, at), bytes);
    close(fd);
    free(row);
    or_gguf_close(&gguf);
}

// The model alone, or the leader of two ranks.
static void check_change(const char *packed, thread_world_t *world)
{
    model_fixture_t fixture;
    or_model_options_t options = {.threads = 1, .packed = packed};
    make_copy();
    if (packed != NULL) {
        packed_file_make(copy_path);
    }
    if (world != NULL) {
        thread_world_follow(world, copy_path, &options);
        options.ranks = thread_world_ranks(world, 0);
    }
    model_fixture_open(&fixture, copy_path, NULL, options);
    assert_int_equal(or_model_memory(fixture.model).mapped > 0, packed != NULL);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    float *logits = test_alloc(fixture.vocab_size, sizeof *logits);
    model_fixture_pass(&fixture, &row, 1, logits);
    write_to_embedding();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(or_model_logits(fixture.model, 0, 1, logits), OR_ERR_IO);
        assert_int_equal(or_model_forward(fixture.model, &row, 1), OR_ERR_IO);
        assert_true(or_model_is_lost(fixture.model));
        if (strstr(or_error_text(), copy_path) == NULL ||
            strstr(or_error_text(), "was changed while it was in use") == NULL) {
            fail_msg("'%s' does not name the file", or_error_text());
        }
    }
    or_kv_sequence_close(&sequence);
    free(logits);
    model_fixture_close(&fixture);
    unlink(packed_path);
}

static void a_file_that_is_written_to_gives_no_logits(void **state)
{
    (void)state;
    check_change(NULL, NULL);
    check_change(packed_path, NULL);
    thread_world_t *world = thread_world_create(2, 1);
    check_change(packed_path, world);
    (void)thread_world_join(
        world); // the follower may have ended by an error, or by the leader's end
    thread_world_destroy(&world);
}

// A new file is written beside the old one and takes its name; then it is removed, too.
static void another_file_of_its_name_does_no_harm(void **state)
{
    (void)state;
    model_fixture_t fixture;
    make_copy();
    model_fixture_open(&fixture, copy_path, NULL, (or_model_options_t){.threads = 1});
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t row = prefix_row(sequence, 1);
    float *logits[2] = {test_alloc(fixture.vocab_size, sizeof(float)),
                        test_alloc(fixture.vocab_size, sizeof(float))};
    model_fixture_pass(&fixture, &row, 1, logits[0]);
    or_kv_sequence_close(&sequence);
    make_copy();
    write_to_embedding();
    unlink(copy_path);
    sequence = model_fixture_sequence(&fixture, 0);
    const or_model_row_t again = prefix_row(sequence, 1);
    model_fixture_pass(&fixture, &again, 1, logits[1]);
    assert_same_bits(logits[0], logits[1], fixture.vocab_size);
    assert_false(or_model_is_lost(fixture.model));
    or_kv_sequence_close(&sequence);
    free(logits[0]);
    free(logits[1]);
    model_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_written_to_gives_no_logits),
        cmocka_unit_test(another_file_of_its_name_does_no_harm),
    };
    return cmocka_run_group_tests(tests, packed_folder_make, packed_folder_remove);
}

// tokenizer-bench MODEL.gguf TEXT [seconds] - the speed of or_tokenize and or_detokenize on a file
// of text.
//
// Prints the time to load the vocabulary, megabytes of text a second each way, bytes a token, and
// whether the text came back. One thread, processor time; the text is one call.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/tokenizer.h"

typedef struct {
    or_vocab_t *vocab;
    char *text;
    size_t length;
    int32_t *ids;
    size_t count;
    char *back;
    size_t back_length;
} bench_t;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // the machine may be busy
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static or_status_t load_vocab(bench_t *bench, const char *path)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open(path, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, &bench->vocab);
    }
    or_gguf_close(&gguf);
    return status;
}

static or_status_t read_text(bench_t *bench, const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        return or_fail(OR_ERR_IO, "%s: cannot be opened", path);
    }
    fseek(stream, 0, SEEK_END);
    long length = ftell(stream);
    rewind(stream);
    bench->text = length > 0 ? malloc((size_t)length) : NULL;
    bool good =
        bench->text != NULL && fread(bench->text, 1, (size_t)length, stream) == (size_t)length;
    fclose(stream);
    bench->length = (size_t)length;
    return good ? OR_OK : or_fail(OR_ERR_IO, "%s: is empty or cannot be read", path);
}

static or_status_t tokenize(bench_t *bench)
{
    free(bench->ids);
    bench->ids = NULL;
    return or_tokenize(bench->vocab, bench->text, bench->length, 0, &bench->ids, &bench->count);
}

static or_status_t detokenize(bench_t *bench)
{
    free(bench->back);
    bench->back = NULL;
    return or_detokenize(bench->vocab, bench->ids, bench->count, &bench->back, &bench->back_length);
}

// Return the megabytes a second of the fastest call, over at least `seconds`; 0 after a failure.
static double speed_of(or_status_t (*call)(bench_t *), bench_t *bench, double seconds)
{
    double best = 0;
    for (double end = now() + seconds; now() < end || best == 0;) {
        double start = now();
        if (call(bench) != OR_OK) {
            return 0;
        }
        double speed = 1e-6 * (double)bench->length / (now() - start);
        best = speed > best ? speed : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: tokenizer-bench MODEL.gguf TEXT [seconds]\n");
        return EXIT_FAILURE;
    }
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 1;
    bench_t bench = {0};
    int status = EXIT_FAILURE;
    double start = now();
    if (load_vocab(&bench, argv[1]) != OR_OK || read_text(&bench, argv[2]) != OR_OK) {
        goto done;
    }
    double loaded = now() - start;
    double there = speed_of(tokenize, &bench, seconds);
    double back = there > 0 ? speed_of(detokenize, &bench, seconds) : 0;
    if (back == 0) {
        goto done;
    }
    bool same =
        bench.back_length == bench.length && memcmp(bench.back, bench.text, bench.length) == 0;
    printf(
        "%s %s: load %.0f ms, tokenise %.1f MB/s, detokenise %.1f MB/s, %.2f bytes a token, %s\n",
        argv[1], argv[2], 1e3 * loaded, there, back, (double)bench.length / (double)bench.count,
        same ? "came back" : "DID NOT COME BACK");
    status = EXIT_SUCCESS;
done:
    if (status != EXIT_SUCCESS) {
        fprintf(stderr, "tokenizer-bench: %s\n", or_error_text());
    }
    free(bench.back);
    free(bench.ids);
    free(bench.text);
    or_vocab_destroy(&bench.vocab);
    return status;
}

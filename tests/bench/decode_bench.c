// decode-bench [runs] - what decoding costs beside the models, on one core and 128,000 tokens.
//
// Prints the median time of a draw, of the filters, of a drafter's lists and distributions, and of a step of
// the recursive rule: one child offered, rejected, and the token drawn from what is left. Two distributions:
// `peaked` falls by rank as words do (Zipf's distribution, exponent 1.5), `flat` is within a factor e.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/decode/chooser.h"
#include "common/decode/sampling/distribution.h"
#include "verifier/accept/residual.h"

#define VOCAB 128000u
#define RUNS_MAX 10001
#define WINDOW 4.8 // of a drafter's list: 8 taus of 0.6

typedef struct {
    const char *dist_name;
    float *logits;        // [VOCAB]
    uint64_t *token_keys; // [VOCAB]
    double *perturbed;    // [VOCAB]
    or_sampler_t *sampler;
    or_residual_t *residual;
    or_sampling_t sampling;
    or_distribution_t dist;   // of `sampling`
    or_distribution_left_t s; // a drafter's, a little off
    or_rng_key_t key;         // of noise and choices
    uint32_t run;             // no two runs draw alike
    int32_t token;
} bench_t;

static uint32_t dist_tokens[OR_DISTRIBUTION_ENTRIES];
static uint32_t dist_weights[OR_DISTRIBUTION_ENTRIES];

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Median microseconds of a call.
static double time_of(void (*call)(bench_t *), bench_t *bench, int runs)
{
    static double times[RUNS_MAX];
    call(bench);
    for (int i = 0; i < runs; i++) {
        double start = now_us();
        bench->run++;
        call(bench);
        times[i] = now_us() - start;
    }
    qsort(times, (size_t)runs, sizeof *times, ascending);
    return times[runs / 2];
}

static void make_dist(bench_t *bench)
{
    bench->dist = or_sampler_distribution(bench->sampler, &bench->sampling, bench->logits, NULL, 0);
}

static void draw(bench_t *bench)
{
    bench->token = or_noise_argmax(bench->key, (or_noise_place_t){bench->run, 0}, bench->dist.ids,
                                   bench->dist.scores, bench->dist.count, bench->token_keys);
}

static void make_distribution_and_draw(bench_t *bench)
{
    make_dist(bench);
    draw(bench);
}

static void perturb(bench_t *bench)
{
    or_noise_perturb(bench->key, (or_noise_place_t){bench->run, 0}, bench->dist.ids,
                     bench->dist.scores, bench->dist.count, bench->token_keys, WINDOW,
                     bench->perturbed);
}

static void reduce(bench_t *bench)
{
    or_distribution_reduce(&bench->dist, OR_DISTRIBUTION_ENTRIES, dist_tokens, dist_weights);
}

static void weigh(bench_t *bench)
{
    or_sampler_weigh(bench->sampler, &bench->dist);
}

static void recursive_step(bench_t *bench)
{
    or_keyed_chooser_t chooser =
        or_keyed_chooser(bench->key, bench->run, bench->key, bench->token_keys);
    double numerator, denominator;
    make_dist(bench);
    or_sampler_weigh(bench->sampler, &bench->dist);
    or_residual_open(bench->residual, &bench->dist);
    or_residual_ratio(bench->residual, &bench->s, 0, &numerator, &denominator);
    or_residual_subtract(bench->residual, &bench->s);
    bench->token =
        or_residual_draw(bench->residual, &chooser.chooser, (or_choice_t){OR_RNG_RESIDUAL, 0, 0});
}

static void line(bench_t *bench, const char *name, void (*call)(bench_t *), int runs)
{
    double us = time_of(call, bench, runs);
    printf("%-7s %-34s %7u tokens %9.1f us\n", bench->dist_name, name, bench->dist.count, us);
    fflush(stdout);
}

static void bench_filter(bench_t *bench, int runs, const char *name, uint32_t top_k, float top_p)
{
    char text[64];
    bench->sampling.top_k = top_k;
    bench->sampling.top_p = top_p;
    snprintf(text, sizeof text, "distribution, %s", name);
    line(bench, text, make_dist, runs);
    snprintf(text, sizeof text, "coupled draw after %s", name);
    line(bench, text, draw, runs);
}

static void bench_dist(bench_t *bench, int runs)
{
    bench->sampling = or_sampling_default();
    line(bench, "distribution, no filters, temperature 0.8", make_dist, runs);
    bench->sampling.temperature = 1;
    line(bench, "distribution, no filters", make_dist, runs);
    line(bench, "coupled draw", draw, runs);
    line(bench, "distribution and coupled draw", make_distribution_and_draw, runs);
    line(bench, "perturbed list", perturb, runs);
    line(bench, "reduced distribution", reduce, runs);
    line(bench, "weights", weigh, runs);
    uint32_t count =
        or_distribution_reduce(&bench->dist, OR_DISTRIBUTION_ENTRIES, dist_tokens, dist_weights);
    or_distribution_left_init(&bench->s,
                              &(or_reduced_distribution_t){dist_tokens, dist_weights, count});
    line(bench, "recursive step", recursive_step, runs);
    bench_filter(bench, runs, "top-k 64", 64, 1);
    bench_filter(bench, runs, "top-p 0.95", 0, 0.95f);
}

// Logits by rank, in an order that has nothing to do with ids.
static void fill_logits(bench_t *bench, double (*logit)(or_rng_key_t key, uint32_t rank))
{
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t other = (uint32_t)(or_rng_draw(bench->key, OR_RNG_TEST, 0, i, 0) % (i + 1));
        bench->logits[i] = bench->logits[other];
        bench->logits[other] = (float)logit(bench->key, i);
    }
}

static double peaked(or_rng_key_t key, uint32_t rank)
{
    (void)key;
    return 20 - 1.5 * log(1 + rank);
}

static double flat(or_rng_key_t key, uint32_t rank)
{
    return or_rng_uniform(or_rng_draw(key, OR_RNG_TEST, 1, rank, 0));
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 101;
    bench_t bench = {.key = or_rng_key(1, 2)};
    int status = EXIT_FAILURE;
    bench.logits = calloc(VOCAB, sizeof *bench.logits);
    bench.token_keys = calloc(VOCAB, sizeof *bench.token_keys);
    bench.perturbed = calloc(VOCAB, sizeof *bench.perturbed);
    if (runs < 1 || runs > RUNS_MAX || bench.logits == NULL || bench.token_keys == NULL ||
        bench.perturbed == NULL || or_sampler_create(VOCAB, &bench.sampler) != OR_OK ||
        or_residual_create(VOCAB, &bench.residual) != OR_OK) {
        fprintf(stderr, "decode-bench: runs go from 1 to %d, and some 20 MB are needed\n",
                RUNS_MAX);
        goto done;
    }
    for (uint32_t i = 0; i < VOCAB; i++) {
        bench.token_keys[i] = or_rng_draw(bench.key, OR_RNG_TEST, 2, i, 0);
    }
    bench.dist_name = "peaked";
    fill_logits(&bench, peaked);
    bench_dist(&bench, runs);
    bench.dist_name = "flat";
    fill_logits(&bench, flat);
    bench_dist(&bench, runs);
    status = EXIT_SUCCESS;
done:
    or_residual_destroy(&bench.residual);
    or_sampler_destroy(&bench.sampler);
    free(bench.perturbed);
    free(bench.token_keys);
    free(bench.logits);
    return status;
}

// ngram - what followed when the text's last tokens occurred before (prompt lookup decoding, Saxena
// 2023; LLMA, Yang et al. 2023). No model.
//
//     ... the cat sat on the mat . the cat ran . the cat ...
//         ~~~~~~~            most recent first:  ran .   then  sat on the mat
//
// The longest suffix that occurred before counts, up to SUFFIX_MAX tokens; all its occurrences merge
// into a tree, as far as nodes are left; each goes as far as its tokens may be guessed.
#include "drafter/builder_internal.h"

#define SUFFIX_MAX 4u

// How many of the tokens before `end` are also the text's last ones.
static uint32_t match_before(const or_build_job_t *job, uint32_t end)
{
    uint32_t length = 0;
    while (length < SUFFIX_MAX && length < end &&
           job->history[end - 1 - length] == job->history[job->history_count - 1 - length]) {
        length++;
    }
    return length;
}

// The child of `parent` that carries `token`, a new one if need be; 0 if there is no node left.
static uint32_t child_of(or_builder_t *builder, uint32_t parent, int32_t token, uint32_t *count)
{
    for (uint32_t guess = parent + 1; guess <= *count; guess++) {
        if (builder->guesses[guess].parent == parent && builder->guesses[guess].token == token) {
            return guess;
        }
    }
    if (*count == builder->nodes_wanted) {
        return 0;
    }
    uint32_t guess = ++*count;
    builder->guesses[guess] = (or_build_guess_t){.token = token,
                                                 .parent = parent,
                                                 .depth = builder->guesses[parent].depth + 1,
                                                 .slot = OR_KV_NO_SLOT};
    builder->chosen[guess - 1] = guess;
    return guess;
}

static void add_continuation(or_builder_t *builder, uint32_t at, uint32_t *count)
{
    const or_build_job_t *job = builder->job;
    uint32_t guess = OR_BUILD_ROOT;
    for (; at < job->history_count && builder->guesses[guess].depth < builder->depth_limit; at++) {
        if (or_build_is_banned(builder, job->history[at])) {
            return;
        }
        guess = child_of(builder, guess, job->history[at], count);
        if (guess == 0) {
            return;
        }
    }
}

or_status_t or_build_ngram(or_builder_t *builder, uint32_t *count)
{
    const or_build_job_t *job = builder->job;
    uint32_t longest = 0;
    *count = 0;
    for (uint32_t end = job->history_count - 1; end > 0; end--) {
        uint32_t length = match_before(job, end);
        longest = length > longest ? length : longest;
    }
    if (longest == 0) {
        return OR_OK;
    }
    for (uint32_t end = job->history_count - 1; end > 0 && *count < builder->nodes_wanted; end--) {
        if (match_before(job, end) == longest) {
            add_continuation(builder, end, count);
        }
    }
    return OR_OK;
}

// psi, the probability that the drafter's text goes on with a token of the target: the sum over all
// paths of the drafter's tokens (strings.h).
//
//     open paths     "th"  "the"  " t" ...      each may still become a token that is wanted
//     one batch      their distributions; each next token ends the path (its mass is added) or opens a longer one
//
// Batches go depth first: the paths that a batch opened are followed to their ends before the next
// batch, so that the builder's nodes suffice however many paths there are. One node is left for
// each byte that a path may still have, so a batch is never empty. Paths that follow the chain
// itself are its guesses.
#include <stdlib.h>
#include <string.h>

#include "drafter/strings/strings_internal.h"

// The most rows of the model for one sum. A session is opened only if at most OR_STRING_ROWS_MAX are expected, and
// the sum stays within some two times the expectation. But no estimate holds for a vocabulary or a text that was made
// up to keep the drafter busy for ever.
#define ROWS_MAX 65536u

static int compare_tokens(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool is_wanted(const or_strings_t *strings, int32_t token)
{
    uint32_t id = (uint32_t)token;
    return strings->wanted_count == 0 ||
           bsearch(&id, strings->wanted, strings->wanted_count, sizeof id, compare_tokens) != NULL;
}

// Return true if the path can still become a wanted token.
static bool may_give(const or_strings_t *strings, const or_match_t *match, uint32_t position)
{
    or_trie_state_t state = match->state;
    if (strings->asking) {
        return strings->wanted_count == 0 ||
               strings->wanted_before[state.first] < strings->wanted_before[state.end] ||
               (match->token != OR_TOKEN_NONE && is_wanted(strings, match->token));
    }
    int32_t token = strings->positions[position].token;
    uint32_t entry = or_token_trie_entry(strings->target, token); // OR_TRIE_NO_ENTRY is in no range
    return token == match->token || (entry >= state.first && entry < state.end);
}

// Add the mass of a path that became this token.
static void add(or_strings_t *strings, uint32_t position, int32_t token, or_string_mass_t mass)
{
    if (!strings->asking) {
        bool own = token == strings->positions[position].token;
        strings->chain_sums[position] += own ? mass : 0;
        return;
    }
    if (token == OR_TOKEN_NONE) {
        strings->outside += mass;
    } else if (is_wanted(strings, token)) {
        if (strings->sums[token] == 0) {
            strings->tokens[strings->token_count++] = (uint32_t)token;
        }
        strings->sums[token] += mass;
    }
}

static or_status_t open_path(or_strings_t *strings, const or_string_path_t *path)
{
    if (strings->path_count == strings->path_room) {
        uint32_t room = strings->path_room > 0 ? 2 * strings->path_room : 1024;
        or_string_path_t *grown = realloc(strings->paths, room * sizeof *grown);
        if (grown == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for %u paths of a drafter's text", room);
        }
        strings->paths = grown;
        strings->path_room = room;
    }
    strings->paths[strings->path_count++] = *path;
    return OR_OK;
}

// Return the chain's own guess for this token after `parent`; 0 if the chain went elsewhere.
static uint32_t chain_guess(const or_strings_t *strings, const or_builder_t *builder,
                            uint32_t parent, int32_t token)
{
    bool on_chain = parent < strings->drawn && builder->guesses[parent + 1].token == token &&
                    builder->guesses[parent + 1].expanded;
    return on_chain ? parent + 1 : 0;
}

// Return a path's mass after one more token. A long path's is rounded down, but never to nothing: a text that can be
// drawn has a probability.
static or_string_mass_t times(or_string_mass_t mass, uint32_t weight)
{
    or_string_mass_t product = mass / OR_DISTRIBUTION_TOTAL * weight +
                               mass % OR_DISTRIBUTION_TOTAL * weight / OR_DISTRIBUTION_TOTAL;
    return product > 0 ? product : 1;
}

// Return a sum as a probability, rounded once. Masses that were rounded up to one part are far less than a double
// tells from 1, however many paths are run.
static double probability(or_string_mass_t sum)
{
    return (double)sum / (double)OR_STRING_WHOLE;
}

// Follow all tokens of the distribution after `guess`, from where the text is matched so far.
static or_status_t follow(or_strings_t *strings, const or_builder_t *builder, uint32_t guess,
                          uint32_t position, or_string_mass_t mass, const or_match_t *match)
{
    const or_build_distribution_t *dist = &builder->dists[guess];
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < dist->count; i++) {
        or_string_path_t path = {.parent = guess,
                                 .token = (int32_t)dist->tokens[i],
                                 .position = position,
                                 .mass = times(mass, dist->weights[i]),
                                 .match = *match};
        or_match_token(strings, &path.match, path.token);
        if (path.match.over) {
            add(strings, position, path.match.token, path.mass);
        } else if (may_give(strings, &path.match, position)) {
            path.guess = chain_guess(strings, builder, guess, path.token);
            status = open_path(strings, &path);
        }
    }
    return status;
}

// Begin at a position of the chain. The text drawn before may be all that it takes.
static or_status_t begin(or_strings_t *strings, const or_builder_t *builder, uint32_t position)
{
    const or_string_position_t *at = &strings->positions[position];
    or_match_t match = or_match_position(strings, at);
    if (match.over) {
        add(strings, position, match.token, OR_STRING_WHOLE);
        return OR_OK;
    }
    return follow(strings, builder, at->drawn, position, OR_STRING_WHOLE, &match);
}

// Return how many open paths of at least `bytes` bytes fit one batch.
static uint32_t batch_size(const or_strings_t *strings, const or_builder_t *builder, uint32_t bytes,
                           uint32_t count)
{
    uint32_t widest = or_token_trie_widest(strings->target);
    uint32_t deeper = widest > bytes + 1 ? widest - bytes - 1 : 0;
    uint32_t room = builder->nodes_max - strings->used - deeper;
    uint32_t share = (room + 1) / 2; // the rest is for those that this batch opens
    return count < share ? count : share;
}

// Run the paths first .. first + count - 1 through the model.
static or_status_t run(or_strings_t *strings, or_builder_t *builder, uint32_t first, uint32_t count)
{
    uint32_t batched = 0;
    for (uint32_t i = first; i < first + count; i++) {
        or_string_path_t *path = &strings->paths[i];
        if (path->guess == 0) {
            path->guess = ++strings->used;
            builder->guesses[path->guess] =
                (or_build_guess_t){.token = path->token,
                                   .parent = path->parent,
                                   .depth = builder->guesses[path->parent].depth + 1,
                                   .slot = OR_KV_NO_SLOT};
            builder->batch[batched++] = path->guess;
        }
    }
    strings->rows += batched;
    if (strings->rows > ROWS_MAX) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "a drafter's text can be cut in so many ways that its probability takes more "
            "than %u rows of the model: use fewer --distribution-entries, or --vocab-map tli "
            "--accept sps",
            ROWS_MAX);
    }
    return or_build_expand(builder, builder->batch, batched);
}

// Give back the nodes above `used` and the slots from `slots_used` on.
static void give_back(or_strings_t *strings, or_builder_t *builder, uint32_t used,
                      uint32_t slots_used)
{
    strings->used = used;
    builder->slots_used = slots_used;
    if (builder->job->sequence != NULL) {
        or_kv_sequence_drop_slots_from(builder->job->sequence, slots_used);
    }
}

// Follow the open paths from `first` on, of at least `bytes` bytes each, to their ends. Each level
// of the recursion has paths one byte longer at least.
static or_status_t follow_all(or_strings_t *strings, or_builder_t *builder, uint32_t first,
                              uint32_t bytes)
{
    uint32_t end = strings->path_count;
    uint32_t used = strings->used;
    uint32_t slots_used = builder->slots_used;
    while (first < end) {
        uint32_t count = batch_size(strings, builder, bytes, end - first);
        or_status_t status = run(strings, builder, first, count);
        for (uint32_t i = first; status == OR_OK && i < first + count; i++) {
            or_string_path_t path = strings->paths[i]; // opening others may move them
            status = follow(strings, builder, path.guess, path.position, path.mass, &path.match);
        }
        if (status == OR_OK && strings->path_count > end) {
            status = follow_all(strings, builder, end, bytes + 1);
        }
        strings->path_count = end;
        give_back(strings, builder, used, slots_used);
        if (status != OR_OK) {
            return status;
        }
        first += count;
    }
    return OR_OK;
}

or_status_t or_strings_sum_chain(or_strings_t *strings, or_builder_t *builder)
{
    or_status_t status = OR_OK;
    strings->asking = false;
    strings->path_count = 0;
    strings->used = strings->drawn;
    strings->rows = 0;
    for (uint32_t i = 0; status == OR_OK && i < strings->count; i++) {
        strings->chain_sums[i] = 0;
        if (strings->positions[i].token != OR_TOKEN_NONE) {
            status = begin(strings, builder, i);
        }
    }
    if (status == OR_OK) {
        status = follow_all(strings, builder, 0, 1);
    }
    for (uint32_t i = 0; i < strings->count; i++) {
        strings->psi[i] = probability(strings->chain_sums[i]); // outside: nothing was added
    }
    return status;
}

// ---- questions ----

// Count the wanted tokens by entry.
static or_status_t want(or_strings_t *strings, const uint32_t *tokens, uint32_t count)
{
    uint32_t *before = strings->wanted_before;
    uint32_t entries = or_token_trie_count(strings->target);
    memset(before, 0, ((size_t)entries + 1) * sizeof *before);
    for (uint32_t i = 0; i < count; i++) {
        if (tokens[i] >= strings->target_size || (i > 0 && tokens[i] <= tokens[i - 1])) {
            return or_fail(OR_ERR_INVALID, "a question about token %u: tokens ascend below %u",
                           tokens[i], strings->target_size);
        }
        uint32_t entry = or_token_trie_entry(strings->target, (int32_t)tokens[i]);
        if (entry != OR_TRIE_NO_ENTRY) {
            before[entry + 1] = 1;
        }
    }
    for (uint32_t i = 0; i < entries; i++) {
        before[i + 1] += before[i];
    }
    strings->wanted = tokens;
    strings->wanted_count = count;
    return OR_OK;
}

// Compute K and V of the chain again. Its distributions come out as they were.
static or_status_t warm_up(or_strings_t *strings, or_builder_t *builder)
{
    uint32_t count = 0;
    builder->slots_used = 0;
    for (uint32_t guess = 1; guess <= strings->drawn && builder->guesses[guess].expanded; guess++) {
        builder->batch[count++] = guess;
    }
    for (uint32_t i = 0; i < count; i++) {
        builder->guesses[builder->batch[i]].expanded = false;
    }
    return or_build_expand(builder, builder->batch, count);
}

// Collect the sums, tokens ascending, and set them to zero again.
static void collect(or_strings_t *strings, or_strings_distribution_t *dist)
{
    qsort(strings->tokens, strings->token_count, sizeof *strings->tokens, compare_tokens);
    for (uint32_t i = 0; i < strings->token_count; i++) {
        strings->answer[i] = probability(strings->sums[strings->tokens[i]]);
        strings->sums[strings->tokens[i]] = 0;
    }
    *dist = (or_strings_distribution_t){strings->tokens, strings->answer, strings->token_count,
                                        probability(strings->outside)};
}

or_status_t or_strings_ask(or_strings_t *strings, or_builder_t *builder, const or_build_job_t *job,
                           bool cold, uint32_t node, const uint32_t *tokens, uint32_t count,
                           or_strings_distribution_t *dist)
{
    if (node >= strings->count) {
        return or_fail(OR_ERR_INVALID, "a question about what follows node %u of a chain of %u",
                       node, strings->count);
    }
    or_strings_distribution_t sums;
    or_status_t status = want(strings, tokens, count);
    if (status != OR_OK) {
        return status;
    }
    builder->job = job;
    strings->asking = true;
    strings->path_count = strings->token_count = 0;
    strings->outside = 0;
    strings->used = strings->drawn;
    strings->rows = 0;
    status = cold ? warm_up(strings, builder) : OR_OK;
    if (status == OR_OK) {
        status = begin(strings, builder, node);
    }
    if (status == OR_OK) {
        status = follow_all(strings, builder, 0, 1);
    }
    builder->job = NULL;
    collect(strings, &sums);
    if (status == OR_OK) {
        *dist = sums;
    }
    return status;
}

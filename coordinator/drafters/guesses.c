#include "coordinator/drafters/guesses.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math/rng.h"

#define ROOT 0u    // the text's last token
#define NO_NODE 0u // the root is nobody's child

// A node of a message that is no guess of ours is one of these; numbers of guesses are below.
#define ON_TEXT 0x80000000u   // plus the length up to which the text goes with it
#define NEWS (UINT32_MAX - 1) // a guess that we do not have
#define NOWHERE UINT32_MAX    // the text went another way

// Trees may stand so far back: what a drafter says over the slowest link is not as old.
#define PLACES 256u

typedef struct {
    int32_t token;
    uint32_t parent; // below its own number
    uint32_t next;   // in the same bucket
    uint32_t length; // tokens of the prefix that ends with it
    uint64_t hash;   // and their hash
} guess_t;

struct or_guesses {
    uint32_t nodes_max;
    uint32_t count;  // without the root
    guess_t *nodes;  // nodes_max + 1, in order of arrival; 0 is the root
    uint32_t *moved; // nodes_max + 1: scratch for what is left when some go; NOWHERE: it goes
    // The first guess of each bucket, by parent and token: a drafter may send a thousand siblings. The key is ours,
    // so that it cannot send a thousand for one bucket.
    uint32_t *buckets;
    uint32_t buckets_max; // a power of two
    uint64_t bucket_key;
    uint64_t looks; // nodes that were looked at to find children
    // The text's last tokens, and its hash behind each: at place `length % PLACES`.
    struct {
        int32_t token;
        uint64_t hash;
    } text[PLACES];
    uint32_t oldest;                       // the least length that `text` knows
    uint32_t found[OR_TREE_NODES_MAX + 1]; // of the message that is being added: what its nodes are
};

or_status_t or_guesses_create(uint32_t nodes_max, or_guesses_t **guesses_p)
{
    or_guesses_t *guesses = calloc(1, sizeof *guesses);
    guess_t *nodes = calloc((size_t)nodes_max + 1, sizeof *nodes);
    uint32_t *moved = calloc((size_t)nodes_max + 1, sizeof *moved);
    uint32_t buckets_max = 1;
    while (buckets_max < nodes_max) {
        buckets_max *= 2;
    }
    uint32_t *buckets = calloc(buckets_max, sizeof *buckets);
    if (guesses == NULL || nodes == NULL || moved == NULL || buckets == NULL) {
        free(buckets);
        free(moved);
        free(nodes);
        free(guesses);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u guesses", nodes_max);
    }
    guesses->nodes_max = nodes_max;
    guesses->nodes = nodes;
    guesses->moved = moved;
    guesses->buckets = buckets;
    guesses->buckets_max = buckets_max;
    guesses->bucket_key = or_rng_system_seed();
    *guesses_p = guesses;
    return OR_OK;
}

void or_guesses_destroy(or_guesses_t **guesses_p)
{
    or_guesses_t *guesses = *guesses_p;
    if (guesses != NULL) {
        free(guesses->buckets);
        free(guesses->moved);
        free(guesses->nodes);
        free(guesses);
    }
    *guesses_p = NULL;
}

// ---- the pool ----

static uint64_t hash_with(uint64_t hash, int32_t token)
{
    const uint32_t id = (uint32_t)token;
    return or_prefix_hash(hash, &id, 1);
}

static uint32_t *bucket_of(const or_guesses_t *guesses, uint32_t parent, int32_t token)
{
    uint64_t child = (uint64_t)parent << 32 | (uint32_t)token;
    uint64_t mixed = or_rng_key(guesses->bucket_key, child).value;
    return &guesses->buckets[mixed & (guesses->buckets_max - 1)];
}

static void put(or_guesses_t *guesses, uint32_t node, uint32_t parent, int32_t token)
{
    const guess_t *above = &guesses->nodes[parent];
    uint32_t *bucket = bucket_of(guesses, parent, token);
    guesses->nodes[node] = (guess_t){.token = token,
                                     .parent = parent,
                                     .next = *bucket,
                                     .length = above->length + 1,
                                     .hash = hash_with(above->hash, token)};
    *bucket = node;
}

static uint32_t find_child(or_guesses_t *guesses, uint32_t parent, int32_t token)
{
    uint32_t child = *bucket_of(guesses, parent, token);
    while (child != NO_NODE &&
           (guesses->nodes[child].parent != parent || guesses->nodes[child].token != token)) {
        child = guesses->nodes[child].next;
        guesses->looks++;
    }
    return child;
}

uint64_t or_guesses_looks(const or_guesses_t *guesses)
{
    return guesses->looks;
}

// Nothing but the text's end, behind what `text` knows last.
static void restart(or_guesses_t *guesses, uint32_t length, uint64_t hash)
{
    guesses->count = 0;
    memset(guesses->buckets, 0, guesses->buckets_max * sizeof *guesses->buckets);
    guesses->nodes[ROOT] = (guess_t){.length = length, .hash = hash};
}

// Let go what moved[] says, under a root that is one of the others, and close the gaps. Parents stay before
// their children. moved[] says then where each is now.
static void close_gaps(or_guesses_t *guesses, uint32_t root)
{
    guess_t *nodes = guesses->nodes;
    uint32_t last = guesses->count;
    restart(guesses, nodes[root].length, nodes[root].hash);
    guesses->moved[root] = ROOT;
    for (uint32_t i = root + 1; i <= last; i++) {
        if (guesses->moved[i] != NOWHERE) {
            uint32_t to = ++guesses->count;
            put(guesses, to, guesses->moved[nodes[i].parent], nodes[i].token);
            guesses->moved[i] = to;
        }
    }
}

// ---- the text ----

static void note_text(or_guesses_t *guesses, uint32_t length, int32_t token, uint64_t hash)
{
    guesses->text[length % PLACES].token = token;
    guesses->text[length % PLACES].hash = hash;
    if (length - guesses->oldest >= PLACES) {
        guesses->oldest = length - PLACES + 1;
    }
}

void or_guesses_clear(or_guesses_t *guesses, const or_token_log_t *log)
{
    uint64_t hash = 0;
    guesses->oldest = log->length < PLACES ? 1 : log->length - PLACES + 1;
    for (uint32_t length = 1; length <= log->length; length++) {
        int32_t token = log->tokens[length - 1];
        hash = hash_with(hash, token);
        if (length >= guesses->oldest) {
            note_text(guesses, length, token, hash);
        }
    }
    restart(guesses, log->length, hash);
}

// Under the guess `to` and nowhere else.
static void move_root(or_guesses_t *guesses, uint32_t to)
{
    for (uint32_t i = to + 1; i <= guesses->count; i++) {
        uint32_t parent = guesses->nodes[i].parent;
        bool stays = parent == to || (parent > to && guesses->moved[parent] != NOWHERE);
        guesses->moved[i] = stays ? i : NOWHERE;
    }
    close_gaps(guesses, to);
}

uint32_t or_guesses_follow(or_guesses_t *guesses, const or_token_log_t *log)
{
    const guess_t *root = &guesses->nodes[ROOT];
    uint64_t hash = root->hash;
    uint32_t at = ROOT;
    bool guessed = true;
    for (uint32_t length = root->length + 1; length <= log->length; length++) {
        int32_t token = log->tokens[length - 1];
        uint32_t child = guessed ? find_child(guesses, at, token) : NO_NODE;
        hash = hash_with(hash, token);
        note_text(guesses, length, token, hash);
        guessed = child != NO_NODE;
        at = child;
    }
    if (!guessed) {
        restart(guesses, log->length, hash);
    } else if (at != ROOT) {
        move_root(guesses, at);
    }
    return guesses->count;
}

// ---- what comes ----

static uint32_t find_place(const or_guesses_t *guesses, uint32_t length, uint64_t hash)
{
    for (uint32_t i = 1; i <= guesses->count; i++) {
        if (guesses->nodes[i].length == length && guesses->nodes[i].hash == hash) {
            return i;
        }
    }
    return NOWHERE;
}

// The place of the text at `length`: the root, or ON_TEXT before its end.
static uint32_t on_text(const or_guesses_t *guesses, uint32_t length)
{
    return length == guesses->nodes[ROOT].length ? ROOT : ON_TEXT + length;
}

// The place that the message stands on. *fate: why it stands nowhere.
static uint32_t find_base(const or_guesses_t *guesses, const or_draft_tree_t *message,
                          or_guesses_fate_t *fate)
{
    uint32_t length = message->base_length;
    bool assumed = message->parent_round != 0;
    if (length > guesses->nodes[ROOT].length) {
        *fate = OR_GUESSES_ALIEN;
        return find_place(guesses, length, message->base_hash);
    }
    if (length < guesses->oldest) {
        *fate = OR_GUESSES_PAST;
        return NOWHERE;
    }
    // A guess that was assumed and did not come is nobody's fault.
    *fate = assumed ? OR_GUESSES_PAST : OR_GUESSES_ALIEN;
    return guesses->text[length % PLACES].hash == message->base_hash ? on_text(guesses, length)
                                                                     : NOWHERE;
}

// A node whose parent lies on the text before its end: does the text go that way?
static uint32_t walk_text(const or_guesses_t *guesses, uint32_t parent, int32_t token)
{
    uint32_t length = parent - ON_TEXT + 1;
    return guesses->text[length % PLACES].token == token ? on_text(guesses, length) : NOWHERE;
}

static bool is_guess(uint32_t found)
{
    return found < ON_TEXT;
}

static uint32_t find_guess(or_guesses_t *guesses, uint32_t parent, int32_t token)
{
    uint32_t child = find_child(guesses, parent, token);
    return child != NO_NODE ? child : NEWS;
}

// Find or add each of the message's nodes. Returns how many are news.
static uint32_t look_up(or_guesses_t *guesses, const or_draft_tree_t *message, uint32_t base,
                        uint32_t count)
{
    uint32_t *found = guesses->found;
    uint32_t news = 0;
    found[0] = base;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t parent = found[i - message->back[i - 1]];
        int32_t token = (int32_t)message->tokens[i - 1];
        if (parent == NEWS || parent == NOWHERE) {
            found[i] = parent;
        } else {
            found[i] = is_guess(parent) ? find_guess(guesses, parent, token)
                                        : walk_text(guesses, parent, token);
        }
        news += found[i] == NEWS;
    }
    return news;
}

// Let the oldest guesses that lead nowhere go until there is room for `wanted` more; none that the message
// names, because its news may stand on it.
static void make_room(or_guesses_t *guesses, uint32_t wanted, uint32_t count)
{
    uint32_t *moved = guesses->moved; // at first: how many stand on each
    uint32_t free_nodes = guesses->nodes_max - guesses->count;
    memset(moved, 0, (guesses->count + 1) * sizeof *moved);
    for (uint32_t i = 1; i <= guesses->count; i++) {
        moved[guesses->nodes[i].parent]++;
    }
    for (uint32_t i = 0; i <= count; i++) {
        if (is_guess(guesses->found[i])) {
            moved[guesses->found[i]]++;
        }
    }
    for (uint32_t i = 1; i <= guesses->count; i++) {
        // When a leaf goes its parent may become one, and the oldest.
        uint32_t leaf = i;
        while (leaf != ROOT && moved[leaf] == 0 && free_nodes < wanted) {
            moved[leaf] = NOWHERE;
            free_nodes++;
            leaf = guesses->nodes[leaf].parent;
            moved[leaf]--;
        }
    }
    close_gaps(guesses, ROOT);
    for (uint32_t i = 0; i <= count; i++) {
        if (is_guess(guesses->found[i])) {
            guesses->found[i] = moved[guesses->found[i]];
        }
    }
}

// Add nodes as far as there is room. Returns how many.
static uint32_t add_news(or_guesses_t *guesses, const or_draft_tree_t *message, uint32_t count)
{
    uint32_t *found = guesses->found;
    uint32_t before = guesses->count;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t parent = found[i - message->back[i - 1]];
        if (found[i] == NEWS && is_guess(parent) && guesses->count < guesses->nodes_max) {
            found[i] = ++guesses->count;
            put(guesses, found[i], parent, (int32_t)message->tokens[i - 1]);
        }
    }
    return guesses->count - before;
}

or_guesses_fate_t or_guesses_add(or_guesses_t *guesses, const or_draft_tree_t *message,
                                 uint32_t *news)
{
    or_guesses_fate_t fate;
    uint32_t base = find_base(guesses, message, &fate);
    *news = 0;
    if (base == NOWHERE) {
        return fate;
    }
    uint32_t count = message->count < OR_TREE_NODES_MAX ? message->count : OR_TREE_NODES_MAX;
    uint32_t unknown = look_up(guesses, message, base, count);
    if (unknown > guesses->nodes_max - guesses->count) {
        make_room(guesses, unknown, count);
    }
    *news = add_news(guesses, message, count);
    if (*news > 0) {
        return OR_GUESSES_TAKEN;
    }
    for (uint32_t i = 0; i <= count; i++) {
        if (is_guess(guesses->found[i])) {
            return OR_GUESSES_KNOWN;
        }
    }
    return OR_GUESSES_PAST;
}

// ---- what is taken ----

uint32_t or_guesses_count(const or_guesses_t *guesses)
{
    return guesses->count;
}

uint32_t or_guesses_take(const or_guesses_t *guesses, uint32_t nodes_max, uint32_t depth_max,
                         or_token_tree_t *tree)
{
    uint32_t *taken = guesses->moved;
    uint32_t length = guesses->nodes[ROOT].length;
    or_token_tree_reset(tree, guesses->text[length % PLACES].token);
    taken[ROOT] = 0;
    for (uint32_t i = 1; i <= guesses->count && or_token_tree_count(tree) < nodes_max; i++) {
        const guess_t *guess = &guesses->nodes[i];
        bool shallow = guess->length - length <= depth_max; // and so are those above it
        if (shallow &&
            or_token_tree_add(tree, taken[guess->parent], guess->token, &taken[i]) != OR_OK) {
            break; // the tree is full
        }
    }
    return or_token_tree_count(tree);
}

// lockstep - one model on several ranks, driven by its leader.
//
//     leader     share, accept, truncate ...   forward(rows)        logits(rows)
//                    noted in a journal      ──┴─ journal + rows ───┴─ rows ──▶   one broadcast each
//     others     or_model_follow:               repeat the journal,  compute
//                                               run the pass         their part
//
// The pool, the page tables and the slots are the same on every rank, because every rank does the same
// to them in the same order. Only the numbers in the pages differ, as each rank has its own heads and
// layers. So nothing can fail on one rank that has not failed on the leader before it was sent.
//
// A descriptor (descriptor.h) travels in a frame of fixed size: one that fits costs one broadcast, a longer
// one a second. Where so many notes pile up between two passes that they fill their buffer, they go ahead
// of the pass. Internal to this folder: model.c owns it.
#pragma once

#include "common/model/model.h"

typedef struct or_lockstep or_lockstep_t;

// Create the lockstep of a loaded model on several ranks, which it borrows. On the leader it becomes the journal of
// the model's cache, which must have no sequences yet. OR_ERR_NO_MEMORY.
or_status_t or_lockstep_create(or_model_t *model, or_lockstep_t **lockstep_p);
// Destroy it. The leader first tells the others that it is over.
void or_lockstep_destroy(or_lockstep_t **lockstep_p);

// Announce a planned pass, or logits, to the other ranks. The leader calls these before it does its own part.
or_status_t or_lockstep_send_pass(or_lockstep_t *lockstep, const or_model_row_t *rows,
                                  uint32_t count);
or_status_t or_lockstep_send_logits(or_lockstep_t *lockstep, uint32_t first, uint32_t count,
                                    uint32_t top);

// Repeat what one descriptor (descriptor.h) says, on the other ranks. The leader's last descriptor sets *over.
// OR_ERR_FORMAT, or what a call fails with here and did not there; the world must end then.
or_status_t or_lockstep_repeat(or_lockstep_t *lockstep, const uint8_t *bytes, size_t length,
                               bool *over);

// Check that all ranks run one version. This is the first collective call: whatever else ranks exchange may differ
// between versions, but this never changes. OR_ERR_MISMATCH as below.
typedef struct {
    char version[32];
    char host[64];
} or_lockstep_greeting_t;
or_status_t or_lockstep_greet(const or_ranks_t *ranks, const or_lockstep_greeting_t *greeting);

// Check that all ranks have the same file, arithmetic and options. Collective; called before the first pass. `card`
// is what this rank has. OR_ERR_MISMATCH on every rank, naming the first that differs from the leader, and in what.
// *least_p: the least `room` of all.
typedef struct {
    char arith_id[64];
    uint64_t file;  // or_gguf_fingerprint; 0: another rank of this host reads this file
    uint64_t shape; // a hash of what else must agree: context, rows, cache types
    uint64_t room;  // pages this rank can hold
    char host[64];
} or_lockstep_card_t;
or_status_t or_lockstep_agree(const or_ranks_t *ranks, const or_lockstep_card_t *card,
                              uint64_t *least_p);
// or_lockstep_least sets *number to the least of all ranks' numbers. or_lockstep_alike counts the ranks whose bytes
// equal this one's, itself among them. Both are collective.
or_status_t or_lockstep_least(const or_ranks_t *ranks, uint64_t *number);
or_status_t or_lockstep_alike(const or_ranks_t *ranks, const void *own, size_t bytes,
                              uint32_t *count_p);
// Decide whether this rank takes the fingerprint of the file, which means reading all of it. One rank of each host
// does so for all of them. Collective. `file` is the file's or_gguf_identity.
or_status_t or_lockstep_is_reader(const or_ranks_t *ranks, const char *host, uint64_t file,
                                  bool *is_reader);

#include "common/model/ranks/lockstep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/cpu/logits.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"
#include "common/model/ranks/descriptor.h"

#define FRAME_BYTES 4096u
#define LENGTH_BYTES 4u // in front of the descriptor, lowest byte first
// Notes that may wait for a pass. More of them travel without one.
#define NOTES_BYTES_MAX 65536u

struct or_lockstep {
    or_kv_journal_t journal; // first: the cache knows it by that
    or_model_t *model;
    uint8_t *frames; // the length and the descriptor; at least one frame
    size_t descriptor_bytes_max;

    // The leader's.
    or_descriptor_t descriptor; // what is to be sent
    or_status_t sent;           // not OR_OK: the world is over
    char sentence[256];         // why

    // The others'.
    or_kv_sequence_t **sequences; // by number; NULL: none
    uint32_t sequences_end;       // all numbers so far are below it
    uint32_t sequences_room;
    or_model_row_t *rows; // [rows_max]
    or_descriptor_reader_t reader;
};

// -- the leader --

static or_status_t send_frames(or_lockstep_t *lockstep)
{
    const or_ranks_t *ranks = lockstep->model->ranks;
    size_t length = lockstep->descriptor.length;
    for (unsigned i = 0; i < LENGTH_BYTES; i++) {
        lockstep->frames[i] = (uint8_t)(length >> (8 * i));
    }
    lockstep->descriptor.length = 0;
    or_status_t status = ranks->broadcast(ranks, lockstep->frames, FRAME_BYTES);
    if (status == OR_OK && LENGTH_BYTES + length > FRAME_BYTES) {
        status = ranks->broadcast(ranks, lockstep->frames + FRAME_BYTES,
                                  LENGTH_BYTES + length - FRAME_BYTES);
    }
    return status;
}

// Once sending has failed the others miss something, and nothing is sent any more.
static or_status_t send_descriptor(or_lockstep_t *lockstep)
{
    if (lockstep->sent != OR_OK) {
        lockstep->descriptor.length = 0;
        return or_fail(lockstep->sent, "%s", lockstep->sentence);
    }
    lockstep->sent = send_frames(lockstep);
    if (lockstep->sent != OR_OK) {
        snprintf(lockstep->sentence, sizeof lockstep->sentence, "%s", or_error_text());
    }
    return lockstep->sent;
}

static void note(or_kv_journal_t *journal, const or_kv_note_t *change)
{
    or_lockstep_t *lockstep = (or_lockstep_t *)journal;
    if (lockstep->descriptor.length + or_descriptor_note_bytes_max(change) > NOTES_BYTES_MAX) {
        send_descriptor(lockstep); // a failure is told when the pass is sent
    }
    if (lockstep->sent == OR_OK) {
        or_descriptor_put_note(&lockstep->descriptor, change);
    }
}

or_status_t or_lockstep_send_pass(or_lockstep_t *lockstep, const or_model_row_t *rows,
                                  uint32_t count)
{
    or_descriptor_put_pass(&lockstep->descriptor, count);
    for (uint32_t i = 0; i < count; i++) {
        or_step_row_t row = {.sequence = rows[i].sequence->number,
                             .token = rows[i].token,
                             .slot = rows[i].slot,
                             .parent_slot = rows[i].parent_slot};
        or_descriptor_put_row(&lockstep->descriptor, &row);
    }
    return send_descriptor(lockstep);
}

or_status_t or_lockstep_send_logits(or_lockstep_t *lockstep, uint32_t first, uint32_t count,
                                    uint32_t top)
{
    or_descriptor_put_logits(&lockstep->descriptor, first, count, top);
    return send_descriptor(lockstep);
}

// -- the others --

static or_status_t find(const or_lockstep_t *lockstep, uint32_t number, or_kv_sequence_t **sequence)
{
    if (number >= lockstep->sequences_end || lockstep->sequences[number] == NULL) {
        return or_fail(OR_ERR_FORMAT, "there is no sequence %u here", number);
    }
    *sequence = lockstep->sequences[number];
    return OR_OK;
}

static or_status_t make_room(or_lockstep_t *lockstep)
{
    if (lockstep->sequences_end < lockstep->sequences_room) {
        return OR_OK;
    }
    uint32_t room = 2 * lockstep->sequences_room + 16;
    or_kv_sequence_t **sequences = realloc(lockstep->sequences, room * sizeof *lockstep->sequences);
    if (sequences == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a table of %u sequences", room);
    }
    lockstep->sequences = sequences;
    lockstep->sequences_room = room;
    return OR_OK;
}

// The cache gives the smallest free number here as it did on the leader.
static or_status_t repeat_open(or_lockstep_t *lockstep, const or_kv_note_t *note)
{
    or_kv_sequence_t *sequence = NULL;
    or_status_t status = make_room(lockstep);
    status =
        status != OR_OK ? status : or_model_open_sequence(lockstep->model, note->value, &sequence);
    if (status != OR_OK) {
        return status;
    }
    uint32_t number = sequence->number;
    if (number != note->sequence) {
        or_kv_sequence_close(&sequence);
        return or_fail(OR_ERR_FORMAT, "the leader opens sequence %u where %u is free",
                       note->sequence, number);
    }
    lockstep->sequences_end += number == lockstep->sequences_end;
    lockstep->sequences[number] = sequence;
    return OR_OK;
}

// A text that is cut back or shared has the leader's length, or begins anew on all ranks.
static or_status_t check_length(const or_kv_sequence_t *sequence, const or_kv_note_t *note)
{
    return or_kv_sequence_length(sequence) == note->value
               ? OR_OK
               : or_fail(OR_ERR_FORMAT, "sequence %u has %u positions here and %u on the leader",
                         note->sequence, or_kv_sequence_length(sequence), note->value);
}

static or_status_t repeat_share(const or_lockstep_t *lockstep, or_kv_sequence_t *sequence,
                                const or_kv_note_t *note)
{
    or_kv_sequence_t *donor = NULL;
    or_status_t status = find(lockstep, note->donor, &donor);
    if (status != OR_OK) {
        return status;
    }
    if (donor == sequence || note->value > or_kv_sequence_length(donor)) {
        return or_fail(OR_ERR_FORMAT, "sequence %u cannot begin with %u positions of %u's %u",
                       note->sequence, note->value, note->donor, or_kv_sequence_length(donor));
    }
    or_kv_sequence_share(sequence, donor, note->value);
    return check_length(sequence, note);
}

static or_status_t repeat_note(or_lockstep_t *lockstep, const or_kv_note_t *note)
{
    if (note->kind == OR_KV_NOTE_OPEN) {
        return repeat_open(lockstep, note);
    }
    or_kv_sequence_t *sequence = NULL;
    or_status_t status = find(lockstep, note->sequence, &sequence);
    if (status != OR_OK) {
        return status;
    }
    switch (note->kind) {
    case OR_KV_NOTE_CLOSE:
        or_kv_sequence_close(&lockstep->sequences[note->sequence]);
        return OR_OK;
    case OR_KV_NOTE_TRUNCATE:
        or_kv_sequence_truncate(sequence, note->value);
        return check_length(sequence, note);
    case OR_KV_NOTE_DROP:
        or_kv_sequence_drop_slots_from(sequence, note->value);
        return OR_OK;
    case OR_KV_NOTE_ACCEPT:
        return or_kv_sequence_accept(sequence, note->slots, note->slot_count);
    case OR_KV_NOTE_RESERVE:
        return or_kv_sequence_reserve(sequence, note->value);
    case OR_KV_NOTE_SHARE:
        return repeat_share(lockstep, sequence, note);
    default:
        return or_fail(OR_ERR_FORMAT, "the leader notes a change of kind %u", note->kind);
    }
}

static or_status_t read_rows(or_lockstep_t *lockstep, uint32_t count)
{
    if (count > lockstep->model->rows_max) {
        return or_fail(OR_ERR_FORMAT, "the leader's pass has %u rows; %u are possible here", count,
                       lockstep->model->rows_max);
    }
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        or_step_row_t row;
        or_kv_sequence_t *sequence = NULL;
        status = or_descriptor_next_row(&lockstep->reader, &row);
        status = status != OR_OK ? status : find(lockstep, row.sequence, &sequence);
        lockstep->rows[i] = (or_model_row_t){sequence, row.token, row.slot, row.parent_slot};
    }
    return status;
}

static or_status_t repeat_step(or_lockstep_t *lockstep, const or_step_t *step, bool *over)
{
    or_model_t *model = lockstep->model;
    or_status_t status = or_model_check_files(model);
    if (status != OR_OK) {
        return status;
    }
    switch (step->kind) {
    case OR_STEP_NOTE:
        return or_fail_context(repeat_note(lockstep, &step->note), "out of step with the leader");
    case OR_STEP_PASS:
        status = read_rows(lockstep, step->count);
        status = status != OR_OK ? status : or_pass_plan(model, lockstep->rows, step->count);
        if (status != OR_OK) {
            return or_fail_context(status, "out of step with the leader");
        }
        status = or_pass_run(model, step->count);
        return status != OR_OK ? status : or_model_check_files(model);
    case OR_STEP_LOGITS:
        return or_logits_run(model, step->first, step->count, step->top, NULL);
    case OR_STEP_END:
        *over = true;
        return OR_OK;
    }
    return OR_OK;
}

or_status_t or_lockstep_repeat(or_lockstep_t *lockstep, const uint8_t *bytes, size_t length,
                               bool *over)
{
    or_status_t status = OR_OK;
    or_descriptor_open(&lockstep->reader, bytes, length);
    while (status == OR_OK && !*over && !or_descriptor_is_over(&lockstep->reader)) {
        or_step_t step;
        status = or_descriptor_next(&lockstep->reader, &step);
        status = status != OR_OK ? status : repeat_step(lockstep, &step, over);
    }
    return status;
}

static or_status_t receive(or_lockstep_t *lockstep, size_t *length_p)
{
    const or_ranks_t *ranks = lockstep->model->ranks;
    or_status_t status = ranks->broadcast(ranks, lockstep->frames, FRAME_BYTES);
    if (status != OR_OK) {
        return status;
    }
    size_t length = 0;
    for (unsigned i = 0; i < LENGTH_BYTES; i++) {
        length |= (size_t)lockstep->frames[i] << (8 * i);
    }
    if (length > lockstep->descriptor_bytes_max) {
        return or_fail(OR_ERR_FORMAT, "the leader's descriptor has %zu bytes; at most %zu can be",
                       length, lockstep->descriptor_bytes_max);
    }
    *length_p = length;
    return LENGTH_BYTES + length > FRAME_BYTES
               ? ranks->broadcast(ranks, lockstep->frames + FRAME_BYTES,
                                  LENGTH_BYTES + length - FRAME_BYTES)
               : OR_OK;
}

or_status_t or_model_follow(or_model_t *model)
{
    if (model->lockstep == NULL || or_ranks_is_leader(model->ranks)) {
        return or_fail(OR_ERR_INVALID, "only ranks other than the leader follow");
    }
    or_lockstep_t *lockstep = model->lockstep;
    or_status_t status = OR_OK;
    bool over = false;
    while (status == OR_OK && !over) {
        size_t length = 0;
        status = receive(lockstep, &length);
        status = status != OR_OK
                     ? status
                     : or_lockstep_repeat(lockstep, lockstep->frames + LENGTH_BYTES, length, &over);
    }
    if (status == OR_OK) {
        or_gpu_peers_end(model);
    }
    return status;
}

// -- both --

or_status_t or_lockstep_create(or_model_t *model, or_lockstep_t **lockstep_p)
{
    or_lockstep_t *lockstep = calloc(1, sizeof *lockstep);
    if (lockstep == NULL) {
        goto no_lockstep;
    }
    lockstep->model = model;
    lockstep->journal.note = note;
    lockstep->descriptor_bytes_max =
        NOTES_BYTES_MAX + or_descriptor_pass_bytes_max(model->rows_max);
    lockstep->frames = calloc(1, LENGTH_BYTES + lockstep->descriptor_bytes_max);
    if (lockstep->frames == NULL) {
        goto no_frames;
    }
    lockstep->descriptor.bytes = lockstep->frames + LENGTH_BYTES;
    lockstep->rows = calloc(model->rows_max, sizeof *lockstep->rows);
    if (lockstep->rows == NULL) {
        goto no_rows;
    }
    if (or_ranks_is_leader(model->ranks)) {
        or_kv_cache_set_journal(model->cache, &lockstep->journal);
    }
    *lockstep_p = lockstep;
    return OR_OK;

no_rows:
    free(lockstep->frames);
no_frames:
    free(lockstep);
no_lockstep:
    return or_fail(OR_ERR_NO_MEMORY, "no memory to tell other ranks of passes of %u rows",
                   model->rows_max);
}

void or_lockstep_destroy(or_lockstep_t **lockstep_p)
{
    or_lockstep_t *lockstep = *lockstep_p;
    if (lockstep == NULL) {
        return;
    }
    if (or_ranks_is_leader(lockstep->model->ranks)) {
        or_kv_cache_set_journal(lockstep->model->cache, NULL);
        or_descriptor_put_end(&lockstep->descriptor);
        if (send_descriptor(lockstep) == OR_OK) { // whoever does not hear it has ended already
            or_gpu_peers_end(lockstep->model);
        }
    }
    for (uint32_t i = 0; i < lockstep->sequences_end; i++) {
        or_kv_sequence_close(&lockstep->sequences[i]);
    }
    free(lockstep->sequences);
    free(lockstep->rows);
    free(lockstep->frames);
    free(lockstep);
    *lockstep_p = NULL;
}

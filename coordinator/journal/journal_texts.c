#include "coordinator/journal/journal_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_MAX 65536u // a slot's number has 20 bits of a text's
#define SLOT_BITS 20
#define BLOCK_BYTES 4096u
#define BUFFER_BYTES_KEPT 1024u

static uint64_t blocks(size_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

or_journal_time_t or_journal_texts_expiry(const or_journal_t *journal,
                                          const or_journal_text_t *text)
{
    or_journal_time_t expires = {.at_ns = text->expires_ns};
    memcpy(expires.boot, journal->boot, sizeof expires.boot);
    return expires;
}

or_journal_text_t *or_journal_texts_find(const or_journal_t *journal, uint64_t number)
{
    uint64_t slot = number & ((1u << SLOT_BITS) - 1);
    or_journal_text_t *text = slot < journal->capacity ? journal->texts[slot] : NULL;
    return text != NULL && text->number == number ? text : NULL;
}

static uint32_t bucket_of(const uint8_t *hash)
{
    return (hash[0] | (uint32_t)hash[1] << 8) % OR_JOURNAL_BUCKETS;
}

or_journal_text_t *or_journal_texts_find_hash(const or_journal_t *journal, const uint8_t *hash)
{
    or_journal_text_t *text;
    LIST_FOREACH(text, &journal->buckets[bucket_of(hash)], links)
    {
        if (memcmp(text->work.hash, hash, OR_JOURNAL_HASH_BYTES) == 0) {
            return text;
        }
    }
    return NULL;
}

static or_status_t grow(or_journal_t *journal)
{
    uint32_t capacity = journal->capacity > 0 ? 2 * journal->capacity : 64;
    if (capacity > TEXTS_MAX) {
        return or_fail(OR_ERR_FULL, "the journal: %u texts are all that it holds", TEXTS_MAX);
    }
    or_journal_text_t **larger = realloc(journal->texts, capacity * sizeof(or_journal_text_t *));
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u texts in the journal", capacity);
    }
    memset(larger + journal->capacity, 0,
           (capacity - journal->capacity) * sizeof(or_journal_text_t *));
    journal->texts = larger;
    journal->capacity = capacity;
    return OR_OK;
}

void or_journal_texts_hold(or_journal_t *journal, or_journal_text_t *text)
{
    or_hold_close(&text->disk);
    or_hold_close(&text->memory);
    or_hold_open(&text->disk, journal->ledger, text->owner, OR_HELD_JOURNAL);
    or_hold_open(&text->memory, journal->ledger, text->owner, OR_HELD_REQUESTS);
    or_hold_force(&text->disk, blocks(text->work.at));
    or_hold_force(&text->memory, text->beginning);
}

or_status_t or_journal_texts_add(or_journal_t *journal, const uint8_t *hash, const char *owner,
                                 or_journal_text_t **text_p)
{
    or_status_t status = journal->count < journal->capacity ? OR_OK : grow(journal);
    or_journal_text_t *text = status == OR_OK ? calloc(1, sizeof *text) : NULL;
    if (text == NULL) {
        return status != OR_OK ? status : or_fail(OR_ERR_NO_MEMORY, "no memory for a text");
    }
    uint32_t slot = 0;
    while (journal->texts[slot] != NULL) {
        slot++;
    }
    text->number = ++journal->generation << SLOT_BITS | slot;
    text->expires_ns = OR_TIME_NEVER;
    text->taken = true;
    text->work.check = or_journal_first_check(hash);
    memcpy(text->work.hash, hash, OR_JOURNAL_HASH_BYTES);
    snprintf(text->owner, sizeof text->owner, "%s", owner);
    or_journal_texts_hold(journal, text);
    journal->texts[slot] = text;
    LIST_INSERT_HEAD(&journal->buckets[bucket_of(hash)], text, links);
    journal->count++;
    *text_p = text;
    return OR_OK;
}

// Its beginning is written, or nobody wants it any more.
static void drop_beginning(or_journal_t *journal, or_journal_text_t *text)
{
    journal->beginnings_bytes -= text->beginning;
    text->beginning = 0;
    or_hold_resize(&text->memory, 0);
}

void or_journal_texts_free(or_journal_t *journal, or_journal_text_t *text)
{
    journal->texts[text->number & ((1u << SLOT_BITS) - 1)] = NULL;
    LIST_REMOVE(text, links);
    journal->count--;
    drop_beginning(journal, text);
    or_hold_close(&text->disk);
    or_hold_close(&text->memory);
    or_journal_buffer_fini(&text->work.records);
    free(text);
}

// ---- disk space ----

// The ended text of this owner that would expire first.
static or_journal_text_t *first_ended(const or_journal_t *journal, const or_journal_text_t *of)
{
    or_journal_text_t *first = NULL;
    for (uint32_t i = 0; i < journal->capacity; i++) {
        or_journal_text_t *text = journal->texts[i];
        if (text != NULL && text != of && text->ended && !text->doomed && !text->busy &&
            strcmp(text->owner, of->owner) == 0 &&
            (first == NULL || text->expires_ns < first->expires_ns)) {
            first = text;
        }
    }
    return first;
}

// Its file is to have so many bytes. Ended texts of its owner make room. What they held is at its disposal at once, though
// they are deleted a moment later.
static or_status_t charge(or_journal_t *journal, or_journal_text_t *text, size_t bytes)
{
    or_journal_text_t *ended;
    or_status_t status = or_hold_resize(&text->disk, blocks(bytes));
    while (status == OR_ERR_FULL && (ended = first_ended(journal, text)) != NULL) {
        or_hold_force(&ended->disk, 0);
        or_journal_texts_delete(journal, ended);
        status = or_hold_resize(&text->disk, blocks(bytes));
    }
    return status;
}

// ---- work ----

static void shrink(or_journal_buffer_t *records, size_t count)
{
    records->count = count;
    if (count == 0 && records->capacity > BUFFER_BYTES_KEPT) {
        or_journal_buffer_fini(records);
    }
}

static or_status_t note_written(or_journal_t *journal, or_journal_text_t *text)
{
    if (text->work.error != 0) { // the beginning is kept for the next try
        shrink(&text->work.records, text->beginning);
        or_hold_force(&text->disk, blocks(text->work.at));
        return or_fail(OR_ERR_IO, "the journal: cannot write a text: %s",
                       strerror(text->work.error));
    }
    drop_beginning(journal, text);
    shrink(&text->work.records, 0);
    if (text->next_arith_id[0] != '\0') {
        memcpy(text->arith_id, text->next_arith_id, sizeof text->arith_id);
    }
    text->taken = text->expires_ns == OR_TIME_NEVER;
    return OR_OK;
}

// A text that could not be deleted is tried again by the next tick.
or_status_t or_journal_texts_note_done(or_journal_t *journal, or_journal_text_t *text)
{
    text->busy = false;
    if (!text->work.remove) {
        return note_written(journal, text);
    }
    text->work.remove = false;
    if (text->work.error == 0) {
        or_journal_texts_free(journal, text);
    }
    return OR_OK;
}

static or_status_t submit(or_journal_t *journal, or_journal_text_t *text)
{
    text->busy = true;
    if (journal->writer != NULL) {
        or_journal_writer_submit(journal->writer, &text->work);
        return OR_OK;
    }
    or_journal_disk_do(journal->folder, &text->work);
    return or_journal_texts_note_done(journal, text);
}

or_status_t or_journal_texts_force_out(or_journal_t *journal, or_journal_text_t *text,
                                       or_status_t status)
{
    if (status != OR_OK) {
        shrink(&text->work.records, text->beginning);
        return status;
    }
    or_hold_force(&text->disk, blocks(text->work.at + text->work.records.count));
    return submit(journal, text);
}

void or_journal_texts_delete(or_journal_t *journal, or_journal_text_t *text)
{
    text->doomed = true;
    if (!text->busy) {
        text->work.remove = true;
        submit(journal, text);
    }
}

void or_journal_texts_go_on(or_journal_t *journal, or_journal_text_t *text)
{
    if (text->busy) {
        return;
    }
    if (text->doomed) {
        or_journal_texts_delete(journal, text);
    } else if (text->expiry_due) {
        const or_journal_time_t expires = or_journal_texts_expiry(journal, text);
        text->expiry_due = false; // where the disk refuses it, we remember
        text->next_arith_id[0] = '\0';
        or_journal_texts_force_out(journal, text,
                                   or_journal_add_expires(&text->work.records, &expires));
    }
}

or_status_t or_journal_texts_take(or_journal_t *journal, uint64_t number,
                                  or_journal_text_t **text_p)
{
    or_journal_text_t *text = or_journal_texts_find(journal, number);
    if (text == NULL || text->doomed) {
        return or_fail(OR_ERR_NOT_FOUND, "the journal: there is no such session any more");
    }
    if (text->busy) {
        return OR_ERR_AGAIN;
    }
    text->next_arith_id[0] = '\0';
    *text_p = text;
    return OR_OK;
}

or_status_t or_journal_texts_write_out(or_journal_t *journal, or_journal_text_t *text,
                                       or_status_t status)
{
    size_t bytes = text->work.at + text->work.records.count;
    if (status == OR_OK && bytes > OR_JOURNAL_FILE_BYTES_MAX) {
        status = or_fail(OR_ERR_FULL, "the journal: a text of %zu bytes is too long for it", bytes);
    }
    if (status == OR_OK) {
        status = charge(journal, text, bytes);
    }
    if (status != OR_OK) {
        shrink(&text->work.records, text->beginning);
        return status;
    }
    return submit(journal, text);
}

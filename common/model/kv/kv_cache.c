#include "common/model/kv/kv_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "common/model/kv/kv_cache_internal.h"

static uint32_t greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void note(const or_kv_sequence_t *sequence, or_kv_note_t what)
{
    or_kv_journal_t *journal = sequence->cache->journal;
    if (journal != NULL) {
        what.sequence = sequence->number;
        journal->note(journal, &what);
    }
}

// ---- pages: taken, shared, copied before they are written, given back ----

static uint32_t pages_for(uint32_t positions)
{
    return positions / OR_KV_PAGE + (positions % OR_KV_PAGE != 0);
}

static uint32_t take_one(or_kv_cache_t *cache)
{
    uint32_t page = cache->free[--cache->free_count];
    cache->holders[page] = 1;
    or_kv_frames_take(cache->frames, page);
    return page;
}

// Hold a page, number `index` of the sequence, that somebody else holds.
static void hold(or_kv_sequence_t *sequence, uint32_t index, uint32_t page)
{
    sequence->pages[index] = page;
    sequence->cache->holders[page]++;
    if (index >= sequence->kept_from) {
        or_kv_frames_use(sequence->cache->frames, page);
    }
}

static void give_back(const or_kv_sequence_t *sequence, uint32_t index)
{
    or_kv_cache_t *cache = sequence->cache;
    uint32_t page = sequence->pages[index];
    if (index >= sequence->kept_from) {
        or_kv_frames_give_up(cache->frames, page);
    }
    if (--cache->holders[page] == 0) {
        cache->free[cache->free_count++] = page;
    }
}

// Would writing position `length` write to a page that somebody else holds too?
static bool is_in_shared_page(const or_kv_sequence_t *sequence)
{
    uint32_t page = sequence->length / OR_KV_PAGE;
    return sequence->length % OR_KV_PAGE != 0 &&
           sequence->cache->holders[sequence->pages[page]] > 1;
}

uint32_t or_kv_pages_missing(const or_kv_sequence_t *sequence, uint32_t positions)
{
    uint32_t pages = pages_for(positions);
    uint32_t missing = pages > sequence->page_count ? pages - sequence->page_count : 0;
    return missing + (positions > sequence->length && is_in_shared_page(sequence));
}

or_status_t or_kv_pages_check(const or_kv_cache_t *cache, uint64_t wanted)
{
    uint32_t free_count = or_kv_cache_pages_free(cache);
    if (wanted <= free_count) {
        return OR_OK;
    }
    return or_fail(OR_ERR_FULL,
                   "the KV cache is full: %u of its %u pages are free; end a session or give it "
                   "more pages",
                   free_count, cache->pages_max);
}

void or_kv_pages_take(or_kv_sequence_t *sequence, uint32_t positions)
{
    or_kv_cache_t *cache = sequence->cache;
    if (positions > sequence->length && is_in_shared_page(sequence)) {
        uint32_t index = sequence->length / OR_KV_PAGE;
        uint32_t copy = take_one(cache);
        cache->memory->copy_page(cache, sequence->pages[index], copy);
        give_back(sequence, index);
        sequence->pages[index] = copy;
    }
    while (sequence->page_count < pages_for(positions)) {
        sequence->pages[sequence->page_count++] = take_one(cache);
    }
}

void or_kv_pages_trim(or_kv_sequence_t *sequence)
{
    uint32_t kept = sequence->reserved > sequence->length ? sequence->reserved : sequence->length;
    while (sequence->page_count > pages_for(kept)) {
        give_back(sequence, --sequence->page_count);
    }
}

uint32_t or_kv_sequence_usable(const or_kv_sequence_t *sequence, uint32_t grown, uint32_t length)
{
    const or_kv_frames_t *frames = sequence->cache->frames;
    if (frames == NULL) {
        return length;
    }
    uint32_t kept_from = greater(sequence->kept_from, or_kv_frames_kept_from(frames, grown));
    return kept_from * OR_KV_PAGE <= or_kv_frames_seen_from(frames, length) ? length : 0;
}

// Give up the frames of pages that are out of reach of rows behind the sequence's length, but for the slack.
static void give_up_frames(or_kv_sequence_t *sequence)
{
    or_kv_frames_t *frames = sequence->cache->frames;
    uint32_t end = frames != NULL ? or_kv_frames_kept_from(frames, sequence->length) : 0;
    while (sequence->kept_from < end) {
        or_kv_frames_give_up(frames, sequence->pages[sequence->kept_from++]);
    }
}

void or_kv_sequence_grow(or_kv_sequence_t *sequence, uint32_t count)
{
    sequence->length += count;
    give_up_frames(sequence);
}

// Fill an empty sequence.
static void share_pages(or_kv_sequence_t *sequence, const or_kv_sequence_t *donor, uint32_t length)
{
    or_kv_cache_t *cache = sequence->cache;
    bool may_copy = or_kv_cache_pages_free(cache) > 0;
    length = or_kv_sequence_usable(donor, donor->length,
                                   may_copy ? length : length / OR_KV_PAGE * OR_KV_PAGE);
    sequence->length = length;
    sequence->page_count = length / OR_KV_PAGE;
    sequence->kept_from = length > 0 ? donor->kept_from : 0;
    for (uint32_t i = 0; i < sequence->page_count; i++) {
        hold(sequence, i, donor->pages[i]);
    }
    if (length % OR_KV_PAGE > 0) {
        uint32_t copy = take_one(cache);
        cache->memory->copy_page(cache, donor->pages[length / OR_KV_PAGE], copy);
        sequence->pages[sequence->page_count++] = copy;
    }
    give_up_frames(sequence);
}

// ---- sequences ----

// Insert the sequence into the list under the smallest number that is free.
static void list(or_kv_sequence_t *sequence)
{
    or_kv_sequence_t **link = &sequence->cache->first;
    while (*link != NULL && (*link)->number == sequence->number) {
        sequence->number++;
        link = &(*link)->next;
    }
    sequence->next = *link;
    *link = sequence;
}

static void unlist(or_kv_sequence_t *sequence)
{
    or_kv_sequence_t **link = &sequence->cache->first;
    while (*link != sequence) {
        link = &(*link)->next;
    }
    *link = sequence->next;
}

or_status_t or_kv_sequence_open(or_kv_cache_t *cache, uint32_t positions_max, uint32_t slots_max,
                                or_kv_sequence_t **sequence_p)
{
    or_kv_sequence_t *sequence = calloc(1, sizeof *sequence);
    if (sequence == NULL) {
        goto no_sequence;
    }
    *sequence = (or_kv_sequence_t){
        .cache = cache, .positions_max = positions_max, .slots_max = slots_max, .epoch = 1};
    sequence->pages = malloc(((size_t)positions_max / OR_KV_PAGE + 1) * sizeof *sequence->pages);
    if (sequence->pages == NULL) {
        goto no_pages;
    }
    sequence->slots = calloc((size_t)slots_max + 1, sizeof *sequence->slots);
    if (sequence->slots == NULL) {
        goto no_slots;
    }
    if (!cache->memory->take_slots(sequence)) {
        goto no_slot_bytes;
    }
    list(sequence);
    note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_OPEN, .value = slots_max});
    *sequence_p = sequence;
    return OR_OK;

no_slot_bytes:
    free(sequence->slots);
no_slots:
    free(sequence->pages);
no_pages:
    free(sequence);
no_sequence:
    return or_fail(OR_ERR_NO_MEMORY, "no memory for a sequence of %u positions and %u tree nodes",
                   positions_max, slots_max);
}

// Forget all but the first `length` positions, which are no more than there are.
static void cut(or_kv_sequence_t *sequence, uint32_t length)
{
    sequence->length = length;
    sequence->reserved = 0;
    or_kv_slots_forget(sequence);
    or_kv_pages_trim(sequence);
    sequence->kept_from = length > 0 ? sequence->kept_from : 0;
}

void or_kv_sequence_close(or_kv_sequence_t **sequence_p)
{
    or_kv_sequence_t *sequence = *sequence_p;
    if (sequence == NULL) {
        return;
    }
    cut(sequence, 0);
    unlist(sequence);
    note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_CLOSE});
    sequence->cache->memory->give_slots(sequence);
    free(sequence->slots);
    free(sequence->pages);
    free(sequence);
    *sequence_p = NULL;
}

uint32_t or_kv_sequence_length(const or_kv_sequence_t *sequence)
{
    return sequence->length;
}

uint32_t or_kv_sequence_pages(const or_kv_sequence_t *sequence)
{
    return sequence->page_count;
}

uint32_t or_kv_sequence_pages_own(const or_kv_sequence_t *sequence)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < sequence->page_count; i++) {
        own += sequence->cache->holders[sequence->pages[i]] == 1;
    }
    return own;
}

uint32_t or_kv_sequence_frames(const or_kv_sequence_t *sequence, uint32_t *own)
{
    const or_kv_frames_t *frames = sequence->cache->frames;
    *own = 0;
    if (frames == NULL) {
        return 0;
    }
    for (uint32_t i = sequence->kept_from; i < sequence->page_count; i++) {
        *own += frames->users[sequence->pages[i]] == 1;
    }
    return sequence->page_count - sequence->kept_from;
}

or_status_t or_kv_sequence_reserve(or_kv_sequence_t *sequence, uint32_t positions)
{
    if (positions > sequence->positions_max) {
        return or_fail(OR_ERR_FULL, "%u positions exceed the context of %u", positions,
                       sequence->positions_max);
    }
    uint32_t missing = or_kv_pages_missing(sequence, positions);
    or_status_t status = or_kv_pages_check(sequence->cache, missing);
    if (status != OR_OK) {
        return status;
    }
    or_kv_pages_take(sequence, positions);
    sequence->reserved = greater(sequence->reserved, positions);
    if (missing > 0) {
        note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_RESERVE, .value = positions});
    }
    return OR_OK;
}

void or_kv_sequence_share(or_kv_sequence_t *sequence, const or_kv_sequence_t *donor,
                          uint32_t length)
{
    assert(sequence != donor && sequence->cache == donor->cache);
    assert(length <= donor->length && length <= sequence->positions_max);
    cut(sequence, 0);
    share_pages(sequence, donor, length);
    note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_SHARE,
                                  .value = sequence->length,
                                  .donor = donor->number});
}

void or_kv_sequence_truncate(or_kv_sequence_t *sequence, uint32_t length)
{
    bool shorter = length < sequence->length;
    length = shorter ? or_kv_sequence_usable(sequence, sequence->length, length) : length;
    bool had_slots = sequence->has_slots;
    uint32_t pages = sequence->page_count;
    cut(sequence, shorter ? length : sequence->length);
    if (shorter || had_slots || sequence->page_count < pages) {
        note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_TRUNCATE, .value = sequence->length});
    }
}

// ---- slots ----

void or_kv_sequence_drop_slots(or_kv_sequence_t *sequence)
{
    if (sequence->has_slots) {
        or_kv_slots_forget(sequence);
        note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_DROP});
    }
}

void or_kv_sequence_drop_slots_from(or_kv_sequence_t *sequence, uint32_t first)
{
    bool dropped = false;
    for (uint32_t i = first; i < sequence->slots_max; i++) {
        dropped = dropped || or_kv_slot_is_live(sequence, i, sequence->epoch);
        sequence->slots[i].epoch = 0;
    }
    if (dropped) {
        note(sequence, (or_kv_note_t){.kind = OR_KV_NOTE_DROP, .value = first});
    }
}

static bool is_path(const or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = i == 0 ? OR_KV_NO_SLOT : slots[i - 1];
        if (!or_kv_slot_is_live(sequence, slots[i], sequence->epoch) ||
            sequence->slots[slots[i]].parent != parent) {
            return false;
        }
    }
    return true;
}

// Move a path's K and V to the positions that follow; the slots themselves stay as they are.
static or_status_t move_path(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    if (count > sequence->positions_max - sequence->length) {
        return or_fail(OR_ERR_FULL, "%u positions and %u accepted nodes exceed the context of %u",
                       sequence->length, count, sequence->positions_max);
    }
    if (!is_path(sequence, slots, count)) {
        return or_fail(OR_ERR_INVALID, "the %u accepted slots are not a path of the tree", count);
    }
    uint32_t length = sequence->length + count;
    or_status_t status = or_kv_pages_check(sequence->cache, or_kv_pages_missing(sequence, length));
    if (status != OR_OK) {
        return status;
    }
    or_kv_pages_take(sequence, length);
    sequence->cache->memory->move_slots(sequence, slots, count);
    or_kv_sequence_grow(sequence, count);
    return OR_OK;
}

or_status_t or_kv_sequence_accept(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    bool changed = count > 0 || sequence->has_slots;
    or_status_t status = move_path(sequence, slots, count);
    if (status != OR_OK) {
        return status;
    }
    or_kv_slots_forget(sequence);
    if (changed) {
        note(sequence,
             (or_kv_note_t){.kind = OR_KV_NOTE_ACCEPT, .slots = slots, .slot_count = count});
    }
    return OR_OK;
}

// Does the slot's chain of parents lead through `root`, whose depth is `depth`? Parents of slots that
// were forgotten a moment ago can still be followed.
static bool descends_from(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t root,
                          uint32_t depth)
{
    const or_kv_slot_t *slots = sequence->slots;
    while (slots[slot].depth > depth) {
        slot = slots[slot].parent;
        if (slot == root) {
            return true;
        }
    }
    return false;
}

or_status_t or_kv_sequence_accept_root(or_kv_sequence_t *sequence, const uint32_t *slots,
                                       uint32_t count)
{
    if (sequence->cache->journal != NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "trees that outlive their root are for one rank alone");
    }
    or_status_t status = move_path(sequence, slots, count);
    if (status != OR_OK || count == 0) {
        return status;
    }
    uint32_t root = slots[count - 1];
    for (uint32_t i = 0; i < sequence->slots_max; i++) {
        if (or_kv_slot_is_live(sequence, i, sequence->epoch) &&
            !descends_from(sequence, i, root, count - 1)) {
            sequence->slots[i].epoch = 0;
        }
    }
    for (uint32_t i = 0; i < sequence->slots_max; i++) {
        or_kv_slot_t *slot = &sequence->slots[i];
        if (or_kv_slot_is_live(sequence, i, sequence->epoch)) {
            slot->depth -= count;
            slot->parent = slot->depth == 0 ? OR_KV_NO_SLOT : slot->parent;
        }
    }
    return OR_OK;
}

void or_kv_sequence_drop_slot(or_kv_sequence_t *sequence, uint32_t slot)
{
    if (sequence->cache->journal == NULL) {
        sequence->slots[slot].epoch = 0;
    }
}

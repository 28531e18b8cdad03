// Pages of a cache: taken, shared, copied before they are written, given back.
#include "common/model/kv/kv_cache_internal.h"

static uint32_t pages_for(uint32_t positions)
{
    return positions / OR_KV_PAGE + (positions % OR_KV_PAGE != 0);
}

static uint32_t take_one(or_kv_cache_t *cache)
{
    uint32_t page = cache->free[--cache->free_count];
    cache->holders[page] = 1;
    return page;
}

static void give_back(or_kv_cache_t *cache, uint32_t page)
{
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
    if (wanted <= cache->free_count) {
        return OR_OK;
    }
    return or_fail(OR_ERR_FULL,
                   "the KV cache is full: %u of its %u pages are free; end a session or give it "
                   "more pages",
                   cache->free_count, cache->pages_max);
}

void or_kv_pages_take(or_kv_sequence_t *sequence, uint32_t positions)
{
    or_kv_cache_t *cache = sequence->cache;
    if (positions > sequence->length && is_in_shared_page(sequence)) {
        uint32_t *page = &sequence->pages[sequence->length / OR_KV_PAGE];
        uint32_t shared = *page;
        *page = take_one(cache);
        cache->memory->copy_page(cache, shared, *page);
        give_back(cache, shared);
    }
    while (sequence->page_count < pages_for(positions)) {
        sequence->pages[sequence->page_count++] = take_one(cache);
    }
}

void or_kv_pages_trim(or_kv_sequence_t *sequence)
{
    uint32_t kept = sequence->reserved > sequence->length ? sequence->reserved : sequence->length;
    while (sequence->page_count > pages_for(kept)) {
        give_back(sequence->cache, sequence->pages[--sequence->page_count]);
    }
}

uint32_t or_kv_pages_share(or_kv_sequence_t *sequence, const or_kv_sequence_t *donor,
                           uint32_t length)
{
    or_kv_cache_t *cache = sequence->cache;
    uint32_t whole = length / OR_KV_PAGE;
    for (uint32_t i = 0; i < whole; i++) {
        sequence->pages[i] = donor->pages[i];
        cache->holders[donor->pages[i]]++;
    }
    sequence->page_count = whole;
    if (length % OR_KV_PAGE == 0) {
        return length;
    }
    if (cache->free_count == 0) {
        return whole * OR_KV_PAGE;
    }
    sequence->pages[sequence->page_count++] = take_one(cache);
    cache->memory->copy_page(cache, donor->pages[whole], sequence->pages[whole]);
    return length;
}

uint32_t or_kv_cache_pages(const or_kv_cache_t *cache)
{
    return cache->pages_max;
}

uint32_t or_kv_cache_pages_free(const or_kv_cache_t *cache)
{
    return cache->free_count;
}

uint32_t or_kv_cache_pages_shared(const or_kv_cache_t *cache)
{
    uint32_t shared = 0;
    for (uint32_t page = 0; page < cache->pages_max; page++) {
        shared += cache->holders[page] > 1;
    }
    return shared;
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

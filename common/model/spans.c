#include "common/model/spans.h"

#include <stdlib.h>

#define PAGE ((uint64_t)OR_PACKED_ALIGNMENT)

bool or_spans_reserve(or_spans_t *list, uint32_t room)
{
    or_packed_span_t *spans = realloc(list->spans, room * sizeof *spans);
    if (spans != NULL) {
        list->spans = spans;
        list->room = room;
    }
    return spans != NULL;
}

bool or_spans_add(or_spans_t *list, uint64_t begin, uint64_t end)
{
    if (list->count == list->room && !or_spans_reserve(list, 2 * list->room + 16)) {
        return false;
    }
    begin = begin / PAGE * PAGE;
    end = (end + PAGE - 1) / PAGE * PAGE;
    list->spans[list->count++] = (or_packed_span_t){begin, end - begin};
    return true;
}

// Return the bytes of a panel that are here.
static uint64_t panel_part(const or_matrix_t *m)
{
    const uint32_t panels = or_span_length(m->panels);
    return panels > 0 ? m->bytes / m->experts / panels : 0;
}

// A part of the inputs is a piece of every panel; a part of the outputs is some whole panels of every expert.
static uint32_t pieces_of_expert(const or_matrix_t *m)
{
    return panel_part(m) == m->panel_bytes ? 1 : or_span_length(m->panels);
}

uint64_t or_spans_of_matrix(const or_matrix_t *m)
{
    return (uint64_t)m->experts * pieces_of_expert(m);
}

bool or_spans_add_matrix(or_spans_t *list, uintptr_t base, const or_matrix_t *m)
{
    const uint32_t pieces = pieces_of_expert(m);
    const uint64_t part = panel_part(m);
    const uint64_t piece = pieces == 1 ? or_span_length(m->panels) * part : part;
    bool added = true;
    for (uint32_t e = 0; part > 0 && e < m->experts; e++) {
        uint64_t at = (uintptr_t)m->memory - base + e * m->expert_bytes;
        for (uint32_t p = 0; added && p < pieces; p++, at += m->panel_bytes) {
            added = or_spans_add(list, at, at + piece);
        }
    }
    return added;
}

static int compare_spans(const void *a, const void *b)
{
    const or_packed_span_t *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

void or_spans_join(or_spans_t *list, uint32_t first)
{
    uint32_t count = first;
    if (list->count > first) {
        qsort(list->spans + first, list->count - first, sizeof *list->spans, compare_spans);
    }
    for (uint32_t i = first; i < list->count; i++) {
        const or_packed_span_t span = list->spans[i];
        or_packed_span_t *last = count > first ? &list->spans[count - 1] : NULL;
        if (last == NULL || span.at > last->at + last->bytes) {
            list->spans[count++] = span;
        } else if (span.at + span.bytes > last->at + last->bytes) {
            last->bytes = span.at + span.bytes - last->at;
        }
    }
    list->count = count;
    list->bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        list->bytes += list->spans[i].bytes;
    }
}

void or_spans_fini(or_spans_t *list)
{
    free(list->spans);
    *list = (or_spans_t){0};
}

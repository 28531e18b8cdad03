#include "coordinator/figures/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/text/utf8.h"

#define TOGETHER_MS 1000u // events of one kind that are no further apart become one

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static or_event_t *at(or_events_t *events, uint64_t position)
{
    return &events->items[position % OR_EVENTS_MAX];
}

static uint64_t oldest(const or_events_t *events)
{
    return events->count > OR_EVENTS_MAX ? events->count - OR_EVENTS_MAX : 0;
}

// Return the position of the last event of this kind if it is recent, else events->count.
static uint64_t find_latest(or_events_t *events, const char *kind, uint64_t time_ms)
{
    for (uint64_t i = events->count; i-- > oldest(events);) {
        const or_event_t *event = at(events, i);
        if (event->time_ms + TOGETHER_MS <= time_ms) {
            break;
        }
        if (event->session == 0 && strcmp(event->kind, kind) == 0) {
            return i;
        }
    }
    return events->count;
}

// Remove an event. The events after it move up.
static void take_out(or_events_t *events, uint64_t position)
{
    for (uint64_t i = position; i + 1 < events->count; i++) {
        uint64_t to = i % OR_EVENTS_MAX, from = (i + 1) % OR_EVENTS_MAX;
        memcpy(events->texts[to], events->texts[from], OR_EVENT_TEXT_BYTES);
        events->items[to] = events->items[from];
        events->items[to].text = events->texts[to];
    }
    events->count--;
}

void or_events_note(or_events_t *events, const char *kind, uint64_t session, const char *format,
                    ...)
{
    uint64_t time_ms = now_ms();
    uint64_t number = events->count > 0 ? at(events, events->count - 1)->number + 1 : 1;
    uint64_t latest = session == 0 ? find_latest(events, kind, time_ms) : events->count;
    if (latest < events->count) {
        take_out(events, latest);
    }
    char *text = events->texts[events->count % OR_EVENTS_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, OR_EVENT_TEXT_BYTES, format, args);
    va_end(args);
    or_utf8_mend(text);
    *at(events, events->count++) = (or_event_t){
        .number = number, .time_ms = time_ms, .kind = kind, .session = session, .text = text};
}

uint32_t or_events_after(const or_events_t *events, uint64_t after, or_event_t *out)
{
    uint32_t count = 0;
    for (uint64_t i = oldest(events); i < events->count; i++) {
        const or_event_t *event = &events->items[i % OR_EVENTS_MAX];
        if (event->number > after) {
            out[count++] = *event;
        }
    }
    return count;
}

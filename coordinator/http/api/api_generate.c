// Texts: from a body to slots of or_requests, and from there to their answer (api_answer.c).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/math/rng.h"
#include "coordinator/http/api/api_internal.h"

// A text that can be resumed is kept for so long behind its end: a reader may miss what the system has taken from us.
#define LINGER_NS (15 * OR_NS_PER_S)
#define NO_SLOT_NS (OR_NS_PER_S / 10) // until another look for one

// ---- life of a work ----

static void link_work(or_api_t *api, or_api_work_t *work)
{
    work->next = &api->works;
    work->previous = api->works.previous;
    work->previous->next = work;
    api->works.previous = work;
}

static void destroy_work(or_api_work_t *work)
{
    if (work->next != NULL) {
        work->previous->next = work->next;
        work->next->previous = work->previous;
    }
    for (uint32_t i = 0; work->choices != NULL && i < work->count; i++) {
        or_api_choice_fini(&work->choices[i]);
    }
    or_api_request_fini(&work->request);
    or_hold_close(&work->asked);
    or_hold_close(&work->gathered);
    free(work->generates);
    free(work->choices);
    free(work->slots);
    free(work->owner);
    free(work->label);
    free(work);
}

// Destroy a work when neither its call nor the coordinator waits for it.
static void destroy_if_over(or_api_work_t *work)
{
    if (work->held.call == NULL && work->busy == 0) {
        destroy_work(work);
    }
}

void or_api_works_end(or_api_t *api)
{
    while (api->works.next != &api->works) {
        destroy_work(api->works.next);
    }
}

static void release(or_api_t *api, or_api_work_t *work, uint32_t choice)
{
    uint32_t slot = work->slots[choice];
    api->slots[slot] = (or_api_slot_t){0};
    api->idle[api->idle_count++] = slot;
    work->slots[choice] = OR_REQUESTS_NO_SLOT;
    work->busy--;
}

// A slot that has nothing more to say.
static void release_if_idle(or_api_t *api, or_api_work_t *work, uint32_t choice)
{
    if (or_requests_is_idle(api->requests, work->slots[choice])) {
        release(api, work, choice);
    }
}

uint32_t or_api_work_running(const or_api_work_t *work)
{
    return work->begun - (work->count - work->live);
}

// End the work on its texts. `resumable`: they are kept for a client that comes back.
static void let_go(or_api_t *api, or_api_work_t *work, bool resumable)
{
    for (uint32_t i = 0; i < work->count; i++) {
        if (work->slots[i] == OR_REQUESTS_NO_SLOT) {
            continue;
        }
        if (resumable) {
            or_requests_leave(api->requests, work->slots[i]);
        } else {
            or_requests_cancel(api->requests, work->slots[i]); // idle after its last delta
        }
        release_if_idle(api, work, i);
    }
}

void or_api_work_forget(or_api_work_t *work)
{
    for (uint32_t i = 0; i < work->count; i++) {
        uint32_t index = work->choices[i].index;
        or_api_choice_fini(&work->choices[i]);
        work->choices[i].index = index; // deltas may still come for it
    }
    or_hold_force(&work->gathered, 0);
}

void or_api_work_fail(or_api_t *api, or_api_work_t *work, unsigned status, const char *param,
                      const char *code, const char *message)
{
    work->held.answered = true;
    or_api_work_forget(work);
    let_go(api, work, work->has_id && status == 503);
    work->has_id = false;
    if (work->streams) {
        or_api_stream_fail(api, work, status, code, message);
    } else {
        or_http_reply_error(work->held.call, status, param, code, "%s", message);
    }
}

void or_api_work_drop(or_api_t *api, or_api_work_t *work)
{
    work->has_id = false;
    let_go(api, work, false);
    destroy_if_over(work);
}

static void on_over(or_api_t *api, or_api_held_t *held, bool complete)
{
    or_api_work_t *work = (or_api_work_t *)held;
    held->call = NULL;
    or_api_work_forget(work);
    if (work->streams) {
        or_metric_set(api->streams_now, NULL, --api->streams);
    }
    if (complete && work->has_id) {
        work->lingers_until_ns = or_clock_now(api->config.clock) + LINGER_NS;
        api->due_ns = 0;
    } else {
        let_go(api, work, work->has_id);
    }
    destroy_if_over(work);
}

// End the works that linger until `now`: their readers have had the time to miss something.
static void end_lingering(or_api_t *api, int64_t now)
{
    or_api_work_t *next;
    for (or_api_work_t *work = api->works.next; work != &api->works; work = next) {
        next = work->next;
        if (work->lingers_until_ns != 0 && work->lingers_until_ns <= now) {
            or_api_work_drop(api, work);
        }
    }
}

// ---- beginning ----

// Make the request for one text, as the coordinator is sent it.
static or_generate_request_t text_request(const or_api_work_t *work, uint32_t index)
{
    const or_api_prompt_t *prompt = &work->request.prompts[index / work->request.n];
    or_generate_request_t generate = work->request.generate;
    generate.prompt = prompt->text;
    generate.prompt_bytes = prompt->bytes;
    generate.prompt_tokens = prompt->tokens;
    generate.prompt_token_count = prompt->count;
    generate.choice = index;
    generate.owner = work->owner;
    generate.label = work->label;
    generate.draft_nodes = or_api_limits_nodes(work, generate.draft_nodes);
    return generate;
}

// Takes the request, also on failure. NULL: no memory.
static or_api_work_t *make_work(const or_api_t *api, or_http_call_t *call,
                                or_api_request_t *request)
{
    or_api_work_t *work = calloc(1, sizeof *work);
    if (work == NULL) {
        or_api_request_fini(request);
        return NULL;
    }
    uint32_t count = request->n * request->prompt_count;
    *work = (or_api_work_t){
        .held = {.over = on_over, .call = call},
        .request = *request,
        .grant = *or_http_call_grant(call),
        .owner = strdup(or_http_call_owner(call)),
        .label = strdup(or_http_call_id(call)), // X-Request-Id: logs are joined by it
        .count = count,
        .live = count,
        .generates = calloc(count, sizeof *work->generates),
        .choices = calloc(count, sizeof *work->choices),
        .slots = calloc(count, sizeof *work->slots),
        .begin_ns = or_clock_now(api->config.clock)};
    if (work->owner == NULL || work->label == NULL || work->generates == NULL ||
        work->choices == NULL || work->slots == NULL) {
        destroy_work(work);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        work->slots[i] = OR_REQUESTS_NO_SLOT;
    }
    work->head = (or_api_head_t){.request = &work->request,
                                 .vocab = api->config.vocab,
                                 .model = api->config.model,
                                 .number = or_rng_system_seed(),
                                 .created = time(NULL)};
    return work;
}

static void begin_text(or_api_t *api, or_api_work_t *work, uint32_t index, bool resumes)
{
    uint32_t slot = api->idle[--api->idle_count];
    api->slots[slot] = (or_api_slot_t){work, index};
    work->slots[index] = slot;
    work->busy++;
    work->begun = index + 1;
    work->follows = false;
    work->generates[index] = text_request(work, index);
    or_api_choice_init(&work->choices[index], &work->head, index);
    if (resumes) {
        work->choices[index].begun = true;
        work->choices[index].end_told = work->place.said >= OR_API_SAID_FINISH;
        work->choices[index].characters = work->place.characters;
        work->choices[index].told_bytes = work->place.text_bytes;
        or_requests_resume(api->requests, slot, &work->generates[index], work->place.secret,
                           work->place.tokens, work->place.text_bytes);
    } else {
        or_requests_begin(api->requests, slot, &work->generates[index]);
    }
    if (work->request.stream && work->count == 1) {
        or_requests_hold(api->requests, slot); // what was sent may not have been read
    }
}

// The memory that a work takes, without what it gathers.
static uint64_t size_of(const or_api_work_t *work)
{
    uint64_t each = sizeof *work->generates + sizeof *work->choices + sizeof *work->slots;
    return sizeof *work + work->count * each + work->request.owned_bytes;
}

// Forget the request once all texts have begun: from then on the coordinator knows them by their session.
static void forget_request(or_api_work_t *work)
{
    if (work->begun == work->count && !work->request.echo) {
        or_api_request_forget(&work->request);
        or_hold_force(&work->asked, size_of(work));
    }
}

// The last text that was asked for has its first token, or has ended.
static void note_follows(or_api_t *api, or_api_work_t *work, uint32_t index)
{
    if (index + 1 != work->begun || work->follows) {
        return;
    }
    work->follows = true;
    forget_request(work);
    if (work->begun < work->count) {
        api->due_ns = 0;
    }
}

// Ask for the next text, if its turn has come; returns when to look again.
static int64_t follow(or_api_t *api, or_api_work_t *work, int64_t now)
{
    or_api_wait_t wait = {.until_ns = now + NO_SLOT_NS};
    if (!work->follows || work->begun == work->count) {
        return OR_TIME_NEVER;
    }
    if (now < work->follows_ns) {
        return work->follows_ns;
    }
    if (api->idle_count == 0 || !or_api_limits_allow(api, work, &wait)) {
        work->follows_ns = wait.until_ns;
        return wait.until_ns;
    }
    begin_text(api, work, work->begun, false);
    return OR_TIME_NEVER;
}

// There was no place for a text whose request has others under way: it is asked for again.
static bool ask_again(or_api_t *api, or_api_work_t *work, uint32_t index,
                      const or_generate_delta_t *delta)
{
    if (delta->finish != OR_FINISH_ERROR || delta->error_code != OR_WIRE_BUSY ||
        delta->retry_ms == 0 || index == 0 || index + 1 != work->begun || work->follows ||
        work->held.answered || work->held.call == NULL) {
        return false;
    }
    release_if_idle(api, work, index);
    work->begun = index;
    work->follows = true;
    work->follows_ns = or_clock_now(api->config.clock) + delta->retry_ms * OR_NS_PER_MS;
    api->due_ns = 0;
    return true;
}

int64_t or_api_works_turn(or_api_t *api, int64_t now)
{
    int64_t first = OR_TIME_NEVER;
    end_lingering(api, now);
    for (or_api_work_t *work = api->works.next; work != &api->works; work = work->next) {
        int64_t due = OR_TIME_NEVER;
        if (work->lingers_until_ns != 0) {
            due = work->lingers_until_ns;
        } else if (!work->held.answered && work->held.call != NULL) {
            int64_t next_ns = follow(api, work, now);
            due = work->request.stream ? or_api_stream_turn(api, work, now) : OR_TIME_NEVER;
            due = next_ns < due ? next_ns : due;
        }
        first = due < first ? due : first;
    }
    return first;
}

bool or_api_work_reads_the_same(const or_api_work_t *a, const or_api_work_t *b)
{
    return a->has_id && b->has_id && strcmp(a->owner, b->owner) == 0 &&
           memcmp(a->place.secret, b->place.secret, sizeof a->place.secret) == 0;
}

// The stream that a client has come back for may be one whose loss nobody has noticed yet.
static void end_other_reader(or_api_t *api, const or_api_work_t *work)
{
    or_api_work_t *next;
    for (or_api_work_t *other = api->works.next; other != &api->works; other = next) {
        next = other->next;
        if (!or_api_work_reads_the_same(other, work)) {
            continue;
        }
        if (other->held.call != NULL && !other->held.answered) {
            or_api_work_fail(api, other, 503, NULL, NULL, "The stream is read elsewhere now.");
        } else {
            let_go(api, other, true);
            destroy_if_over(other);
        }
    }
}

static void begin_work(or_api_t *api, or_api_work_t *work, bool resumes)
{
    if (!work->request.generate.has_seed) {
        work->request.generate.seed = or_rng_system_seed() >> 32; // short enough to be typed again
        work->request.generate.has_seed = true;
    }
    if (resumes) {
        end_other_reader(api, work);
    }
    link_work(api, work);
    or_http_call_set_data(work->held.call, &work->held);
    begin_text(api, work, 0, resumes);
    api->due_ns = or_clock_now(api->config.clock); // its stream is to be looked after
}

static void refuse_for_now(or_http_call_t *call, int64_t wait_ns, const char *why)
{
    or_api_reply_when(call, wait_ns > 0 ? (uint32_t)(wait_ns / OR_NS_PER_MS) : 0);
    or_http_reply_error(call, 429, NULL, "rate_limit_exceeded", "%s", why);
}

// Is there room for it: a slot, memory, and what its key allows? Else the call is answered.
static bool has_room(or_api_t *api, or_http_call_t *call, or_api_work_t *work)
{
    or_api_wait_t wait;
    int64_t now = or_clock_now(api->config.clock);
    if (api->idle_count == 0) {
        end_lingering(api, OR_TIME_NEVER);
    }
    if (api->idle_count == 0) {
        snprintf(wait.why, sizeof wait.why, "Busy: %u texts are being written.", api->config.slots);
        refuse_for_now(call, 0, wait.why);
        return false;
    }
    if (!or_api_limits_allow(api, work, &wait)) {
        refuse_for_now(call, wait.until_ns - now, wait.why);
        return false;
    }
    if (or_hold_open(&work->asked, api->config.ledger, work->owner, OR_HELD_REQUESTS) != OR_OK ||
        or_hold_open(&work->gathered, api->config.ledger, work->owner, OR_HELD_ANSWERS) != OR_OK ||
        or_hold_resize(&work->asked, size_of(work)) != OR_OK) {
        refuse_for_now(call, 0, or_error_text());
        return false;
    }
    return true;
}

// A request that is read, on whatever thread.
typedef struct {
    bool chat, good;
    or_api_terms_t terms;
    or_api_request_t request; // if it is good
    or_api_problem_t problem; // else
} reading_t;

static void read_request(void *data, const uint8_t *body, size_t bytes)
{
    reading_t *reading = data;
    reading->good = or_api_request_parse(reading->chat, body, bytes, &reading->terms,
                                         &reading->request, &reading->problem);
}

static void drop_request(void *data)
{
    reading_t *reading = data;
    if (reading->good) {
        or_api_request_fini(&reading->request);
    }
    free(reading);
}

static void begin(void *context, or_http_call_t *call, void *data)
{
    or_api_t *api = context;
    reading_t *reading = data;
    bool resumes = false;
    if (api->stopping) {
        or_api_reply_stopping(call);
        return;
    }
    if (!reading->good) {
        or_api_reply_problem(call, &reading->problem);
        return;
    }
    reading->good = false; // it is taken
    or_api_work_t *work = make_work(api, call, &reading->request);
    if (work == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the request.");
    } else if (or_api_stream_place(call, work, &resumes) && has_room(api, call, work)) {
        begin_work(api, work, resumes);
    } else {
        destroy_work(work);
    }
}

static void post(or_api_t *api, or_http_call_t *call, bool chat)
{
    static const or_http_task_t task = {read_request, begin, drop_request};
    reading_t *reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the request.");
        return;
    }
    reading->chat = chat;
    reading->terms = (or_api_terms_t){.model = api->config.model,
                                      .vocab = api->config.vocab,
                                      .chat_trouble = api->config.chat_trouble,
                                      .chat = api->config.chat,
                                      .tools = api->config.tools};
    or_http_call_begin(call, &task, reading);
}

void or_api_post_completion(or_api_t *api, or_http_call_t *call)
{
    post(api, call, false);
}

void or_api_post_chat(or_api_t *api, or_http_call_t *call)
{
    post(api, call, true);
}

// ---- deltas ----

void or_api_take_delta(or_api_t *api, uint32_t slot, const or_generate_delta_t *delta)
{
    or_api_work_t *work = api->slots[slot].work;
    if (work == NULL) {
        return; // it was left
    }
    or_api_choice_t *choice = &work->choices[api->slots[slot].choice];
    or_api_limits_wrote(api, work, delta->count);
    if (ask_again(api, work, choice->index, delta)) {
        return;
    }
    note_follows(api, work, choice->index);
    if (delta->finish != OR_FINISH_NONE) {
        release_if_idle(api, work, choice->index);
        work->live--;
    }
    if (work->held.call == NULL || work->held.answered) {
        destroy_if_over(work);
    } else {
        or_api_answer(api, work, choice, delta);
    }
}

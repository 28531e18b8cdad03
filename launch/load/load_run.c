#include "launch/load/load_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "proto/net/requests.h"

#define LOOK_NS (200 * OR_NS_PER_MS)       // between looks at the children and at Ctrl-C
#define CANCEL_NS (5 * OR_NS_PER_S)        // for cancelled requests to end
#define BUSY_PAUSE_NS (500 * OR_NS_PER_MS) // where the coordinator does not say how long
// A cluster that fails at once is not asked a thousand times a second.
#define ERROR_PAUSE_NS OR_NS_PER_S
#define LEARN_SESSIONS 16u
#define READY_PROMPT "A"
#define BAR_CELLS 20

// A session writes one text after the other.
typedef struct {
    uint32_t text;
    uint32_t tokens; // of the text so far
    bool wrong;
    bool again; // the coordinator was busy: the same text, and the clock goes on
    int64_t asked_ns, last_ns;
    int64_t pause_until_ns;
} session_t;

typedef struct {
    const or_load_place_t *place;
    const or_clock_t *clock;
    or_requests_t *requests;
    session_t *sessions;
    uint32_t count;
    uint32_t text_count;
    uint32_t next_text;
    int64_t looked_ns;
} run_t;

static or_generate_request_t make_request(const or_load_place_t *place, uint32_t text, bool plain)
{
    const or_bench_prompt_t *prompt = &place->prompts->items[text % place->prompts->count];
    or_generate_request_t request = place->plan->request;
    request.prompt = (const uint8_t *)prompt->text;
    request.prompt_bytes = prompt->bytes;
    request.seed = place->config->seed + text / place->prompts->count;
    request.plain |= plain;
    return request;
}

// Look, not too often, whether the user wants us to end and whether the children live.
static or_status_t look(run_t *run, int64_t now)
{
    if (or_interrupt_count() > 0) {
        return or_fail(OR_ERR_CANCELLED, "interrupted");
    }
    if (run->place->cluster == NULL || now - run->looked_ns < LOOK_NS) {
        return OR_OK;
    }
    run->looked_ns = now;
    return or_cluster_check(run->place->cluster, true);
}

static void close_run(run_t *run)
{
    or_requests_destroy(&run->requests);
    free(run->sessions);
}

// Wait until the coordinator has welcomed us: connecting is not measured.
static or_status_t wait_for_welcome(run_t *run)
{
    uint32_t slot;
    or_message_t message;
    or_status_t status = OR_OK;
    while (status == OR_OK && !or_requests_welcomed(run->requests)) {
        int64_t now = or_clock_now(run->clock);
        status = look(run, now);
        if (status == OR_OK) {
            status = or_requests_next(run->requests, now + LOOK_NS, &slot, &message);
        }
        status = status == OR_ERR_AGAIN ? OR_OK : status; // nothing was asked, so nothing comes
    }
    return status;
}

static or_status_t open_run(const or_load_place_t *place, uint32_t sessions, run_t *run)
{
    *run = (run_t){.place = place,
                   .clock = or_clock_monotonic(),
                   .count = sessions,
                   .text_count = place->prompts->count * place->config->seeds};
    run->sessions = calloc(sessions, sizeof *run->sessions);
    if (run->sessions == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %" PRIu32 " sessions", sessions);
    }
    const or_load_config_t *config = place->config;
    const or_requests_config_t client = {.owner = config->owner, .no_padding = !config->padding};
    // A cluster of our own is on this machine, and does not encrypt.
    or_status_t status =
        or_requests_connect(place->endpoint, config->connect != NULL ? &config->keys : NULL,
                            &client, sessions, &run->requests);
    if (status == OR_OK) {
        status = wait_for_welcome(run);
    }
    if (status != OR_OK) {
        close_run(run);
    }
    return status;
}

static void ask(run_t *run, uint32_t slot, bool plain)
{
    session_t *session = &run->sessions[slot];
    int64_t asked_ns = session->again ? session->asked_ns : or_clock_now(run->clock);
    uint32_t text = session->again ? session->text : run->next_text++ % run->text_count;
    *session = (session_t){.text = text, .asked_ns = asked_ns};
    const or_generate_request_t request = make_request(run->place, text, plain);
    or_requests_begin(run->requests, slot, &request);
}

// ---- everyone is there ----

// It is a prompt of no text, so that none is known when the measurement begins.
static void ask_for_one_token(run_t *run)
{
    or_generate_request_t request = make_request(run->place, 0, false);
    request.prompt = (const uint8_t *)READY_PROMPT;
    request.prompt_bytes = strlen(READY_PROMPT);
    request.max_tokens = 1;
    or_requests_begin(run->requests, 0, &request);
}

// Our own cluster is asked again where it says that it is busy: its models are still being loaded. Whether a request can be served
// at all, the measurement says.
static or_status_t write_one_token(run_t *run)
{
    int64_t again_ns = 0; // when to ask again; 0: not
    or_status_t status = OR_OK;
    ask_for_one_token(run);
    while (status == OR_OK && (again_ns > 0 || !or_requests_is_idle(run->requests, 0))) {
        uint32_t slot;
        or_message_t message;
        int64_t now = or_clock_now(run->clock);
        if (again_ns > 0 && now >= again_ns) {
            ask_for_one_token(run);
            again_ns = 0;
        }
        status = look(run, now);
        if (status == OR_OK) {
            status = or_requests_next(run->requests, now + LOOK_NS, &slot, &message);
        }
        if (status == OR_OK) {
            bool busy = message.body.generate_delta.error_code == OR_WIRE_BUSY;
            again_ns = busy && run->place->cluster != NULL ? now + BUSY_PAUSE_NS : 0;
            or_message_fini(&message);
        }
        status = status == OR_ERR_AGAIN ? OR_OK : status;
    }
    return status;
}

or_status_t or_load_run_wait(const or_load_place_t *place)
{
    run_t run;
    bool terminal = isatty(STDERR_FILENO) == 1;
    or_status_t status = open_run(place, 1, &run);
    if (status != OR_OK) {
        return status;
    }
    if (terminal) {
        fputs("waiting for the models to be ready", stderr);
    }
    status = write_one_token(&run);
    if (terminal) {
        fputs("\r\033[K", stderr);
    }
    close_run(&run);
    return status;
}

// ---- learning ----

static or_status_t append(or_load_text_t *text, const or_generate_delta_t *delta)
{
    if (delta->finish == OR_FINISH_ERROR) {
        return or_fail(OR_ERR_INVALID, "%s", delta->error);
    }
    uint32_t *larger =
        reallocarray(text->tokens, text->count + (size_t)delta->count + 1, sizeof *larger);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the plain texts");
    }
    text->tokens = larger;
    if (delta->count > 0) {
        memcpy(text->tokens + text->count, delta->tokens, delta->count * sizeof *text->tokens);
        text->count += delta->count;
    }
    return OR_OK;
}

// Take the next delta of a plain text. A busy coordinator is asked again after a pause.
static or_status_t learn_step(run_t *run, or_load_texts_t *texts, uint32_t *ended)
{
    uint32_t slot;
    or_message_t message;
    int64_t now = or_clock_now(run->clock);
    or_status_t status = look(run, now);
    for (slot = 0; slot < run->count && status == OR_OK; slot++) {
        session_t *session = &run->sessions[slot];
        bool more = session->again || run->next_text < run->text_count;
        if (more && or_requests_is_idle(run->requests, slot) && now >= session->pause_until_ns) {
            ask(run, slot, true);
        }
    }
    if (status == OR_OK) {
        status = or_requests_next(run->requests, now + LOOK_NS, &slot, &message);
    }
    if (status != OR_OK) {
        return status == OR_ERR_AGAIN ? OR_OK : status;
    }
    const or_generate_delta_t *delta = &message.body.generate_delta;
    session_t *session = &run->sessions[slot];
    if (delta->finish == OR_FINISH_ERROR && delta->error_code == OR_WIRE_BUSY) {
        session->again = true;
        session->pause_until_ns = now + BUSY_PAUSE_NS;
    } else {
        status = append(&texts->items[session->text], delta);
        *ended += delta->finish != OR_FINISH_NONE;
    }
    or_message_fini(&message);
    return status;
}

or_status_t or_load_run_learn(const or_load_place_t *place, or_load_texts_t *texts)
{
    run_t run;
    uint32_t ended = 0;
    or_status_t status = open_run(place, LEARN_SESSIONS, &run);
    if (status != OR_OK) {
        return status;
    }
    or_load_texts_t learnt = {.count = run.text_count};
    learnt.items = calloc(learnt.count, sizeof *learnt.items);
    if (learnt.items == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for the plain texts");
    }
    while (status == OR_OK && ended < learnt.count) {
        status = learn_step(&run, &learnt, &ended);
    }
    close_run(&run);
    if (status != OR_OK) {
        or_load_texts_fini(&learnt);
        return or_fail_context(status, "decoding the texts plainly");
    }
    *texts = learnt;
    return OR_OK;
}

void or_load_texts_fini(or_load_texts_t *texts)
{
    for (uint32_t i = 0; i < texts->count && texts->items != NULL; i++) {
        free(texts->items[i].tokens);
    }
    free(texts->items);
    *texts = (or_load_texts_t){0};
}

// ---- measuring ----

static void count_tokens(or_load_figures_t *figures, uint32_t slot, session_t *session,
                         uint32_t tokens, int64_t now)
{
    if (tokens == 0) {
        return;
    }
    if (session->tokens == 0) {
        or_load_histogram_add(&figures->first_token, (uint64_t)(now - session->asked_ns) / 1000, 1);
    } else {
        or_load_histogram_add(&figures->inter_token,
                              (uint64_t)(now - session->last_ns) / 1000 / tokens, tokens);
    }
    session->last_ns = now;
    figures->session_tokens[slot] += tokens;
}

// Note in the session if the delta disagrees with the plain text, or ends elsewhere.
static void compare(const or_load_texts_t *texts, session_t *session,
                    const or_generate_delta_t *delta)
{
    const or_load_text_t *plain = &texts->items[session->text];
    uint32_t room = plain->count - session->tokens;
    bool ended = delta->finish == OR_FINISH_STOP || delta->finish == OR_FINISH_LENGTH;
    if (session->wrong) {
        return;
    }
    session->wrong = delta->count > room || (ended && delta->count < room) ||
                     (delta->count > 0 && memcmp(plain->tokens + session->tokens, delta->tokens,
                                                 delta->count * sizeof *delta->tokens) != 0);
}

static void count_end(or_load_figures_t *figures, session_t *session,
                      const or_generate_delta_t *delta, int64_t now)
{
    if (delta->finish != OR_FINISH_ERROR) {
        figures->texts++;
        figures->rounds += delta->stats.target_calls;
        figures->plain_rounds += delta->stats.plain_rounds;
    } else if (delta->error_code == OR_WIRE_BUSY) {
        figures->busy++;
        session->again = session->tokens == 0;
        session->pause_until_ns =
            now + (delta->retry_ms > 0 ? delta->retry_ms * OR_NS_PER_MS : BUSY_PAUSE_NS);
    } else {
        if (figures->errors++ == 0) {
            snprintf(figures->error, sizeof figures->error, "%s", delta->error);
        }
        session->pause_until_ns = now + ERROR_PAUSE_NS;
    }
}

static void take(run_t *run, const or_load_texts_t *texts, or_load_figures_t *figures,
                 uint32_t slot, const or_generate_delta_t *delta)
{
    session_t *session = &run->sessions[slot];
    int64_t now = or_clock_now(run->clock);
    bool was_wrong = session->wrong;
    if (texts != NULL) {
        compare(texts, session, delta);
        figures->wrong += session->wrong && !was_wrong;
    }
    count_tokens(figures, slot, session, delta->count, now);
    session->tokens += delta->count;
    if (delta->finish != OR_FINISH_NONE) {
        count_end(figures, session, delta, now);
    }
}

static or_status_t run_step(run_t *run, const or_load_texts_t *texts, or_load_figures_t *figures,
                            int64_t end_ns)
{
    uint32_t slot;
    or_message_t message;
    int64_t now = or_clock_now(run->clock);
    int64_t until = now + LOOK_NS < end_ns ? now + LOOK_NS : end_ns;
    or_status_t status = look(run, now);
    for (slot = 0; slot < run->count && status == OR_OK; slot++) {
        if (!or_requests_is_idle(run->requests, slot)) {
            continue;
        }
        int64_t due = run->sessions[slot].pause_until_ns;
        if (now >= due) {
            ask(run, slot, false);
        } else if (due < until) {
            until = due;
        }
    }
    if (status == OR_OK) {
        status = or_requests_next(run->requests, until, &slot, &message);
    }
    if (status == OR_OK) {
        take(run, texts, figures, slot, &message.body.generate_delta);
        or_message_fini(&message);
    }
    return status == OR_ERR_AGAIN ? OR_OK : status;
}

// Give up what still runs when the time is over, so that it does not burden the next measurement.
static void cancel_all(run_t *run)
{
    uint32_t slot;
    or_message_t message;
    int64_t end_ns = or_clock_now(run->clock) + CANCEL_NS;
    uint32_t left = 0;
    for (slot = 0; slot < run->count; slot++) {
        if (!or_requests_is_idle(run->requests, slot)) {
            or_requests_cancel(run->requests, slot);
            left++;
        }
    }
    while (left > 0 && or_clock_now(run->clock) < end_ns && or_interrupt_count() < 2) {
        or_status_t status = or_requests_next(run->requests, end_ns, &slot, &message);
        if (status == OR_OK) {
            left -= message.body.generate_delta.finish != OR_FINISH_NONE;
            or_message_fini(&message);
        } else if (status != OR_ERR_AGAIN) {
            return; // no coordinator, no burden
        }
    }
}

static void show_progress(const or_load_figures_t *figures, double seconds, double all)
{
    char bar[BAR_CELLS + 1];
    uint64_t tokens = 0;
    int full = (int)(BAR_CELLS * (seconds < all ? seconds / all : 1));
    for (uint32_t i = 0; i < figures->sessions; i++) {
        tokens += figures->session_tokens[i];
    }
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(BAR_CELLS - full));
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r[%s] %" PRIu32 " session%s, %.0f of %.0f s, %.0f tokens/s\033[K", bar,
            figures->sessions, figures->sessions == 1 ? "" : "s", seconds, all,
            seconds > 0 ? (double)tokens / seconds : 0);
}

or_status_t or_load_run(const or_load_place_t *place, const or_load_texts_t *texts,
                        or_load_figures_t *figures)
{
    run_t run;
    bool terminal = isatty(STDERR_FILENO) == 1;
    or_status_t status = open_run(place, figures->sessions, &run);
    if (status != OR_OK) {
        return status;
    }
    int64_t began_ns = or_clock_now(run.clock);
    int64_t end_ns = began_ns + place->config->seconds * OR_NS_PER_S;
    int64_t shown_ns = began_ns;
    while (status == OR_OK && or_clock_now(run.clock) < end_ns) {
        status = run_step(&run, texts, figures, end_ns);
        int64_t now = or_clock_now(run.clock);
        figures->seconds = (double)(now - began_ns) / (double)OR_NS_PER_S;
        if (terminal && now - shown_ns >= LOOK_NS) {
            show_progress(figures, figures->seconds, place->config->seconds);
            shown_ns = now;
        }
    }
    if (terminal) {
        fputs("\r\033[K", stderr);
    }
    if (status == OR_OK || status == OR_ERR_CANCELLED) {
        cancel_all(&run);
    }
    close_run(&run);
    return status;
}

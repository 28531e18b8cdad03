// api_internal - what the files of the HTTP face share.
//
//     call ──data──▶ work:     a text or several; works[] ── slots ──▶ or_requests
//                └─▶ question: figures, asked of the coordinator
//
// A work outlives its call until its last slot is idle: the coordinator is still told to stop.
#pragma once

#include "common/base/log/metrics.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/api/api_event_id.h"
#include "coordinator/http/api/api_reply.h"
#include "coordinator/peers/limits.h"

// The data of a call. It is the first member of works and questions.
typedef struct or_api_held {
    void (*over)(or_api_t *api, struct or_api_held *held, bool complete);
    or_http_call_t *call; // NULL: it is over
    bool answered;        // nothing more is said
} or_api_held_t;

typedef struct or_api_work {
    or_api_held_t held;
    struct or_api_work *next, *previous;
    or_api_request_t request;
    or_api_head_t head;
    or_key_grant_t grant; // what its key allowed when it came
    char *owner, *label;
    uint32_t count;     // texts
    uint32_t begun;     // that the coordinator was asked for
    bool follows;       // the last of these has its first token: the next may be asked for ...
    int64_t follows_ns; // ... from then on
    or_hold_t asked, gathered; // what it makes us keep
    uint32_t live;             // that have not ended
    uint32_t busy;             // slots that are not idle
    or_generate_request_t *generates;
    or_api_choice_t *choices;
    uint32_t *slots; // OR_REQUESTS_NO_SLOT: idle
    // Streams.
    bool streams; // it has begun
    bool has_id;  // events have ids: it can be resumed
    or_api_event_id_t place;
    int64_t begin_ns, said_ns; // when it began, when something was last said
    int64_t lingers_until_ns;  // it is over, but who knows whether its end was read; 0: not so
} or_api_work_t;

typedef enum { OR_API_HEALTH, OR_API_STATUS, OR_API_METRICS } or_api_about_t;

typedef struct or_api_question {
    or_api_held_t held;
    struct or_api_question *next, *previous;
    or_api_about_t about;
    int64_t asked_ns;
} or_api_question_t;

typedef struct {
    or_api_work_t *work; // NULL: nobody's
    uint32_t choice;
} or_api_slot_t;

struct or_api {
    or_api_config_t config;
    or_requests_t *requests;
    or_api_slot_t *slots;
    uint32_t *idle; // a stack of idle slots
    uint32_t idle_count;
    or_api_work_t works; // rings, of which these are the heads
    or_api_question_t questions;
    or_limits_t *limits; // of API keys
    int64_t keys_due_ns; // when their file is looked at
    int64_t complain_ns; // when it may be complained of again
    int64_t due_ns;      // when a work or a question is to be looked at
    int64_t started_ns;
    bool stopping;
    or_metrics_t *metrics;
    or_metric_t *requests_total, *responses_total, *request_seconds, *streams_now;
    or_metric_t *held_now, *held_most, *held_refused;
    uint32_t streams;
};

// ---- generating (api_generate.c) ----

void or_api_post_completion(or_api_t *api, or_http_call_t *call);
void or_api_post_chat(or_api_t *api, or_http_call_t *call);
void or_api_take_delta(or_api_t *api, uint32_t slot, const or_generate_delta_t *delta);
// Tell the call what is wrong, in its stream if that has begun, and let the work go.
void or_api_work_fail(or_api_t *api, or_api_work_t *work, unsigned status, const char *param,
                      const char *code, const char *message);
// The number of its texts that have begun and not ended.
uint32_t or_api_work_running(const or_api_work_t *work);
// Is the text of both the same, which one goes on with where the other was?
bool or_api_work_reads_the_same(const or_api_work_t *a, const or_api_work_t *b);
// Nobody reads it any more: end its texts, and then it, when the coordinator has said so.
void or_api_work_drop(or_api_t *api, or_api_work_t *work);
// Free what was gathered of its answer.
void or_api_work_forget(or_api_work_t *work);

// Do what is due: keep streams alive, end texts that nobody has come back for. Returns when to come back.
int64_t or_api_works_turn(or_api_t *api, int64_t now);
// Free all that is left.
void or_api_works_end(or_api_t *api);

// ---- limits (api_limits.c) ----

typedef struct {
    int64_t until_ns; // it is worth to ask again
    char why[80];
} or_api_wait_t;

// May another text of it begin, as far as its key goes?
bool or_api_limits_allow(or_api_t *api, const or_api_work_t *work, or_api_wait_t *wait);
void or_api_limits_wrote(or_api_t *api, const or_api_work_t *work, uint32_t tokens);
// The guesses a round that its key allows, of those that it asked for.
uint32_t or_api_limits_nodes(const or_api_work_t *work, uint32_t nodes);
// Look whether the keys have changed, and end the texts of those that are gone. Returns when to look again.
int64_t or_api_keys_turn(or_api_t *api, int64_t now);

// ---- answers (api_answer.c) ----

// Answer with an object, which is taken; NULL: there was no memory for it.
void or_api_reply_json(or_http_call_t *call, unsigned status, json_t *object);
void or_api_reply_problem(or_http_call_t *call, const or_api_problem_t *problem);
// Say in a header after how long the client should try again.
void or_api_reply_when(or_http_call_t *call, uint32_t retry_ms);
// Answer 503.
void or_api_reply_stopping(or_http_call_t *call);
// Answer 404, and say where there is something.
void or_api_reply_nothing(or_http_call_t *call);

// Pass a delta on to the client: as an event, or gathered until all is there. An end with an error fails the work.
void or_api_answer(or_api_t *api, or_api_work_t *work, or_api_choice_t *choice,
                   const or_generate_delta_t *delta);
// Read the place to go on at from Last-Event-ID; *resumes: there is one. False: the call was answered.
bool or_api_stream_place(or_http_call_t *call, or_api_work_t *work, bool *resumes);
void or_api_stream_fail(or_api_t *api, or_api_work_t *work, unsigned status, const char *code,
                        const char *message);
// Begin it, or keep it alive, where that is due; returns when it is due again.
int64_t or_api_stream_turn(or_api_t *api, or_api_work_t *work, int64_t now);

// ---- figures (api_figures.c) ----

bool or_api_figures_init(or_api_t *api);
void or_api_ask_health(or_api_t *api, or_http_call_t *call);
void or_api_ask_status(or_api_t *api, or_http_call_t *call);
void or_api_ask_metrics(or_api_t *api, or_http_call_t *call);
void or_api_take_stats(or_api_t *api, const or_stats_t *stats);
void or_api_take_metrics(or_api_t *api, const or_metrics_text_t *text);
// Questions that have waited too long are answered; returns when the next one will have.
int64_t or_api_questions_turn(or_api_t *api, int64_t now);
void or_api_questions_end(or_api_t *api);

// ---- tools (api_tools.c) ----

void or_api_get_models(or_api_t *api, or_http_call_t *call);
void or_api_get_model(or_api_t *api, or_http_call_t *call, const char *name);
void or_api_get_parameters(or_api_t *api, or_http_call_t *call);
void or_api_post_tokenize(or_api_t *api, or_http_call_t *call);
void or_api_post_detokenize(or_api_t *api, or_http_call_t *call);
void or_api_get_file(or_api_t *api, or_http_call_t *call);

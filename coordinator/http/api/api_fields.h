// api_fields - the JSON of a request, read by tables: each field has a row that says what it may be.
//
//     static const or_api_field_t fields[] = {
//         {"stream", OR_API_FLAG, .offset = offsetof(wish_t, stream)},
//         {"top_p", OR_API_REAL, .offset = offsetof(wish_t, top_p), .least = 0, .most = 1},
//         {"stop", OR_API_OWN, .read = read_stop},
//         {"store", OR_API_ONLY, .only = "[false]"}, // what we do not have: its default may be said
//         {0}};
//
// A field without a row is refused by name, never dropped; null counts as absent. The last row, which has no name, may
// have a `read` that is asked about all other fields. What is wrong is told in the words of OpenAI's errors. No
// state: any thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_API_PARAM_BYTES 96

// The error that the client is told of. Text is UTF-8.
typedef struct {
    unsigned status;                // HTTP's
    const char *code;               // static; NULL: none
    char param[OR_API_PARAM_BYTES]; // "messages[0].content"; "": none
    char message[320];
} or_api_problem_t;

// Set the problem. Always false, so that `return or_api_refuse(...)` reads well. `param` may be NULL.
bool or_api_refuse(or_api_problem_t *problem, unsigned status, const char *code, const char *param,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

// Refuse a field that is not known.
bool or_api_refuse_unknown(const char *param, or_api_problem_t *problem);

// The memory that or_api_body_parse takes at most. False with the problem: deeper than OR_API_DEPTH_MAX, more than
// OR_API_FORM_BYTES_MAX: that are 700,000 token ids, or the messages and text of several longest conversations.
bool or_api_body_weigh(const uint8_t *body, size_t bytes, size_t *form_bytes,
                       or_api_problem_t *problem);
#define OR_API_DEPTH_MAX 64u
#define OR_API_FORM_BYTES_MAX ((size_t)40 << 20)
// The object in a body, the caller's to json_decref. NULL with the problem: it is too heavy, no JSON, no object, a key twice, no
// UTF-8. Strings may hold NUL.
json_t *or_api_body_parse(const uint8_t *body, size_t bytes, or_api_problem_t *problem);

typedef enum {
    OR_API_FLAG,  // bool *
    OR_API_COUNT, // uint32_t *, from least to most
    OR_API_WHOLE, // int32_t *, from least to most
    OR_API_REAL,  // float *, from least to most
    OR_API_OWN,   // by `read`
    OR_API_ONLY,  // one of the values in the JSON array `only`, which is ours: nothing is read
} or_api_field_kind_t;

typedef struct {
    const char *name;
    or_api_field_kind_t kind;
    size_t offset; // in what is read into
    double least, most;
    // `param` is the field's full name.
    bool (*read)(void *into, const char *param, const json_t *value, or_api_problem_t *problem);
    const char *only;
} or_api_field_t;

// Read every member of `object`, which stands at `path` ("": the body itself). False with the problem.
bool or_api_object_read(const json_t *object, const char *path, const or_api_field_t *fields,
                        void *into, or_api_problem_t *problem);

// Read one value, which is called `param`, by its row.
bool or_api_field_read(const or_api_field_t *field, void *into, const char *param,
                       const json_t *value, or_api_problem_t *problem);

// Is this JSON string that word?
bool or_api_is_word(const json_t *value, const char *word);
// "messages[3].role", "prompt[3]", cut where it is too long.
void or_api_path(char path[OR_API_PARAM_BYTES], const char *array, size_t index,
                 const char *member);

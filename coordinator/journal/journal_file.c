#include "coordinator/journal/journal_file.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define VERSION 1u
#define BUFFER_BYTES_MIN 256u

static const char magic[8] = "OrTexts";

enum { BEGIN = 1, TAKEN, TOKENS, ENDED, EXPIRES };

typedef struct {
    uint32_t bytes, kind;
    uint64_t check;
} head_t;

// A request's frame follows.
typedef struct {
    char magic[8];
    uint32_t version, padding;
    uint64_t model_hash, seed;
    char owner[64], key[64];
} begin_t;

// Ids follow.
typedef struct {
    uint64_t round;
} tokens_t;

typedef struct {
    uint32_t finish, padding;
    or_journal_time_t expires;
} ended_t;

// ---- writing ----

static or_status_t reserve(or_journal_buffer_t *buffer, size_t more)
{
    size_t needed = buffer->count + more;
    if (needed <= buffer->capacity) {
        return OR_OK;
    }
    size_t capacity = needed > BUFFER_BYTES_MIN ? needed : BUFFER_BYTES_MIN;
    uint8_t *larger = realloc(buffer->bytes, capacity);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a journal's record of %zu bytes", more);
    }
    buffer->bytes = larger;
    buffer->capacity = capacity;
    return OR_OK;
}

static void append(or_journal_buffer_t *buffer, const void *bytes, size_t count)
{
    if (count > 0) {
        memcpy(buffer->bytes + buffer->count, bytes, count);
        buffer->count += count;
    }
}

// A record whose body is `fixed` and, behind it, `rest`.
static or_status_t add(or_journal_buffer_t *buffer, uint32_t kind, const void *fixed,
                       size_t fixed_bytes, const void *rest, size_t rest_bytes)
{
    size_t bytes = fixed_bytes + rest_bytes;
    if (bytes > OR_JOURNAL_FILE_BYTES_MAX) {
        return or_fail(OR_ERR_FULL, "the journal: %zu bytes are too many for one record", bytes);
    }
    or_status_t status = reserve(buffer, sizeof(head_t) + bytes);
    if (status == OR_OK) {
        const head_t head = {.bytes = (uint32_t)bytes, .kind = kind};
        append(buffer, &head, sizeof head);
        append(buffer, fixed, fixed_bytes);
        append(buffer, rest, rest_bytes);
    }
    return status;
}

static or_status_t copy_name(char *to, size_t capacity, const char *from)
{
    size_t length = strlen(from);
    if (length >= capacity) {
        return or_fail(OR_ERR_INVALID, "the journal: a name of %zu bytes is too long", length);
    }
    memcpy(to, from, length);
    return OR_OK;
}

or_status_t or_journal_add_begin(or_journal_buffer_t *buffer, const or_journal_entry_t *entry)
{
    begin_t begin = {.version = VERSION, .model_hash = entry->model_hash, .seed = entry->seed};
    memcpy(begin.magic, magic, sizeof magic);
    or_status_t status = copy_name(begin.owner, sizeof begin.owner, entry->owner);
    if (status == OR_OK) {
        status = copy_name(begin.key, sizeof begin.key, entry->key);
    }
    return status == OR_OK
               ? add(buffer, BEGIN, &begin, sizeof begin, entry->request, entry->request_bytes)
               : status;
}

or_status_t or_journal_add_taken(or_journal_buffer_t *buffer, const char *arith_id)
{
    char body[64] = "";
    or_status_t status = copy_name(body, sizeof body, arith_id);
    return status == OR_OK ? add(buffer, TAKEN, body, sizeof body, NULL, 0) : status;
}

or_status_t or_journal_add_tokens(or_journal_buffer_t *buffer, uint64_t round,
                                  const int32_t *tokens, uint32_t count)
{
    const tokens_t body = {.round = round};
    return add(buffer, TOKENS, &body, sizeof body, tokens, count * sizeof *tokens);
}

or_status_t or_journal_add_ended(or_journal_buffer_t *buffer, uint32_t finish,
                                 const or_journal_time_t *expires)
{
    const ended_t body = {.finish = finish, .expires = *expires};
    return add(buffer, ENDED, &body, sizeof body, NULL, 0);
}

or_status_t or_journal_add_expires(or_journal_buffer_t *buffer, const or_journal_time_t *expires)
{
    return add(buffer, EXPIRES, expires, sizeof *expires, NULL, 0);
}

void or_journal_buffer_fini(or_journal_buffer_t *buffer)
{
    free(buffer->bytes);
    *buffer = (or_journal_buffer_t){0};
}

// ---- checks ----

uint64_t or_journal_first_check(const uint8_t hash[OR_JOURNAL_HASH_BYTES])
{
    return XXH3_64bits(hash, OR_JOURNAL_HASH_BYTES);
}

static uint64_t check_of(const head_t *head, const uint8_t *body, uint64_t before)
{
    uint64_t with_kind = before + head->kind * UINT64_C(0x9E3779B97F4A7C15);
    return XXH3_64bits_withSeed(body, head->bytes, with_kind);
}

// Is there a whole record at `at`?
static bool take_head(const uint8_t *bytes, size_t count, size_t at, head_t *head)
{
    if (count - at < sizeof *head) {
        return false;
    }
    memcpy(head, bytes + at, sizeof *head);
    return head->bytes <= count - at - sizeof *head;
}

uint64_t or_journal_seal(uint8_t *bytes, size_t count, uint64_t before)
{
    head_t head;
    for (size_t at = 0; take_head(bytes, count, at, &head); at += sizeof head + head.bytes) {
        before = head.check = check_of(&head, bytes + at + sizeof head, before);
        memcpy(bytes + at, &head, sizeof head);
    }
    return before;
}

// ---- reading ----

static bool is_name(const char *text, size_t capacity)
{
    return memchr(text, '\0', capacity) != NULL;
}

static or_status_t read_begin(const uint8_t *body, uint32_t bytes, or_journal_file_t *file)
{
    begin_t begin;
    memcpy(&begin, body, sizeof begin);
    if (!is_name(begin.owner, sizeof begin.owner) || !is_name(begin.key, sizeof begin.key)) {
        return or_fail(OR_ERR_FORMAT, "the journal: a text that makes no sense");
    }
    memcpy(file->owner, begin.owner, sizeof begin.owner);
    memcpy(file->key, begin.key, sizeof begin.key);
    file->entry = (or_journal_entry_t){.owner = file->owner,
                                       .key = file->key,
                                       .model_hash = begin.model_hash,
                                       .request = body + sizeof begin,
                                       .request_bytes = bytes - sizeof begin,
                                       .seed = begin.seed,
                                       .arith_id = file->arith_id,
                                       .round = 1};
    return OR_OK;
}

// A beginning of another release is told from what is none before its check, which that release may make otherwise.
static or_status_t read_first(const uint8_t *bytes, size_t count, or_journal_file_t *file)
{
    head_t head;
    begin_t begin;
    const uint8_t *body = bytes + sizeof head;
    bool whole =
        take_head(bytes, count, 0, &head) && head.kind == BEGIN && head.bytes >= sizeof begin;
    if (whole) {
        memcpy(&begin, body, sizeof begin);
    }
    if (!whole || memcmp(begin.magic, magic, sizeof magic) != 0) {
        return or_fail(OR_ERR_FORMAT, "the journal: a file that is no text of it");
    }
    if (begin.version != VERSION) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "the journal: a text of another release (format %u, this one knows %u)",
                       begin.version, VERSION);
    }
    if (check_of(&head, body, file->check) != head.check) {
        return or_fail(OR_ERR_FORMAT, "the journal: a text whose beginning is damaged");
    }
    file->check = head.check;
    file->good_bytes = sizeof head + head.bytes;
    return read_begin(body, head.bytes, file);
}

static bool read_expires(const uint8_t *body, or_journal_file_t *file)
{
    or_journal_time_t expires;
    memcpy(&expires, body, sizeof expires);
    if (!is_name(expires.boot, sizeof expires.boot)) {
        return false;
    }
    file->expires = expires;
    return true;
}

static bool read_tokens(const uint8_t *body, uint32_t bytes, or_journal_file_t *file)
{
    tokens_t tokens;
    size_t ids = (bytes - sizeof tokens) / sizeof(int32_t);
    if (ids * sizeof(int32_t) != bytes - sizeof tokens || file->entry.finish != OR_FINISH_NONE ||
        ids > OR_WIRE_TOKENS_MAX - file->entry.count) {
        return false;
    }
    memcpy(&tokens, body, sizeof tokens);
    file->entry.round = tokens.round;
    file->entry.count += (uint32_t)ids;
    return true;
}

static bool read_ended(const uint8_t *body, or_journal_file_t *file)
{
    ended_t ended;
    memcpy(&ended, body, sizeof ended);
    if (ended.finish == OR_FINISH_NONE || ended.finish > OR_FINISH_ERROR ||
        file->entry.finish != OR_FINISH_NONE ||
        !read_expires(body + offsetof(ended_t, expires), file)) {
        return false;
    }
    file->entry.finish = ended.finish;
    return true;
}

static bool read_taken(const uint8_t *body, or_journal_file_t *file)
{
    if (!is_name((const char *)body, sizeof file->arith_id)) {
        return false;
    }
    memcpy(file->arith_id, body, sizeof file->arith_id);
    file->expires.at_ns = OR_TIME_NEVER;
    return true;
}

// One behind the first; false: it makes no sense.
static bool read_next(const head_t *head, const uint8_t *body, or_journal_file_t *file)
{
    switch (head->kind) {
    case TAKEN:
        return head->bytes == sizeof file->arith_id && read_taken(body, file);
    case TOKENS:
        return head->bytes >= sizeof(tokens_t) && read_tokens(body, head->bytes, file);
    case ENDED:
        return head->bytes == sizeof(ended_t) && read_ended(body, file);
    case EXPIRES:
        return head->bytes == sizeof(or_journal_time_t) && read_expires(body, file);
    default:
        return false;
    }
}

bool or_journal_file_is_ours(const uint8_t *bytes, size_t count)
{
    static const uint8_t zeros[sizeof(head_t) + sizeof magic];
    return count < sizeof zeros || memcmp(bytes, zeros, sizeof zeros) == 0 ||
           memcmp(bytes + sizeof(head_t), magic, sizeof magic) == 0;
}

or_status_t or_journal_file_read(const uint8_t *bytes, size_t count,
                                 const uint8_t hash[OR_JOURNAL_HASH_BYTES], or_journal_file_t *file)
{
    head_t head;
    *file =
        (or_journal_file_t){.check = or_journal_first_check(hash), .expires.at_ns = OR_TIME_NEVER};
    or_status_t status = read_first(bytes, count, file);
    if (status != OR_OK) {
        return status;
    }
    while (take_head(bytes, count, file->good_bytes, &head)) {
        const uint8_t *body = bytes + file->good_bytes + sizeof head;
        if (check_of(&head, body, file->check) != head.check || !read_next(&head, body, file)) {
            break;
        }
        file->check = head.check;
        file->good_bytes += sizeof head + head.bytes;
    }
    return OR_OK;
}

void or_journal_file_tokens(const uint8_t *bytes, const or_journal_file_t *file, int32_t *tokens)
{
    head_t head;
    size_t at = 0, count = 0;
    while (at < file->good_bytes && take_head(bytes, file->good_bytes, at, &head)) {
        if (head.kind == TOKENS) {
            size_t ids = (head.bytes - sizeof(tokens_t)) / sizeof *tokens;
            memcpy(tokens + count, bytes + at + sizeof head + sizeof(tokens_t),
                   ids * sizeof *tokens);
            count += ids;
        }
        at += sizeof head + head.bytes;
    }
}

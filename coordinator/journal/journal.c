#include "coordinator/journal/journal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "coordinator/journal/journal_texts.h"

#define TICK_NS (2 * OR_NS_PER_S)
#define CLOSE_MS 2000u
#define BEGINNINGS_BYTES_MAX (64u << 20)

// ---- time ----

static int64_t boot_time_ns(const or_clock_t *clock)
{
    (void)clock;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * OR_NS_PER_S + now.tv_nsec;
}

static const or_clock_t boot_clock = {.now_ns = boot_time_ns};

// "": it is not known, and every start is a boot.
static void read_boot(char boot[OR_JOURNAL_BOOT_BYTES])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    boot[0] = '\0';
    if (file != NULL) {
        if (fgets(boot, OR_JOURNAL_BOOT_BYTES, file) != NULL) {
            boot[strcspn(boot, "\n")] = '\0';
        }
        fclose(file);
    }
}

static int64_t seconds_after(const or_journal_t *journal, uint32_t seconds)
{
    return or_clock_now(journal->config.clock) + seconds * OR_NS_PER_S;
}

static uint32_t kept_s(const or_journal_t *journal)
{
    const or_journal_config_t *config = &journal->config;
    return config->retention_s > config->abandoned_s ? config->retention_s : config->abandoned_s;
}

static void hash_token(const uint8_t *token, uint32_t bytes, uint8_t *hash)
{
    crypto_generichash(hash, OR_JOURNAL_HASH_BYTES, token, bytes, NULL, 0);
}

// ---- opening ----

// Set when a text expires whose coordinator was killed, or whose client is away.
static void set_expiry(or_journal_t *journal, or_journal_text_t *text,
                       const or_journal_file_t *file)
{
    const or_journal_time_t *found = &file->expires;
    int64_t latest = seconds_after(journal, kept_s(journal));
    bool known = found->at_ns != OR_TIME_NEVER && journal->boot[0] != '\0' &&
                 strcmp(found->boot, journal->boot) == 0;
    text->ended = file->entry.finish != OR_FINISH_NONE;
    if (known) {
        text->expires_ns = found->at_ns < latest ? found->at_ns : latest;
        return;
    }
    text->expires_ns = text->ended ? latest : seconds_after(journal, journal->config.abandoned_s);
    text->expiry_due = true;
}

static void adopt(or_journal_t *journal, const uint8_t *hash, const or_journal_file_t *file,
                  size_t bytes)
{
    or_journal_text_t *text;
    if (or_journal_texts_add(journal, hash, file->owner, &text) != OR_OK) {
        or_log(OR_LOG_WARN, "%s; a text that it has cannot go on", or_error_text());
        return;
    }
    text->taken = false;
    text->work.at = file->good_bytes;
    text->work.check = file->check;
    text->work.cut = bytes > file->good_bytes;
    memcpy(text->arith_id, file->arith_id, sizeof text->arith_id);
    set_expiry(journal, text, file);
    or_journal_texts_go_on(journal, text);
}

// A file of ours that was cut off in its first record, or damaged there: nobody can want it.
static void remove_damaged(const or_journal_t *journal, const uint8_t *hash)
{
    or_journal_work_t work = {.remove = true};
    memcpy(work.hash, hash, sizeof work.hash);
    or_log(OR_LOG_WARN, "%s: it is deleted", or_error_text());
    or_journal_disk_do(journal->folder, &work);
}

static void visit(void *context, const uint8_t *hash)
{
    or_journal_t *journal = context;
    or_journal_file_t file;
    uint8_t *bytes = NULL;
    size_t count = 0;
    or_status_t status = or_journal_disk_read(journal->folder, hash, &bytes, &count);
    if (status == OR_OK) {
        status = or_journal_file_read(bytes, count, hash, &file);
    }
    if (status == OR_OK) {
        adopt(journal, hash, &file, count);
    } else if (status == OR_ERR_FORMAT && or_journal_file_is_ours(bytes, count)) {
        remove_damaged(journal, hash);
    } else {
        or_log(OR_LOG_WARN, "%s: it is left alone", or_error_text());
    }
    free(bytes);
}

or_status_t or_journal_open_with(const or_journal_config_t *config, or_journal_t **journal_p)
{
    or_journal_t *journal = calloc(1, sizeof *journal);
    if (journal == NULL || sodium_init() < 0) {
        free(journal);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a journal");
    }
    journal->config = *config;
    journal->config.path = NULL;
    journal->config.clock = config->clock != NULL ? config->clock : &boot_clock;
    if (config->boot != NULL) {
        snprintf(journal->boot, sizeof journal->boot, "%s", config->boot);
    } else {
        read_boot(journal->boot);
    }
    or_status_t status = or_journal_disk_open(config->path, &journal->folder);
    if (status != OR_OK) {
        free(journal);
        return status;
    }
    status = or_journal_disk_list(journal->folder, visit, journal);
    if (status != OR_OK) {
        or_journal_close(&journal);
        return status;
    }
    *journal_p = journal;
    return OR_OK;
}

or_status_t or_journal_open(const char *path, uint32_t retention_s, uint32_t abandoned_s,
                            or_journal_t **journal_p)
{
    const or_journal_config_t config = {
        .path = path, .retention_s = retention_s, .abandoned_s = abandoned_s};
    return or_journal_open_with(&config, journal_p);
}

static void forget_found(or_journal_t *journal)
{
    free(journal->bytes);
    free(journal->tokens);
    journal->bytes = NULL;
    journal->tokens = NULL;
}

// Texts that were to be deleted after a call that was under way are deleted now.
static void write_all(or_journal_t *journal)
{
    uint64_t number;
    or_status_t status;
    or_journal_wait(journal, CLOSE_MS);
    while (or_journal_next(journal, &number, &status)) {
    }
}

void or_journal_close(or_journal_t **journal_p)
{
    or_journal_t *journal = *journal_p;
    *journal_p = NULL;
    if (journal != NULL) {
        write_all(journal);
    }
    if (journal == NULL || !or_journal_writer_stop(&journal->writer)) {
        return; // the writer has the texts still
    }
    for (uint32_t i = 0; i < journal->capacity; i++) {
        if (journal->texts[i] != NULL) {
            or_journal_texts_free(journal, journal->texts[i]);
        }
    }
    forget_found(journal);
    free(journal->texts);
    close(journal->folder);
    free(journal);
}

void or_journal_set_ledger(or_journal_t *journal, or_ledger_t *ledger)
{
    journal->ledger = ledger;
    for (uint32_t i = 0; i < journal->capacity; i++) {
        or_journal_text_t *text = journal->texts[i];
        if (text != NULL) {
            or_journal_texts_hold(journal, text);
        }
    }
}

or_status_t or_journal_start(or_journal_t *journal)
{
    return or_journal_writer_start(journal->folder, &journal->writer);
}

int or_journal_fd(const or_journal_t *journal)
{
    return journal->writer != NULL ? or_journal_writer_fd(journal->writer) : -1;
}

// ---- writing ----

static or_status_t add_beginning(or_journal_t *journal, const or_journal_entry_t *entry,
                                 or_journal_text_t *text)
{
    if (journal->beginnings_bytes + entry->request_bytes > BEGINNINGS_BYTES_MAX) {
        return or_fail(OR_ERR_FULL, "the journal: too many requests wait for the disk");
    }
    or_status_t status = or_journal_add_begin(&text->work.records, entry);
    if (status == OR_OK) {
        text->beginning = text->work.records.count;
        journal->beginnings_bytes += text->beginning;
        status = or_hold_resize(&text->memory, text->beginning);
    }
    return status;
}

or_status_t or_journal_begin(or_journal_t *journal, const or_journal_entry_t *entry,
                             uint64_t *number)
{
    uint8_t hash[OR_JOURNAL_HASH_BYTES];
    or_journal_text_t *text = NULL;
    *number = 0;
    hash_token(entry->token, sizeof entry->token, hash);
    or_status_t status = or_journal_texts_add(journal, hash, entry->owner, &text);
    if (status != OR_OK) {
        return status;
    }
    status = or_journal_texts_write_out(journal, text, add_beginning(journal, entry, text));
    if (status != OR_OK && status != OR_ERR_IO) {
        or_journal_texts_free(journal, text);
        return status;
    }
    *number = text->number;
    return status;
}

static or_status_t add_taken(or_journal_text_t *text, const char *arith_id)
{
    text->expires_ns = OR_TIME_NEVER;
    text->expiry_due = false;
    if (text->taken && strcmp(text->arith_id, arith_id) == 0) {
        return OR_OK;
    }
    snprintf(text->next_arith_id, sizeof text->next_arith_id, "%s", arith_id);
    return or_journal_add_taken(&text->work.records, arith_id);
}

or_status_t or_journal_commit(or_journal_t *journal, uint64_t number, const int32_t *tokens,
                              uint32_t count, uint64_t round, const char *arith_id)
{
    or_journal_text_t *text = NULL;
    or_status_t status = or_journal_texts_take(journal, number, &text);
    if (status != OR_OK) {
        return status;
    }
    status = add_taken(text, arith_id);
    if (status == OR_OK && count > 0) {
        status = or_journal_add_tokens(&text->work.records, round, tokens, count);
    }
    return status == OR_OK && text->work.records.count == 0
               ? OR_OK
               : or_journal_texts_write_out(journal, text, status);
}

or_status_t or_journal_end(or_journal_t *journal, uint64_t number, uint32_t finish)
{
    or_journal_text_t *text = NULL;
    or_status_t status = or_journal_texts_take(journal, number, &text);
    if (status != OR_OK) {
        return status;
    }
    text->ended = true;
    text->expires_ns = seconds_after(journal, kept_s(journal));
    const or_journal_time_t expires = or_journal_texts_expiry(journal, text);
    return or_journal_texts_force_out(journal, text,
                                      or_journal_add_ended(&text->work.records, finish, &expires));
}

static void end_after(or_journal_t *journal, or_journal_text_t *text, uint32_t seconds)
{
    text->ended = true;
    text->expires_ns = seconds_after(journal, seconds);
    text->expiry_due = true;
    or_journal_texts_go_on(journal, text);
}

void or_journal_forget(or_journal_t *journal, uint64_t number)
{
    or_journal_text_t *text = or_journal_texts_find(journal, number);
    if (text == NULL || text->doomed) {
        return;
    }
    if (journal->config.retention_s == 0) {
        or_journal_texts_delete(journal, text);
    } else {
        end_after(journal, text, journal->config.retention_s);
    }
}

void or_journal_abandon(or_journal_t *journal, uint64_t number)
{
    or_journal_text_t *text = or_journal_texts_find(journal, number);
    if (text == NULL || text->doomed || text->ended) {
        return;
    }
    if (text->beginning > 0) {
        or_journal_texts_delete(journal, text);
    } else {
        end_after(journal, text, kept_s(journal));
    }
}

void or_journal_drop(or_journal_t *journal, uint64_t number)
{
    or_journal_text_t *text = or_journal_texts_find(journal, number);
    if (text != NULL) {
        or_journal_texts_delete(journal, text);
    }
}

// ---- what came of it ----

bool or_journal_is_busy(const or_journal_t *journal, uint64_t number)
{
    const or_journal_text_t *text = or_journal_texts_find(journal, number);
    return text != NULL && text->busy && !text->doomed;
}

bool or_journal_next(or_journal_t *journal, uint64_t *number, or_status_t *status)
{
    or_journal_work_t *work;
    while (journal->writer != NULL && (work = or_journal_writer_next(journal->writer)) != NULL) {
        or_journal_text_t *text =
            (or_journal_text_t *)((char *)work - offsetof(or_journal_text_t, work));
        bool wanted = !text->work.remove && !text->doomed;
        bool written = !text->work.remove;
        *number = text->number;
        *status = or_journal_texts_note_done(journal, text);
        if (written) { // else it is gone, or is deleted by the next tick
            or_journal_texts_go_on(journal, text);
        }
        if (wanted) {
            return true;
        }
    }
    return false;
}

void or_journal_wait(or_journal_t *journal, uint32_t ms)
{
    if (journal->writer != NULL) {
        or_journal_writer_wait(journal->writer, ms);
    }
}

// ---- reading ----

static or_status_t read_text(or_journal_t *journal, or_journal_text_t *text)
{
    size_t count;
    or_journal_file_t *file = &journal->file;
    forget_found(journal);
    or_status_t status =
        or_journal_disk_read(journal->folder, text->work.hash, &journal->bytes, &count);
    if (status == OR_OK) {
        status = or_journal_file_read(journal->bytes, count, text->work.hash, file);
    }
    if (status != OR_OK) {
        return status;
    }
    journal->tokens = malloc((file->entry.count + 1) * sizeof *journal->tokens);
    if (journal->tokens == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u tokens", file->entry.count);
    }
    or_journal_file_tokens(journal->bytes, file, journal->tokens);
    text->work.at = file->good_bytes; // it may have been damaged since
    text->work.check = file->check;
    text->work.cut = count > file->good_bytes;
    return OR_OK;
}

or_status_t or_journal_find(or_journal_t *journal, const uint8_t *token, uint32_t token_bytes,
                            or_journal_entry_t *entry, uint64_t *number)
{
    uint8_t hash[OR_JOURNAL_HASH_BYTES];
    hash_token(token, token_bytes, hash);
    or_journal_text_t *text = or_journal_texts_find_hash(journal, hash);
    if (text == NULL || text->doomed) {
        return or_fail(OR_ERR_NOT_FOUND, "the journal has no such session");
    }
    if (text->busy) {
        return OR_ERR_AGAIN;
    }
    or_status_t status = read_text(journal, text);
    if (status == OR_OK) {
        *entry = journal->file.entry;
        entry->tokens = journal->tokens;
        *number = text->number;
    }
    return status;
}

uint32_t or_journal_count(const or_journal_t *journal)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < journal->capacity; i++) {
        count += journal->texts[i] != NULL && !journal->texts[i]->doomed;
    }
    return count;
}

int64_t or_journal_tick(or_journal_t *journal, int64_t now_ns)
{
    int64_t now = or_clock_now(journal->config.clock);
    forget_found(journal);
    for (uint32_t i = 0; i < journal->capacity; i++) {
        or_journal_text_t *text = journal->texts[i];
        if (text != NULL) {
            text->doomed |= text->expires_ns <= now;
            or_journal_texts_go_on(journal, text);
        }
    }
    return now_ns + TICK_NS;
}

#include "coordinator/clients/ledger.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "coordinator/session/name_hash.h"
#include "proto/wire/message.h"

#define BUCKETS 256u

// The kinds of bytes that one limit counts together.
enum { MEMORY, DISK, POOLS };

struct or_account {
    char owner[OR_OWNER_BYTES];
    uint64_t bytes[POOLS];
    uint32_t holds; // that are open; the account goes with the last one
    LIST_ENTRY(or_account) links;
};

struct or_ledger {
    pthread_mutex_t lock;
    uint64_t max[POOLS], bytes[POOLS];
    uint64_t held[OR_HELD_KINDS], refused[OR_HELD_KINDS];
    LIST_HEAD(, or_account) buckets[BUCKETS];
};

// `part`: what waits for readers may fill less of what is free than the rest may, so that a text is not refused for
// what its owner's other readers leave lying.
static const struct {
    const char *name;
    int pool;
    uint32_t part;
} kinds[OR_HELD_KINDS] = {
    [OR_HELD_BODIES] = {"bodies", MEMORY, 1},   [OR_HELD_REQUESTS] = {"requests", MEMORY, 1},
    [OR_HELD_ANSWERS] = {"answers", MEMORY, 1}, [OR_HELD_UNSENT] = {"unsent", MEMORY, 2},
    [OR_HELD_JOURNAL] = {"journal", DISK, 1},
};

static const struct {
    const char *name, *option;
} pools[POOLS] = {[MEMORY] = {"memory", "--memory-max"}, [DISK] = {"journal", "--journal-max"}};

const char *or_held_name(or_held_t kind)
{
    return kinds[kind].name;
}

or_status_t or_ledger_create(uint64_t memory_max, uint64_t disk_max, or_ledger_t **ledger_p)
{
    or_ledger_t *ledger = calloc(1, sizeof *ledger);
    if (ledger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the ledger of owners");
    }
    pthread_mutex_init(&ledger->lock, NULL);
    ledger->max[MEMORY] = memory_max;
    ledger->max[DISK] = disk_max;
    *ledger_p = ledger;
    return OR_OK;
}

void or_ledger_destroy(or_ledger_t **ledger_p)
{
    or_ledger_t *ledger = *ledger_p;
    if (ledger == NULL) {
        return;
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        assert(LIST_EMPTY(&ledger->buckets[i]));
    }
    pthread_mutex_destroy(&ledger->lock);
    free(ledger);
    *ledger_p = NULL;
}

// Owners are cut to what a member's name may have.
static or_account_t *find_account(or_ledger_t *ledger, const char *owner, uint32_t bucket)
{
    or_account_t *account;
    LIST_FOREACH(account, &ledger->buckets[bucket], links)
    {
        if (strncmp(account->owner, owner, OR_OWNER_BYTES - 1) == 0) {
            return account;
        }
    }
    account = calloc(1, sizeof *account);
    if (account != NULL) {
        strncpy(account->owner, owner, OR_OWNER_BYTES - 1);
        LIST_INSERT_HEAD(&ledger->buckets[bucket], account, links);
    }
    return account;
}

or_status_t or_hold_open(or_hold_t *hold, or_ledger_t *ledger, const char *owner, or_held_t kind)
{
    *hold = (or_hold_t){.kind = kind};
    if (ledger == NULL) {
        return OR_OK;
    }
    uint32_t bucket = (uint32_t)(or_name_hash(owner) % BUCKETS);
    pthread_mutex_lock(&ledger->lock);
    or_account_t *account = find_account(ledger, owner, bucket);
    if (account != NULL) {
        account->holds++;
    }
    pthread_mutex_unlock(&ledger->lock);
    if (account == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for an owner's account");
    }
    hold->ledger = ledger;
    hold->account = account;
    return OR_OK;
}

static void set_bytes(or_hold_t *hold, uint64_t bytes)
{
    or_ledger_t *ledger = hold->ledger;
    int pool = kinds[hold->kind].pool;
    uint64_t change = bytes - hold->bytes; // modulo 2^64, as all sums here
    ledger->held[hold->kind] += change;
    ledger->bytes[pool] += change;
    hold->account->bytes[pool] += change;
    hold->bytes = bytes;
}

// Would the owner still hold no more than is free?
static bool has_room(const or_hold_t *hold, uint64_t more)
{
    int pool = kinds[hold->kind].pool;
    uint64_t max = hold->ledger->max[pool], all = hold->ledger->bytes[pool];
    uint64_t own = hold->account->bytes[pool];
    return more <= max && all <= max - more &&
           own + more <= (max - more - all) / kinds[hold->kind].part;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

// Nothing of how much others hold: no owner learns what another does.
static or_status_t refuse(const or_hold_t *hold, uint64_t own)
{
    int pool = kinds[hold->kind].pool;
    const char *owner = hold->account->owner;
    return or_fail(OR_ERR_FULL,
                   "%s%s%s %.1f MiB of the coordinator's %s, which has %.1f, and no owner may hold "
                   "more than is free: wait until texts have ended, or raise %s",
                   owner[0] != '\0' ? "owner '" : "clients without an owner hold", owner,
                   owner[0] != '\0' ? "' holds" : "", mib(own), pools[pool].name,
                   mib(hold->ledger->max[pool]), pools[pool].option);
}

or_status_t or_hold_resize(or_hold_t *hold, uint64_t bytes)
{
    or_ledger_t *ledger = hold->ledger;
    if (ledger == NULL) {
        hold->bytes = bytes;
        return OR_OK;
    }
    int pool = kinds[hold->kind].pool;
    pthread_mutex_lock(&ledger->lock);
    bool granted = bytes <= hold->bytes || has_room(hold, bytes - hold->bytes);
    uint64_t own = hold->account->bytes[pool];
    if (granted) {
        set_bytes(hold, bytes);
    } else {
        ledger->refused[hold->kind]++;
    }
    pthread_mutex_unlock(&ledger->lock);
    return granted ? OR_OK : refuse(hold, own);
}

void or_hold_force(or_hold_t *hold, uint64_t bytes)
{
    if (hold->ledger == NULL) {
        hold->bytes = bytes;
        return;
    }
    pthread_mutex_lock(&hold->ledger->lock);
    set_bytes(hold, bytes);
    pthread_mutex_unlock(&hold->ledger->lock);
}

void or_hold_close(or_hold_t *hold)
{
    or_ledger_t *ledger = hold->ledger;
    if (ledger != NULL) {
        pthread_mutex_lock(&ledger->lock);
        set_bytes(hold, 0);
        if (--hold->account->holds == 0) {
            LIST_REMOVE(hold->account, links);
            free(hold->account);
        }
        pthread_mutex_unlock(&ledger->lock);
    }
    *hold = (or_hold_t){0};
}

void or_ledger_usage(or_ledger_t *ledger, or_ledger_usage_t *usage)
{
    const or_account_t *account;
    pthread_mutex_lock(&ledger->lock);
    *usage = (or_ledger_usage_t){.memory_max = ledger->max[MEMORY], .disk_max = ledger->max[DISK]};
    memcpy(usage->bytes, ledger->held, sizeof usage->bytes);
    memcpy(usage->refused, ledger->refused, sizeof usage->refused);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        LIST_FOREACH(account, &ledger->buckets[i], links)
        {
            uint64_t bytes = account->bytes[MEMORY];
            usage->largest_owner = bytes > usage->largest_owner ? bytes : usage->largest_owner;
            usage->owners += bytes + account->bytes[DISK] > 0;
        }
    }
    pthread_mutex_unlock(&ledger->lock);
}

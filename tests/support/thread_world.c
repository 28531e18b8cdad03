#include "tests/support/thread_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

// A meeting of some ranks that exchange data. All fields are under the world's lock.
typedef struct {
    pthread_cond_t changed;
    int count;   // of those who meet
    int waiting; // of them
    uint64_t turn;
    bool broken;  // somebody will not come again
    size_t bytes; // that each lays down
    const void *sent[THREAD_WORLD_MAX + 1];
} meeting_t;

typedef struct {
    or_ranks_t ranks; // first: the interface
    thread_world_t *world;
    pthread_t thread;
    or_status_t status;
    char error[512];
    bool watched; // it waits for others by means of its own
} member_t;

struct thread_world {
    int size;
    int stages;
    pthread_mutex_t lock;
    meeting_t all;
    meeting_t groups[THREAD_WORLD_MAX]; // by stage
    meeting_t collection; // the last stage in rank order, and the leader if it is in another
    meeting_t bridges[THREAD_WORLD_MAX]; // by rank of the world: to the next stage
    member_t members[THREAD_WORLD_MAX];
    uint64_t broadcasts;
    uint64_t collected_bytes;
    thread_world_life_t *life;
    void *context;
    bool started;
    const char *path; // of followers
    or_model_options_t options;
};

static member_t *member_of(const or_ranks_t *ranks)
{
    return (member_t *)ranks;
}

static int index_of(const or_ranks_t *ranks)
{
    return ranks->stage * ranks->size + ranks->rank;
}

// -- meetings --

static meeting_t *meeting_at(thread_world_t *world, int i)
{
    if (i < THREAD_WORLD_MAX) {
        return &world->groups[i];
    }
    i -= THREAD_WORLD_MAX;
    return i < THREAD_WORLD_MAX ? &world->bridges[i]
                                : (i == THREAD_WORLD_MAX ? &world->all : &world->collection);
}
#define MEETINGS (2 * THREAD_WORLD_MAX + 2)

static void break_meeting(thread_world_t *world, meeting_t *meeting)
{
    pthread_mutex_lock(&world->lock);
    meeting->broken = true;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&world->lock);
}

// Leave the world: ranks that wait for this one, now or later, fail.
static void leave_world(thread_world_t *world, const or_ranks_t *ranks)
{
    int index = index_of(ranks);
    break_meeting(world, &world->all);
    break_meeting(world, &world->groups[ranks->stage]);
    break_meeting(world, &world->bridges[index]);
    if (ranks->stage > 0) {
        break_meeting(world, &world->bridges[index - ranks->size]);
    }
    if (ranks->stage == world->stages - 1 || index == 0) {
        break_meeting(world, &world->collection);
    }
}

// Wait until all are here. The lock is held.
static or_status_t wait_for_all(thread_world_t *world, meeting_t *meeting)
{
    uint64_t turn = meeting->turn;
    if (!meeting->broken && ++meeting->waiting == meeting->count) {
        meeting->waiting = 0;
        meeting->turn++;
        pthread_cond_broadcast(&meeting->changed);
    }
    while (meeting->turn == turn && !meeting->broken) {
        pthread_cond_wait(&meeting->changed, &world->lock);
    }
    return meeting->turn != turn ? OR_OK
                                 : or_fail(OR_ERR_UNREACHABLE, "another rank of the world is gone");
}

static or_status_t lay_down(thread_world_t *world, meeting_t *meeting, int place, const void *send,
                            size_t bytes)
{
    pthread_mutex_lock(&world->lock);
    bool agrees = meeting->waiting == 0 || meeting->bytes == bytes;
    size_t others = meeting->bytes;
    meeting->bytes = bytes;
    meeting->sent[place] = send;
    or_status_t status = agrees ? wait_for_all(world, meeting) : OR_ERR_MISMATCH;
    pthread_mutex_unlock(&world->lock);
    if (!agrees) {
        break_meeting(world, meeting);
        return or_fail(status, "a rank exchanges %zu bytes where others exchange %zu", bytes,
                       others);
    }
    return status;
}

static or_status_t leave(thread_world_t *world, meeting_t *meeting)
{
    pthread_mutex_lock(&world->lock);
    or_status_t status = wait_for_all(world, meeting);
    pthread_mutex_unlock(&world->lock);
    return status;
}

// Copy what `count` ranks laid down, side by side; a rank's own part may lie there already.
static void take(const meeting_t *meeting, int count, size_t bytes, void *recv)
{
    for (int i = 0; i < count; i++) {
        char *to = (char *)recv + (size_t)i * bytes;
        if (meeting->sent[i] != to) {
            memcpy(to, meeting->sent[i], bytes);
        }
    }
}

static or_status_t gather_in(thread_world_t *world, meeting_t *meeting, int place, const void *send,
                             size_t bytes, void *recv)
{
    or_status_t status = lay_down(world, meeting, place, send, bytes);
    if (status != OR_OK) {
        return status;
    }
    take(meeting, meeting->count, bytes, recv);
    return leave(world, meeting);
}

// -- ranks.h --

static or_status_t all_gather(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    thread_world_t *world = member_of(ranks)->world;
    assert_false(member_of(ranks)->watched);
    return gather_in(world, &world->groups[ranks->stage], ranks->rank, send, bytes, recv);
}

static void watch(const or_ranks_t *ranks, const char *what)
{
    member_t *member = member_of(ranks);
    assert_true(member->watched == (what == NULL));
    member->watched = what != NULL;
}

static or_status_t gather_world(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    thread_world_t *world = member_of(ranks)->world;
    return gather_in(world, &world->all, index_of(ranks), send, bytes, recv);
}

static or_status_t broadcast(const or_ranks_t *ranks, void *data, size_t bytes)
{
    thread_world_t *world = member_of(ranks)->world;
    bool leads = or_ranks_is_leader(ranks);
    assert_false(member_of(ranks)->watched);
    or_status_t status = lay_down(world, &world->all, index_of(ranks), data, bytes);
    if (status != OR_OK) {
        return status;
    }
    if (leads) {
        world->broadcasts++;
    } else {
        memcpy(data, world->all.sent[0], bytes);
    }
    return leave(world, &world->all);
}

static or_status_t collect(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    thread_world_t *world = member_of(ranks)->world;
    bool sends = ranks->stage == world->stages - 1;
    bool leads = or_ranks_is_leader(ranks);
    if (!sends && !leads) {
        return OR_OK;
    }
    meeting_t *meeting = &world->collection;
    or_status_t status = lay_down(world, meeting, sends ? ranks->rank : ranks->size, send, bytes);
    if (status != OR_OK) {
        return status;
    }
    if (leads) {
        take(meeting, ranks->size, bytes, recv);
        world->collected_bytes += (uint64_t)ranks->size * bytes;
    }
    return leave(world, meeting);
}

static or_status_t pass_on(const or_ranks_t *ranks, const void *data, size_t bytes)
{
    thread_world_t *world = member_of(ranks)->world;
    meeting_t *bridge = &world->bridges[index_of(ranks)];
    or_status_t status = lay_down(world, bridge, 0, data, bytes);
    return status != OR_OK ? status : leave(world, bridge);
}

static or_status_t take_over(const or_ranks_t *ranks, void *data, size_t bytes)
{
    thread_world_t *world = member_of(ranks)->world;
    meeting_t *bridge = &world->bridges[index_of(ranks) - ranks->size];
    or_status_t status = lay_down(world, bridge, 1, NULL, bytes);
    if (status != OR_OK) {
        return status;
    }
    take(bridge, 1, bytes, data);
    return leave(world, bridge);
}

// -- the world --

thread_world_t *thread_world_create(int size, int stages)
{
    thread_world_t *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_true(size * stages <= THREAD_WORLD_MAX);
    world->size = size;
    world->stages = stages;
    pthread_mutex_init(&world->lock, NULL);
    for (int i = 0; i < MEETINGS; i++) {
        pthread_cond_init(&meeting_at(world, i)->changed, NULL);
        meeting_at(world, i)->count = 2; // of a bridge
    }
    world->all.count = size * stages;
    world->collection.count = size + (stages > 1);
    for (int i = 0; i < size * stages; i++) {
        world->groups[i / size].count = size;
        world->members[i].world = world;
        world->members[i].ranks = (or_ranks_t){.rank = i % size,
                                               .size = size,
                                               .stage = i / size,
                                               .stages = stages,
                                               .all_gather = all_gather,
                                               .broadcast = broadcast,
                                               .collect = collect,
                                               .gather_world = gather_world,
                                               .pass_on = stages > 1 ? pass_on : NULL,
                                               .take_over = stages > 1 ? take_over : NULL,
                                               .watch = watch};
    }
    return world;
}

void thread_world_destroy(thread_world_t **world_p)
{
    thread_world_t *world = *world_p;
    if (world == NULL) {
        return;
    }
    thread_world_join(world);
    for (int i = 0; i < MEETINGS; i++) {
        pthread_cond_destroy(&meeting_at(world, i)->changed);
    }
    pthread_mutex_destroy(&world->lock);
    free(world);
    *world_p = NULL;
}

const or_ranks_t *thread_world_ranks(thread_world_t *world, int index)
{
    return &world->members[index].ranks;
}

static void *live(void *argument)
{
    member_t *member = argument;
    member->status = member->world->life(&member->ranks, member->world->context);
    if (member->status != OR_OK) {
        snprintf(member->error, sizeof member->error, "%s", or_error_text());
    }
    leave_world(member->world, &member->ranks);
    return NULL;
}

void thread_world_start(thread_world_t *world, thread_world_life_t *life, void *context)
{
    assert_false(world->started);
    world->life = life;
    world->context = context;
    world->started = true;
    for (int i = 1; i < world->size * world->stages; i++) {
        member_t *member = &world->members[i];
        assert_int_equal(pthread_create(&member->thread, NULL, live, member), 0);
    }
}

static or_status_t follow(const or_ranks_t *ranks, void *context)
{
    const thread_world_t *world = context;
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_model_options_t options = world->options;
    options.ranks = ranks;
    or_status_t status = or_gguf_open(world->path, &gguf);
    status = status != OR_OK ? status : or_model_load(gguf, &options, &model);
    status = status != OR_OK ? status : or_model_follow(model);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

void thread_world_follow(thread_world_t *world, const char *path, const or_model_options_t *options)
{
    world->path = path;
    world->options = *options;
    thread_world_start(world, follow, world);
}

or_status_t thread_world_join(thread_world_t *world)
{
    or_status_t status = OR_OK;
    if (world->started) {
        leave_world(world, &world->members[0].ranks);
        for (int i = 1; i < world->size * world->stages; i++) {
            pthread_join(world->members[i].thread, NULL);
        }
        world->started = false;
    }
    for (int i = world->size * world->stages; i-- > 1;) {
        const member_t *member = &world->members[i];
        status = member->status != OR_OK ? or_fail(member->status, "rank %d: %s", i, member->error)
                                         : status;
    }
    return status;
}

const char *thread_world_error(const thread_world_t *world, int index)
{
    return world->members[index].error;
}

uint64_t thread_world_broadcasts(const thread_world_t *world)
{
    return world->broadcasts;
}

uint64_t thread_world_collected_bytes(const thread_world_t *world)
{
    return world->collected_bytes;
}

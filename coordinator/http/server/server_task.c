// server_task - slow work on a thread of its own, because the server's thread writes everybody's streams.
//
//     handle ──▶ or_http_call_begin ──┬─ a small body ───────────────────────────▶ work ─▶ then ─▶ drop
//                                     └─ a large one ─▶ │ work, on the other thread │ ─▶ then ─▶ drop
//
// There is one task at a time; others that need the thread wait in server_queue.c. A client that hangs up meanwhile
// leaves the body behind, in its owner's account, until the work is done.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coordinator/http/server/server_internal.h"

// The task's thread gets a lower priority: texts go first if there are fewer cores than threads.
#define NICE 5

struct or_http_tasks {
    pthread_t thread;
    bool running;
    int done_fd;          // readable once the work is done, which nothing else says
    or_http_call_t *call; // the server's thread only. NULL: it has hung up, or there is no task
    bool busy;            // the same
    // The server's thread's while it is not busy, and again when the work is done.
    or_http_task_t task;
    void *data;
    or_http_buffer_t body;
    or_hold_t hold;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool given, stopping; // under the lock
};

// ---- the other thread ----

static bool await_task(or_http_tasks_t *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    while (!tasks->given && !tasks->stopping) {
        pthread_cond_wait(&tasks->change, &tasks->lock);
    }
    bool given = tasks->given;
    tasks->given = false;
    pthread_mutex_unlock(&tasks->lock);
    return given;
}

static void tell_done(or_http_tasks_t *tasks)
{
    const uint64_t one = 1;
    while (write(tasks->done_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

// Put this thread alone behind the others of the process.
static void step_back(void)
{
    id_t own = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, own, getpriority(PRIO_PROCESS, own) + NICE);
}

static void *run(void *context)
{
    or_http_tasks_t *tasks = context;
    step_back();
    while (await_task(tasks)) {
        tasks->task.work(tasks->data, tasks->body.bytes, or_http_buffer_waiting(&tasks->body));
        tell_done(tasks);
    }
    return NULL;
}

// ---- the server's ----

static void finish(or_http_tasks_t *tasks)
{
    or_http_call_t *call = tasks->call;
    const or_http_task_t task = tasks->task;
    void *data = tasks->data;
    tasks->call = NULL;
    tasks->busy = false;
    if (call != NULL && !call->gone) {
        call->body = tasks->body;
        call->body_hold = tasks->hold;
        or_http_door_check_again(call);
        if (call->status == 0) {
            task.then(call->server->config.context, call, data); // which may begin another
        }
        or_http_call_forget_body(call);
    } else {
        free(tasks->body.bytes);
        or_hold_close(&tasks->hold);
    }
    task.drop(data);
}

void or_http_tasks_turn(or_http_server_t *server)
{
    or_http_tasks_t *tasks = server->tasks;
    uint64_t count;
    if (tasks->busy && read(tasks->done_fd, &count, sizeof count) > 0) {
        finish(tasks);
    }
}

bool or_http_tasks_have_room(const or_http_call_t *call)
{
    return !call->server->tasks->busy ||
           or_http_buffer_waiting(&call->body) <= OR_HTTP_TASK_BYTES_MAX;
}

void or_http_tasks_leave(or_http_call_t *call)
{
    or_http_tasks_t *tasks = call->server->tasks;
    tasks->call = tasks->call == call ? NULL : tasks->call;
}

static void give(or_http_tasks_t *tasks, or_http_call_t *call, const or_http_task_t *task,
                 void *data)
{
    tasks->call = call;
    tasks->busy = true;
    tasks->task = *task;
    tasks->data = data;
    tasks->body = call->body;
    tasks->hold = call->body_hold;
    call->body = (or_http_buffer_t){0};
    call->body_hold = (or_hold_t){0};
    pthread_mutex_lock(&tasks->lock);
    tasks->given = true;
    pthread_cond_signal(&tasks->change);
    pthread_mutex_unlock(&tasks->lock);
}

void or_http_call_begin(or_http_call_t *call, const or_http_task_t *task, void *data)
{
    or_http_tasks_t *tasks = call->server->tasks;
    size_t bytes = or_http_buffer_waiting(&call->body);
    if (bytes > OR_HTTP_TASK_BYTES_MAX && !tasks->busy) {
        give(tasks, call, task, data);
        return;
    }
    task->work(data, call->body.bytes, bytes);
    task->then(call->server->config.context, call, data);
    task->drop(data);
}

// ---- begin and end ----

// Start the thread, without signals, which are the main thread's.
static or_status_t start_thread(or_http_tasks_t *tasks)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&tasks->thread, NULL, run, tasks);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    tasks->running = error == 0;
    return error == 0 ? OR_OK : or_fail(OR_ERR_IO, "http: no thread: %s", strerror(error));
}

or_status_t or_http_tasks_start(or_http_server_t *server)
{
    or_http_tasks_t *tasks = calloc(1, sizeof *tasks);
    struct epoll_event event = {.events = EPOLLIN};
    if (tasks == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the HTTP server");
    }
    server->tasks = tasks;
    pthread_mutex_init(&tasks->lock, NULL);
    pthread_cond_init(&tasks->change, NULL);
    tasks->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (tasks->done_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, tasks->done_fd, &event) != 0) {
        return or_fail(OR_ERR_IO, "http: no descriptors: %s", strerror(errno));
    }
    return start_thread(tasks);
}

static void stop_thread(or_http_tasks_t *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    tasks->stopping = true;
    pthread_cond_signal(&tasks->change);
    pthread_mutex_unlock(&tasks->lock);
    pthread_join(tasks->thread, NULL);
}

void or_http_tasks_end(or_http_server_t *server)
{
    or_http_tasks_t *tasks = server->tasks;
    if (tasks == NULL) {
        return;
    }
    if (tasks->running) {
        stop_thread(tasks);
    }
    if (tasks->busy) {
        tasks->call = NULL;
        finish(tasks);
    }
    if (tasks->done_fd >= 0) {
        close(tasks->done_fd);
    }
    pthread_cond_destroy(&tasks->change);
    pthread_mutex_destroy(&tasks->lock);
    free(tasks);
    server->tasks = NULL;
}

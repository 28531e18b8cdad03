#include "launch/cluster/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "launch/cluster/paths.h"

#define POLL_NS (2 * OR_NS_PER_MS)
#define TAIL_BYTES 16384 // of a log that are looked through; likewise of its beginning
#define WORDS_BYTES 2048
#define KEEPER_PATIENCE_S 2 // for a program to end that was told to

// The program that a child is to become.
typedef struct {
    const char *path;
    char *argv[OR_PROCESS_ARGS_MAX + 2];
    int log_fd, keep_fd; // -1: none
    bool kept;
    sigset_t signals; // blocked in us
} plan_t;

// ---- in the child, between fork and exec: only calls that are safe there ----

static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(1); // it died before the line above
    }
}

static void become(const plan_t *plan)
{
    if (plan->keep_fd >= 0) {
        fcntl(plan->keep_fd, F_SETFD, 0);
    }
    // Our handlers are not its own: a signal before exec is to end it, not to be counted.
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &plan->signals, NULL);
    execv(plan->path, plan->argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", plan->path, strerror(errno));
    _exit(127);
}

static _Noreturn void end_as(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        sigset_t none;
        sigemptyset(&none);
        signal(WTERMSIG(wait_status), SIG_DFL);
        raise(WTERMSIG(wait_status));
        sigprocmask(SIG_SETMASK, &none, NULL);
    }
    _exit(WEXITSTATUS(wait_status));
}

// All signals are blocked here and taken one by one. mpirun sometimes never comes out of its clean-up
// (4.1.4: a lock in pmix_rte_finalize); by then its ranks are gone.
static _Noreturn void keep(pid_t program)
{
    const struct timespec patience = {KEEPER_PATIENCE_S, 0};
    sigset_t awaited;
    bool told = false;
    int wait_status;
    close_range(STDERR_FILENO + 1, UINT_MAX, 0); // what others wait to see closed
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGINT);
    while (waitpid(program, &wait_status, WNOHANG) != program) {
        int number = told ? sigtimedwait(&awaited, NULL, &patience) : sigwaitinfo(&awaited, NULL);
        if (number < 0 && errno == EAGAIN) {
            kill(program, SIGKILL);
        } else if (number > 0 && number != SIGCHLD && !told) {
            kill(program, SIGTERM);
            told = true;
        }
    }
    end_as(wait_status);
}

static void begin(const plan_t *plan, pid_t parent)
{
    die_with(parent);
    setpgid(0, 0);
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0) {
        dup2(null_fd, STDIN_FILENO);
    }
    if (plan->log_fd >= 0) {
        dup2(plan->log_fd, STDERR_FILENO);
    }
    dup2(STDERR_FILENO, STDOUT_FILENO); // our standard output carries the text only
    if (plan->kept) {
        pid_t keeper = getpid();
        pid_t program = fork();
        if (program < 0) {
            dprintf(STDERR_FILENO, "cannot run %s: %s\n", plan->path, strerror(errno));
            _exit(127);
        }
        if (program > 0) {
            keep(program);
        }
        die_with(keeper);
    }
    become(plan);
}

// ---- in us ----

static or_status_t start(or_process_t *process, const char *name, const char *const *args,
                         bool show_log, plan_t *plan)
{
    plan->argv[0] = (char *)plan->path;
    for (size_t i = 0; i < OR_PROCESS_ARGS_MAX && args[i] != NULL; i++) {
        plan->argv[i + 1] = (char *)args[i];
    }
    plan->log_fd = show_log ? -1 : memfd_create(name, MFD_CLOEXEC);
    if (!show_log && plan->log_fd < 0) {
        return or_fail(OR_ERR_IO, "cannot keep the log of %s: %s", name, strerror(errno));
    }
    // Inherited as ignored, it would keep us from learning how children end.
    signal(SIGCHLD, SIG_DFL);
    sigset_t all;
    sigfillset(&all); // no handler of ours is to run in the child
    pthread_sigmask(SIG_SETMASK, &all, &plan->signals);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        begin(plan, parent);
    }
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &plan->signals, NULL);
    if (pid < 0) {
        if (plan->log_fd >= 0) {
            close(plan->log_fd);
        }
        return or_fail(OR_ERR_IO, "cannot start %s: %s", name, strerror(error));
    }
    *process = (or_process_t){name, pid, plan->log_fd};
    return OR_OK;
}

or_status_t or_process_start(or_process_t *process, const char *name, const char *const *args,
                             bool show_log, int keep_fd)
{
    char path[OR_PATH_BYTES];
    plan_t plan = {.path = path, .keep_fd = keep_fd};
    or_status_t status = or_paths_program(name, path);
    return status == OR_OK ? start(process, name, args, show_log, &plan) : status;
}

or_status_t or_process_start_at(or_process_t *process, const char *name, const char *path,
                                const char *const *args, bool show_log, bool kept)
{
    plan_t plan = {.path = path, .keep_fd = -1, .kept = kept};
    return start(process, name, args, show_log, &plan);
}

bool or_process_ended(or_process_t *process, int *wait_status)
{
    if (process->pid == 0) {
        return false;
    }
    pid_t ended = waitpid(process->pid, wait_status, WNOHANG);
    if (ended < 0 && errno == ECHILD) { // somebody else reaped it: how it ended is lost
        *wait_status = 0;
        ended = process->pid;
    }
    if (ended != process->pid) {
        return false;
    }
    process->pid = 0;
    return true;
}

// Find the first line about an error or, by mpirun, about a killed rank; else the last one that is not empty or a ruler.
// `text` is cut behind it.
static const char *telling_line(char *text)
{
    const char *last = "";
    char *rest = text;
    char *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strcasestr(line, "error") != NULL || strstr(line, "[err]") != NULL ||
            strstr(line, "noticed that process rank") != NULL) {
            return line;
        }
        if (line[strspn(line, "- ")] != '\0') {
            last = line;
        }
    }
    return last;
}

// Skip "12:03:01.250 error drafter: " of a log line. Of "12:03:01.250 error verifier rank 3 on node7: " the rank and its host
// stay.
static const char *skip_prefix(const char *line)
{
    static const char *const levels[] = {" error ", " warn ", " info ", " debug ", " trace "};
    size_t time = strspn(line, "0123456789:.");
    for (size_t i = 0; time > 0 && i < sizeof levels / sizeof *levels; i++) {
        size_t length = strlen(levels[i]);
        if (strncmp(line + time, levels[i], length) == 0) {
            const char *role = line + time + length;
            const char *behind = role + strcspn(role, ": ");
            return behind + strspn(behind, ": ");
        }
    }
    return line;
}

void or_process_last_words(const or_process_t *process, char *text, size_t capacity)
{
    char tail[TAIL_BYTES + 1];
    text[0] = '\0';
    off_t size = process->log_fd >= 0 ? lseek(process->log_fd, 0, SEEK_END) : 0;
    off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    ssize_t length = size > 0 ? pread(process->log_fd, tail, TAIL_BYTES, from) : 0;
    while (length > 0 && tail[length - 1] == '\n') {
        length--;
    }
    if (length <= 0) {
        return;
    }
    tail[length] = '\0';
    snprintf(text, capacity, "%s", skip_prefix(telling_line(tail)));
}

void or_process_line(const or_process_t *process, const char *words, char *text, size_t capacity)
{
    char head[TAIL_BYTES + 1];
    char *rest = head;
    const char *line;
    ssize_t length = process->log_fd >= 0 ? pread(process->log_fd, head, TAIL_BYTES, 0) : 0;
    head[length > 0 ? length : 0] = '\0';
    text[0] = '\0';
    while (text[0] == '\0' && (line = strsep(&rest, "\n")) != NULL && rest != NULL) { // it is whole
        if (strstr(line, words) != NULL) {
            snprintf(text, capacity, "%s", skip_prefix(line));
        }
    }
}

void or_process_describe_end(const or_process_t *process, int wait_status, char *text,
                             size_t capacity)
{
    char how[128], words[WORDS_BYTES];
    if (WIFSIGNALED(wait_status)) {
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    } else {
        snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(wait_status));
    }
    or_process_last_words(process, words, sizeof words);
    snprintf(text, capacity, "%s %s%s%s", process->name, how,
             words[0] != '\0' ? "; its last words: " : "", words);
}

static bool all_ended(or_process_t *processes, size_t count)
{
    bool all = true;
    int wait_status;
    for (size_t i = 0; i < count; i++) {
        if (!or_process_ended(&processes[i], &wait_status) && processes[i].pid != 0) {
            all = false;
        }
    }
    return all;
}

static void signal_all(const or_process_t *processes, size_t count, int number)
{
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid != 0) {
            kill(processes[i].pid, number);
        }
    }
}

static void tell_late(const or_process_t *processes, size_t count, int64_t patience_ns)
{
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid != 0) {
            or_log(OR_LOG_DEBUG, "%s did not end within %" PRId64 " ms and is killed",
                   processes[i].name, patience_ns / OR_NS_PER_MS);
        }
    }
}

void or_process_stop_all(or_process_t *processes, size_t count, int64_t patience_ns)
{
    const struct timespec pause = {0, POLL_NS};
    int64_t deadline = or_clock_now(or_clock_monotonic()) + patience_ns;
    bool killed = false;
    signal_all(processes, count, SIGTERM);
    while (!all_ended(processes, count)) {
        bool hurried = or_interrupt_count() > 1;
        bool late = or_clock_now(or_clock_monotonic()) > deadline;
        if ((late || hurried) && !killed) {
            if (!hurried) {
                tell_late(processes, count, patience_ns);
            }
            signal_all(processes, count, SIGKILL);
            killed = true;
        }
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        if (processes[i].log_fd >= 0) {
            close(processes[i].log_fd);
        }
        processes[i] = OR_PROCESS_NONE;
    }
}

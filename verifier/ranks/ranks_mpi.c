#include "verifier/ranks/ranks_mpi.h"

#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/log/log.h"
#include "verifier/ranks/watchdog.h"

#define TAG_STAGES 1 // activations, to the next stage
#define TAG_LEADER 2 // what the leader collects
#define RANKS_MAX 8  // of a stage

// Activations of a large pass may be more bytes than an int counts. They travel in pieces.
#define PIECE_BYTES ((size_t)16 << 20)

// A rank that may have to wait for long looks again and again for SPIN_NS, the time in which a busy decoding loop
// answers. Then it pauses for a sixteenth of the time that it has waited already, so it is never late by more than
// that. After QUIET_NS nobody decodes.
#define SPIN_NS (50 * OR_NS_PER_MS / 1000)
#define PAUSE_MIN_NS (50 * OR_NS_PER_MS / 1000)
#define PAUSE_MAX_NS OR_NS_PER_MS
#define QUIET_NS OR_NS_PER_S
#define PAUSE_QUIET_NS (5 * OR_NS_PER_MS)

static MPI_Comm group = MPI_COMM_NULL; // of this rank's stage

static or_status_t check(int code, const char *what)
{
    if (code == MPI_SUCCESS) {
        return OR_OK;
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return or_fail(OR_ERR_IO, "MPI %s: %s", what, text);
}

static or_status_t check_size(size_t bytes, const char *what)
{
    if (bytes > INT_MAX) {
        return or_fail(OR_ERR_INVALID, "MPI %s: %zu bytes at once are too many", what, bytes);
    }
    return OR_OK;
}

// ---- waiting ----

static int64_t pause_after(int64_t waited_ns)
{
    if (waited_ns > QUIET_NS) {
        return PAUSE_QUIET_NS;
    }
    int64_t pause = waited_ns / 16;
    return pause < PAUSE_MIN_NS ? PAUSE_MIN_NS : pause > PAUSE_MAX_NS ? PAUSE_MAX_NS : pause;
}

static or_status_t wait_cheaply(MPI_Request *request, const char *what)
{
    int64_t begun = or_clock_now(or_clock_monotonic());
    int done = 0;
    int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !done) {
        int64_t waited = or_clock_now(or_clock_monotonic()) - begun;
        if (waited > SPIN_NS) {
            const struct timespec pause = {0, pause_after(waited)};
            nanosleep(&pause, NULL);
        }
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    // The wait is over, and this call returns its status.
    return check(code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code, what);
}

// End a watched wait.
static or_status_t watched(or_status_t status)
{
    or_watchdog_end();
    return status;
}

// ---- the interface ----

static int world_rank(const or_ranks_t *ranks, int stage, int rank)
{
    return stage * ranks->size + rank;
}

static or_status_t all_gather(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    or_status_t status = check_size(bytes, "all-gather");
    if (status != OR_OK) {
        return status;
    }
    const char *own = (const char *)recv + (size_t)ranks->rank * bytes;
    or_watchdog_begin("an all-gather");
    return watched(check(MPI_Allgather(send == own ? MPI_IN_PLACE : send, (int)bytes, MPI_BYTE,
                                       recv, (int)bytes, MPI_BYTE, group),
                         "all-gather"));
}

// Broadcast. The others may wait for the leader's next step as long as they like; the leader may not wait so for
// them.
static or_status_t broadcast(const or_ranks_t *ranks, void *data, size_t bytes)
{
    static const char what[] = "broadcast";
    MPI_Request request;
    or_status_t status = check_size(bytes, what);
    if (status == OR_OK) {
        status = check(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request), what);
    }
    if (status != OR_OK || !or_ranks_is_leader(ranks)) {
        return status == OR_OK ? wait_cheaply(&request, what) : status;
    }
    or_watchdog_begin("a broadcast");
    return watched(wait_cheaply(&request, what));
}

static or_status_t gather_world(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    MPI_Request request;
    or_status_t status = check_size(bytes, "gathering");
    if (status != OR_OK) {
        return status;
    }
    const char *own =
        (const char *)recv + (size_t)world_rank(ranks, ranks->stage, ranks->rank) * bytes;
    // Another rank may still be reading its file.
    status = check(MPI_Iallgather(send == own ? MPI_IN_PLACE : send, (int)bytes, MPI_BYTE, recv,
                                  (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &request),
                   "gathering");
    return status == OR_OK ? wait_cheaply(&request, "gathering") : status;
}

static size_t piece_of(size_t bytes)
{
    return bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
}

static or_status_t pass_on(const or_ranks_t *ranks, const void *data, size_t bytes)
{
    int to = world_rank(ranks, ranks->stage + 1, ranks->rank);
    or_status_t status = OR_OK;
    or_watchdog_begin("handing over to the next stage");
    for (size_t done = 0; done < bytes && status == OR_OK; done += PIECE_BYTES) {
        status = check(MPI_Send((const char *)data + done, (int)piece_of(bytes - done), MPI_BYTE,
                                to, TAG_STAGES, MPI_COMM_WORLD),
                       "pass to the next stage");
    }
    return watched(status);
}

static or_status_t take_piece(void *data, size_t bytes, int from)
{
    static const char what[] = "pass from the stage before";
    MPI_Request request;
    or_status_t status = check(
        MPI_Irecv(data, (int)bytes, MPI_BYTE, from, TAG_STAGES, MPI_COMM_WORLD, &request), what);
    return status == OR_OK ? wait_cheaply(&request, what) : status;
}

static or_status_t take_over(const or_ranks_t *ranks, void *data, size_t bytes)
{
    int from = world_rank(ranks, ranks->stage - 1, ranks->rank);
    or_status_t status = OR_OK;
    or_watchdog_begin("taking over from the stage before");
    for (size_t done = 0; done < bytes && status == OR_OK; done += PIECE_BYTES) {
        status = take_piece((char *)data + done, piece_of(bytes - done), from);
    }
    return watched(status);
}

// Collect on the leader's side from every rank of the last stage at once, whichever comes first.
static or_status_t collect_all(const or_ranks_t *ranks, const void *send, size_t bytes, char *recv)
{
    static const char what[] = "collection";
    MPI_Request requests[RANKS_MAX];
    int last = or_ranks_stages(ranks) - 1;
    or_status_t status = OR_OK;
    for (int i = 0; i < ranks->size && status == OR_OK; i++) {
        char *place = recv + (size_t)i * bytes;
        requests[i] = MPI_REQUEST_NULL;
        if (last == 0 && i == 0) {
            memmove(place, send, bytes);
        } else {
            status = check(MPI_Irecv(place, (int)bytes, MPI_BYTE, world_rank(ranks, last, i),
                                     TAG_LEADER, MPI_COMM_WORLD, &requests[i]),
                           what);
        }
    }
    for (int i = 0; i < ranks->size && status == OR_OK; i++) {
        status = wait_cheaply(&requests[i], what);
    }
    return status;
}

static or_status_t collect(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    static const char what[] = "collection";
    or_status_t status = check_size(bytes, what);
    if (status != OR_OK) {
        return status;
    }
    or_watchdog_begin("the collection of logits");
    if (or_ranks_is_leader(ranks)) {
        status = collect_all(ranks, send, bytes, recv);
    } else if (ranks->stage == or_ranks_stages(ranks) - 1) {
        status = check(MPI_Send(send, (int)bytes, MPI_BYTE, 0, TAG_LEADER, MPI_COMM_WORLD), what);
    }
    return watched(status);
}

static void watch(const or_ranks_t *ranks, const char *what)
{
    (void)ranks;
    if (what != NULL) {
        or_watchdog_begin(what);
    } else {
        or_watchdog_end();
    }
}

// ---- start and end ----

// Was this process started by mpirun or by a cluster's own launcher?
static bool is_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (getenv(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

// Set MPI's defaults for us, unless the user says otherwise.
static void set_defaults(void)
{
    // All processes without mpirun share one folder under /tmp, which nobody needs. One that ends removes it while another,
    // which begins, is about to write there, and then fails.
    if (!is_launched()) {
        setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
    }
    // A process started without mpirun needs no MPI daemon of its own, which would outlive a killed
    // verifier.
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    // More ranks than cores must not take the cores from those they wait for.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    // Reading another process's memory needs rights that containers do not give; our messages are small.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

// Keep NCCL on loopback if all ranks are on this host: it would listen on another interface even then.
static void keep_nccl_here(const or_ranks_mpi_place_t *place)
{
    if (place->neighbours == place->size) {
        setenv("NCCL_SOCKET_IFNAME", "=lo", 0);
    }
}

// Return true if all ranks of the host may run on the same CPUs.
static bool same_cpus(MPI_Comm host)
{
    const or_cpus_t own = or_cpus_allowed();
    or_cpus_t any, all;
    MPI_Allreduce(&own, &any, sizeof own, MPI_BYTE, MPI_BOR, host);
    MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BAND, host);
    return CPU_EQUAL(&any.set, &all.set);
}

static void find_place(or_ranks_mpi_place_t *place)
{
    MPI_Comm host;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place->size);
    MPI_Get_processor_name(name, &length);
    size_t short_length = strcspn(name, ".");
    size_t fits = sizeof place->host - 1;
    short_length = short_length < fits ? short_length : fits;
    memcpy(place->host, name, short_length);
    place->host[short_length] = '\0';
    place->neighbours = 1;
    place->neighbour = 0;
    place->same_cpus = true;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) ==
        MPI_SUCCESS) {
        MPI_Comm_size(host, &place->neighbours);
        MPI_Comm_rank(host, &place->neighbour);
        place->same_cpus = same_cpus(host);
        MPI_Comm_free(&host);
    }
}

or_status_t or_ranks_mpi_start(or_ranks_mpi_place_t *place)
{
    int provided = 0;
    set_defaults();
    // A killed mpirun ends nobody: the ranks would wait for ever.
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    or_status_t status =
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "initialisation");
    if (status == OR_OK) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        find_place(place);
        keep_nccl_here(place);
    }
    return status;
}

// Check that all ranks say the same number, which may differ if each has its own environment.
static or_status_t agree_on_stages(uint32_t stages)
{
    const uint32_t mine[] = {stages, UINT32_MAX - stages};
    uint32_t most[2]; // and, of the complement, the least
    or_status_t status =
        check(MPI_Allreduce(mine, most, 2, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD), "agreement");
    if (status == OR_OK && most[0] != UINT32_MAX - most[1]) {
        status = or_fail(OR_ERR_INVALID, "--pp is not the same on all ranks");
    }
    return status;
}

or_status_t or_ranks_mpi_arrange(uint32_t stages, const or_ranks_t **ranks_p)
{
    static or_ranks_t ranks;
    int world;
    int rank;
    or_status_t status = agree_on_stages(stages);
    if (status != OR_OK) {
        return status;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    uint32_t size = stages > 0 ? (uint32_t)world / stages : 0;
    bool allowed = size == 1 || size == 2 || size == 4 || size == RANKS_MAX;
    if (!allowed || size * stages != (uint32_t)world) {
        return or_fail(OR_ERR_INVALID,
                       "%d ranks in %" PRIu32 " stages: a stage is of 1, 2, 4 or 8 ranks; change "
                       "mpirun's -np or --pp",
                       world, stages);
    }
    ranks = (or_ranks_t){.rank = rank % (int)size,
                         .size = (int)size,
                         .stage = rank / (int)size,
                         .stages = (int)stages,
                         .all_gather = all_gather,
                         .broadcast = broadcast,
                         .collect = collect,
                         .gather_world = gather_world,
                         .pass_on = stages > 1 ? pass_on : NULL,
                         .take_over = stages > 1 ? take_over : NULL,
                         .watch = watch};
    status = check(MPI_Comm_split(MPI_COMM_WORLD, ranks.stage, ranks.rank, &group), "split");
    if (status == OR_OK) {
        *ranks_p = &ranks;
    }
    return status;
}

int or_ranks_mpi_first_failed(bool failed)
{
    int rank;
    int first = INT_MAX;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank = failed ? rank : INT_MAX;
    MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return first == INT_MAX ? -1 : first;
}

void or_ranks_mpi_stop(void)
{
    if (group != MPI_COMM_NULL) {
        MPI_Comm_free(&group);
    }
    MPI_Finalize();
}

void or_ranks_mpi_abort(int code)
{
    or_log_flush(); // it ends us without what exit does
    MPI_Abort(MPI_COMM_WORLD, code);
    abort(); // not reached
}

// outrider-verifier: the target model as a process, or as the ranks of an MPI job.
//
// The leader (rank 0 of stage 0) has the link to the coordinator and does everything a verifier does; the others
// repeat its forward passes. A failure on one rank alone ends the job at once. A failure that all ranks know of
// (wrong options, files that differ) ends it in order.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cpus.h"
#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/base/options/options.h"
#include "common/base/options/program.h"
#include "common/base/version.h"
#include "common/decode/token_tree.h"
#include "common/gguf/packed.h"
#include "common/model/cpu/workers.h"
#include "proto/net/edge.h"
#include "proto/net/endpoint.h"
#include "verifier/loaded.h"
#include "verifier/ranks/rank_cpus.h"
#include "verifier/ranks/ranks_mpi.h"
#include "verifier/ranks/watchdog.h"
#include "verifier/readiness.h"
#include "verifier/verifier.h"

#define EXIT_USAGE 2
#define STATS_MS 1000
#define RANK_TIMEOUT_S 120
#define STEP_DELAY_MAX_MS 60000u
#define BATCH_ROWS 256u
// The most rows of a pass on a CPU while several texts are open: two trees of the usual 17 rows and a little of a
// prompt. The time per row is an eighth shorter with 256 at best, and every text waits for the whole of a pass.
#define CPU_CROWD_ROWS 40u

typedef struct {
    char *model;
    char *connect;
    or_key_options_t keys;
    bool padding;
    char *log_level, *log_format;
    uint32_t threads;
    or_cpu_options_t cpus;
    or_gpu_options_t gpu;
    bool list_devices;
    uint32_t stages;
    uint32_t rank_timeout_s;
    bool nccl;
    uint32_t context;
    uint64_t cache_bytes;
    uint32_t window_slack;
    char *cache_type_k, *cache_type_v;
    uint32_t nodes_max;
    uint32_t sessions_max;
    uint32_t batch;
    bool prefix_sharing;
    uint32_t stats_ms;
    uint32_t step_delay_ms;
    char *ready_file;
    char *packed;
    uint64_t weights_memory;
} config_t;

// The way in which a rank loads the model.
typedef struct {
    or_model_options_t options;
    or_gpu_place_t place;
} loading_t;

// The state of the loop.
typedef struct {
    or_verifier_t *verifier;
    const or_link_t *link;
    or_readiness_t *readiness;
} served_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE", "target model (GGUF)"},
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT",
     "the coordinator, e.g. tcp://127.0.0.1:5577"},
    OR_KEY_OPTIONS(config_t, keys),
    {"padding", NULL, OR_OPTION_FLAG, offsetof(config_t, padding), NULL,
     "messages of an encrypted connection have one of a few sizes, so that sizes tell nothing"},
    {"threads", "t", OR_OPTION_UINT32, offsetof(config_t, threads), "N",
     "threads of a rank; 0: the host's CPUs shared among the ranks there",
     .bounds = OR_THREADS_BOUNDS},
    OR_CPU_OPTIONS(config_t, cpus),
    OR_GPU_OPTIONS(config_t, gpu),
    OR_GPU_LIST_OPTION(config_t, list_devices),
    {"pp", NULL, OR_OPTION_UINT32, offsetof(config_t, stages), "N",
     "pipeline stages: the layers are split over N groups of ranks, each of 1, 2, 4 or 8"},
    {"rank-timeout", NULL, OR_OPTION_UINT32, offsetof(config_t, rank_timeout_s), "SECONDS",
     "how long a rank waits for the others inside a forward pass before it ends the job; 0: for "
     "ever"},
    {"nccl", NULL, OR_OPTION_FLAG, offsetof(config_t, nccl), NULL,
     "ranks with a GPU each add up from GPU to GPU, where NCCL is installed; --no-nccl: by way of "
     "the host"},
    {"ctx-size", "c", OR_OPTION_UINT32, offsetof(config_t, context), "N",
     "context in tokens; 0: what the model was made for, or there is memory for",
     .bounds = OR_CONTEXT_BOUNDS},
    {"kv-cache-size", NULL, OR_OPTION_SIZE, offsetof(config_t, cache_bytes), "SIZE",
     "keys and values of all sessions, on the ranks of a stage together, as 512M or 2G; 0: full "
     "contexts for --sessions-max, as far as a quarter of the memory goes"},
    {"cache-type-k", "ctk", OR_OPTION_STRING, offsetof(config_t, cache_type_k), "TYPE",
     "keys are kept as f32, f16 or q8_0; all but f32 change the text a little, always in the same "
     "way; auto: f32, or f16 where a full context took more than a GiB in f32"},
    {"cache-type-v", "ctv", OR_OPTION_STRING, offsetof(config_t, cache_type_v), "TYPE",
     "the same for values"},
    {"window-slack", NULL, OR_OPTION_UINT32, offsetof(config_t, window_slack), "N",
     "layers with a window keep so many positions before it, by which a text can be cut back, or "
     "share a beginning, without being read again; 0: 256"},
    {"batch-size", "b", OR_OPTION_UINT32, offsetof(config_t, batch), "N",
     "tokens a forward pass, of all sessions together; 0: 256, but 40 while several are open on a "
     "CPU"},
    {"draft-nodes-max", NULL, OR_OPTION_UINT32, offsetof(config_t, nodes_max), "N",
     "largest tree accepted"},
    {"sessions-max", NULL, OR_OPTION_UINT32, offsetof(config_t, sessions_max), "N",
     "sessions whose cache is kept"},
    {"prefix-sharing", NULL, OR_OPTION_FLAG, offsetof(config_t, prefix_sharing), NULL,
     "texts of one owner that begin alike share keys and values"},
    OR_PACKED_OPTION(config_t, packed, "", ""),
    OR_WEIGHTS_MEMORY_OPTION(config_t, weights_memory, ""),
    {"stats-interval", NULL, OR_OPTION_UINT32, offsetof(config_t, stats_ms), "MS",
     "how often the coordinator is told how busy it is; 0: never"},
    {"step-delay-ms", NULL, OR_OPTION_UINT32, offsetof(config_t, step_delay_ms), "MS",
     "for laboratories: every forward pass takes so much longer"},
    {"ready-file", NULL, OR_OPTION_STRING, offsetof(config_t, ready_file), "PATH",
     "a file that is there while the coordinator's welcome lasts"},
    {"log-level", NULL, OR_OPTION_STRING, offsetof(config_t, log_level), "LEVEL",
     "error, warn, info, debug, trace"},
    {"log-format", NULL, OR_OPTION_STRING, offsetof(config_t, log_format), "FORMAT",
     "text, or json: one object a line, with session and request"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider-verifier",
    .summary = "Check draft trees with a target model, for a coordinator.",
    .usage = "-m FILE --connect ENDPOINT [options]",
    .table = table,
    .examples = "  outrider-verifier -m target.gguf --connect tcp://127.0.0.1:5577\n"
                "  mpirun -np 8 --hostfile hosts --bind-to none outrider-verifier -m target.gguf "
                "--connect tcp://10.0.0.1:5577\n",
};

// End the job at once, because ranks are out of step: closing in order, they would wait for each other.
static _Noreturn void end_job(const char *why)
{
    or_log(OR_LOG_ERROR, "%s", why);
    or_ranks_mpi_abort(1);
}

// ---- the leader ----

static int64_t turn(void *role)
{
    served_t *served = role;
    int64_t due = or_verifier_turn(served->verifier);
    const char *broken = or_verifier_broken(served->verifier);
    if (broken != NULL) {
        or_readiness_fini(served->readiness);
        end_job(broken);
    }
    or_readiness_set(served->readiness, or_link_welcomed(served->link));
    return due;
}

static const char *refused(const void *role)
{
    const served_t *served = role;
    return or_verifier_refused(served->verifier);
}

// Return how many sessions to offer. Sessions that a GPU has no room for are not: their texts wait at the
// coordinator.
static uint32_t offered_sessions(const config_t *config, const or_model_t *model)
{
    uint32_t most = or_model_sequences_max(model);
    if (most >= config->sessions_max) {
        return config->sessions_max;
    }
    or_log(OR_LOG_WARN,
           "the GPU has room for the trees of %" PRIu32 " of %" PRIu32
           " sessions: give a smaller --draft-nodes-max (OUTRIDER_DRAFT_NODES_MAX; it is %" PRIu32
           ") or --kv-cache-size for more",
           most, config->sessions_max, config->nodes_max);
    return most;
}

static uint32_t batch_rows(const config_t *config)
{
    return config->batch > 0 ? config->batch : BATCH_ROWS;
}

// Serve from the greeting to the end of the loop; clean up in reverse.
static or_status_t serve(const config_t *config, or_readiness_t *readiness,
                         or_edge_process_t *process)
{
    or_verifier_t *verifier = NULL;
    bool on_gpu = or_gpu_where(process->model).on_gpu;
    const or_verifier_config_t shape = {.nodes_max = config->nodes_max,
                                        .sessions_max = offered_sessions(config, process->model),
                                        .batch_rows = batch_rows(config),
                                        .crowd_rows =
                                            config->batch == 0 && !on_gpu ? CPU_CROWD_ROWS : 0,
                                        .stats_ms = config->stats_ms,
                                        .step_delay_us = config->step_delay_ms * 1000,
                                        .no_prefix_sharing = !config->prefix_sharing};
    or_loaded_log_memory(process->model);
    or_loaded_log_sums(process->model);
    or_hello_t hello = or_verifier_hello(&shape, process->gguf, process->model, process->vocab);
    or_status_t status = or_edge_process_greet(process, &hello);
    if (status == OR_OK) {
        or_link_set_padding(process->link, config->padding);
        status = or_verifier_create(&shape, process->model, process->vocab, process->link,
                                    or_clock_monotonic(), &verifier);
    }
    if (status == OR_OK) {
        served_t served = {verifier, process->link, readiness};
        status = or_edge_process_run(process, turn, refused, &served);
    }
    or_verifier_destroy(&verifier);
    return status;
}

// Lead the job. `*alone`: no other rank knows of the failure.
static or_status_t lead(const config_t *config, const loading_t *loading, bool *alone)
{
    or_edge_process_t process;
    or_readiness_t readiness;
    or_readiness_init(&readiness, config->ready_file);
    or_status_t status = or_edge_process_open(config->model, &loading->options, &loading->place,
                                              config->connect, &config->keys, &process);
    *alone = process.model == NULL && status != OR_ERR_MISMATCH;
    if (status == OR_OK) {
        status = serve(config, &readiness, &process);
    }
    or_readiness_fini(&readiness);
    or_edge_process_close(&process); // tells the others that it is over
    return status;
}

// ---- the other ranks ----

static or_status_t follow(const config_t *config, const loading_t *loading, bool *alone)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_status_t status = or_gguf_open(config->model, &gguf);
    if (status == OR_OK) {
        status = or_gpu_place_load(&loading->place, gguf, &loading->options, &model);
    }
    *alone = status != OR_ERR_MISMATCH;
    if (status == OR_OK) {
        or_loaded_log_memory(model);
        status = or_model_follow(model);
        if (status != OR_OK) {
            end_job(or_error_text());
        }
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return status;
}

// ---- all ranks ----

static or_status_t check_loading(const config_t *config, or_model_options_t *options)
{
    or_status_t status =
        or_model_cache_types_parse(config->cache_type_k, config->cache_type_v, options);
    status =
        status != OR_OK ? status : or_packed_check_wish(config->packed, config->weights_memory);
    status = status != OR_OK ? status : or_cpu_options_check(&config->cpus, "");
    return status != OR_OK ? status : or_gpu_options_check(&config->gpu, "");
}

static or_status_t check(const config_t *config, or_model_options_t *options)
{
    if (config->model == NULL || config->connect == NULL) {
        return or_fail(OR_ERR_INVALID, "-m FILE and --connect ENDPOINT are needed; see --help");
    }
    if (config->nodes_max == 0 || config->nodes_max > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "--draft-nodes-max: %" PRIu32 " is not between 1 and %u",
                       config->nodes_max, OR_TREE_NODES_MAX);
    }
    if (config->sessions_max == 0) {
        return or_fail(OR_ERR_INVALID, "--sessions-max is at least 1");
    }
    if (config->step_delay_ms > STEP_DELAY_MAX_MS) {
        return or_fail(OR_ERR_INVALID, "--step-delay-ms: %" PRIu32 " is over %u",
                       config->step_delay_ms, STEP_DELAY_MAX_MS);
    }
    or_status_t status = or_endpoint_check(config->connect, false);
    return status == OR_OK ? check_loading(config, options) : status;
}

// Fail with one voice for a failure that all ranks found alike.
static int fail_together(const or_ranks_mpi_place_t *place, int speaker, int code)
{
    if (place->rank == speaker) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    or_ranks_mpi_stop();
    return code;
}

static uint32_t choose_threads(uint32_t wished, const or_cpus_t *cpus)
{
    uint32_t count = or_cpus_count(cpus);
    return wished > 0 ? wished : count < OR_THREADS_MAX ? count : OR_THREADS_MAX;
}

// Share the GPUs of a host among its ranks. All ranks take one each or none does, because the slowest is waited for.
static void share_gpus(const or_ranks_mpi_place_t *place, or_gpu_place_t *gpu)
{
    or_gpu_place_spread(gpu, (uint32_t)place->neighbour);
    if (or_ranks_mpi_first_failed(!gpu->on_gpu) >= 0 && gpu->on_gpu && gpu->automatic) {
        gpu->on_gpu = false;
        gpu->why_not = "other ranks have no GPU";
        gpu->missed = true;
    }
}

// Run the model on this rank, from its file to its end.
static int run_rank(const config_t *config, loading_t *loading, const or_ranks_mpi_place_t *place)
{
    bool alone;
    or_model_options_t *options = &loading->options;
    uint32_t tree = config->nodes_max + 1; // with the root
    uint32_t batch = batch_rows(config);
    share_gpus(place, &loading->place);
    // Layers on disk are refused by a GPU: then all ranks compute on CPUs.
    bool on_gpu = loading->place.on_gpu && config->weights_memory == 0;
    or_cpus_t cpus = or_rank_cpus_settle("", place, on_gpu);
    options->threads = choose_threads(config->threads, &cpus);
    options->pins = config->cpus.strict ? &cpus : NULL;
    options->poll = or_cpu_options_poll(&config->cpus);
    options->context_max = config->context;
    options->rows_max = tree > batch ? tree : batch;
    options->sequences_max = config->sessions_max;
    options->slots_max = config->nodes_max;
    options->cache_bytes = config->cache_bytes;
    options->window_slack = config->window_slack;
    options->packed = config->packed;
    options->weights_memory = config->weights_memory;
    loading->place.gpu.no_peers = !config->nccl;
    bool leads = or_ranks_is_leader(options->ranks);
    or_status_t status = leads ? lead(config, loading, &alone) : follow(config, loading, &alone);
    options->pins = NULL; // they end with this function
    int code = status == OR_OK ? 0 : status == OR_ERR_MISMATCH ? OR_EXIT_REFUSED : 1;
    // The leader reports failures that all ranks know of.
    if (status != OR_OK && (alone || leads)) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
    }
    if (status != OR_OK && alone && place->size > 1) {
        or_ranks_mpi_abort(code);
    }
    or_ranks_mpi_stop();
    return code;
}

static void name_ourselves(const or_ranks_mpi_place_t *place, or_log_level_t level)
{
    char role[96] = "verifier";
    if (place->size > 1) {
        snprintf(role, sizeof role, "verifier rank %d on %s", place->rank, place->host);
    }
    or_log_init(role, level);
}

// Run the job from MPI's start to its end. `usage`: the options are wrong here, and the sentence waits until the
// first such rank says it.
static int run_job(const config_t *config, loading_t *loading, or_log_level_t level, bool usage)
{
    or_ranks_mpi_place_t place;
    if (or_ranks_mpi_start(&place) != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        return 1;
    }
    or_interrupt_watch(); // MPI may have put handlers of its own in their place
    name_ourselves(&place, level);
    int speaker = or_ranks_mpi_first_failed(usage);
    if (speaker >= 0) {
        return fail_together(&place, speaker, EXIT_USAGE);
    }
    if (or_ranks_mpi_arrange(config->stages, &loading->options.ranks) != OR_OK) {
        return fail_together(&place, 0, EXIT_USAGE);
    }
    if (place.size > 1 && config->rank_timeout_s > 0 &&
        or_watchdog_start(config->rank_timeout_s) != OR_OK) {
        or_log(OR_LOG_ERROR, "%s", or_error_text());
        or_ranks_mpi_abort(1);
    }
    // Several ranks load first: one that was interrupted alone must be able to tell the others.
    if (place.size == 1 && or_interrupt_count() > 0) {
        or_ranks_mpi_stop();
        return 0;
    }
    return run_rank(config, loading, &place);
}

static int run(int argc, char **argv)
{
    config_t config = {.padding = true,
                       .cpus = or_cpu_options_default(),
                       .gpu = or_gpu_options_default(),
                       .stages = 1,
                       .rank_timeout_s = RANK_TIMEOUT_S,
                       .cache_type_k = (char *)"auto",
                       .cache_type_v = (char *)"auto",
                       .packed = (char *)"auto",
                       .nodes_max = OR_TREE_NODES_MAX,
                       .sessions_max = 64,
                       .prefix_sharing = true,
                       .nccl = true,
                       .stats_ms = STATS_MS};
    loading_t loading = {0};
    or_options_next_t next;
    or_log_level_t level = OR_LOG_INFO;
    or_log_init("verifier", level);
    or_interrupt_watch(); // MPI takes a while to start
    or_status_t status = or_options_parse(&program, argc, argv, &config, NULL, &next);
    if (status == OR_OK && next == OR_OPTIONS_EXIT) {
        return 0;
    }
    if (status == OR_OK && config.list_devices) {
        or_gpu_list(or_gpu_functions(), stdout);
        or_options_free(&program, &config, NULL);
        return 0;
    }
    if (status == OR_OK && config.log_level != NULL) {
        status = or_log_parse_level(config.log_level, &level);
    }
    if (status == OR_OK && config.log_format != NULL) {
        status = or_log_set_format(config.log_format);
    }
    if (status == OR_OK) {
        status = check(&config, &loading.options);
    }
    if (status == OR_OK) {
        status = or_cpu_options_confine(&config.cpus); // MPI has threads of its own, and CUDA
    }
    if (status == OR_OK) {
        status = or_gpu_place_choose(&config.gpu, or_gpu_functions(), &loading.place);
    }
    int code = run_job(&config, &loading, level, status != OR_OK);
    or_options_free(&program, &config, NULL);
    return code;
}

int main(int argc, char **argv)
{
    or_program_begin();
    return or_program_end(run(argc, argv));
}

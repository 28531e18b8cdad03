// outrider bench step - what passes cost: trees of guesses against a single token, batches of texts, prefill.
//
//     tree 16        a best-first tree of 16 nodes after a prefix, with the logits of all: one round
//     sessions 16    one node each of 16 texts, likewise: a batch of plain steps
//     prefill 512    the first 512 tokens of a text, with the logits of the last
//
// Passes are timed by turns (tree 1, tree 16, tree 1, ...): what disturbs the machine disturbs all. The first turn is not counted.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/inline.h"
#include "common/base/memory.h"
#include "common/decode/token_tree.h"
#include "common/gguf/packed.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/progress.h"
#include "launch/speed/memory_read.h"
#include "launch/speed/step_output.h"
#include "launch/speed/step_plan.h"
#include "launch/speed/step_tree.h"

#define TURN_TOKENS 4099u // between the tokens of two turns

typedef struct {
    char *model, *rows, *sessions, *prefill; // the last three are lists; NULL: none
    char *cache_type_k, *cache_type_v;
    or_model_options_t loading; // what is said of it
    uint32_t context, threads, repeats;
    or_cpu_options_t cpus;
    or_gpu_options_t gpu;
    bool list_devices, json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, AT(model), "FILE",
     "model (GGUF); the demonstration target if not given"},
    {"rows", NULL, OR_OPTION_STRING, AT(rows), "LIST",
     "time trees of so many nodes, with the logits of all; 1,16,64 if not given"},
    {"sessions", NULL, OR_OPTION_STRING, AT(sessions), "LIST",
     "time batches of one step each of so many texts"},
    {"prefill", NULL, OR_OPTION_STRING, AT(prefill), "LIST",
     "time the first so many tokens of a text, 512 a pass, with the logits of the last"},
    {"context", NULL, OR_OPTION_UINT32, AT(context), "N", "tokens before a tree or a step"},
    {"cache-type-k", "ctk", OR_OPTION_STRING, AT(cache_type_k), "TYPE",
     "keys are kept as f32, f16 or q8_0; auto: as the verifier keeps them"},
    {"cache-type-v", "ctv", OR_OPTION_STRING, AT(cache_type_v), "TYPE", "the same for values"},
    {"repeat", NULL, OR_OPTION_UINT32, AT(repeats), "N",
     "passes of each kind, by turns; times are medians"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N", "threads; 0: one a CPU it may use"},
    OR_CPU_OPTIONS(config_t, cpus),
    OR_PACKED_OPTION(config_t, loading.packed, "", ""),
    OR_WEIGHTS_MEMORY_OPTION(config_t, loading.weights_memory, ""),
    OR_GPU_OPTIONS(config_t, gpu),
    OR_GPU_LIST_OPTION(config_t, list_devices),
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL,
     "one line, an array of an object a kind of pass, instead of the table"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider bench step",
    .summary = "time forward passes: trees of guesses, batches of texts, prefill",
    .usage = "[-m FILE] [options]",
    .table = table,
    .examples =
        "Examples:\n"
        "  outrider bench step -m model.gguf --rows 1,16,64 --json\n"
        "  outrider bench step -m model.gguf --prefill 512 --sessions 16 -t 2\n\n"
        "bytes_per_s is what the weights, read once a pass, come to; read is its share of what\n"
        "as many threads read of memory between the passes. Of the weights of a model with\n"
        "experts only those count that some row takes; how many these are in a layer of\n"
        "a pass is in a column of its own. Where experts are read from disk, two more say\n"
        "what share of them was found in memory, and how many a pass read.\n",
};

// The room that the passes of a plan need: rows of a pass, texts, slots of the first text, positions of a context.
typedef struct {
    uint32_t rows, texts, slots, context;
} room_t;

// ---- what was asked for ----

static or_status_t make_plan(config_t *config, or_step_plan_t *plan)
{
    *plan = (or_step_plan_t){.context = config->context, .repeats = config->repeats};
    if (config->context < 1) {
        return or_fail(OR_ERR_INVALID, "--context: at least one token");
    }
    if (config->repeats < 1 || config->repeats > OR_STEP_REPEATS_MAX) {
        return or_fail(OR_ERR_INVALID, "--repeat: 1 to %u", OR_STEP_REPEATS_MAX);
    }
    const char *rows = config->rows != NULL ? config->rows : "1,16,64";
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    status = status != OR_OK ? status
                             : or_model_cache_types_parse(config->cache_type_k,
                                                          config->cache_type_v, &config->loading);
    status = status != OR_OK ? status : or_cpu_options_check(&config->cpus, "");
    status = status != OR_OK ? status : or_gpu_options_check(&config->gpu, "");
    status = status != OR_OK
                 ? status
                 : or_step_plan_add("--rows", rows, OR_STEP_TREE, OR_STEP_TREE_MAX, plan);
    status = status != OR_OK ? status
                             : or_step_plan_add("--sessions", config->sessions, OR_STEP_SESSIONS,
                                                OR_STEP_SESSIONS_MAX, plan);
    return status != OR_OK ? status
                           : or_step_plan_add("--prefill", config->prefill, OR_STEP_PREFILL,
                                              OR_STEP_PREFILL_MAX, plan);
}

// ---- the passes ----

typedef struct {
    or_model_t *model;
    const or_step_plan_t *plan;
    room_t room;
    or_token_tree_t *tree;                         // borrowed
    or_kv_sequence_t *texts[OR_STEP_SESSIONS_MAX]; // the first also has the trees
    uint32_t text_count;
    or_kv_sequence_t *prefix; // the one that is prefilled, empty between passes
    or_model_row_t rows[OR_STEP_TREE_MAX];
    float *logits;                      // of as many rows
    or_model_reads_t reads;             // of the step that was timed last
    or_model_kept_t kept_now;           // likewise
    or_model_kept_t kept[OR_STEPS_MAX]; // of all turns but the first, of each step
    uint32_t turn;
    double *ms;                             // [step][repeat]
    or_memory_read_t *reader;               // NULL: the memory is not read between passes
    double read_rates[OR_STEP_REPEATS_MAX]; // bytes a second, of each repeat
} run_t;

// ---- room ----

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t pass_rows(const or_step_t *step)
{
    bool cut = step->kind == OR_STEP_PREFILL && step->rows > OR_STEP_PREFILL_ROWS;
    return cut ? OR_STEP_PREFILL_ROWS : step->rows;
}

static room_t measure_room(const or_step_plan_t *plan, or_token_tree_t *tree)
{
    room_t room = {1, 1, 1, plan->context + 1};
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        room.rows = larger(room.rows, pass_rows(step));
        if (step->kind == OR_STEP_TREE) {
            or_step_tree_grow(tree, step->rows);
            for (uint32_t node = 0; node <= or_token_tree_count(tree); node++) {
                uint32_t depth = or_token_tree_depths(tree)[node];
                room.context = larger(room.context, plan->context + depth);
            }
            room.slots = larger(room.slots, step->rows);
        } else if (step->kind == OR_STEP_PREFILL) {
            room.context = larger(room.context, step->rows);
        } else {
            room.texts = larger(room.texts, step->rows);
        }
    }
    return room;
}

// ---- a pass ----

// Tokens are spread over all the vocabulary, none of them next to its neighbours. Where experts are read from disk, each turn has
// others: of the same tokens all would be found in memory.
static int32_t token_at(const run_t *run, uint32_t place)
{
    place += or_model_kept_of_all(run->model).slots > 0 ? run->turn * TURN_TOKENS : 0;
    return (int32_t)((place * UINT64_C(2654435761) >> 8) % or_model_shape(run->model)->vocab_size);
}

static void add_kept(or_model_kept_t *sum, const or_model_kept_t *more)
{
    sum->needed += more->needed;
    sum->found += more->found;
    sum->read += more->read;
}

// Run a pass of rows, and count what it reads.
static or_status_t forward(run_t *run, uint32_t count)
{
    or_status_t status = or_model_forward(run->model, run->rows, count);
    run->reads.weights += or_model_reads(run->model).weights;
    run->reads.experts += or_model_reads(run->model).experts;
    const or_model_kept_t kept = or_model_kept_of_pass(run->model);
    add_kept(&run->kept_now, &kept);
    return status;
}

// Commit the tokens begin .. begin + count - 1 of a text that has the ones before.
static or_status_t commit(run_t *run, or_kv_sequence_t *sequence, uint32_t begin, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        run->rows[i] =
            (or_model_row_t){sequence, token_at(run, begin + i), OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    return forward(run, count);
}

static or_status_t fill(run_t *run, or_kv_sequence_t *sequence, uint32_t tokens)
{
    uint32_t most = or_model_rows_max(run->model);
    most = most < OR_STEP_PREFILL_ROWS ? most : OR_STEP_PREFILL_ROWS;
    or_status_t status = OR_OK;
    for (uint32_t done = 0; status == OR_OK && done < tokens; done += most) {
        status = commit(run, sequence, done, tokens - done < most ? tokens - done : most);
    }
    return status;
}

static or_status_t compute(run_t *run, uint32_t count)
{
    or_status_t status = forward(run, count);
    return status != OR_OK ? status : or_model_logits(run->model, 0, count, run->logits);
}

static or_status_t pass_tree(run_t *run, uint32_t count)
{
    const uint32_t *parents = or_token_tree_parents(run->tree);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = parents[i + 1];
        run->rows[i] = (or_model_row_t){run->texts[0], token_at(run, i), i,
                                        parent == 0 ? OR_KV_NO_SLOT : parent - 1};
    }
    return compute(run, count);
}

static or_status_t pass_sessions(run_t *run, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        run->rows[i] = (or_model_row_t){run->texts[i], token_at(run, i), 0, OR_KV_NO_SLOT};
    }
    return compute(run, count);
}

static or_status_t pass_prefill(run_t *run, uint32_t count)
{
    or_status_t status = fill(run, run->prefix, count);
    uint32_t last = (count - 1) % OR_STEP_PREFILL_ROWS;
    return status != OR_OK ? status : or_model_logits(run->model, last, 1, run->logits);
}

// The last turn of a step: which experts it reads depends on its tokens.
static void count_reads(const run_t *run, or_step_t *step)
{
    uint32_t passes = (step->rows + pass_rows(step) - 1) / pass_rows(step);
    step->read_bytes = (double)run->reads.weights;
    step->experts = (double)run->reads.experts / passes / or_model_memory(run->model).layers;
}

static or_status_t time_step(run_t *run, or_step_t *step, double *ms)
{
    static or_status_t (*const passes[])(run_t *, uint32_t) = {pass_tree, pass_sessions,
                                                               pass_prefill};
    if (step->kind == OR_STEP_TREE) {
        or_step_tree_grow(run->tree, step->rows);
    }
    run->reads = (or_model_reads_t){0};
    run->kept_now = (or_model_kept_t){0};
    int64_t start = or_clock_now(or_clock_monotonic());
    or_status_t status = passes[step->kind](run, step->rows);
    *ms = (double)(or_clock_now(or_clock_monotonic()) - start) / (double)OR_NS_PER_MS;
    count_reads(run, step);
    for (uint32_t i = 0; i < run->text_count; i++) {
        or_kv_sequence_drop_slots(run->texts[i]);
    }
    or_kv_sequence_truncate(run->prefix, 0);
    return status;
}

// Return the share of the memory's speed at which a pass read its weights, the median of all turns: each beside the reading that
// followed it, for others use the memory too.
static double read_share(const run_t *run, const double *ms, double bytes)
{
    double shares[OR_STEP_REPEATS_MAX];
    for (uint32_t i = 0; i < run->plan->repeats; i++) {
        shares[i] = 1e3 * bytes / ms[i] / run->read_rates[i];
    }
    return run->reader != NULL ? or_output_median(shares, run->plan->repeats) : (double)NAN;
}

static void figure(const run_t *run, double *ms, const or_model_kept_t *kept, or_step_t *step)
{
    const uint32_t repeats = run->plan->repeats;
    const uint32_t passes = repeats * ((step->rows + pass_rows(step) - 1) / pass_rows(step));
    step->found = kept->needed > 0 ? (double)kept->found / (double)kept->needed : (double)NAN;
    step->from_disk = (double)kept->read / passes;
    step->read_share = read_share(run, ms, step->read_bytes);
    step->median_ms = or_output_median(ms, repeats);
    step->best_ms = ms[0]; // they are sorted now
    step->bytes_per_s = 1e3 * step->read_bytes / step->median_ms;
}

// ---- all passes ----

static or_status_t open_texts(run_t *run)
{
    or_status_t status = or_model_open_sequence(run->model, 1, &run->prefix);
    while (status == OR_OK && run->text_count < run->room.texts) {
        or_kv_sequence_t **text = &run->texts[run->text_count];
        status =
            or_model_open_sequence(run->model, run->text_count == 0 ? run->room.slots : 1, text);
        if (status == OR_OK) {
            run->text_count++;
            status = fill(run, *text, run->plan->context);
        }
    }
    return status;
}

static or_status_t take_turns(run_t *run, or_step_plan_t *plan)
{
    or_progress_t progress;
    or_status_t status = OR_OK;
    or_progress_init(&progress, (plan->repeats + 1) * (uint64_t)plan->count, false);
    for (uint32_t turn = 0; status == OR_OK && turn <= plan->repeats; turn++) {
        run->turn = turn;
        for (uint32_t i = 0; status == OR_OK && i < plan->count; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s %u", or_step_kind_names[plan->steps[i].kind],
                     plan->steps[i].rows);
            or_progress_show(&progress, turn * (uint64_t)plan->count + i, name);
            // The first turn goes to the place of the second, which writes over it.
            uint32_t place = turn == 0 ? 0 : turn - 1;
            status = time_step(run, &plan->steps[i], &run->ms[i * plan->repeats + place]);
            if (turn > 0) {
                add_kept(&run->kept[i], &run->kept_now);
            }
        }
        if (run->reader != NULL && turn > 0) {
            run->read_rates[turn - 1] = or_memory_read_once(run->reader);
        }
    }
    or_progress_clear(&progress);
    return status;
}

// Are all weights read from memory, which has room for the area that is read between the passes?
static bool reads_memory(const or_model_t *model)
{
    const or_model_memory_t memory = or_model_memory(model);
    return or_ceilings_find(or_model_kernels(model)) != NULL && memory.streamed == 0 &&
           memory.weights > or_memory_cache_bytes() &&
           or_memory_available() / 2 > or_memory_area_bytes();
}

// Run all passes of the plan and fill in what came of them. The model has room for them. OR_ERR_NO_MEMORY, or what it says.
static or_status_t run_plan(or_model_t *model, const or_workers_options_t *threads,
                            const room_t *room, or_token_tree_t *tree, or_step_plan_t *plan)
{
    run_t *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the rows");
    }
    *run = (run_t){.model = model, .plan = plan, .room = *room, .tree = tree};
    run->logits =
        malloc((size_t)room->rows * or_model_shape(model)->vocab_size * sizeof *run->logits);
    run->ms = malloc((size_t)plan->count * plan->repeats * sizeof *run->ms);
    or_status_t status = run->logits != NULL && run->ms != NULL
                             ? open_texts(run)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for the logits");
    if (status == OR_OK && reads_memory(model)) {
        status =
            or_memory_read_create(or_ceilings_find(or_model_kernels(model)), threads, &run->reader);
    }
    status = status != OR_OK ? status : take_turns(run, plan);
    for (uint32_t i = 0; status == OR_OK && i < plan->count; i++) {
        figure(run, &run->ms[i * plan->repeats], &run->kept[i], &plan->steps[i]);
    }
    plan->memory_bytes_per_s =
        run->reader != NULL ? or_output_median(run->read_rates, plan->repeats) : (double)NAN;
    for (uint32_t i = 0; i < run->text_count; i++) {
        or_kv_sequence_close(&run->texts[i]);
    }
    or_kv_sequence_close(&run->prefix);
    or_memory_read_destroy(&run->reader);
    free(run->ms);
    free(run->logits);
    free(run);
    return status;
}

// ---- the command ----

// Place the threads: the range confines them all, a strict one pins each.
static or_status_t place_threads(const config_t *config, or_cpus_t *cpus,
                                 or_model_options_t *options)
{
    or_status_t status = or_cpu_options_confine(&config->cpus);
    *cpus = or_cpus_allowed();
    uint32_t most = or_min_u32(or_cpus_count(cpus), OR_THREADS_MAX);
    options->threads = config->threads > 0 ? config->threads : most;
    options->pins = config->cpus.strict != 0 ? cpus : NULL;
    options->poll = or_cpu_options_poll(&config->cpus);
    return status;
}

static or_status_t measure(const config_t *config, or_step_plan_t *plan)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_token_tree_t *tree = NULL;
    or_model_options_t options = config->loading;
    room_t room = {0};
    or_gpu_place_t place;
    or_cpus_t cpus;
    or_status_t status = place_threads(config, &cpus, &options);
    status = status != OR_OK ? status : or_token_tree_create(OR_STEP_TREE_MAX, &tree);
    if (status == OR_OK) {
        status = or_gpu_place_choose(&config->gpu, or_gpu_functions(), &place);
        room = measure_room(plan, tree);
        options.context_max = room.context;
        options.rows_max = room.rows;
        options.sequences_max = room.texts + 1; // and the prefix
    }
    status = status != OR_OK ? status : or_gguf_open(config->model, &gguf);
    status = status != OR_OK ? status : or_gpu_place_load(&place, gguf, &options, &model);
    const or_workers_options_t threads = {options.threads, options.pins, options.poll};
    status = status != OR_OK ? status : run_plan(model, &threads, &room, tree, plan);
    if (status == OR_OK && config->json) {
        status = or_step_print_json(model, plan);
    } else if (status == OR_OK) {
        or_step_print_table(model, plan, config->model, options.threads);
    }
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    or_token_tree_destroy(&tree);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {.context = 128,
                       .repeats = 11,
                       .loading = {.packed = "auto"},
                       .cpus = or_cpu_options_default(),
                       .gpu = or_gpu_options_default()};
    or_step_plan_t plan;
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    or_status_t status = make_plan(&config, &plan);
    if (status == OR_OK) {
        code = OR_EXIT_FAILURE;
        status = or_models_choose_target(&config.model);
        status = status != OR_OK ? status : measure(&config, &plan);
    }
    return or_command_end(&program, &config, NULL, status, code);
}

const or_command_t or_bench_step_command = {
    "step", run, "the time of a forward pass: trees, batches of texts, prefill"};

// outrider demo - what drafting is worth: one text written plainly, then drafted, side by side, on a target of a size at
// which a pass is bound by reading weights.
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/demo/demo_screen.h"
#include "launch/demo/demo_target.h"
#include "launch/generate/output.h"
#include "launch/generate/writer.h"

typedef struct {
    char *prompt, *seed, *size, *type;
    int32_t predict;
    uint32_t threads;
    bool json;
} config_t;

#define AT(field) offsetof(config_t, field)

static const or_option_t table[] = {
    {"prompt", "p", OR_OPTION_STRING, AT(prompt), "TEXT", "what the text begins with"},
    {"predict", "n", OR_OPTION_INT32, AT(predict), "N", "tokens to write",
     .bounds = {1, INT32_MAX}},
    {"seed", "s", OR_OPTION_STRING, AT(seed), "N",
     "same seed, same text; 'random' draws one and reports it"},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N",
     "threads of the target; 0: one a CPU it may use"},
    {"size", NULL, OR_OPTION_STRING, AT(size), "SIZE",
     "parameters of the target, as 300M or 1.2B: it is inflated (outrider model inflate) once, "
     "and stays in the cache folder"},
    {"type", NULL, OR_OPTION_STRING, AT(type), "TYPE",
     "of its weights, as F16, Q8_0 or Q4_0: the fewer bits, the faster is plain decoding, and the "
     "less is left to gain on processors whose arithmetic is slow"},
    {"json", NULL, OR_OPTION_FLAG, AT(json), NULL, "one line of JSON on standard output"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider demo",
    .summary = "write one text plainly and drafted, side by side, and compare speed and text",
    .usage = "[options]",
    .table = table,
    .examples =
        "The target computes what the demonstration target does, at the cost of a larger one. It "
        "is\n"
        "made once, in $XDG_CACHE_HOME/outrider or ~/.cache/outrider. Exit status 1 if the texts\n"
        "differ.\n\n"
        "Examples:\n"
        "  outrider demo\n"
        "  outrider demo -p \"It was a dark night\" -n 200 -s 7\n"
        "  outrider demo --size 1B --json",
};

enum { PLAIN, DRAFTED, TEXTS };

static const char *const names[TEXTS] = {"plain", "drafted"};

typedef struct demo demo_t;

// One of the two texts.
typedef struct {
    demo_t *demo;
    or_generate_request_t request; // borrows from the other's
    or_report_t report;
    size_t first_tokens; // that came first, at first_ns
    int64_t first_ns;
} text_t;

struct demo {
    const config_t *config;
    or_generate_config_t generate;
    or_demo_target_t target;
    text_t texts[TEXTS];
    or_demo_screen_t screen;
    bool draws; // side by side in a terminal
    bool equal;
    double speedup;
};

// ---- writing ----

// Say how fast a text is: by the clock while it grows, by the coordinator's figures once it is whole.
static void put_title(const text_t *text, const char *name, char *title, size_t capacity)
{
    const or_report_t *report = &text->report;
    double seconds =
        (double)(or_clock_now(or_clock_monotonic()) - text->first_ns) / (double)OR_NS_PER_S;
    double rate = report->finish != OR_FINISH_NONE ? or_report_tokens_per_second(report)
                  : seconds > 0 ? (double)(report->token_count - text->first_tokens) / seconds
                                : 0;
    int length = snprintf(title, capacity, "%s", name);
    if (report->token_count > text->first_tokens) {
        snprintf(title + length, capacity - (size_t)length, ": %.0f tokens/s", rate);
    }
}

static or_status_t draw(demo_t *demo, bool last)
{
    or_demo_column_t columns[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        const text_t *text = &demo->texts[i];
        bool begun = text->report.token_count > 0;
        columns[i] = (or_demo_column_t){.prompt = (const char *)text->request.prompt,
                                        .prompt_bytes = begun ? text->request.prompt_bytes : 0,
                                        .text = text->report.text,
                                        .text_bytes = text->report.text_bytes};
        put_title(text, names[i], columns[i].title, sizeof columns[i].title);
    }
    return or_demo_screen_draw(&demo->screen, columns, last);
}

static or_status_t take(void *context, const or_generate_delta_t *delta)
{
    text_t *text = context;
    (void)delta; // it is in the report
    if (text->first_ns == 0 && text->report.token_count > 0) {
        text->first_ns = or_clock_now(or_clock_monotonic());
        text->first_tokens = text->report.token_count;
    }
    bool shows = text->demo->draws && text->report.token_count > 0;
    return shows ? draw(text->demo, text->report.finish != OR_FINISH_NONE) : OR_OK;
}

static or_status_t print_text(const text_t *text, const char *name)
{
    const or_report_t *report = &text->report;
    printf("%s: %.0f tokens/s, %.1f per target call\n", name, or_report_tokens_per_second(report),
           or_report_tokens_per_call(report));
    fwrite(text->request.prompt, 1, text->request.prompt_bytes, stdout);
    fwrite(report->text, 1, report->text_bytes, stdout);
    fputs("\n\n", stdout);
    return or_output_flush();
}

static or_status_t write_text(demo_t *demo, or_writer_t *writer, int which)
{
    text_t *text = &demo->texts[which];
    or_status_t status = or_writer_write(writer, &text->request, 0, take, text, &text->report);
    if (status == OR_OK && text->report.finish == OR_FINISH_CANCELLED) {
        status = or_fail(OR_ERR_CANCELLED, "interrupted");
    }
    return status == OR_OK && !demo->draws && !demo->config->json ? print_text(text, names[which])
                                                                  : status;
}

// One after the other: side by side they would take each other's time.
static or_status_t write_texts(demo_t *demo)
{
    or_writer_t *writer = NULL;
    or_status_t status = or_writer_open(&demo->generate, NULL, &writer);
    for (int i = 0; status == OR_OK && i < TEXTS; i++) {
        status = write_text(demo, writer, i);
    }
    or_writer_close(&writer);
    return status;
}

// ---- the result ----

static json_t *describe(const text_t *text)
{
    const or_report_t *report = &text->report;
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:f}", "text",
                     or_output_json_text(report->text, report->text_bytes), "completion_tokens",
                     (json_int_t)report->stats.completion_tokens, "target_calls",
                     (json_int_t)report->stats.target_calls, "drafted",
                     (json_int_t)report->stats.drafted, "accepted",
                     (json_int_t)report->stats.accepted, "tokens_per_call",
                     or_report_tokens_per_call(report), "tokens_per_second",
                     or_report_tokens_per_second(report));
}

static or_status_t print_json(const demo_t *demo)
{
    const or_demo_target_t *target = &demo->target;
    const text_t *drafted = &demo->texts[DRAFTED];
    json_t *line = json_pack(
        "{s:b, s:f, s:I, s:o, s:{s:s, s:s, s:I, s:I, s:b}, s:o, s:o}", "equal", demo->equal,
        "speedup", demo->speedup, "seed", (json_int_t)drafted->request.seed, "prompt",
        or_output_json_text((const char *)drafted->request.prompt, drafted->request.prompt_bytes),
        "target", "file", target->path, "type", target->type, "parameters",
        (json_int_t)target->parameters, "bytes", (json_int_t)target->file_bytes, "made",
        target->made, names[PLAIN], describe(&demo->texts[PLAIN]), names[DRAFTED],
        describe(drafted));
    or_status_t status = or_output_json(line, OR_OUTPUT_DIGITS);
    return status == OR_OK ? or_output_flush() : status;
}

static or_status_t print_line(const demo_t *demo)
{
    const or_report_t *drafted = &demo->texts[DRAFTED].report;
    printf("%.1f times as fast as plain decoding: %.0f tokens/s instead of %.0f, %.1f tokens per "
           "target call; the texts are %s (seed %" PRIu64 ")\n",
           demo->speedup, or_report_tokens_per_second(drafted),
           or_report_tokens_per_second(&demo->texts[PLAIN].report),
           or_report_tokens_per_call(drafted), demo->equal ? "equal" : "DIFFERENT", drafted->seed);
    return or_output_flush();
}

static or_status_t conclude(demo_t *demo)
{
    const or_report_t *plain = &demo->texts[PLAIN].report, *drafted = &demo->texts[DRAFTED].report;
    double rate = or_report_tokens_per_second(plain);
    demo->equal = or_report_is_equal(plain, drafted);
    demo->speedup = rate > 0 ? or_report_tokens_per_second(drafted) / rate : 0;
    or_status_t status = demo->config->json ? print_json(demo) : print_line(demo);
    return status == OR_OK && !demo->equal
               ? or_fail(OR_ERR_MISMATCH, "the drafted text is not plain decoding's")
               : status;
}

// ---- the command ----

static or_status_t prepare(demo_t *demo)
{
    const config_t *config = demo->config;
    or_generate_config_t *generate = &demo->generate;
    char *source = NULL;
    *generate = or_generate_config_default();
    generate->prompt = config->prompt;
    generate->predict = config->predict;
    generate->seed = config->seed;
    generate->models.threads = config->threads;
    generate->ignore_end = true; // both texts are as long as asked for
    generate->json = config->json;
    or_status_t status = or_command_check_threads("-t/--threads", config->threads);
    status = status != OR_OK ? status
                             : or_generate_request_make(generate, &demo->texts[DRAFTED].request);
    status = status != OR_OK
                 ? status
                 : or_models_choose(&source, &generate->models.draft_model, OR_DRAFT_MODEL_NEEDED);
    status = status != OR_OK
                 ? status
                 : or_demo_target_find(
                       source, &(or_demo_wish_t){config->size, config->type, config->threads},
                       &demo->target);
    free(source);
    if (status == OR_OK) {
        generate->models.model = demo->target.path;
        demo->texts[PLAIN].request = demo->texts[DRAFTED].request;
        demo->texts[PLAIN].request.plain = true;
        demo->texts[PLAIN].demo = demo->texts[DRAFTED].demo = demo;
    }
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {.prompt = (char *)"Once upon a time",
                       .seed = (char *)"random",
                       .size = (char *)"300M",
                       .type = (char *)"F16",
                       .predict = 128};
    demo_t demo = {.config = &config};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_interrupt_watch();
    demo.draws = !config.json && or_demo_screen_is_possible();
    or_status_t status = or_command_open_log("demo", "info");
    status = status != OR_OK ? status : prepare(&demo);
    code = or_command_code(status);
    if (status == OR_OK) {
        status = write_texts(&demo);
        status = status != OR_OK ? status : conclude(&demo);
        code = status == OR_ERR_FULL ? OR_EXIT_BUSY : OR_EXIT_FAILURE;
    }
    if (status != OR_OK && or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    }
    for (int i = 0; i < TEXTS; i++) {
        or_report_fini(&demo.texts[i].report);
    }
    or_generate_request_free(&demo.texts[DRAFTED].request);
    free(demo.generate.models.draft_model);
    return or_command_end(&program, &config, NULL, status, code);
}

const or_command_t or_demo_command = {"demo", run,
                                      "what drafting is worth: a text plainly and drafted"};

// outrider generate - one text, on a cluster of its own or on a coordinator that runs already.
#include <stdio.h>

#include "common/base/interrupt.h"
#include "common/decode/methods.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/generate/generate_options.h"
#include "launch/generate/output.h"
#include "launch/generate/writer.h"

typedef struct {
    const or_generate_config_t *config;
    const or_generate_request_t *request;
    or_report_t report;
    bool begun; // there is a text
} run_t;

static or_status_t take(void *context, const or_generate_delta_t *delta)
{
    run_t *run = context;
    or_status_t status = OR_OK;
    bool begins = !run->begun && run->report.token_count > 0;
    run->begun = run->report.token_count > 0;
    if (run->config->json) {
        return OR_OK;
    }
    if (begins && run->config->display_prompt) {
        // The prompt waits for the first token: else an error would stand behind it.
        status = or_output_write((const char *)run->request->prompt, run->request->prompt_bytes);
    }
    return status == OR_OK ? or_output_write((const char *)delta->text, delta->text_bytes) : status;
}

static or_status_t print_end(const run_t *run)
{
    if (!run->config->json) {
        or_status_t status = or_output_write("\n", 1);
        if (status != OR_OK) {
            return status;
        }
    }
    or_report_print_summary(&run->report, stderr);
    if (run->config->verbose) {
        or_report_print_times(&run->report, stderr);
    }
    if (!run->config->json) {
        return OR_OK;
    }
    or_status_t status = or_report_print_json(&run->report, run->request);
    return status == OR_OK ? or_output_flush() : status;
}

static or_status_t generate(run_t *run, or_writer_t **writer_p)
{
    or_status_t status = or_writer_open(run->config, NULL, writer_p);
    return status == OR_OK ? or_writer_write(*writer_p, run->request, 0, take, run, &run->report)
                           : status;
}

static int run_request(const or_generate_config_t *config, const or_generate_request_t *request)
{
    run_t run = {.config = config, .request = request};
    run.report.lossy = or_accept_rule_is_lossy(request->accept_rule);
    or_interrupt_watch();
    or_writer_t *writer = NULL;
    or_status_t status = generate(&run, &writer);
    bool text_begun = !config->json && run.report.text_bytes > 0;
    if (status == OR_OK) {
        status = print_end(&run);
    } else if (text_begun) {
        putchar('\n');
        fflush(stdout);
    }
    int code = status == OR_OK         ? OR_EXIT_OK
               : status == OR_ERR_FULL ? OR_EXIT_BUSY
                                       : OR_EXIT_FAILURE;
    if (or_interrupt_count() > 0) {
        code = OR_EXIT_INTERRUPTED;
    } else if (status != OR_OK) {
        or_command_fail("generate", code);
    }
    or_writer_close(&writer);
    or_report_fini(&run.report);
    return code;
}

static int run(int argc, char **argv)
{
    or_generate_config_t config = or_generate_config_default();
    or_generate_request_t request = {0};
    int code;
    if (!or_command_begin(&or_generate_program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_status_t status = or_command_open_log("generate", config.log_level);
    if (status == OR_OK) {
        status = or_generate_request_make(&config, &request);
    }
    if (status == OR_OK && config.connect == NULL) {
        status = or_models_choose_for(&config.models, &config.parameters, &request);
    }
    code = status == OR_OK ? run_request(&config, &request)
                           : or_command_fail("generate", or_command_code(status));
    or_generate_request_free(&request);
    or_options_free(&or_generate_program, &config, NULL);
    return code;
}

const or_command_t or_generate_command = {
    "generate", run, "write text after a prompt, on a cluster of its own or on one that runs"};

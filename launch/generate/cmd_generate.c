// outrider generate - one text, on a cluster of its own or on a coordinator that runs already.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/interrupt.h"
#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "launch/commands.h"
#include "launch/generate/generate_options.h"
#include "launch/generate/output.h"
#include "launch/generate/report.h"
#include "launch/generate/writer.h"
#include "launch/model/models.h"

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
        // Not before there is a text to stand before: an error would stand behind it.
        status = or_output_write((const char *)run->request->prompt, run->request->prompt_bytes);
    }
    return status == OR_OK ? or_output_write((const char *)delta->text, delta->text_bytes) : status;
}

static or_status_t flush(void)
{
    return fflush(stdout) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "cannot write to standard output: %s", strerror(errno));
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
    or_status_t status = or_report_print_json(&run->report, run->request, stdout);
    return status == OR_OK ? flush() : status;
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

int or_command_generate(int argc, char **argv)
{
    or_generate_config_t config = or_generate_config_default();
    or_generate_request_t request = {0};
    or_options_next_t next;
    or_log_level_t level;
    or_status_t status = or_options_parse(&or_generate_program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("generate", OR_EXIT_USAGE);
    }
    if (config.target.list_devices) {
        return or_command_list_devices(&or_generate_program, &config);
    }
    status = or_log_parse_level(config.log_level, &level);
    if (status == OR_OK) {
        or_log_init("generate", level);
        status = or_generate_request_make(&config, &request);
    }
    if (status == OR_OK && config.connect == NULL) {
        status = or_models_choose(&config.model, &config.draft_model, request.plain);
    }
    int code;
    if (status == OR_OK) {
        code = run_request(&config, &request);
    } else {
        code =
            or_command_fail("generate", status == OR_ERR_INVALID ? OR_EXIT_USAGE : OR_EXIT_FAILURE);
    }
    or_generate_request_free(&request);
    or_options_free(&or_generate_program, &config, NULL);
    return code;
}

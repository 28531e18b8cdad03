// Goal: no command line, environment or config file crashes or leaks; what is accepted is owned and
// makes a request, what is refused is refused with a sentence.
// Method: the table of `outrider generate`, which has every type of option. The input is three
// parts, cut at lines of "=": words, one a line; variables, NAME=value, without their OUTRIDER_;
// and the config file. Variables and file are handed over in place of the system's, so that nothing
// outside the input is read.
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "launch/generate/generate_options.h"
#include "tests/fuzz/fuzz.h"

#define WORDS_MAX 32
#define PREFIX "OUTRIDER_"

// The linker replaces getenv and json_load_file by these (CMakeLists.txt).
char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);
json_t *__wrap_json_load_file(const char *path, size_t flags, json_error_t *error);

static struct {
    char *variables[WORDS_MAX]; // "NAME=value", up to a NULL
    const char *file;           // NULL: there is none
} outside;

char *__wrap_getenv(const char *name)
{
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        return __real_getenv(name);
    }
    name += strlen(PREFIX);
    for (char **variable = outside.variables; *variable != NULL; variable++) {
        if (strncmp(*variable, name, strlen(name)) == 0 && (*variable)[strlen(name)] == '=') {
            return *variable + strlen(name) + 1;
        }
    }
    return NULL;
}

json_t *__wrap_json_load_file(const char *path, size_t flags, json_error_t *error)
{
    (void)path;
    return json_loads(outside.file != NULL ? outside.file : "", flags, error);
}

// Cut the next part off *text; NULL after the last.
static char *next_part(char **text)
{
    char *part = *text;
    char *end = part != NULL ? strstr(part, "\n=\n") : NULL;
    *text = end != NULL ? end + strlen("\n=\n") : NULL;
    if (end != NULL) {
        *end = '\0';
    }
    return part;
}

// Split a part into `lines`, which ends with a NULL; returns their number.
static int cut_lines(char *part, char *lines[WORDS_MAX])
{
    int count = 0;
    while (part != NULL && count < WORDS_MAX - 1) {
        lines[count++] = strsep(&part, "\n");
    }
    lines[count] = NULL;
    return count;
}

static void assert_makes_a_request(or_generate_config_t *config)
{
    or_generate_request_t request;
    if (config->prompt == NULL) {
        config->prompt = config->file; // its name will do for a prompt: no file is read
        config->file = NULL;
    }
    if (or_generate_request_make(config, &request) == OR_OK) {
        assert(request.prompt_bytes == strlen(config->prompt));
        assert(request.stop_count == config->stop.count);
        or_generate_request_free(&request);
    } else {
        assert(or_error_text()[0] != '\0');
    }
}

static void parse(int argc, char **argv)
{
    or_generate_config_t config = or_generate_config_default();
    or_option_list_t rest = {0};
    or_options_next_t next = OR_OPTIONS_EXIT;
    or_status_t status = or_options_parse(&or_generate_program, argc, argv, &config, &rest, &next);
    assert(status == OR_OK || (status == OR_ERR_INVALID && or_error_text()[0] != '\0'));
    if (status == OR_OK && next == OR_OPTIONS_RUN) {
        assert(rest.count <= (size_t)argc);
        assert_makes_a_request(&config);
    } else {
        assert(config.models.model == NULL && config.seed == NULL && config.stop.items == NULL);
        assert(rest.items == NULL);
    }
    or_options_free(&or_generate_program, &config, &rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    assert(text != NULL);
    char *rest = text;
    char *argv[WORDS_MAX + 1] = {(char *)"outrider"};
    int argc = 1 + cut_lines(next_part(&rest), argv + 1);
    cut_lines(next_part(&rest), outside.variables);
    outside.file = rest;
    parse(argc, argv);
    free(text);
    return 0;
}

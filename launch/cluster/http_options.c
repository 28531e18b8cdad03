#include "launch/cluster/http_options.h"

#include <stddef.h>

void or_http_options_words(const or_http_options_t *options, const char *words[OR_HTTP_WORDS_MAX])
{
    static char off[] = "off";
    static const or_http_options_t none = {.address = off};
    options = options != NULL ? options : &none;
    const struct {
        const char *name, *value;
    } rows[] = {
        {"--http", options->address != NULL ? options->address : "auto"},
        {"--api-key-file", options->api_key_file},
        {"--http-cert", options->cert_file},
        {"--http-key", options->key_file},
        {"--http-cors", options->cors_origin},
        {"--chat-template", options->chat_template},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value != NULL) {
            words[count++] = rows[i].name;
            words[count++] = rows[i].value;
        }
    }
    words[count] = NULL;
}

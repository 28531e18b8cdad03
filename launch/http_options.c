#include "launch/http_options.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

#define USUAL_PORT 8080

// Asked of the system, as whoever listens does. Who takes it before the coordinator does is told so by its error.
static bool is_usual_free(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(USUAL_PORT),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                   bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                   listen(fd, 1) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_free;
}

const char *or_http_options_address(const or_http_options_t *options)
{
    if (options->address != NULL) {
        return options->address;
    }
    if (is_usual_free()) {
        return OR_HTTP_USUAL;
    }
    or_log(OR_LOG_WARN, OR_HTTP_USUAL " is in use: no HTTP here; --http HOST:PORT names another "
                                      "address, with port 0 for any free one");
    return "off";
}

void or_http_options_words(const or_http_options_t *options, const char *address,
                           const char *words[OR_HTTP_WORDS_MAX])
{
    static const or_http_options_t none = {0};
    options = options != NULL ? options : &none;
    const struct {
        const char *name, *value;
    } rows[] = {
        {"--http", address},
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

// server_framing - is it beyond doubt where this request ends and for whom it is?
//
// A proxy in front of us and we read the same bytes. If two readings of them are possible, a client can hide a request
// for one of us in the body of a request for the other (request smuggling). RFC 9112 lets a server repair such requests;
// we refuse them, and close the connection.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/server/server_internal.h"

#define PORT_DIGITS_MAX 5
#define TOKEN_MARKS "!#$%&'*+-.^_`|~" // what names of headers have besides letters and digits

// The headers of a request, in one look at all of them.
typedef struct {
    const char *trouble; // the first that was found; NULL: none
    const char *end;     // of the line before, behind its line end
    const char *length, *coding, *host;
    unsigned keys, types;
} look_t;

// ---- lines ----

static bool is_token(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr(TOKEN_MARKS, name[i]) == NULL) {
            return false;
        }
    }
    return bytes > 0;
}

// The library takes line ends of LF or CR alone and joins folded lines without a word, and has no option against it before
// 0.9.77. But names and values lie where they came, with a NUL for each byte of a line end: so a line that
// does not begin two bytes behind the end of the one before was not ended by CR LF.
static const char *behind_line(const char *last, size_t bytes)
{
    return last + bytes + 2;
}

static void look_at_place(look_t *look, const char *name, const char *value, size_t bytes)
{
#if MHD_VERSION < 0x00097700
    if (name != look->end || value == NULL) {
        look->trouble = "each line of the header must end with CR LF and stand on one line";
    }
    look->end = value != NULL ? behind_line(value, bytes) : NULL;
#else
    (void)look, (void)name, (void)value, (void)bytes;
#endif
}

// ---- headers ----

static void look_once(look_t *look, const char **place, const char *value, const char *trouble)
{
    if (*place != NULL) {
        look->trouble = trouble;
    }
    *place = value;
}

static bool has_name(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && strncasecmp(name, wanted, bytes) == 0;
}

// The headers that decide where a request ends, for whom it is and who sent it may come only once.
static void look_at_header(look_t *look, const char *name, size_t bytes, const char *value)
{
    if (has_name(name, bytes, "Content-Length")) {
        look_once(look, &look->length, value, "there are two Content-Length headers");
    } else if (has_name(name, bytes, "Transfer-Encoding")) {
        look_once(look, &look->coding, value, "there are two Transfer-Encoding headers");
    } else if (has_name(name, bytes, "Host")) {
        look_once(look, &look->host, value, "there are two Host headers");
    } else if (has_name(name, bytes, "Authorization") && look->keys++ > 0) {
        look->trouble = "there are two Authorization headers";
    } else if (has_name(name, bytes, "Content-Type") && look->types++ > 0) {
        look->trouble = "there are two Content-Type headers";
    }
}

static enum MHD_Result on_header(void *context, enum MHD_ValueKind kind, const char *name,
                                 size_t name_bytes, const char *value, size_t value_bytes)
{
    look_t *look = context;
    (void)kind;
    if (!is_token(name, name_bytes)) {
        look->trouble = "the name of a header has characters that names do not have";
    }
    if (value != NULL && strpbrk(value, "\r\n") != NULL) {
        look->trouble = "a header has CR or LF in its value";
    }
    look_at_place(look, name, value, value_bytes);
    look_at_header(look, name, name_bytes, value != NULL ? value : "");
    return look->trouble == NULL ? MHD_YES : MHD_NO;
}

// ---- what they say ----

// Return the end of a host name (letters, digits, dots and such, or an address in brackets); NULL if there is none.
static const char *behind_host_name(const char *host)
{
    if (host[0] == '[') {
        size_t length = strspn(host + 1, "0123456789abcdefABCDEF:.");
        return length > 0 && host[1 + length] == ']' ? host + length + 2 : NULL;
    }
    size_t length = 0;
    while (isalnum((unsigned char)host[length]) ||
           (host[length] != '\0' && strchr("-._~", host[length]) != NULL)) {
        length++;
    }
    return host + length;
}

// Return true for HOST, HOST: or HOST:PORT. An empty one is none that we have, but well-formed.
static bool is_host(const char *host)
{
    const char *end = behind_host_name(host);
    if (end == NULL || *end == '\0') {
        return end != NULL;
    }
    size_t digits = strspn(end + 1, "0123456789");
    int port = digits <= PORT_DIGITS_MAX ? atoi(end + 1) : 0;
    return *end == ':' && end[1 + digits] == '\0' && (digits == 0 || (port >= 1 && port <= 65535));
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static const char *trouble_of(const look_t *look, bool old)
{
    if (look->trouble != NULL) {
        return look->trouble;
    }
    if (look->coding != NULL && (look->length != NULL || old)) {
        return "Transfer-Encoding goes neither with Content-Length nor with HTTP/1.0";
    }
    if (look->coding != NULL && strcasecmp(look->coding, "chunked") != 0) {
        return "Transfer-Encoding can be 'chunked' only";
    }
    if (look->length != NULL && !is_number(look->length)) {
        return "Content-Length must be a number";
    }
    if (look->host == NULL && !old) {
        return "HTTP/1.1 needs a Host header";
    }
    return look->host != NULL && !is_host(look->host) ? "Host must be NAME or NAME:PORT" : NULL;
}

const char *or_http_framing_trouble(struct MHD_Connection *mhd, const char *method,
                                    const char *version)
{
    look_t look = {.end = behind_line(version, strlen(version))};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, &look);
#if MHD_VERSION < 0x00097700
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    // The empty line behind them has an end, too.
    if (look.trouble == NULL && (info == NULL || look.end + 2 != method + info->header_size)) {
        look.trouble = "each line of the header must end with CR LF and stand on one line";
    }
#else
    (void)method;
#endif
    return trouble_of(&look, strcmp(version, "HTTP/1.0") == 0);
}

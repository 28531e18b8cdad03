#include "proto/keys/keys.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/log/log.h"
#include "proto/keys/line_file.h"
#include "proto/net/endpoint.h"

#define PATH_BYTES 1024
#define FILE_BYTES_MAX 65536 // a file of keys is far smaller
#define READ_BY_OTHERS 077
#define WRITTEN_BY_OTHERS 022

// ---- pairs ----

or_status_t or_key_pair_create(or_key_pair_t *pair)
{
    if (!zmq_has("curve")) {
        return or_fail(OR_ERR_UNSUPPORTED, "this libzmq was built without CURVE, so nothing can be "
                                           "encrypted: install one with libsodium");
    }
    do {
        if (zmq_curve_keypair(pair->public_key, pair->secret_key) != 0) {
            return or_fail(OR_ERR_IO, "cannot make a key pair: %s", zmq_strerror(errno));
        }
    } while (!isalnum((unsigned char)pair->public_key[0])); // on a command line "-..." is an option
    return OR_OK;
}

void or_key_pair_wipe(or_key_pair_t *pair)
{
    explicit_bzero(pair, sizeof *pair);
}

or_status_t or_key_check(const char *text)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  ".-:+=^!/*?&<>()[]{}@%$#";
    uint8_t bytes[OR_KEY_CHARS / 5 * 4];
    size_t length = strlen(text);
    if (length != OR_KEY_CHARS) {
        return or_fail(OR_ERR_INVALID, "this is not a key: it has %zu characters, a key has %d",
                       length, OR_KEY_CHARS);
    }
    if (strspn(text, letters) != length || zmq_z85_decode(bytes, text) == NULL) {
        return or_fail(OR_ERR_INVALID, "this is not a key: it is not Z85 (was it quoted for the "
                                       "shell?)");
    }
    return OR_OK;
}

void or_key_short(const char *public_key, char text[9])
{
    snprintf(text, 9, "%.8s", public_key);
}

// ---- the folder ----

static or_status_t check_folder(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0) {
        return or_fail(OR_ERR_IO, "cannot look at the key folder %s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(found.st_mode)) {
        return or_fail(OR_ERR_INVALID, "the key folder %s is not a folder", path);
    }
    if ((found.st_mode & WRITTEN_BY_OTHERS) != 0) {
        return or_fail(OR_ERR_INVALID,
                       "others can write to the key folder %s, so its keys cannot be believed: "
                       "run chmod go-w %s",
                       path, path);
    }
    return or_line_file_check_owner(path, &found);
}

// Make `path` and the folders above it, as far as they are missing.
static or_status_t make_folder(const char *path)
{
    char part[PATH_BYTES];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755); // if it failed, the next one will, too
        *slash = '/';
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return or_fail(OR_ERR_IO, "cannot make the key folder %s: %s", path, strerror(errno));
    }
    return OR_OK;
}

or_status_t or_keys_folder(char *path, size_t capacity)
{
    const char *folder = getenv("OUTRIDER_KEYS"), *home = getenv("HOME");
    int length;
    if (folder != NULL && folder[0] != '\0') {
        length = snprintf(path, capacity, "%s", folder);
    } else if (home != NULL && home[0] != '\0') {
        length = snprintf(path, capacity, "%s/.config/outrider", home);
    } else {
        return or_fail(OR_ERR_IO, "no place for keys: set HOME, or OUTRIDER_KEYS to a folder");
    }
    if (length < 0 || (size_t)length >= capacity || length >= PATH_BYTES) {
        return or_fail(OR_ERR_INVALID, "the path of the key folder is too long");
    }
    or_status_t status = make_folder(path);
    return status == OR_OK ? check_folder(path) : status;
}

or_status_t or_keys_path(const char *name, char *path, size_t capacity)
{
    char folder[PATH_BYTES];
    or_status_t status = or_keys_folder(folder, sizeof folder);
    if (status != OR_OK) {
        return status;
    }
    int length = snprintf(path, capacity, "%s/%s", folder, name);
    return length >= 0 && (size_t)length < capacity
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the path of the key folder is too long");
}

// ---- files ----

static or_status_t check_mode(const char *path, const struct stat *found, mode_t forbidden)
{
    if (!S_ISREG(found->st_mode) || found->st_size >= FILE_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "%s is not a file of keys", path);
    }
    if ((found->st_mode & forbidden) != 0) {
        return or_fail(OR_ERR_INVALID, "others can %s %s: run chmod 600 %s",
                       forbidden == READ_BY_OTHERS ? "read" : "write to", path, path);
    }
    return or_line_file_check_owner(path, found);
}

// Read the whole text of a small file, ended by a zero; its mode may have nothing of `forbidden`.
static or_status_t read_text(const char *path, mode_t forbidden, char text[FILE_BYTES_MAX])
{
    struct stat found;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return or_fail(errno == ENOENT ? OR_ERR_NOT_FOUND : OR_ERR_IO, "cannot read %s: %s", path,
                       strerror(errno));
    }
    or_status_t status = fstat(fd, &found) == 0
                             ? check_mode(path, &found, forbidden)
                             : or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    ssize_t bytes = status == OR_OK ? read(fd, text, FILE_BYTES_MAX - 1) : 0;
    if (bytes < 0) {
        status = or_fail(OR_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        bytes = 0;
    }
    text[bytes] = '\0';
    close(fd);
    return status;
}

// Find the second word of the line that begins with `name`; false if there is no such line.
static bool find_word(const char *text, const char *name, char word[OR_KEY_BYTES])
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || strspn(line + length, " \t") == 0) {
            continue;
        }
        const char *value = line + length + strspn(line + length, " \t");
        size_t bytes = strcspn(value, " \t\r\n");
        if (bytes == OR_KEY_CHARS) {
            memcpy(word, value, bytes);
            word[bytes] = '\0';
            return true;
        }
    }
    return false;
}

static or_status_t parse_pair(const char *path, const char *text, or_key_pair_t *pair)
{
    or_key_pair_t read = {0};
    char derived[OR_KEY_BYTES];
    bool good =
        find_word(text, "public", read.public_key) && find_word(text, "secret", read.secret_key) &&
        zmq_curve_public(derived, read.secret_key) == 0 && strcmp(derived, read.public_key) == 0;
    if (good) {
        *pair = read;
    }
    or_key_pair_wipe(&read);
    return good ? OR_OK
                : or_fail(OR_ERR_INVALID,
                          "%s is not a key file (expected the lines `public KEY` and `secret KEY` "
                          "of one pair, as `outrider keys new` writes them)",
                          path);
}

or_status_t or_key_file_read(const char *path, or_key_pair_t *pair)
{
    char text[FILE_BYTES_MAX];
    or_status_t status = read_text(path, READ_BY_OTHERS, text);
    if (status == OR_ERR_NOT_FOUND) {
        return or_fail(OR_ERR_NOT_FOUND,
                       "there is no key file %s: make one with `outrider keys new`", path);
    }
    if (status == OR_OK) {
        status = parse_pair(path, text, pair);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

// Write a new file, which is to be at `final_path`.
static or_status_t write_whole(const char *path, const char *final_path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    size_t length = strlen(text);
    bool written = or_line_file_hand_over(fd, final_path) &&
                   write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    int error = errno;
    close(fd);
    return written ? OR_OK : or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(error));
}

or_status_t or_key_file_write(const char *path, const or_key_pair_t *pair, const char *comment)
{
    char new_path[PATH_BYTES], text[1024];
    int length = snprintf(new_path, sizeof new_path, "%s.new.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof new_path) {
        return or_fail(OR_ERR_INVALID, "the path %s is too long", path);
    }
    snprintf(text, sizeof text, "# %.400s\npublic %s\nsecret %s\n", comment, pair->public_key,
             pair->secret_key);
    (void)unlink(new_path); // of a process that had our number and did not end well
    or_status_t status = write_whole(new_path, path, text);
    explicit_bzero(text, sizeof text);
    // A link, unlike a rename, never replaces what is there.
    if (status == OR_OK && link(new_path, path) != 0) {
        status = errno == EEXIST
                     ? or_fail(OR_ERR_INVALID, "%s is there already, and is not replaced", path)
                     : or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    (void)unlink(new_path);
    return status;
}

or_status_t or_key_file_obtain(const char *path, const char *comment, or_key_pair_t *pair,
                               bool *created)
{
    *created = false;
    or_status_t status = or_key_file_read(path, pair);
    if (status != OR_ERR_NOT_FOUND) {
        return status;
    }
    status = or_key_pair_create(pair);
    if (status == OR_OK) {
        status = or_key_file_write(path, pair, comment);
        *created = status == OR_OK;
    }
    // If two processes begin at once, the later one takes the other's pair.
    return status == OR_ERR_INVALID ? or_key_file_read(path, pair) : status;
}

// ---- connecting ----

static bool is_loopback_host(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) {
        return ntohl(four.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &six) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&six) ||
               (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[sizeof six - sizeof four] == 127);
    }
    return strcmp(host, "localhost") == 0;
}

bool or_endpoint_is_loopback(const char *endpoint)
{
    static const char tcp[] = "tcp://", ipc[] = "ipc://";
    if (strncmp(endpoint, ipc, sizeof ipc - 1) == 0) {
        return true;
    }
    if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0) {
        return false;
    }
    char host[64];
    const char *begin = endpoint + sizeof tcp - 1, *end = strrchr(begin, ':');
    if (end != NULL && *begin == '[' && end > begin && end[-1] == ']') {
        begin++;
        end--;
    }
    if (end == NULL || (size_t)(end - begin) >= sizeof host) {
        return false;
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return is_loopback_host(host);
}

static or_status_t choose_mode(const char *endpoint, const char *mode, bool *encrypted)
{
    if (mode == NULL || strcmp(mode, "auto") == 0) {
        *encrypted = !or_endpoint_is_loopback(endpoint);
    } else if (strcmp(mode, "on") == 0 || strcmp(mode, "off") == 0) {
        *encrypted = strcmp(mode, "on") == 0;
    } else {
        return or_fail(OR_ERR_INVALID, "--encrypt: '%s' is not auto, on or off", mode);
    }
    if (!*encrypted && !or_endpoint_is_loopback(endpoint)) {
        or_log(OR_LOG_WARN,
               "the connection to %s is not encrypted: whoever is on the way can read "
               "and change it",
               endpoint);
    }
    return OR_OK;
}

// Read a key, or a file that has one; `name` says where the text comes from.
static or_status_t read_server_key(const char *name, const char *given, char key[OR_KEY_BYTES])
{
    char text[FILE_BYTES_MAX];
    if (or_key_check(given) == OR_OK) {
        memcpy(key, given, OR_KEY_BYTES);
        return OR_OK;
    }
    or_status_t status = read_text(given, WRITTEN_BY_OTHERS, text);
    if (status == OR_ERR_NOT_FOUND) {
        status =
            or_fail(OR_ERR_INVALID, "%s: '%s' is neither a key (%d characters of Z85) nor a file",
                    name, given, OR_KEY_CHARS);
    } else if (status == OR_OK && !(find_word(text, "public", key) && or_key_check(key) == OR_OK)) {
        status = or_fail(OR_ERR_INVALID, "%s: %s has no line `public KEY`", name, given);
    }
    explicit_bzero(text, sizeof text); // it may be the server's own key file
    return status;
}

// Find the key that the file `servers` has for this endpoint.
static or_status_t look_up_server(const char *endpoint, char key[OR_KEY_BYTES])
{
    char path[PATH_BYTES], text[FILE_BYTES_MAX];
    or_status_t status = or_keys_path("servers", path, sizeof path);
    if (status == OR_OK) {
        status = read_text(path, WRITTEN_BY_OTHERS, text);
    }
    bool missing =
        status == OR_ERR_NOT_FOUND || (status == OR_OK && !find_word(text, endpoint, key));
    if (missing) {
        return or_fail(OR_ERR_INVALID,
                       "%s is encrypted, and nobody told us the coordinator's key: run `outrider "
                       "keys new --coordinator` on its machine, which prints it, and `outrider "
                       "keys trust %s 'KEY'` here (or give it as --server-key KEY, or as "
                       "OUTRIDER_SERVER_KEY)",
                       endpoint, endpoint);
    }
    return status == OR_OK ? or_fail_context(or_key_check(key), "%s", path) : status;
}

static or_status_t choose_server_key(const char *endpoint, const char *given,
                                     char key[OR_KEY_BYTES])
{
    const char *variable = getenv("OUTRIDER_SERVER_KEY");
    if (given != NULL) {
        return read_server_key("--server-key", given, key);
    }
    if (variable != NULL && variable[0] != '\0') {
        return read_server_key("OUTRIDER_SERVER_KEY", variable, key);
    }
    return look_up_server(endpoint, key);
}

static or_status_t choose_own(const char *file, or_key_pair_t *own)
{
    char path[PATH_BYTES];
    bool created;
    if (file != NULL) {
        return or_key_file_read(file, own);
    }
    or_status_t status = or_keys_path("identity.key", path, sizeof path);
    if (status == OR_OK) {
        status = or_key_file_obtain(path, "who we are for Outrider's coordinators; keep it secret",
                                    own, &created);
    }
    if (status == OR_OK && created) {
        or_log(OR_LOG_INFO,
               "made a key in %s; the coordinator lets it in after `outrider keys authorize '%s'`",
               path, own->public_key);
    }
    return status;
}

or_status_t or_keys_for_connecting(const char *endpoint, const or_key_options_t *options,
                                   or_connect_keys_t *keys)
{
    static const or_key_options_t usual = {0};
    const or_key_options_t *wished = options != NULL ? options : &usual;
    or_connect_keys_t chosen = {0};
    or_status_t status = or_endpoint_check(endpoint, false); // before anybody is asked for keys
    if (status == OR_OK) {
        status = choose_mode(endpoint, wished->mode, &chosen.encrypted);
    }
    if (status == OR_OK && chosen.encrypted) {
        status = choose_server_key(endpoint, wished->server_key, chosen.server_key);
    }
    if (status == OR_OK && chosen.encrypted) {
        status = choose_own(wished->key_file, &chosen.own);
    }
    if (status == OR_OK) {
        *keys = chosen;
    }
    explicit_bzero(&chosen, sizeof chosen);
    return status;
}

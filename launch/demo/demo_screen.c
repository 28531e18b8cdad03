#include "launch/demo/demo_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "common/text/utf8.h"
#include "launch/generate/output.h"

#define COLUMNS_MIN 40u
#define GAP " | "
#define DRAW_NS (50 * OR_NS_PER_MS) // between two drawings
#define LINES_BESIDE 3u             // of the terminal: titles, the line below, and the cursor's
#define WIDE_FROM 0x1100u           // characters from here on may take two columns

static bool find_size(struct winsize *size)
{
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, size) == 0 && size->ws_col >= COLUMNS_MIN &&
           size->ws_row > LINES_BESIDE;
}

bool or_demo_screen_is_possible(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) == 1 && find_size(&size);
}

// ---- lines ----

typedef struct {
    const char *bytes;
    size_t count;
} piece_t;

// Measure the next character: its columns, and whether it can be shown as it is.
static unsigned measure(piece_t text, size_t *used, bool *shown)
{
    bool whole = or_utf8_next(text.bytes, text.count, used) == OR_UTF8_CHARACTER;
    uint32_t point = whole ? or_utf8_code_point(text.bytes, *used) : 0;
    *shown = whole && point >= ' ' && (point < 0x7F || point > 0x9F);
    return *shown && point >= WIDE_FROM ? 2 : 1;
}

// Cut the next line of at most `width` columns off `text`: at a newline, else at the last blank.
static piece_t cut_line(piece_t *text, unsigned width)
{
    size_t at = 0, blank = 0;
    unsigned columns = 0;
    bool full = false, shown;
    while (at < text->count && text->bytes[at] != '\n' && !full) {
        piece_t rest = {text->bytes + at, text->count - at};
        size_t used;
        unsigned wide = measure(rest, &used, &shown);
        full = columns + wide > width;
        blank = text->bytes[at] == ' ' ? at : blank;
        columns += full ? 0 : wide;
        at += full ? 0 : used;
    }
    size_t length = full && blank > 0 ? blank : at;
    piece_t line = {text->bytes, length};
    bool drops =
        length < text->count && (text->bytes[length] == ' ' || text->bytes[length] == '\n');
    text->bytes += length + drops;
    text->count -= length + drops;
    return line;
}

static unsigned count_lines(piece_t text, unsigned width)
{
    unsigned lines = 0;
    while (text.count > 0) {
        cut_line(&text, width);
        lines++;
    }
    return lines;
}

// ---- drawing ----

static void put_cell(FILE *out, piece_t line, unsigned width)
{
    unsigned columns = 0;
    bool shown;
    for (size_t at = 0, used; at < line.count; at += used) {
        piece_t rest = {line.bytes + at, line.count - at};
        columns += measure(rest, &used, &shown);
        fwrite(shown ? rest.bytes : "?", shown ? used : 1, 1, out);
    }
    fprintf(out, "%*s", columns < width ? (int)(width - columns) : 0, "");
}

// Draw the titles and the last `height` lines of both texts. Returns the lines drawn.
static unsigned put_columns(FILE *out, const or_demo_column_t columns[2], piece_t texts[2],
                            const struct winsize *size)
{
    unsigned width = (size->ws_col - (unsigned)strlen(GAP) - 1) / 2;
    unsigned room = size->ws_row - LINES_BESIDE, height = 0;
    for (int i = 0; i < 2; i++) {
        unsigned lines = count_lines(texts[i], width);
        for (; lines > room; lines--) {
            cut_line(&texts[i], width);
        }
        height = lines > height ? lines : height;
        size_t length = strlen(columns[i].title);
        put_cell(out, (piece_t){columns[i].title, length < width ? length : width}, width);
        fputs(i == 0 ? GAP : "\033[K\n", out);
    }
    for (unsigned row = 0; row < height; row++) {
        put_cell(out, cut_line(&texts[0], width), width);
        fputs(GAP, out);
        put_cell(out, cut_line(&texts[1], width), width);
        fputs("\033[K\n", out);
    }
    return height + 1;
}

static char *join(const or_demo_column_t *column, piece_t *text)
{
    char *joined = malloc(column->prompt_bytes + column->text_bytes + 1);
    if (joined != NULL) {
        memcpy(joined, column->prompt, column->prompt_bytes);
        if (column->text_bytes > 0) {
            memcpy(joined + column->prompt_bytes, column->text, column->text_bytes);
        }
        *text = (piece_t){joined, column->prompt_bytes + column->text_bytes};
    }
    return joined;
}

// A line of the log on the same terminal stands below the last drawing, and must not be overwritten.
static void spare_the_log(or_demo_screen_t *screen)
{
    uint64_t logged = or_log_lines();
    if (logged != screen->logged && isatty(STDERR_FILENO) == 1) {
        or_log_flush();
        screen->lines = 0;
    }
    screen->logged = logged;
}

or_status_t or_demo_screen_draw(or_demo_screen_t *screen, const or_demo_column_t columns[2],
                                bool last)
{
    struct winsize size;
    int64_t now = or_clock_now(or_clock_monotonic());
    if (!find_size(&size) || (!last && now - screen->drawn_ns < DRAW_NS)) {
        return OR_OK;
    }
    spare_the_log(screen);
    char *drawing = NULL;
    size_t bytes = 0;
    piece_t texts[2];
    char *joined[2] = {join(&columns[0], &texts[0]), join(&columns[1], &texts[1])};
    FILE *out = joined[0] != NULL && joined[1] != NULL ? open_memstream(&drawing, &bytes) : NULL;
    or_status_t status = OR_ERR_NO_MEMORY;
    if (out != NULL) {
        if (screen->lines > 0) {
            fprintf(out, "\033[%uA\r", screen->lines);
        }
        unsigned lines = put_columns(out, columns, texts, &size);
        fputs("\033[J", out); // a terminal that became wider shows fewer lines
        if (fclose(out) == 0) {
            status = or_output_write(drawing, bytes);
        }
        screen->lines = lines;
        screen->drawn_ns = now;
    }
    free(drawing);
    free(joined[0]);
    free(joined[1]);
    return status == OR_ERR_NO_MEMORY ? or_fail(status, "no memory to draw the texts") : status;
}

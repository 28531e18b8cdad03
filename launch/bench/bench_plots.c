// The plots: bars of block efficiency and of speed-up, lines of acceptance by depth, by temperature.
//
// Where a pair has several trees in a group the best one is drawn, as the papers do.
#include "launch/bench/bench_output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096u
#define LABEL_BYTES 256u
#define DEPTHS 8u       // of the lines
#define OFFERED_MIN 10u // for a point of a line: fewer say little

// The measures of the page, in pixels.
#define WIDTH 900.0
#define LEFT 300.0 // labels of the bars
#define RIGHT 130.0
#define TOP 60.0
#define ROW 18.0
#define GROUP 26.0 // a group's heading
#define TEXT 12.0

static const char *const colours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                      "#66ccee", "#aa3377", "#999999", "#dd7711"};
static const char *const dashes[] = {"none", "6 3", "2 2"};
#define COLOUR_COUNT (sizeof colours / sizeof *colours)
#define SERIES_MAX 24u // all colours with all dashes

// ---- shapes as SVG 1.1, in pixels from the upper left corner ----

typedef enum { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor_t;

static void svg_box(FILE *file, double x, double y, double width, double height, const char *colour)
{
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x,
            y, width, height, colour);
}

static or_status_t svg_open(const char *path, double width, double height, FILE **file)
{
    *file = fopen(path, "w");
    if (*file == NULL) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    fprintf(
        *file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n",
        width, height, width, height);
    svg_box(*file, 0, 0, width, height, "white");
    return OR_OK;
}

static or_status_t svg_close(const char *path, FILE *file)
{
    fputs("</svg>\n", file);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    return OR_OK;
}

static void svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *colour,
                     double thickness, const char *dash)
{
    fprintf(file,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%.1f\" stroke-dasharray=\"%s\"/>\n",
            x1, y1, x2, y2, colour, thickness, dash);
}

static void svg_text(FILE *file, double x, double y, double size, svg_anchor_t anchor,
                     const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\" text-anchor=\"%s\">", x, y, size,
            anchors[anchor]);
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
    fputs("</text>\n", file);
}

static void svg_dot(FILE *file, double x, double y, double radius, const char *colour)
{
    fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius,
            colour);
}

// ---- what is drawn ----

typedef struct {
    const or_bench_output_t *output;
    or_bench_figures_t *figures; // by case
    uint32_t begin, end;         // the cases of one temperature; `begin` is plain decoding
} plot_t;

static const or_bench_case_t *get_case(const plot_t *plot, uint32_t c)
{
    return &plot->output->results->plan->cases[c];
}

static bool is_measured(const plot_t *plot, uint32_t c)
{
    return plot->figures[c].runs > 0;
}

// Is it the best tree of its pair in its group? Among equals the first one is.
static bool is_best(const plot_t *plot, uint32_t c)
{
    const or_bench_case_t *it = get_case(plot, c);
    for (uint32_t i = plot->begin; i < plot->end; i++) {
        const or_bench_case_t *other = get_case(plot, i);
        double better = plot->figures[i].block_efficiency - plot->figures[c].block_efficiency;
        if (is_measured(plot, i) && other->method == it->method && other->rule == it->rule &&
            other->group == it->group && (better > 0 || (better == 0 && i < c))) {
            return false;
        }
    }
    return is_measured(plot, c);
}

// An axis from 0 to `most` has about six steps, each 1, 2 or 5 times a power of ten.
static double axis_step(double most)
{
    double step = pow(10, floor(log10(most / 6)));
    if (most / step > 30) {
        return 5 * step;
    }
    return most / step > 12 ? 2 * step : step;
}

static or_status_t open_plot(const plot_t *plot, const char *folder, const char *name,
                             double height, char *path, FILE **file)
{
    int length = snprintf(path, PATH_BYTES, "%s/%s_t%g.svg", folder, name,
                          (double)get_case(plot, plot->begin)->temperature);
    if (length < 0 || (unsigned)length >= PATH_BYTES) {
        return or_fail(OR_ERR_INVALID, "--plots: the path is too long");
    }
    return svg_open(path, WIDTH, height, file);
}

static void title(const plot_t *plot, const char *what, FILE *file)
{
    char text[LABEL_BYTES];
    snprintf(text, sizeof text, "%s, temperature %g", what,
             (double)get_case(plot, plot->begin)->temperature);
    svg_text(file, 20, 28, 16, SVG_START, text);
}

// ---- bars ----

typedef struct {
    const char *name, *title;
    double (*value)(const or_bench_figures_t *figures);
    bool range; // show the spread over repeats
} bars_t;

static double block_efficiency(const or_bench_figures_t *figures)
{
    return figures->block_efficiency;
}

static double speedup(const or_bench_figures_t *figures)
{
    return figures->speedup_median;
}

static void bar_axis(FILE *file, double scale, double most, double bottom)
{
    char label[LABEL_BYTES];
    double step = axis_step(most);
    for (int i = 0; i * step <= most; i++) {
        double x = LEFT + i * step * scale;
        bool one = fabs(i * step - 1) < step / 100;
        snprintf(label, sizeof label, "%g", i * step);
        svg_line(file, x, TOP - 8, x, bottom, one ? "#333333" : "#dddddd", 1, "none");
        svg_text(file, x, TOP - 12, 11, SVG_MIDDLE, label);
    }
}

static void bar(const plot_t *plot, const bars_t *bars, uint32_t c, double scale, double y,
                FILE *file)
{
    const or_bench_case_t *it = get_case(plot, c);
    const or_bench_figures_t *figures = &plot->figures[c];
    double value = bars->value(figures);
    double end = value;
    char label[LABEL_BYTES];
    bool plain = c == plot->begin;
    snprintf(label, sizeof label, "%s%s%s", it->name, plain ? "" : ", ", plain ? "" : it->tree);
    svg_text(file, LEFT - 8, y + ROW - 6, TEXT, SVG_END, label);
    svg_box(file, LEFT, y + 2, value * scale, ROW - 4,
            plain ? "#777777" : colours[(uint32_t)it->rule % COLOUR_COUNT]);
    if (bars->range && figures->speedup_max > figures->speedup_min) {
        end = figures->speedup_max;
        svg_line(file, LEFT + figures->speedup_min * scale, y + ROW / 2, LEFT + end * scale,
                 y + ROW / 2, "#222222", 1.5, "none");
    }
    snprintf(label, sizeof label, "%.2f", value);
    svg_text(file, LEFT + end * scale + 6, y + ROW - 6, TEXT, SVG_START, label);
}

// Draw the bars down the page, a group's heading before its first bar. Without a file only the height is measured.
static double draw_bars(const plot_t *plot, const bars_t *bars, double scale, FILE *file)
{
    double y = TOP;
    uint32_t group = 0;
    char label[LABEL_BYTES];
    for (uint32_t c = plot->begin; c < plot->end; c++) {
        const or_bench_case_t *it = get_case(plot, c);
        if (!is_best(plot, c) || isnan(bars->value(&plot->figures[c]))) {
            continue;
        }
        if (it->group != group) {
            group = it->group;
            y += GROUP;
            snprintf(label, sizeof label, "%s %" PRIu32, plot->output->results->plan->group_name,
                     group);
            if (file != NULL) {
                svg_text(file, 20, y - 5, 13, SVG_START, label);
            }
        }
        if (file != NULL) {
            bar(plot, bars, c, scale, y, file);
        }
        y += ROW;
    }
    return y;
}

static or_status_t plot_bars(const plot_t *plot, const bars_t *bars, const char *folder)
{
    char path[PATH_BYTES];
    FILE *file;
    double most = 1;
    for (uint32_t c = plot->begin; c < plot->end; c++) {
        most = fmax(most, bars->value(&plot->figures[c])); // fmax passes over NAN
        most = fmax(most, bars->range ? plot->figures[c].speedup_max : 0);
    }
    double bottom = draw_bars(plot, bars, 0, NULL);
    or_status_t status = open_plot(plot, folder, bars->name, bottom + 20, path, &file);
    if (status != OR_OK) {
        return status;
    }
    double scale = (WIDTH - LEFT - RIGHT) / most;
    title(plot, bars->title, file);
    bar_axis(file, scale, most, bottom);
    draw_bars(plot, bars, scale, file);
    return svg_close(path, file);
}

// ---- lines ----

#define PANEL_LEFT 60.0
#define PANEL_WIDTH 480.0
#define PANEL_HEIGHT 320.0

static double depth_x(uint32_t depth)
{
    return PANEL_LEFT + PANEL_WIDTH * (depth + 0.5) / DEPTHS;
}

static double share_y(double share)
{
    return TOP + PANEL_HEIGHT * (1 - share);
}

static void line_axes(FILE *file)
{
    char label[LABEL_BYTES];
    for (int tenth = 0; tenth <= 10; tenth += 2) {
        double y = share_y(tenth / 10.0);
        snprintf(label, sizeof label, "%.1f", tenth / 10.0);
        svg_line(file, PANEL_LEFT, y, PANEL_LEFT + PANEL_WIDTH, y, "#dddddd", 1, "none");
        svg_text(file, PANEL_LEFT - 8, y + 4, 11, SVG_END, label);
    }
    for (uint32_t d = 0; d < DEPTHS; d++) {
        snprintf(label, sizeof label, "%" PRIu32, d + 1);
        svg_text(file, depth_x(d), share_y(0) + 18, 11, SVG_MIDDLE, label);
    }
    svg_text(file, PANEL_LEFT + PANEL_WIDTH / 2, share_y(0) + 38, TEXT, SVG_MIDDLE,
             "depth of the guess");
}

static void draw_line(const plot_t *plot, uint32_t c, uint32_t series, FILE *file)
{
    const or_bench_figures_t *figures = &plot->figures[c];
    const char *colour = colours[series % COLOUR_COUNT];
    const char *dash = dashes[series / COLOUR_COUNT];
    char label[LABEL_BYTES];
    double key_x = PANEL_LEFT + PANEL_WIDTH + 20;
    double key_y = TOP + 6 + ROW * series;
    for (uint32_t d = 0; d < DEPTHS && figures->depth_offered[d] >= OFFERED_MIN; d++) {
        double y = share_y(figures->by_depth[d]);
        svg_dot(file, depth_x(d), y, 2.5, colour);
        if (d > 0) {
            svg_line(file, depth_x(d - 1), share_y(figures->by_depth[d - 1]), depth_x(d), y, colour,
                     2, dash);
        }
    }
    snprintf(label, sizeof label, "%s, %s", get_case(plot, c)->name, get_case(plot, c)->tree);
    svg_line(file, key_x, key_y, key_x + 26, key_y, colour, 2, dash);
    svg_text(file, key_x + 34, key_y + 4, TEXT, SVG_START, label);
}

// Each pair has one line, of its best tree in the last group, which is the largest.
static or_status_t plot_lines(const plot_t *plot, const char *folder)
{
    char path[PATH_BYTES];
    char label[LABEL_BYTES];
    FILE *file;
    uint32_t series = 0;
    uint32_t group = get_case(plot, plot->end - 1)->group;
    double height = fmax(share_y(0) + 60, TOP + ROW * (SERIES_MAX + 2));
    or_status_t status = open_plot(plot, folder, "acceptance", height, path, &file);
    if (status != OR_OK) {
        return status;
    }
    snprintf(label, sizeof label, "share of guesses accepted by depth; %s %" PRIu32,
             plot->output->results->plan->group_name, group);
    title(plot, label, file);
    line_axes(file);
    for (uint32_t c = plot->begin + 1; c < plot->end; c++) {
        if (get_case(plot, c)->group == group && is_best(plot, c)) {
            if (series < SERIES_MAX) {
                draw_line(plot, c, series, file);
            }
            series++;
        }
    }
    if (series > SERIES_MAX) {
        snprintf(label, sizeof label, "and %" PRIu32 " pairs more", series - SERIES_MAX);
        svg_text(file, PANEL_LEFT + PANEL_WIDTH + 20, TOP + 10 + ROW * SERIES_MAX, TEXT, SVG_START,
                 label);
    }
    return svg_close(path, file);
}

// ---- all ----

static or_status_t plot_temperature(const plot_t *plot, const char *folder)
{
    static const bars_t efficiency = {"block_efficiency", "tokens per target call",
                                      block_efficiency, false};
    static const bars_t speed = {"speedup", "speed-up over plain decoding", speedup, true};
    or_status_t status = plot_bars(plot, &efficiency, folder);
    if (status == OR_OK) {
        status = plot_bars(plot, &speed, folder);
    }
    return status == OR_OK ? plot_lines(plot, folder) : status;
}

or_status_t or_bench_write_plots(const or_bench_output_t *output, const char *folder)
{
    const or_bench_plan_t *plan = output->results->plan;
    or_bench_figures_t *figures = calloc(plan->count, sizeof *figures);
    if (figures == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the plots");
    }
    or_status_t status = OR_OK;
    for (uint32_t c = 0; c < plan->count; c++) {
        figures[c] = or_bench_figures(output->results, c, OR_BENCH_ALL, output->size_ratio);
    }
    plot_t plot = {.output = output, .figures = figures};
    while (plot.begin < plan->count && status == OR_OK) {
        plot.end = plot.begin + 1;
        while (plot.end < plan->count && plan->cases[plot.end].baseline == plot.begin) {
            plot.end++;
        }
        status = plot_temperature(&plot, folder);
        plot.begin = plot.end;
    }
    free(figures);
    return status;
}

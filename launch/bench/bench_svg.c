#include "launch/bench/bench_svg.h"

#include <errno.h>
#include <string.h>

or_status_t or_svg_open(const char *path, double width, double height, FILE **file)
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
    or_svg_box(*file, 0, 0, width, height, "white");
    return OR_OK;
}

or_status_t or_svg_close(const char *path, FILE *file)
{
    fputs("</svg>\n", file);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return or_fail(OR_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    return OR_OK;
}

void or_svg_box(FILE *file, double x, double y, double width, double height, const char *colour)
{
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x,
            y, width, height, colour);
}

void or_svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *colour,
                 double thickness, const char *dashes)
{
    fprintf(file,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%.1f\" stroke-dasharray=\"%s\"/>\n",
            x1, y1, x2, y2, colour, thickness, dashes);
}

void or_svg_text(FILE *file, double x, double y, double size, or_svg_anchor_t anchor,
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

void or_svg_dot(FILE *file, double x, double y, double radius, const char *colour)
{
    fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius,
            colour);
}

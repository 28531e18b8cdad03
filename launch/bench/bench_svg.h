// bench_svg - a few shapes as SVG 1.1, in pixels from the upper left corner.
#pragma once

#include <stdio.h>

#include "common/base/status.h"

typedef enum { OR_SVG_START, OR_SVG_MIDDLE, OR_SVG_END } or_svg_anchor_t;

// Open `path` and write the beginning of a white picture. *file is NULL after an error. OR_ERR_IO.
or_status_t or_svg_open(const char *path, double width, double height, FILE **file);
// End the picture and close it. OR_ERR_IO if anything did not reach the disk.
or_status_t or_svg_close(const char *path, FILE *file);

void or_svg_box(FILE *file, double x, double y, double width, double height, const char *colour);
void or_svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *colour,
                 double thickness, const char *dashes);
// y is the text's base line; any bytes but control characters.
void or_svg_text(FILE *file, double x, double y, double size, or_svg_anchor_t anchor,
                 const char *text);
void or_svg_dot(FILE *file, double x, double y, double radius, const char *colour);

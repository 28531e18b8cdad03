// Goal: every file of the dashboard is in the program as it lies in its folder, under the path that a browser asks for.
// Method: compare bytes with the files; ask for paths that must not be there.
#include "coordinator/http/dashboard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

static void assert_is_file(const char *path, const char *name, const char *content_type)
{
    char source[4096];
    snprintf(source, sizeof source, "%s/%s", DASHBOARD_FOLDER, name);
    FILE *stream = fopen(source, "rb");
    assert_non_null(stream);

    const or_dashboard_file_t *file = or_dashboard_file(path);
    assert_non_null(file);
    uint8_t *expected = malloc(file->count + 1);
    assert_non_null(expected);
    assert_int_equal(fread(expected, 1, file->count + 1, stream), file->count);
    assert_memory_equal(file->bytes, expected, file->count);
    assert_string_equal(file->content_type, content_type);
    assert_int_equal(file->etag[0], '"');
    assert_int_equal(file->etag[strlen(file->etag) - 1], '"');
    free(expected);
    fclose(stream);
}

static void files_are_embedded_as_they_are(void **state)
{
    (void)state;
    assert_is_file("/", "index.html", "text/html; charset=utf-8");
    assert_is_file("/style.css", "style.css", "text/css; charset=utf-8");
    assert_is_file("/app.js", "app.js", "text/javascript; charset=utf-8");
    assert_is_file("/icon.svg", "icon.svg", "image/svg+xml");
}

static void files_have_tags_of_their_own(void **state)
{
    (void)state;
    assert_string_not_equal(or_dashboard_file("/app.js")->etag,
                            or_dashboard_file("/style.css")->etag);
}

static void nothing_else_is_served(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "", "/index.html", "/app", "/app.js/", "/../dashboard.c", "/embed.cmake", "app.js"};
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)
        assert_null(or_dashboard_file(paths[p]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_embedded_as_they_are),
        cmocka_unit_test(files_have_tags_of_their_own),
        cmocka_unit_test(nothing_else_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

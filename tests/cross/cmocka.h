// cmocka.h - what the kernels' tests use of cmocka, for machines that it is not installed for. A check that
// fails ends the program.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
} CMUnitTest;

#define cmocka_unit_test(function) ((CMUnitTest){#function, function})

#define print_message printf
#define print_error printf

static inline void cmocka_fail(const char *file, int line)
{
    printf("\n%s:%d: failed\n", file, line);
    exit(1);
}

static inline void cmocka_equal(long long a, long long b, const char *what, const char *file,
                                int line)
{
    if (a != b) {
        printf("%s is %lld, not %lld", what, a, b);
        cmocka_fail(file, line);
    }
}

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf(__VA_ARGS__);                                                                       \
        cmocka_fail(__FILE__, __LINE__);                                                           \
    } while (0)

static inline void _skip(const char *file, int line)
{
    printf("%s:%d: skipped\n", file, line);
    exit(77);
}

#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("%s", #condition);                                                            \
        }                                                                                          \
    } while (0)
#define assert_false(condition) assert_true(!(condition))
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_int_equal(a, b) cmocka_equal((long long)(a), (long long)(b), #a, __FILE__, __LINE__)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, size) assert_true(memcmp(a, b, size) == 0)

static inline int _cmocka_run_group_tests(const char *name, const CMUnitTest *tests, size_t count,
                                          int (*set_up)(void **), int (*tear_down)(void **))
{
    void *state = NULL;
    (void)name;
    (void)tear_down;
    if (set_up != NULL && set_up(&state) != 0) {
        printf("the set-up failed\n");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        tests[i].run(&state);
        printf("[       OK ] %s\n", tests[i].name);
    }
    return 0;
}

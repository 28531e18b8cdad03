#include "tests/support/short_memory.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_reallocarray(void *memory, size_t count, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);

// The linker calls these functions instead.
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

static _Thread_local bool watching;
static uint64_t counted, refused;

void short_memory_watch(bool on)
{
    watching = on;
}

void short_memory_arm(uint64_t nth)
{
    counted = 0;
    refused = nth;
}

uint64_t short_memory_counted(void)
{
    return counted;
}

// This is a function of its own, so that a debugger can stop where the allocation fails.
__attribute__((noinline)) static bool short_memory_refuses(void)
{
    __asm__ volatile("");
    return true;
}

static bool is_refused(void)
{
    return watching && ++counted == refused && short_memory_refuses();
}

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_reallocarray(memory, count, bytes);
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t length)
{
    return is_refused() ? NULL : __real_strndup(text, length);
}

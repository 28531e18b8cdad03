#include "tests/support/full_disk.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/support/test_support.h"

static struct rlimit usual_limit;

void fill_disk(void)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual_limit), 0);
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = usual_limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
}

void empty_disk(void)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual_limit), 0);
}

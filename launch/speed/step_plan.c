#include "launch/speed/step_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "launch/generate/input.h"

const char *const or_step_kind_names[] = {"tree", "sessions", "prefill"};

or_status_t or_step_plan_add(const char *option, const char *list, or_step_kind_t kind,
                             uint32_t most, or_step_plan_t *plan)
{
    char word[OR_INPUT_WORD_BYTES];
    or_status_t status = OR_OK;
    while (list != NULL && (status = or_input_word(option, &list, word)) == OR_OK) {
        char *end;
        errno = 0;
        unsigned long rows = strtoul(word, &end, 10);
        if (word[0] < '0' || word[0] > '9' || *end != '\0' || errno != 0 || rows < 1 ||
            rows > most) {
            return or_fail(OR_ERR_INVALID, "%s: '%s' is no number from 1 to %" PRIu32, option, word,
                           most);
        }
        if (plan->count == OR_STEPS_MAX) {
            return or_fail(OR_ERR_INVALID, "%s: more than %u kinds of passes; time them in parts",
                           option, OR_STEPS_MAX);
        }
        plan->steps[plan->count++] = (or_step_t){.kind = kind, .rows = (uint32_t)rows};
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

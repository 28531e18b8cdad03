#include "coordinator/clients/admission.h"

#define NEWS_WEIGHT 0.1   // of the latest request in the mean: the last ten or so count
#define UNKNOWN_MS 2000.0 // before any was served

void or_admission_served(or_admission_t *admission, uint64_t elapsed_us)
{
    double ms = (double)elapsed_us / 1000;
    admission->mean_ms =
        admission->mean_ms > 0 ? (1 - NEWS_WEIGHT) * admission->mean_ms + NEWS_WEIGHT * ms : ms;
}

uint32_t or_admission_retry_ms(const or_admission_t *admission, uint32_t before, uint32_t places)
{
    double mean_ms = admission->mean_ms > 0 ? admission->mean_ms : UNKNOWN_MS;
    double ms = mean_ms * (before + 1.0) / (places > 0 ? places : 1);
    if (ms < OR_RETRY_MS_MIN) {
        return OR_RETRY_MS_MIN;
    }
    return ms < OR_RETRY_MS_MAX ? (uint32_t)ms : OR_RETRY_MS_MAX;
}

#include "verifier/ranks/rank_cpus.h"

#include "common/base/log/log.h"
#include "common/base/numa_nodes.h"

#define DESCRIPTION_BYTES 1024

static void log_nodes(const char *root)
{
    const or_cpus_t cpus = or_cpus_allowed();
    or_numa_nodes_t nodes;
    char text[DESCRIPTION_BYTES];
    or_numa_nodes_read(root, &cpus, &nodes);
    if (nodes.of_system > 1) {
        or_numa_nodes_describe(&nodes, text, sizeof text);
        or_log(OR_LOG_INFO, "threads run on %s", text);
    }
}

or_cpus_t or_rank_cpus_settle(const char *root, const or_ranks_mpi_place_t *place, bool on_gpu)
{
    const or_cpus_t allowed = or_cpus_allowed();
    if (!place->same_cpus) {
        log_nodes(root);
        return allowed;
    }
    or_numa_nodes_t nodes;
    or_numa_nodes_read(root, &allowed, &nodes);
    const or_cpus_t share =
        or_numa_nodes_share(&nodes, (uint32_t)place->neighbour, (uint32_t)place->neighbours);
    const or_cpus_t near = or_numa_nodes_around(&nodes, &share);
    if (!on_gpu && !CPU_EQUAL(&near.set, &allowed.set) && or_cpus_confine(&near) != OR_OK) {
        or_log(OR_LOG_WARN, "threads do not stay near their weights: %s", or_error_text());
    }
    log_nodes(root);
    return share;
}

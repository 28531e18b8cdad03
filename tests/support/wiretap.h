// wiretap - somebody on the way between an edge and a hub on loopback, who sees and changes bytes.
//
//     edge ──TCP──▶ 127.0.0.1:port │ tap │ ──TCP──▶ 127.0.0.1:target
//
// It has a thread of its own; these functions may be called from any. It speaks no protocol: a chunk is what
// one read gave, which is one frame where sends are far enough apart.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wiretap wiretap_t;

wiretap_t *wiretap_open(uint16_t target_port);
void wiretap_close(wiretap_t **tap_p);
uint16_t wiretap_port(const wiretap_t *tap);

// Copy what has gone to the hub (`back`: to the edge) over all connections so far. The caller
// frees it.
uint8_t *wiretap_recorded(wiretap_t *tap, bool back, size_t *bytes);
// Change one bit in the middle of the next chunk that goes to the hub (`back`: to the edge).
void wiretap_flip(wiretap_t *tap, bool back);
// Send the next chunk to the hub after the one that follows it.
void wiretap_swap(wiretap_t *tap);
// Close all connections.
void wiretap_cut(wiretap_t *tap);
// The number of connections accepted so far.
int wiretap_connections(wiretap_t *tap);

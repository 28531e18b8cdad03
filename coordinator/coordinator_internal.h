// coordinator_internal - what coordinator.c (the turn), members.c (who is here), grants.c (what their keys
// allow), clients.c (what they ask for), stream.c (what they are told), parking.c (while they are away), journaling.c
// (what outlives us), charges.c (what they keep of the memory),
// waiting.c (who begins when), vocabulary_match.c (drafters of other vocabularies), drafting.c (who drafts),
// redraft.c (what drafters are told), trees.c and ahead.c (what they sent), budget.c (what is judged, and
// when), questions.c (slrs), rounds.c (the life of a round), verdicts.c (how it ends), troubles.c (what
// goes wrong in it), counters.c (what is counted of it all) and figures.c (who is shown what of that) share.
#pragma once

#include "common/decode/token_tree.h"
#include "coordinator/clients/admission.h"
#include "coordinator/coordinator.h"
#include "coordinator/figures/events.h"
#include "coordinator/figures/telemetry.h"
#include "coordinator/peers/conduct.h"
#include "coordinator/peers/limits.h"
#include "coordinator/peers/refusals.h"
#include "coordinator/session/session.h"
#include "coordinator/session/session_ids.h"
#include "coordinator/vocab/vocabularies.h"

#define OR_PEERS_MAX 1024u

// What one owner has, counted anew for each decision (waiting.c).
typedef struct {
    const char *owner; // borrowed; NULL: free place
    uint32_t waiting, live, parked, done;
} or_owner_count_t;

// A drafter, verifier or client that was welcomed.
typedef struct {
    or_peer_t peer; // 0: free place
    or_role_t role;
    bool
        inside; // our own HTTP face: a client for many, believed when it says for whom, and weighed by nobody
    uint64_t number; // tells it apart from all that were ever here
    int64_t joined_ns;
    uint32_t context_max, nodes_max;
    // A verifier's: live sessions beyond it wait. A drafter's: it gets no more. 0: not said.
    uint32_t sessions_max;
    uint32_t sessions; // a drafter's
    bool trusted;      // its distributions are believed
    // Whose it is; "": of nobody in particular.
    char owner[OR_OWNER_BYTES];
    bool serves_all;         // a drafter's: nobody's in particular, on this machine
    or_key_grant_t grant;    // what its key allows; key "": it has none
    or_conduct_t conduct;    // a drafter's or a client's
    or_record_t record;      // a drafter's
    or_hold_t unread;        // what it was sent and has not read
    bool cut;                // it offended once too often: to be cut off at the end of this turn
    or_offence_t offence;    // that was too much
    or_known_vocab_t *vocab; // a drafter's; NULL: it has the target's ids
    // It said it has this vocabulary, which is not known here, and is to send it: before, it drafts for
    // nobody.
    bool unknown_vocab;
    uint64_t announced_hash;
    uint32_t announced_size;
    uint32_t vocab_asks;    // how often it was asked for
    uint32_t vocab_refused; // answers that were not it
    int64_t vocab_due_ns;   // when to ask again
    int64_t target_sent_ns; // when it was sent the target's vocabulary; 0: never
    char model[128];
    char arith_id[OR_ARITH_BYTES];
    or_peer_figures_t figures; // counted here or reported by it; the rest is added for an answer
    uint64_t counted_bytes;    // of its link, those that are in the totals
} or_member_t;

// A drafter whose vocabulary cannot be used, for requests that wait for it.
typedef struct {
    char why[512]; // "": there was none
    char owner[OR_OWNER_BYTES];
    bool serves_all;
} or_refused_drafter_t;

struct or_coordinator {
    or_coordinator_config_t config;
    const or_vocab_t *vocab;
    or_session_target_t target; // the same, and the chat template
    or_link_t *link;
    const or_clock_t *clock;
    or_telemetry_t *telemetry;
    or_events_t events;
    uint64_t last_number; // that a member got
    or_member_t members[OR_PEERS_MAX];
    or_member_t *verifier;        // NULL: none
    bool drafter_seen;            // one has joined since the start
    or_refused_drafter_t refused; // the last one that was turned away
    // Served, waiting, and as many again that are done, for clients that missed the end; NULL where free.
    or_csession_t **sessions;
    uint32_t places;
    // A hash table of the owners that have sessions; owned. At most half of it is used.
    or_owner_count_t *owners;
    uint32_t owner_places; // a power of two
    bool beginning;        // those that wait are being given places
    or_session_ids_t ids;
    uint32_t cuts;        // members to be cut off
    int64_t share_due_ns; // when to look whether places are shared fairly
    bool unread;          // some member has a hold of what it has not read
    bool begins_late;     // texts wait for the verifier to read
    or_admission_t admission;
    or_stats_t figures;       // counted here; the rest is 0
    or_stats_t reported;      // by the verifier, last; the rest is 0
    or_token_tree_t *scratch; // to merge drafters' trees
    or_vocabularies_t vocabularies;
    uint8_t *packed; // the target's vocabulary for slrs, once somebody asked; owned
    size_t packed_bytes, unpacked_bytes;
    or_limits_t *limits;
    or_refusals_t refusals;
    uint64_t connections_refused; // by the channel
    int64_t keyring_due_ns;       // when to look whether it has changed
    int64_t keyring_told_ns;      // when it was last said that it cannot be read; 0: never
    int64_t journal_due_ns;
    int64_t journal_told_ns; // when its trouble was last warned of; 0: never
    bool journal_late;       // it neither writes nor refuses: nobody waits for it
};

// NULL: there is none.
or_csession_t *or_coordinator_session(or_coordinator_t *coordinator, or_session_id_t id);
// Send and shrug: what is lost is asked for again.
void or_coordinator_send(or_coordinator_t *coordinator, or_peer_t to, const or_message_t *message);
// Committed tokens from `start` on.
void or_coordinator_send_prefix(or_coordinator_t *coordinator, const or_csession_t *session,
                                or_peer_t to, uint32_t start);
// In so many milliseconds.
int64_t or_coordinator_after_ms(const or_coordinator_t *coordinator, uint32_t ms);
// Forget a session that is over; nothing at a free place.
void or_coordinator_drop_session(or_coordinator_t *coordinator, or_csession_t **place);
void or_coordinator_for_each_session(or_coordinator_t *coordinator,
                                     void (*visit)(or_coordinator_t *, or_csession_t *));

// members.c
or_member_t *or_coordinator_member(or_coordinator_t *coordinator, or_peer_t peer);
// Members of a role.
uint32_t or_coordinator_count(const or_coordinator_t *coordinator, or_role_t role);
void or_members_greet(or_coordinator_t *coordinator, or_peer_t peer, const or_hello_t *hello);
// Its place is free again.
void or_members_free(or_member_t *member);
// It can take part now.
void or_members_joined(or_coordinator_t *coordinator, or_member_t *member);
// Its connection is gone.
void or_members_lost(or_coordinator_t *coordinator, or_peer_t peer);
// Say why, and forget the peer.
void or_coordinator_turn_away(or_coordinator_t *coordinator, or_peer_t peer, or_wire_error_t code,
                              const char *text);
// A drafter was turned away: requests that wait for one, and that it would have served, are told.
void or_coordinator_refuse_drafter(or_coordinator_t *coordinator,
                                   const or_refused_drafter_t *refused);
// Note what a drafter did wrong. One offence too many cuts it off, at the end of the turn.
void or_coordinator_offend(or_coordinator_t *coordinator, or_peer_t peer, or_offence_t offence);
// Turn away those that offended once too often, and hear nothing from them for a while.
void or_members_cut_off(or_coordinator_t *coordinator);
// Say why, end what it takes part in, and hear nothing from it for a while.
void or_members_expel(or_coordinator_t *coordinator, or_member_t *member, const char *text);
// For the link: may this frame be read?
bool or_members_gate(void *coordinator, or_peer_t from, size_t bytes);

// grants.c
// Who this is, by its key or where it connects from: owner, trust and limits of a member whose peer is
// set. False, with a sentence for it: it may not come in as that.
bool or_grants_identify(or_coordinator_t *coordinator, const or_hello_t *hello, or_member_t *member,
                        char *text, size_t capacity);
// May this client's key have one more request at work or waiting? To be asked when one is begun and when a parked
// one is to go on, while it is parked still: parked ones and those that are done are not counted. If not, why,
// for an answer BUSY after OR_GRANTS_RETRY_MS.
bool or_grants_allow_session(const or_coordinator_t *coordinator, const or_member_t *client,
                             char *why, size_t capacity);
#define OR_GRANTS_RETRY_MS 1000u
// May its text be written now? If its key has written as much as it may, session->paced_ns says until when; else that
// is 0.
bool or_grants_may_write(or_coordinator_t *coordinator, or_csession_t *session);
// Something that came with this key ("": none) was refused: counted, and logged now and then.
void or_coordinator_note_refusal(or_coordinator_t *coordinator, const char *key, const char *text);
// How much was, connections included.
uint64_t or_coordinator_refused(const or_coordinator_t *coordinator);
// Look whether the keyring has changed. Returns when to look again.
int64_t or_grants_tick(or_coordinator_t *coordinator);

// clients.c
void or_clients_take(or_coordinator_t *coordinator, or_peer_t from, const or_message_t *message);
// Its client does not want it any more: free its work at once.
void or_clients_cancel(or_coordinator_t *coordinator, or_csession_t *session);
// A place for a session of `client`; ones that are done make room: its own, those whose clients had their time, and
// of others those of the owner that keeps most. OR_ERR_FULL as or_clients_admit.
or_status_t or_clients_place(or_coordinator_t *coordinator, const or_member_t *client,
                             or_csession_t ***place_p, uint32_t *retry_ms);
// May this client have one more text at work or waiting, by its key and by the queue? OR_ERR_FULL, with a sentence
// for an answer BUSY: after *retry_ms.
or_status_t or_clients_admit(or_coordinator_t *coordinator, const or_member_t *client, bool plain,
                             uint32_t *retry_ms);

// The owner's end that is the oldest, of those that were told; NULL: it has none. Its place may be given to another text.
or_csession_t **or_clients_oldest_end(or_coordinator_t *c, const char *owner);

// charges.c: what a text keeps of the memory, in its owner's account (ledger.h). Where there is no more for the owner, its own
// ends are forgotten first, the oldest before the others.
// It was just made. OR_ERR_FULL with a sentence: it cannot be kept.
#define OR_CHARGES_RETRY_MS 2000u // until then texts end, and ends are forgotten
or_status_t or_charges_open(or_coordinator_t *coordinator, or_csession_t *session);
// It has grown. If there is no memory for that a text that goes on fails, and its `finish` says so.
void or_charges_grow(or_coordinator_t *coordinator, or_csession_t *session);
// It keeps less than before.
void or_charges_shrink(or_csession_t *session);
// It is here from now on: what waits for it is in its owner's account, too, unless it serves everybody.
void or_charges_greet(or_coordinator_t *coordinator, or_member_t *member);
// Has it read most of what it was sent? If not, nothing new is begun with it, and it is sent nothing for the second time.
bool or_charges_has_read(const or_member_t *member);
// Has the verifier? If not, or_charges_settle begins what waits as soon as it has.
bool or_charges_may_begin(or_coordinator_t *coordinator);
// May this peer be sent more?
bool or_charges_may_send(or_coordinator_t *coordinator, or_peer_t to);
// It was sent something.
void or_charges_sent(or_coordinator_t *coordinator, or_peer_t to);
// Peers may have read: what they have is released, and what waited for the verifier to read begins.
void or_charges_settle(or_coordinator_t *coordinator);

// stream.c
// Tell the client what it has not been told yet, as far as the journal has it; the end too.
void or_coordinator_tell_client(or_coordinator_t *coordinator, or_csession_t *session);
// Something new is there to be told: now or, if the journal is to have it first, when that has it.
void or_coordinator_tell_news(or_coordinator_t *coordinator, or_csession_t *session);
// The request is none that can be served.
void or_coordinator_tell_failure(or_coordinator_t *coordinator, or_peer_t client, uint64_t request,
                                 or_wire_error_t code, uint32_t retry_ms, const char *text);

// counters.c
// Something an operator may want to know of (events.h); `session` NULL: it is about none.
void or_coordinator_event(or_coordinator_t *coordinator, const char *kind,
                          const or_csession_t *session, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The work on a text begins, or goes on after its client was away.
void or_counters_begun(or_coordinator_t *coordinator, or_csession_t *session);
// A verdict is about to be committed.
void or_counters_judged(or_coordinator_t *coordinator, or_csession_t *session,
                        const or_verdict_t *verdict);
// It was; so many tokens were written before.
void or_counters_committed(or_coordinator_t *coordinator, or_csession_t *session,
                           const or_verdict_t *verdict, uint32_t before);
void or_counters_finished(or_coordinator_t *coordinator, const or_csession_t *session);

// figures.c
// Take what a drafter or verifier reports of itself.
void or_figures_report(or_coordinator_t *coordinator, or_member_t *member, const or_stats_t *from);
// Send the client the figures that it asks for, as far as it may see them.
void or_figures_tell(or_coordinator_t *coordinator, const or_member_t *client,
                     const or_stats_request_t *request);

// parking.c
// The client's connection is gone: its requests stay for it, those that have not begun too, but hold no
// place of others.
void or_clients_detach(or_coordinator_t *coordinator, or_peer_t client);
// It lets go of this one alone.
void or_parking_put_away(or_coordinator_t *coordinator, or_csession_t *session);
// It said good-bye, or may not come back: its requests end.
void or_clients_leave(or_coordinator_t *coordinator, or_peer_t client);
// The session that this client shows the token of, also if only the journal has it. OR_ERR_NOT_FOUND: there is
// none, or it is another's; OR_ERR_FULL: it cannot go on now, as or_clients_admit says.
or_status_t or_parking_find(or_coordinator_t *coordinator, const or_member_t *client,
                            const or_resume_t *resume, or_csession_t **session_p,
                            uint32_t *retry_ms);
// Its client is away, and nobody was asked about its round (or_round_is_asked): keep it for the client, within
// bounds.
void or_parking_park(or_coordinator_t *coordinator, or_csession_t *session);
// The session is this client's from here on, and goes on if it was parked.
void or_parking_return(or_coordinator_t *coordinator, or_csession_t *session,
                       const or_member_t *client);
// Its client may have been away for too long. Returns when to look again.
int64_t or_parking_tick(or_coordinator_t *coordinator, or_csession_t *session);

// journaling.c: a session's way into the journal, if there is one. What cannot be written is warned of, tried again with
// what comes next, and the session goes on.
// It was asked for: before its client hears of it.
void or_coordinator_journal_begin(or_coordinator_t *coordinator, or_csession_t *session,
                                  const or_generate_request_t *request);
// After each commit, before the client is told.
void or_coordinator_journal_commit(or_coordinator_t *coordinator, or_csession_t *session);
// So much of the session may be told now: what is written or was refused; where the disk neither writes nor refuses for
// some seconds, all.
or_extent_t or_coordinator_journal_extent(const or_coordinator_t *coordinator,
                                          const or_csession_t *session);
// May not all of it be told? It will be, when a write is done.
bool or_coordinator_journal_holds(const or_coordinator_t *coordinator,
                                  const or_csession_t *session);
// Wait a moment for what is under way, and tell it: the process is about to stop.
void or_coordinator_journal_flush(or_coordinator_t *coordinator);
// It is over; its client may still ask for its end.
void or_coordinator_journal_end(or_coordinator_t *coordinator, or_csession_t *session);
// It is over and about to be destroyed (NULL: nothing is), also where its end could not be written.
void or_coordinator_journal_release(or_coordinator_t *coordinator, const or_csession_t *session);
// Nobody will ask for it again.
void or_coordinator_journal_forget(or_coordinator_t *coordinator, or_csession_t *session);
// The session with this token as a coordinator before this one left it, parked, for a client that may have it.
// As or_parking_find.
or_status_t or_coordinator_journal_restore(or_coordinator_t *coordinator, const or_member_t *client,
                                           const or_resume_t *resume, or_csession_t **session_p,
                                           uint32_t *retry_ms);
// May this client have a session of this owner and key?
bool or_parking_is_theirs(const or_member_t *client, const char *owner, const char *key);
// What was written is told. Returns when to call again.
int64_t or_coordinator_journal_tick(or_coordinator_t *coordinator);

// waiting.c
// Count what every owner has, in one pass; returns what all have together. Names are borrowed from the
// sessions: good until one is destroyed.
or_owner_count_t or_waiting_count_owners(const or_coordinator_t *coordinator);
// What the session's owner had when it was counted last.
const or_owner_count_t *or_waiting_owner_of(const or_coordinator_t *coordinator,
                                            const or_csession_t *session);
const or_owner_count_t *or_waiting_owner(const or_coordinator_t *coordinator, const char *owner);
// Does a prompt of so many tokens leave room in the context, where that is known? If not, why. `least`: it may
// have more.
bool or_waiting_fits(const or_coordinator_t *coordinator, uint64_t tokens, bool least, char *why,
                     size_t capacity);
// Is everybody there that the request was told to expect?
bool or_waiting_all_there(const or_coordinator_t *coordinator, const or_csession_t *session);
// May one more request of this owner be taken in? Where the queue is full, the latest of the owner that
// waits most makes room, if that leaves it with no less than this one has; but nothing that has begun. If not:
// when to try again, and why.
bool or_waiting_admit(or_coordinator_t *coordinator, const char *owner, bool plain,
                      uint32_t *retry_ms, char *why, size_t capacity);
// Start when verifier and drafter are there and there is a place; else wait.
void or_waiting_begin(or_coordinator_t *coordinator, or_csession_t *session);
// Begin those that wait as far as there is room: the owner with the fewest sessions at work first, then
// in order of arrival.
void or_waiting_begin_all(or_coordinator_t *coordinator);
// Would another than this one begin, if its place were free?
bool or_waiting_has_other(or_coordinator_t *coordinator, or_csession_t *session);
// Where owners wait that have less at work than others, a text of those gives its place away at the end of its round: its
// `gives_way` is set. Returns when to call again.
int64_t or_waiting_share(or_coordinator_t *coordinator);
// Why a request that waits has not begun, for its client; "" for any other.
void or_waiting_why(const or_coordinator_t *coordinator, const or_csession_t *session, char *why,
                    size_t capacity);

// advice.c
// A text has ended: would it have been faster asked for otherwise?
void or_advice_at_end(or_csession_t *session);

// drafting.c
// Find drafters for the session's free seats and tell them everything; true if one came. Under a
// ratio rule only trusted ones will do.
bool or_drafting_join(or_coordinator_t *coordinator, or_csession_t *session);
// Are drafters here, and none of them has a vocabulary that suits? `why` says so.
bool or_drafting_has_only_strangers(or_coordinator_t *coordinator, or_csession_t *session,
                                    char *why, size_t capacity);
// Tell a drafter (again) what to draft.
void or_drafting_open(or_coordinator_t *coordinator, const or_csession_t *session,
                      const or_seat_t *seat);
// The committed text, in the drafter's own tokens: all of it, or the last ones, which do for who has
// only missed a little.
void or_drafting_send_prefix(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                             bool whole);
// What it has not been told yet.
void or_drafting_send_tail(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
// What the key of the session's client allows; NULL: it has none, or there are no keys.
const or_key_grant_t *or_drafting_grant(const or_coordinator_t *coordinator,
                                        const or_csession_t *session);
// How many guesses a round that key allows each of the session's seats, as the keyring is now: one at least.
uint32_t or_drafting_allowed(const or_coordinator_t *coordinator, const or_csession_t *session);
// The map that the drafter of this seat keeps to.
void or_drafting_send_map(or_coordinator_t *coordinator, const or_csession_t *session,
                          const or_seat_t *seat);
// The text as this seat's drafter holds it.
const or_token_log_t *or_drafting_log(const or_csession_t *session, const or_seat_t *seat);
// Let it go.
void or_drafting_leave(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
// Let it go for good: it cannot serve this session. Another may.
void or_drafting_dismiss(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                         const char *why);
// It was no use to the session, for this reason: let it go for a while. Another may take its seat.
void or_drafting_rest(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                      const char *why);
// It was no use: that goes into its record, which counts in other sessions too.
void or_drafting_note(or_coordinator_t *coordinator, const or_seat_t *seat, double rests);
// It is busy and asks to be let alone for `ms`. Another may take its seat.
void or_drafting_pause(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                       uint32_t ms);

// redraft.c
// Its tree came, or is waited for no longer.
void or_drafting_end_wait(const or_coordinator_t *coordinator, or_seat_t *seat);
// Expect a tree of every seat that is taken, not late, and has sent none yet.
void or_drafting_await(or_coordinator_t *coordinator, or_csession_t *session);
// Is one still to come?
bool or_drafting_is_awaited(const or_csession_t *session);
// It is late: not waited for until it speaks.
void or_drafting_lose_patience(const or_coordinator_t *coordinator, or_seat_t *seat);
// This round does without those that are awaited, and holds it against none of them.
void or_drafting_bridge(or_csession_t *session);
// Drafters that are awaited know the text as it is, or are told now.
void or_drafting_catch_up(or_coordinator_t *coordinator, or_csession_t *session);
// The accepted path in the numbers of this seat's own tree, as far as that has it: how many nodes. `path` has room for
// verdict->accepted_count.
uint32_t or_drafting_own_path(const or_csession_t *session, uint32_t seat,
                              const or_verdict_t *verdict, uint32_t *path);
// Those that are awaited are late now.
void or_drafting_give_up(or_coordinator_t *coordinator, or_csession_t *session);
// Remind drafters of the round where it is time; returns when the next reminder is due.
int64_t or_drafting_nudge(or_coordinator_t *coordinator, or_csession_t *session);
// The drafters move on with us. One that was given up on is not flooded: it gets a prefix when it
// speaks.
void or_drafting_pass_on(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_verdict_t *verdict);

// vocabulary_match.c
// A drafter said Hello: does it have the target's ids, or a vocabulary that is known? If not it is asked
// for it; false until it has come.
bool or_vocab_match_begin(or_coordinator_t *coordinator, or_member_t *member,
                          const or_hello_t *hello);
// It came. True: the drafter may draft now.
bool or_vocab_match_take(or_coordinator_t *coordinator, or_member_t *member,
                         const or_vocabulary_t *message);
// A drafter that guesses the target's own tokens wants to know them.
void or_vocab_match_send_target(or_coordinator_t *coordinator, or_member_t *member,
                                or_session_id_t session, const or_vocab_request_t *request);
// Ask again those that have not answered. Returns when the next is due.
int64_t or_vocab_match_tick(or_coordinator_t *coordinator);
// Is a drafter's vocabulary still to come?
bool or_vocab_match_goes_on(const or_coordinator_t *coordinator);
void or_vocab_match_forget(or_member_t *member);
// How this drafter's vocabulary meets the target's in this session; `why` (of `capacity` bytes) says so
// to the user. OR_ERR_UNSUPPORTED, with figures and what would do: not at all.
or_status_t or_vocab_match_choose(const or_member_t *member, const or_csession_t *session,
                                  or_vocab_method_t *method, char *why, size_t capacity);

// trees.c
// A new round: no seat has a tree.
void or_trees_clear(or_csession_t *session);
// This one has none.
void or_trees_drop(const or_csession_t *session, or_seat_t *seat);
// Keep what the drafter on this seat sent. OR_ERR_INVALID: it cannot be judged.
or_status_t or_trees_take(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *tree);
// Tells two trees of a round apart.
uint64_t or_trees_digest(const or_draft_tree_t *tree);
// What came, merged by prefix in the order of the seats, for the verifier; or none if the verifier
// cannot take it.
void or_trees_gather(or_coordinator_t *coordinator, or_csession_t *session);
// This one is for the verifier, or none if it cannot take it. `draws`: where the rule wants to know them.
void or_trees_keep(or_coordinator_t *coordinator, or_csession_t *session,
                   const or_token_tree_t *tree, const or_draws_t *draws);
// May the verifier we have now be sent what was gathered at all? It may have come after the drafters
// were told what to build. Under a ratio rule a tree must not be dropped for what was drawn
// (docs/algorithms.md section 3), so this is about what was asked for; other rules do not mind.
bool or_trees_suit_verifier(const or_coordinator_t *coordinator, or_csession_t *session);

// ahead.c
// Does it pool its drafter's guesses, now that we know its drafter?
bool or_ahead_pools(const or_csession_t *session);
// Put what its drafter sent into the pool. OR_ERR_INVALID: it makes no sense.
or_status_t or_ahead_take(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *tree);
// What the pool has for this round, for the verifier.
void or_ahead_gather(or_coordinator_t *coordinator, or_csession_t *session);

// budget.c
// A drafter was told of the text as it is.
void or_budget_told(const or_coordinator_t *coordinator, or_csession_t *session);
// A drafter spoke.
void or_budget_heard(const or_coordinator_t *coordinator, or_csession_t *session,
                     const or_draft_tree_t *tree);
// A round was judged, and is not committed yet.
void or_budget_judged(const or_coordinator_t *coordinator, or_csession_t *session,
                      const or_verdict_t *verdict);
// New figures of the verifier, before they become ours.
void or_budget_load(or_coordinator_t *coordinator, const or_stats_t *stats);
// A round begins.
void or_budget_begin(const or_coordinator_t *coordinator, or_csession_t *session);
// What to do now: go on with that source, or wait until then and ask again (OR_TIME_NEVER: as long as drafters
// are waited for).
or_policy_choice_t or_budget_ask(const or_coordinator_t *coordinator, or_csession_t *session);
// The guesses of the lookup that was chosen, into coordinator->scratch.
void or_budget_look_up(or_coordinator_t *coordinator, const or_csession_t *session);
// What drafters are told to build from now on.
or_budget_t or_budget_chosen(const or_coordinator_t *coordinator, or_csession_t *session);
// Does the policy do without its drafters? Then they need not hear of every token.
bool or_budget_rests(const or_csession_t *session);

// questions.c
void or_questions_ask(or_coordinator_t *coordinator, or_csession_t *session,
                      const or_psi_request_t *request);
void or_questions_answer(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_seat_t *seat, const or_psi_reply_t *reply);
// A question has nobody any more who could answer it: the text ends.
void or_questions_fail(or_coordinator_t *coordinator, or_csession_t *session);

// rounds.c
// A session begins, or goes on after it was parked: its next round.
void or_round_first(or_coordinator_t *coordinator, or_csession_t *session);
// Its client is away: free its places at the verifier and the drafters, keep the text. or_round_first takes it up
// again.
void or_round_park(or_coordinator_t *coordinator, or_csession_t *session);
// Was the verifier asked what a rule that draws makes of this round, and may still answer? Then the round must not
// be drawn anew: what is slow or lost could depend on what was drawn, as the question for psi does.
bool or_round_is_asked(const or_coordinator_t *coordinator, const or_csession_t *session);
// The next round begins.
void or_round_open(or_coordinator_t *coordinator, or_csession_t *session);
// Open the session at the verifier and send it the text.
void or_round_open_verifier(or_coordinator_t *coordinator, const or_csession_t *session);
// What was gathered, again.
void or_round_send_tree(or_coordinator_t *coordinator, const or_csession_t *session);
// The session is over for `to`.
void or_round_send_cancel(or_coordinator_t *coordinator, const or_csession_t *session, or_peer_t to,
                          const char *reason);
// Do without a tree.
void or_round_ask_plain(or_coordinator_t *coordinator, or_csession_t *session);
// A seat was left: go on with the others, or with another drafter.
void or_round_go_on(or_coordinator_t *coordinator, or_csession_t *session);
// Requests for the whole prefix come in bursts (one for each message that did not fit): one answer is
// enough for all of them. `last_ns`: the last one.
bool or_round_may_replay(const or_coordinator_t *coordinator, int64_t *last_ns);
void or_round_on_tree(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                      const or_draft_tree_t *tree);
// Timers. Returns when the session's next one is due.
int64_t or_round_tick(or_coordinator_t *coordinator, or_csession_t *session);
// End the session as its `finish` says: tell everybody, keep it a while for its client.
void or_round_finish(or_coordinator_t *coordinator, or_csession_t *session);

// verdicts.c
void or_round_on_verdict(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_verdict_t *verdict);

// troubles.c
void or_round_on_verifier_error(or_coordinator_t *coordinator, or_csession_t *session,
                                const or_error_t *error);
// It gave K and V of the session to others.
void or_round_on_evicted(or_csession_t *session, const or_kv_evicted_t *evicted);
void or_round_on_drafter_error(or_coordinator_t *coordinator, or_csession_t *session,
                               or_seat_t *seat, const or_error_t *error);
// A tree on another text: bring the text again, or let a drafter that does not mend go.
void or_round_on_misfit(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
// A verifier joined (again): open the session there and repeat what waits.
void or_round_on_verifier(or_coordinator_t *coordinator, or_csession_t *session);
// There is no verifier any more: wait for one, but not for ever.
void or_round_on_verifier_lost(or_coordinator_t *coordinator, or_csession_t *session);
// One of the session's drafters is gone.
void or_round_on_drafter_lost(or_coordinator_t *coordinator, or_csession_t *session,
                              or_seat_t *seat);

// slrs: the verifier asks what a drafter's text may begin with after a rejected guess, and the drafter
// answers. The coordinator passes both on, each with the receiver's view of the text.
#include "coordinator/coordinator_internal.h"

// Whose text the guesses of this round are.
static or_seat_t *guessing_seat(or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value != 0 && seat->drafted && seat->translator != NULL) {
            return seat;
        }
    }
    return NULL;
}

// A guess was rejected, and nothing but its drafter's psi can tell what is to be drawn instead: any
// other token would be biased.
void or_questions_fail(or_coordinator_t *c, or_csession_t *session)
{
    or_csession_fail(session, OR_WIRE_FAILED,
                     "the drafter was lost while the target waited for its probabilities: ask "
                     "again, or use --vocab-map tli --accept sps, which does without");
    or_round_finish(c, session);
}

void or_questions_ask(or_coordinator_t *c, or_csession_t *session, const or_psi_request_t *request)
{
    if (session->phase != OR_PHASE_VERDICT || request->round != session->round) {
        return;
    }
    const or_seat_t *seat = guessing_seat(session);
    if (seat == NULL) {
        or_questions_fail(c, session);
        return;
    }
    const or_token_log_t *held = or_drafting_log(session, seat);
    or_message_t message = {
        .type = OR_MSG_PSI_REQUEST, .session = session->id, .body.psi_request = *request};
    message.body.psi_request.base_length = held->length;
    message.body.psi_request.base_hash = held->hash;
    session->stats.psi_requests += session->psi_asked ? 0 : 1;
    session->psi_asked = true;
    or_coordinator_send(c, seat->peer, &message);
}

void or_questions_answer(or_coordinator_t *c, or_csession_t *session, const or_seat_t *seat,
                         const or_psi_reply_t *reply)
{
    if (session->phase != OR_PHASE_VERDICT || reply->round != session->round ||
        !session->psi_asked || seat != guessing_seat(session) || c->verifier == NULL) {
        return;
    }
    const or_message_t message = {
        .type = OR_MSG_PSI_REPLY, .session = session->id, .body.psi_reply = *reply};
    or_coordinator_send(c, c->verifier->peer, &message);
}

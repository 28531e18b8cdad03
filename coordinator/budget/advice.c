// What a user who chose the policy `fixed` cannot see: whether drafting paid on this line.
#include <stdio.h>

#include "coordinator/budget/policy_model.h"
#include "coordinator/coordinator_internal.h"

#define ROUNDS_MIN 32u     // with guesses, before their figures say anything
#define CLEARLY_FASTER 1.2 // than what was done

// A plain step is timed by rounds that judged guesses, so plain decoding is rather faster than is thought here;
// and where drafters are ahead, what is compared is the best that could have come of it.
void or_advice_at_end(or_csession_t *session)
{
    const or_policy_t *policy = &session->policy;
    bool fixed = !session->plain && policy->session.kind == OR_POLICY_FIXED;
    bool told = session->note[0] != '\0'; // of worse: a drafter that was dismissed
    if (!fixed || told || policy->drafted < ROUNDS_MIN || policy->count.times == 0 ||
        policy->batch >= 2) {
        return; // in shared passes the rates are the verifier's, not the text's
    }
    double drafted = or_policy_draft_rate(policy, policy->session.most.nodes);
    if (or_policy_plain_rate(policy) < CLEARLY_FASTER * drafted) {
        return;
    }
    snprintf(session->advice, sizeof session->advice,
             "drafting cost more time than it saved on this line (round trip to the drafter %.0f "
             "ms, a plain step "
             "%.0f ms): try --draft-policy auto",
             policy->mean.round_trip_ns / 1e6, policy->mean.plain_ns / 1e6);
}

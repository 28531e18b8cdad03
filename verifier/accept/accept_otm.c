// Optimal transport with membership cost for K i.i.d. children (SpecTr, Sun et al. 2023, section 4):
// of all lossless rules the one that accepts most, 1 - max_S [p(S)^K - q(S)].
//
// The distribution's tokens lie on a line from 1 down to 0, each as long as its p, some in several pieces. A
// child is a random point of its token's pieces. So the K children are K uniform points, and the one
// nearest to 1 is accepted, unless its piece is one that rejects.
//
//     1 ├── a ──┼─ b ─┼ c ┼─ b ─┼── a, rejects ──┤ 0        the first point lies between h and l < h
//                                                           with probability h^K - l^K: near 1 is worth most
//
// Tokens are laid one after the other, in any order, each as one stretch of what is still free
// (which thereby falls into pieces):
//
//     worth at most q(x) even at the near end     there; less than q(x) is accepted as x
//     worth more than q(x) even at the far end    there; what is worth more than q(x) rejects
//     else                                        where it is worth q(x)
//
// That loses nothing. Let E(t) be the worth of the far t of what is free; what must be rejected is the
// largest E(p(S)) - q(S) over sets S of the tokens that are not laid yet. In the first case no S is
// better with x than without, in the second none is better without; in the third those that reach
// beyond x's place are better with it, the others without, and either value stays what it was.
//
// Lossless for any layout: what is accepted as x is the worth of its pieces, and y ~ N[q - that].
#include "verifier/accept/accept_internal.h"

#define STEPS 64u // halvings of a stretch of the line
#define PIECES_MAX                                                                                 \
    (3u * OR_DISTRIBUTION_ENTRIES_MAX + 1) // laying a token cuts the line three times at most

typedef struct {
    double high, low;
    uint32_t token; // index in the distribution
    bool accepts;
} piece_t;

typedef struct {
    const or_iid_t *iid;
    piece_t free[PIECES_MAX]; // from 1 down
    uint32_t free_count;
    double free_length;
    piece_t laid[PIECES_MAX];
    uint32_t laid_count;
} line_t;

// Return high^K - low^K, without cancellation.
static double worth_of(const line_t *line, const piece_t *piece)
{
    double sum = 0;
    double low_power = 1;
    for (uint32_t i = 0; i < line->iid->children; i++) {
        sum = sum * piece->high + low_power;
        low_power *= piece->low;
    }
    return (piece->high - piece->low) * sum;
}

// Return the part of a free piece that lies between `from` and `to` of the free line; `before` is the length of the
// free pieces before it.
static piece_t cut(const piece_t *free, double before, double from, double to)
{
    piece_t part = *free;
    double length = free->high - free->low;
    part.high = from > before ? free->high - (from - before) : free->high;
    part.low = to < before + length ? free->high - (to - before) : free->low;
    return part;
}

static double worth_between(const line_t *line, double from, double to)
{
    double worth = 0;
    double before = 0;
    for (uint32_t i = 0; i < line->free_count && before < to; i++) {
        piece_t part = cut(&line->free[i], before, from, to);
        worth += part.high > part.low ? worth_of(line, &part) : 0;
        before += line->free[i].high - line->free[i].low;
    }
    return worth;
}

static void put_piece(piece_t *pieces, uint32_t *count, double high, double low, uint32_t token,
                      bool accepts)
{
    if (high > low) {
        pieces[(*count)++] = (piece_t){high, low, token, accepts};
    }
}

// Take this stretch out of the free line.
static void lay(line_t *line, double from, double to, uint32_t token, bool accepts)
{
    piece_t left[PIECES_MAX];
    uint32_t left_count = 0;
    double before = 0;
    for (uint32_t i = 0; i < line->free_count; i++) {
        const piece_t *free = &line->free[i];
        piece_t part = cut(free, before, from, to);
        before += free->high - free->low;
        if (!(part.high > part.low)) {
            put_piece(left, &left_count, free->high, free->low, 0, false);
            continue;
        }
        put_piece(line->laid, &line->laid_count, part.high, part.low, token, accepts);
        put_piece(left, &left_count, free->high, part.high, 0, false);
        put_piece(left, &left_count, part.low, free->low, 0, false);
    }
    line->free_count = left_count;
    line->free_length = 0;
    for (uint32_t i = 0; i < left_count; i++) {
        line->free[i] = left[i];
        line->free_length += left[i].high - left[i].low;
    }
}

// Find the beginning, between 0 and `last`, of a stretch of `length` that is worth `worth`.
static double find_place(const line_t *line, double length, double last, double worth)
{
    double low = 0;
    double high = last;
    for (uint32_t i = 0; i < STEPS; i++) {
        double middle = low + (high - low) / 2;
        if (worth_between(line, middle, middle + length) > worth) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

// Find how far to go from `from`, at most `length`, until the stretch is worth `worth`.
static double find_length(const line_t *line, double from, double length, double worth)
{
    double low = 0;
    double high = length;
    for (uint32_t i = 0; i < STEPS; i++) {
        double middle = low + (high - low) / 2;
        if (worth_between(line, from, from + middle) < worth) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void lay_token(line_t *line, uint32_t token)
{
    double length = line->iid->p[token];
    double q = line->iid->q[token];
    double last = line->free_length > length ? line->free_length - length : 0;
    if (!(q > 0)) { // of the second kind, and nothing of it may pass, however small worths round
        lay(line, last, last + length, token, false);
    } else if (q >= worth_between(line, 0, length)) {
        lay(line, 0, length, token, true);
    } else if (q > worth_between(line, last, last + length)) {
        double place = find_place(line, length, last, q);
        lay(line, place, place + length, token, true);
    } else {
        double kept = find_length(line, last, length, q);
        lay(line, last + kept, last + length, token, false);
        lay(line, last, last + kept, token, true);
    }
}

static void lay_all(line_t *line, const or_iid_t *iid)
{
    line->iid = iid;
    line->free[0] = (piece_t){.high = 1, .low = 0};
    line->free_count = 1;
    line->free_length = 1;
    line->laid_count = 0;
    for (uint32_t i = 0; i < iid->dist.count; i++) {
        lay_token(line, i);
    }
}

// Draw the piece on which the child's point lies.
static const piece_t *draw_piece(const line_t *line, uint32_t child, uint32_t order)
{
    const or_accept_job_t *job = line->iid->job;
    uint32_t token = or_iid_place(line->iid, child);
    double lengths[PIECES_MAX];
    const piece_t *pieces[PIECES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < line->laid_count; i++) {
        if (line->laid[i].token == token) {
            pieces[count] = &line->laid[i];
            lengths[count++] = line->laid[i].high - line->laid[i].low;
        }
    }
    or_choice_t at = {OR_RNG_ACCEPT, line->iid->node, order};
    return pieces[job->chooser->draw(job->chooser, at, lengths, count)];
}

static const piece_t *first_piece(const line_t *line)
{
    const or_accept_job_t *job = line->iid->job;
    const piece_t *first = NULL;
    uint32_t order = 0;
    for (uint32_t child = or_token_tree_first_child(job->tree, line->iid->node); child != 0;
         child = or_token_tree_next_sibling(job->tree, child)) {
        const piece_t *piece = draw_piece(line, child, order++);
        first = first == NULL || piece->high > first->high ? piece : first;
    }
    return first;
}

static int32_t choose(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place)
{
    (void)place;
    or_iid_t iid;
    line_t line;
    if (!or_iid_open(&iid, job, node, q)) {
        return or_iid_draw(&iid);
    }
    lay_all(&line, &iid);
    const piece_t *first = first_piece(&line);
    if (first->accepts) {
        return (int32_t)iid.dist.tokens[first->token];
    }
    double taken[OR_DISTRIBUTION_ENTRIES_MAX] = {0};
    for (uint32_t i = 0; i < line.laid_count; i++) {
        const piece_t *piece = &line.laid[i];
        taken[piece->token] += piece->accepts ? worth_of(&line, piece) : 0;
    }
    return or_iid_draw_rest(&iid, taken);
}

const or_accept_row_t or_accept_otm = {.rule = OR_ACCEPT_OTM, .choose = choose};

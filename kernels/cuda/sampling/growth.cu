// A draft tree takes in the children of the rows that were run, and chooses which are run next.
#include "kernels/cuda/sampling/growth.cuh"

#define GROWERS 128u // threads

static_assert(GROWERS > OR_CUDA_GROWTH_MAX,
              "a thread for each guess and the root, and for each row");

// ---- the tree ----

// The tree of a thread block, in shared memory.
typedef struct {
    uint32_t nodes;
    uint32_t count; // guesses besides the root
    or_cuda_guess_t guesses[OR_CUDA_GROWTH_MAX + 1];
    uint32_t order[OR_CUDA_GROWTH_MAX];
    uint32_t batch_count;
    uint32_t batch[OR_CUDA_GROWTH_MAX];
    children_t children[OR_CUDA_GROWTH_MAX]; // of the batch
    double believed[OR_CUDA_GROWTH_MAX + 1]; // e^weight, by guess
} tree_t;

OR_DEVICE void load_tree(const or_cuda_growth_t *growth, tree_t *tree)
{
    uint32_t i = threadIdx.x;
    if (i == 0) {
        tree->nodes = least_of(growth->nodes, OR_CUDA_GROWTH_MAX);
        tree->count = least_of(growth->guess_count, tree->nodes);
        tree->batch_count = batch_count_of(growth);
    }
    if (i <= OR_CUDA_GROWTH_MAX) {
        tree->guesses[i] = growth->guesses[i];
    }
    if (i < OR_CUDA_GROWTH_MAX) {
        uint32_t place = growth->begun != 0 ? growth->order[i] : i + 1;
        tree->order[i] = least_of(place, OR_CUDA_GROWTH_MAX);
        tree->batch[i] = batch_place(growth, i);
    }
    or_block_wait();
}

OR_DEVICE void load_children(const children_t *children, tree_t *tree)
{
    for (uint32_t i = threadIdx.x; i < tree->batch_count * CHILDREN; i += GROWERS) {
        const children_t *from = &children[i / CHILDREN];
        children_t *to = &tree->children[i / CHILDREN];
        to->weights[i % CHILDREN] = from->weights[i % CHILDREN];
        to->ids[i % CHILDREN] = from->ids[i % CHILDREN];
        to->widths[i % CHILDREN] = from->widths[i % CHILDREN];
    }
    or_block_wait();
}

OR_DEVICE void store_tree(const tree_t *tree, or_cuda_growth_t *growth)
{
    uint32_t i = threadIdx.x;
    if (i == 0) {
        growth->begun = 1;
        growth->guess_count = tree->count;
        growth->batch_count = tree->batch_count;
    }
    if (i <= OR_CUDA_GROWTH_MAX) {
        growth->guesses[i] = tree->guesses[i];
    }
    if (i < OR_CUDA_GROWTH_MAX) {
        growth->order[i] = tree->order[i];
        growth->batch[i] = tree->batch[i];
    }
}

OR_DEVICE const or_cuda_guess_t *guess_at(const tree_t *tree, uint32_t i)
{
    return &tree->guesses[tree->order[i]];
}

// Equal weights: the shallower, so that a parent comes before its children.
OR_DEVICE bool is_before(const or_cuda_guess_t *a, const or_cuda_guess_t *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->depth < b->depth);
}

// ---- offering ----
//
// The children of one row come one after the other, best first. Each finds room, or takes the place of the tree's
// last guess if it weighs more, or ends the row. Since both are in order, how many find a place can be said at once.

// Return for how many of 0 .. count - 1 `holds` is true; it is true first and then false.
template <typename holds_t> OR_DEVICE uint32_t count_first(uint32_t count, holds_t holds)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (holds(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Count the lanes of a warp that say yes. Called by a whole warp.
OR_DEVICE uint32_t count_lanes(bool yes)
{
    uint32_t count = yes ? 1 : 0;
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        count += or_shuffle_xor(count, mask);
    }
    return count;
}

OR_DEVICE or_cuda_guess_t child_of(const or_cuda_guess_t *parent, uint32_t parent_place,
                                   const children_t *children, uint32_t rank)
{
    or_cuda_guess_t child;
    uint32_t width = children->widths[rank];
    child.token = children->ids[rank];
    child.parent = parent_place;
    child.depth = parent->depth + 1;
    child.slot = NO_SLOT;
    child.byte_offset = parent->byte_offset + width; // or_noise_advance
    child.zero_width = width > 0 ? 0 : parent->zero_width + 1;
    child.weight = parent->weight + children->weights[rank];
    return child;
}

// Would the child come into the tree, behind its better siblings?
OR_DEVICE bool finds_place(const tree_t *tree, const or_cuda_guess_t *child, uint32_t rank)
{
    if (!(child->weight > -INFINITY) || rank >= tree->nodes) {
        return false;
    }
    return tree->count + rank < tree->nodes ||
           child->weight > guess_at(tree, tree->nodes - 1 - rank)->weight;
}

// The new place of the guess at place i of the order.
typedef struct {
    uint32_t guess;
    uint32_t to; // in the order; UINT32_MAX: there is none
} move_t;

// Let `taken` of the children in, which get the places of the guesses that leave. Called by a whole warp.
OR_DEVICE void merge_children(tree_t *tree, const or_cuda_guess_t *news, uint32_t taken)
{
    uint32_t lane = threadIdx.x;
    uint32_t kept = least_of(tree->count, tree->nodes - taken);
    move_t moves[OR_CUDA_GROWTH_MAX / WARP];
    for (uint32_t k = 0; k < OR_CUDA_GROWTH_MAX / WARP; k++) {
        uint32_t i = lane + k * WARP;
        moves[k] = {tree->order[i], UINT32_MAX};
        if (i < kept) {
            moves[k].to = i + count_first(taken, [=](uint32_t rank) {
                              return is_before(&news[rank], guess_at(tree, i));
                          });
        }
    }
    move_t own = {0, UINT32_MAX};
    if (lane < taken) {
        own.guess = tree->count + lane < tree->nodes ? tree->count + lane + 1
                                                     : tree->order[tree->nodes - 1 - lane];
        own.to = lane + count_first(kept, [=](uint32_t i) {
                     return !is_before(&news[lane], guess_at(tree, i));
                 });
    }
    or_warp_wait(); // until all have read
    for (uint32_t k = 0; k < OR_CUDA_GROWTH_MAX / WARP; k++) {
        if (moves[k].to != UINT32_MAX) {
            tree->order[moves[k].to] = moves[k].guess;
        }
    }
    if (own.to != UINT32_MAX) {
        tree->order[own.to] = own.guess;
        tree->guesses[own.guess] = news[lane];
    }
    if (lane == 0) {
        tree->count = kept + taken;
    }
    or_warp_wait();
}

// Offer a row's contenders as children of its guess. Called by a whole warp.
OR_DEVICE void offer_children(tree_t *tree, uint32_t parent, const children_t *children)
{
    OR_SHARED(or_cuda_guess_t, news, CHILDREN);
    uint32_t lane = threadIdx.x;
    news[lane] = child_of(&tree->guesses[parent], parent, children, lane);
    uint32_t taken = count_lanes(finds_place(tree, &news[lane], lane));
    or_warp_wait();
    if (taken > 0) {
        merge_children(tree, news, taken);
    }
}

// Offer the children of the whole batch. A guess of the batch that has left since, for others' children, has none
// that could stay. Called by a whole warp.
OR_DEVICE void offer_batch(tree_t *tree)
{
    for (uint32_t i = 0; i < tree->batch_count; i++) {
        uint32_t parent = tree->batch[i];
        if (tree->guesses[parent].slot != NO_SLOT) {
            offer_children(tree, parent, &tree->children[i]);
        }
    }
}

// ---- choosing ----

// Return how many rows may still be run at once.
OR_DEVICE uint32_t rows_left(const or_cuda_growth_t *growth, uint32_t rows, uint32_t passes,
                             uint32_t taken)
{
    uint32_t slots = least_of(growth->free_slot_count, OR_CUDA_GROWTH_ROWS);
    if (passes >= growth->passes || taken >= slots) {
        return 0;
    }
    return least_of(least_of(rows, OR_CUDA_GROWTH_MAX), slots - taken);
}

// Choose the guesses whose children could still enter the tree, from the best on. Called by one thread.
OR_DEVICE uint32_t choose_batch(tree_t *tree, uint32_t depth, uint32_t most, double nearly)
{
    uint32_t count = tree->count;
    bool is_full = count > 0 && count == tree->nodes;
    double least = is_full ? guess_at(tree, count - 1)->weight : -INFINITY;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count && found < most; i++) {
        const or_cuda_guess_t *guess = guess_at(tree, i);
        if (!(guess->weight > least)) {
            break;
        }
        if (guess->slot == NO_SLOT && guess->depth < depth) {
            double floor = guess->weight - nearly;
            least = found == 0 && floor > least ? floor : least;
            tree->batch[found++] = tree->order[i];
        }
    }
    return found;
}

OR_DEVICE double sum_believed(const tree_t *tree, const uint32_t *places, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += tree->believed[places[i]];
    }
    return sum;
}

// Does the batch bring enough probability? Called by one thread.
OR_DEVICE bool pays(const tree_t *tree, double share, uint32_t batch_count)
{
    return share <= 0 || sum_believed(tree, tree->batch, batch_count) >=
                             share * (1 + sum_believed(tree, tree->order, tree->count));
}

// Choose the next batch, with its slots. Called by all threads.
OR_DEVICE void choose_rows(const or_cuda_growth_t *growth, uint32_t rows, uint32_t passes,
                           uint32_t taken, tree_t *tree)
{
    if (growth->share > 0 && threadIdx.x <= tree->count) {
        tree->believed[threadIdx.x] = inline_exp(tree->guesses[threadIdx.x].weight);
    }
    or_block_wait();
    if (threadIdx.x == 0) {
        uint32_t most = rows_left(growth, rows, passes, taken);
        uint32_t found = choose_batch(tree, growth->depth, most, growth->nearly);
        tree->batch_count = pays(tree, growth->share, found) ? found : 0;
        for (uint32_t i = 0; i < tree->batch_count; i++) {
            tree->guesses[tree->batch[i]].slot = growth->free_slots[taken + i];
        }
    }
    or_block_wait();
}

// ---- tables ----

// Write one row of the tables. A row beyond the batch is a shadow of its first. Called by one thread.
OR_DEVICE void write_row(const or_cuda_growth_t *growth, const tree_t *tree, uint32_t row,
                         const or_cuda_growth_tables_t *tables)
{
    bool is_shadow = row >= tree->batch_count;
    const or_cuda_guess_t *guess = &tree->guesses[tree->batch[is_shadow ? 0 : row]];
    uint32_t depth = least_of(guess->depth, OR_CUDA_GROWTH_MAX);
    uint32_t position = growth->committed + depth - 1;
    uint32_t *chain = tables->chains + (size_t)row * OR_CUDA_GROWTH_MAX;
    const or_cuda_guess_t *above = guess;
    for (uint32_t i = depth; i-- > 0;) {
        chain[i] = above->slot;
        above = &tree->guesses[least_of(above->parent, OR_CUDA_GROWTH_MAX)];
    }
    tables->tokens[row] = guess->token;
    tables->positions[row] = position;
    tables->seen[row] = {growth->table,
                         growth->committed,
                         position,
                         growth->slots,
                         growth->slots_max,
                         is_shadow ? OR_CUDA_SHADOW : guess->slot,
                         chain,
                         depth};
    tables->contests[row] = growth->contest;
    tables->contests[row].byte_offset = guess->byte_offset;
    tables->contests[row].zero_width = guess->zero_width;
}

// ---- a step ----

OR_GLOBAL void grow_tree(or_cuda_growth_t *growth, uint32_t rows, const uint32_t *counts,
                         const children_t *children, or_cuda_growth_tables_t tables,
                         or_cuda_grown_t *grown, or_cuda_loop_t loop)
{
    OR_SHARED(tree_t, tree, 1);
    load_tree(growth, tree);
    uint32_t ran = tree->batch_count;
    uint32_t passes = grown->passes + (ran > 0 ? 1 : 0);
    told_t before = told_with(grown, counts, 0);
    told_t told = told_with(grown, counts, ran);
    bool goes_on = growth->begun == 0 || (ran > 0 && told.rows - before.rows == ran);
    or_block_wait();
    if (goes_on) {
        load_children(children, tree);
        if (threadIdx.x < WARP) {
            offer_batch(tree);
        }
        or_block_wait();
        choose_rows(growth, rows, passes, told.rows, tree);
    }
    bool again = goes_on && tree->batch_count > 0;
    if (again && threadIdx.x < rows && threadIdx.x < OR_CUDA_GROWTH_MAX) {
        write_row(growth, tree, threadIdx.x, &tables);
    }
    or_block_wait(); // until all have read
    if (threadIdx.x == 0) {
        tree->batch_count = again ? tree->batch_count : 0;
        grown->passes = passes;
        grown->row_count = told.rows;
        grown->contender_count = told.contenders;
        or_go_on(loop, again);
    }
    store_tree(tree, growth);
}

size_t or_cuda_grow_bytes(uint32_t rows)
{
    return rows * sizeof(children_t);
}

int or_cuda_grow(or_cuda_t *cuda, or_cuda_growth_t *growth, uint32_t rows,
                 const uint64_t *token_keys, const uint32_t *widths,
                 const or_cuda_contender_t *list, const uint32_t *counts, void *scratch,
                 const or_cuda_growth_tables_t *tables, or_cuda_grown_t *grown, or_cuda_loop_t loop)
{
    if (rows == 0) {
        return OR_CUDA_OK;
    }
    children_t *children = (children_t *)scratch;
    int status = or_cuda_list_children(cuda, growth, rows, token_keys, widths, list, counts,
                                       children, grown);
    if (status == OR_CUDA_OK) {
        status = or_launch(cuda, grow_tree, dim3(1), dim3(GROWERS), 0, growth, rows, counts,
                           children, *tables, grown, loop);
    }
    return status;
}

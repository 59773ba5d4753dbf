/* thread_folds.c - threads that share a row of the spool: those of a name of which many have ended.
 *
 * A server that makes a thread for each request would else leave a row and a tree for each.  So each thread has a row of its
 * own until FOLD_AFTER threads of its name have ended, or FOLD_AFTER_ALL of all names; those that begin later are one row with
 * the others of their name, from their first record on, and stay in it however long they live (where only the kernel has named them,
 * as with `--mode sample`, all are `python`: then those that live for a second have rows of their own).  Numbers in a name do not
 * count: `Thread-12 (handle)` is `Thread-* (handle)`.  The first thread is never folded.  What is done later for calls of a folded
 * thread (backward_work.h) has no place in the tree.
 *
 * Context: as drain.h.
 */
#include "exact_parts.h"

#include <string.h>

#include "map.h"
#include "thread.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void without_numbers(char *to, const char *name)
{
    size_t n = 0;
    for (; *name && n < FOLD_NAME_MAX - 1; name++)
        if (!is_digit(*name))
            to[n++] = *name;
        else if (!n || to[n - 1] != '*' || !is_digit(name[-1]))
            to[n++] = '*';
    to[n] = 0;
}

static struct thread_fold *of_name(struct thread_folds *f, const char *name)
{
    char wanted[FOLD_NAME_MAX];
    without_numbers(wanted, name);
    bool is_full = f->n_names >= FOLD_NAMES;
    struct thread_fold *each = f->first;
    while (each && strcmp(each->name, wanted))
        each = each->next;
    if (!each && is_full) /* the first one that there was no place for is `*` */
        for (each = f->first; each && strcmp(each->name, "*");)
            each = each->next;
    if (each || !(each = map_memory(sizeof *each)))
        return each;
    memcpy(each->name, is_full ? "*" : wanted, is_full ? 2 : sizeof wanted);
    each->next = f->first;
    f->first = each;
    f->n_names++;
    return each;
}

static void write_folded(struct thread_folds *f, struct thread_fold *each)
{
    struct spool_folded head = {.index = each->index, .n_threads = each->n_threads};
    spool_replace(f->spool, &each->folded_place, SPOOL_FOLDED, sizeof head, &head, sizeof head,
                  NULL, 0);
}

static void begin(struct thread_folds *f, struct thread_fold *each, struct spool_thread record)
{
    struct spool_thread_name name = {record.index, NAME_THREADING};
    each->index = each->sum.thread = record.index;
    each->sum.n_losses = N_LOSSES;
    record.tid = TIDS_MAX + record.index;
    spool_append(f->spool, SPOOL_THREAD, &record, sizeof record, NULL, 0);
    spool_append(f->spool, SPOOL_THREAD_NAME, &name, sizeof name, each->name, strlen(each->name));
}

static bool are_many(const struct thread_folds *f, const struct thread_fold *each)
{
    return each && (each->n_ended >= FOLD_AFTER || f->n_ended >= FOLD_AFTER_ALL);
}

bool thread_folds_are_many(struct thread_folds *f, const char *name)
{
    return are_many(f, of_name(f, name));
}

struct thread_fold *thread_folds_row(struct thread_folds *f, struct spool_thread record,
                                     const char *name, bool can_be_folded, struct thread_fold **of)
{
    struct thread_fold *each = *of = of_name(f, name);
    if (!are_many(f, each) || !can_be_folded) {
        spool_append(f->spool, SPOOL_THREAD, &record, sizeof record, NULL, 0);
        return NULL;
    }
    if (!each->index)
        begin(f, each, record);
    each->n_threads++;
    each->is_changed = true;
    return each;
}

void thread_folds_end(struct thread_folds *f, struct thread_fold *of)
{
    f->n_ended++;
    of->n_ended++;
}

void thread_folds_count(struct thread_fold *f, const struct spool_counters *now,
                        const struct spool_counters *before)
{
    struct spool_counters *sum = &f->sum;
    f->is_changed = true;
    sum->signals += now->signals - before->signals;
    sum->recorded += now->recorded - before->recorded;
    sum->recorded_weight += now->recorded_weight - before->recorded_weight;
    sum->missed_weight += now->missed_weight - before->missed_weight;
    sum->cpu_ns += now->cpu_ns - before->cpu_ns;
    for (int i = 0; i < N_LOSSES; i++) {
        sum->lost[i] += now->lost[i] - before->lost[i];
        sum->lost_weight[i] += now->lost_weight[i] - before->lost_weight[i];
    }
    for (int i = 0; i < SPOOL_HISTOGRAM; i++)
        sum->handler_ns[i] += now->handler_ns[i] - before->handler_ns[i];
}

void thread_folds_write(struct thread_folds *f)
{
    for (struct thread_fold *each = f->first; each; each = each->next) {
        if (!each->is_changed)
            continue;
        each->is_changed = false;
        write_folded(f, each);
        spool_replace(f->spool, &each->sum_place, SPOOL_COUNTERS, sizeof each->sum, &each->sum,
                      sizeof each->sum, NULL, 0);
    }
}

void thread_folds_free(struct thread_folds *f)
{
    for (struct thread_fold *each; (each = f->first);) {
        f->first = each->next;
        exact_fold_free(each->trace);
        map_memory_free(each, sizeof *each);
    }
}

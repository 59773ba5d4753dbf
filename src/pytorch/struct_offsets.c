/* struct_offsets.c - where a RecordFunction object and a thread's memory have what is not exported.
 *
 * While operators run whose nodes' numbers are known, all objects are noted, and all words of the thread's memory compared with
 * the counter.  A place counts if it alone has the right value each time, and the values differ.
 *
 * Context: one thread, with the GIL.
 */
#include "pytorch.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define WORDS 48   /* of an object: more than any version's has */
#define RECORDS 64 /* of a scope */
#define TLS_WORDS 4096

static const struct torch_library *library;
static uint64_t callback[3];
static struct {
    uint64_t word[RECORDS][WORDS];
    uint32_t n;
} seen[3]; /* by scope: function, backward, user */
static bool possible[TLS_WORDS];
static uint64_t first_counter, last_counter;

static void note(int scope, const void *record)
{
    if (seen[scope].n == RECORDS)
        return;
    uint64_t *to = seen[scope].word[seen[scope].n++];
    memset(to, 0xff, sizeof *seen[scope].word);
    /* It may be shorter, and nothing behind it. */
    struct iovec here = {to, sizeof *seen[scope].word}, there = {(void *)record, here.iov_len};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0)
        memset(to, 0xff, sizeof *seen[scope].word);
}

#define START(name, scope)                                                                         \
    static void *name(void **context, const void *record)                                          \
    {                                                                                              \
        *context = NULL;                                                                           \
        note(scope, record);                                                                       \
        return context;                                                                            \
    }
START(on_function, 0)
START(on_backward, 1)
START(on_user, 2)

static void on_end(const void *record, void *context)
{
    (void)record;
    (void)context;
}

void proof_begin(const struct torch_library *of)
{
    static const struct {
        void *(*start)(void **, const void *);
        int scope;
    } all[] = {{on_function, SCOPE_FUNCTION}, {on_backward, SCOPE_BACKWARD}, {on_user, SCOPE_USER}};
    library = of;
    memset(possible, 1, sizeof possible);
    first_counter = last_counter = library->next_number();
    for (int i = 0; i < 3; i++) {
        seen[i].n = 0;
        struct record_callback c = {
            .start = all[i].start, .end = on_end, .sampling_probability = 1.0};
        c.scopes[all[i].scope] = true;
        callback[i] = library->add_thread_callback(c);
    }
}

void proof_end(void)
{
    for (int i = 0; i < 3; i++)
        library->remove_callback(callback[i]);
}

static uint32_t n_tls_words(void)
{
    uint64_t n = library->tls_bytes / 8;
    return n < TLS_WORDS ? (uint32_t)n : TLS_WORDS;
}

void proof_compare(void)
{
    const uint64_t *tls = torch_library_tls(library, 0);
    last_counter = library->next_number();
    for (uint32_t i = 0; i < n_tls_words(); i++)
        possible[i] &= tls[i] == last_counter;
}

/* The one place where all backward records have `value[i]`, and all others none of them.  0: it is not the only one, or
 * there is none. */
static uint32_t only_place(const uint64_t *value, bool is_absent_elsewhere)
{
    uint32_t found = 0, n_found = 0;
    for (uint32_t at = 1; at < WORDS; at++) {
        bool fits = true;
        for (uint32_t i = 0; i < seen[1].n; i++)
            fits &= seen[1].word[i][at] == value[i];
        for (int scope = 0; is_absent_elsewhere && scope < 3; scope += 2)
            for (uint32_t i = 0; i < seen[scope].n; i++)
                fits &= seen[scope].word[i][at] == 0;
        if (!fits)
            continue;
        found = at;
        n_found++;
    }
    return n_found == 1 ? found * 8 : 0;
}

const char *proof_of(const uint64_t *numbers, uint32_t n, struct torch_places *places)
{
    uint64_t maker[RECORDS];
    if (n < 4 || n != seen[1].n || !seen[0].n || !seen[2].n)
        return "records of backward functions do not come";
    for (uint32_t i = 0; i < n; i++) {
        maker[i] = library->thread_id();
        if (i && numbers[i] <= numbers[i - 1])
            return "numbers of autograd nodes do not grow";
    }
    if (last_counter != numbers[n - 1] + 1 || first_counter > numbers[0])
        return "numbers of autograd nodes are not the thread's";
    if (!(places->number = only_place(numbers, false)))
        return "the place of a node's number";
    if (!(places->maker = only_place(maker, true)))
        return "the place of a node's thread";
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < n_tls_words(); i++)
        if (possible[i]) {
            places->counter = 8ull * i;
            n_found++;
        }
    return n_found == 1 ? NULL : "the place of a thread's counter";
}

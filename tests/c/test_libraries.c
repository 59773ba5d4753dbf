/* What a table of our own has of loaded objects, beside what the C library has. */
#include "unit.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "libraries.h"
#include "memread.h"

#define ONE FIXTURES "/dwarf4.so"
#define OTHER FIXTURES "/dwarf5.so" /* the same code */
#define ROUNDS 300

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return library;
}

static uint64_t base_of(void *library)
{
    struct link_map *map;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    return map->l_addr;
}

static void use_table(void)
{
    assert_int_equal(memread_init(), 0);
    libraries_use_table(true);
    libraries_update();
}

static bool by_table(uint64_t address, struct library *o)
{
    libraries_use_table(true);
    return libraries_find(address, o);
}

static bool by_libc(uint64_t address, struct library *o)
{
    libraries_use_table(false);
    return libraries_find(address, o);
}

static int compare_object(struct dl_phdr_info *info, size_t size, void *n)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uint64_t at = info->dlpi_addr + h->p_vaddr;
        struct library table, libc;
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
            continue;
        assert_true(by_table(at, &table));
        assert_true(by_libc(at, &libc)); /* its mapping may be given in whole pages */
        assert_true(table.start <= at && at < table.end);
        assert_ptr_equal(table.eh_frame, libc.eh_frame);
        ++*(int *)n;
    }
    return 0;
}

static void all_objects_are_as_libc_has_them(void **state)
{
    (void)state;
    int n = 0;
    use_table();
    dl_iterate_phdr(compare_object, &n);
    assert_true(n >= 3); /* this program, libc, the vdso */
}

static void what_no_object_covers_is_unknown(void **state)
{
    (void)state;
    struct library o;
    int here;
    use_table();
    assert_false(by_table(0, &o));
    assert_false(by_table((uint64_t)&here, &o));
    assert_false(by_table(~0ull, &o));
}

static void a_library_is_known_after_an_update(void **state)
{
    (void)state;
    struct library o;
    use_table();
    void *library = load(ONE);
    uint64_t base = base_of(library);
    assert_true(libraries_update());
    assert_false(libraries_update());
    assert_true(by_table(base, &o));
    assert_int_equal(o.start, base);
    dlclose(library);
    assert_false(by_table(base, &o)); /* before it is updated */
    libraries_update();
    assert_false(by_table(base, &o));
}

/* It may have come to the place of one that the table still has. */
static void another_library_is_not_taken_for_it(void **state)
{
    (void)state;
    struct library o;
    int n_same = 0;
    use_table();
    for (int i = 0; i < 10; i++) {
        void *library = load(ONE);
        uint64_t base = base_of(library);
        libraries_update();
        dlclose(library);
        library = load(OTHER);
        if (base_of(library) == base) {
            n_same++;
            assert_false(by_table(base, &o));
        }
        dlclose(library);
        libraries_update();
    }
    assert_true(n_same > 0);
}

static atomic_bool done;
static _Atomic long n_found;

static void *find_always(void *address)
{
    struct library o;
    while (!done) {
        /* The table lags at most TRIES times behind one look. */
        n_found += libraries_find((uint64_t)address, &o) && o.start <= (uint64_t)address &&
                   (uint64_t)address < o.end && o.eh_frame;
    }
    return NULL;
}

static void it_changes_while_others_look(void **state)
{
    (void)state;
    pthread_t thread;
    use_table();
    assert_int_equal(pthread_create(&thread, NULL, find_always, (void *)(uint64_t)&printf), 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *library = load(i % 2 ? ONE : OTHER);
        libraries_update();
        dlclose(library);
        libraries_update();
    }
    while (n_found < ROUNDS)
        sched_yield();
    done = true;
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_objects_are_as_libc_has_them),
        cmocka_unit_test(what_no_object_covers_is_unknown),
        cmocka_unit_test(a_library_is_known_after_an_update),
        cmocka_unit_test(another_library_is_not_taken_for_it),
        cmocka_unit_test(it_changes_while_others_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

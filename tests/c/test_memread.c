/* Each check runs twice: with process_vm_readv, and in a child where a seccomp filter refuses it. */
#include "unit.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memread.h"

#define PAGE 4096ull
#define PAGES 200 /* more than memread_pages asks for at once */

/* PAGES readable pages, then one that is not. */
static unsigned char *pages;

static uint64_t at(uint64_t offset)
{
    return (uint64_t)pages + offset;
}

static int set_up(void **state)
{
    (void)state;
    pages =
        mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return -1;
    for (size_t i = 0; i < PAGES * PAGE; i++)
        pages[i] = (unsigned char)(i * 7 + i / PAGE);
    return mprotect(pages + PAGES * PAGE, PAGE, PROT_NONE);
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(pages, (PAGES + 1) * PAGE);
}

/* A check returns NULL, or what is wrong: it may run in a child. */
typedef const char *check(void);

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            return #x;                                                                             \
    } while (0)

static const char *readable_memory_is_copied(void)
{
    unsigned char to[300];
    static const size_t sizes[] = {1, 7, 8, 9, 300};
    for (size_t i = 0; i < 5; i++) {
        memset(to, 0xaa, sizeof to);
        CHECK(memread(to, at(33), sizes[i]));
        CHECK(!memcmp(to, pages + 33, sizes[i]));
        CHECK(sizes[i] == sizeof to || to[sizes[i]] == 0xaa);
    }
    return NULL;
}

static const char *a_boundary_between_readable_pages_is_crossed(void)
{
    unsigned char to[2 * PAGE];
    CHECK(memread(to, at(PAGE - 3), 8) && !memcmp(to, pages + PAGE - 3, 8));
    CHECK(memread(to, at(PAGE - 1), 2 * PAGE) && !memcmp(to, pages + PAGE - 1, 2 * PAGE));
    return NULL;
}

static const char *unreadable_memory_is_refused(void)
{
    uint64_t to = 1;
    CHECK(!memread(&to, at(PAGES * PAGE), 8));
    CHECK(!memread(&to, at(PAGES * PAGE + 100), 1));
    CHECK(!munmap(pages + 5 * PAGE, PAGE));
    CHECK(!memread(&to, at(5 * PAGE), 8));
    CHECK(memread(&to, at(5 * PAGE - 8), 8) && memread(&to, at(6 * PAGE), 8));
    return NULL;
}

static const char *pages_are_probed(void)
{
    CHECK(memread_probe(at(0)) && memread_probe(at(PAGE + 1)) && memread_probe(at(2 * PAGE - 1)));
    CHECK(!memread_probe(at(PAGES * PAGE)) && !memread_probe(at(PAGES * PAGE + 4095)));
    CHECK(memread_probe(at(PAGES * PAGE - 1)));
    CHECK(!munmap(pages + 5 * PAGE, PAGE));
    CHECK(!memread_probe(at(5 * PAGE)) && memread_probe(at(6 * PAGE)));
    CHECK(!memread_probe(0) && !memread_probe(8) && !memread_probe(1ull << 47));
    CHECK(!memread_probe(~0ull));
    return NULL;
}

static const char *a_read_into_unreadable_memory_is_refused(void)
{
    unsigned char to[2 * PAGE + 16];
    CHECK(memread(to, at(PAGES * PAGE - 8), 8));
    CHECK(!memread(to, at(PAGES * PAGE - 7), 8));
    CHECK(!memread(to, at(PAGES * PAGE - 8), PAGE + 16));
    CHECK(!mprotect(pages + PAGE, PAGE, PROT_NONE));
    CHECK(!memread(to, at(PAGE - 8), 2 * PAGE + 16)); /* its ends are readable */
    return NULL;
}

static const char *addresses_that_no_program_has_are_refused(void)
{
    uint64_t to;
    CHECK(!memread(&to, 0, 8));
    CHECK(!memread(&to, 8, 8));
    CHECK(!memread(&to, PAGE - 1, 1));
    CHECK(!memread(&to, (1ull << 47) - PAGE, 8));
    CHECK(!memread(&to, 1ull << 47, 8));
    CHECK(!memread(&to, 0xffff800000000000, 8));
    CHECK(!memread(&to, 0xffffffff81000000, 8));
    CHECK(!memread(&to, ~0ull, 8));
    CHECK(!memread(&to, ~0ull - 7, 8));
    CHECK(!memread(&to, 0x8000000000000000, 8));
    return NULL;
}

static const char *what_lies_between_two_addresses_is_known_for_any_values(void)
{
    CHECK(memread_within(100, 200, 100, 100) && memread_within(100, 200, 150, 50));
    CHECK(memread_within(100, 200, 200, 0));
    CHECK(!memread_within(100, 200, 99, 1) && !memread_within(100, 200, 100, 101));
    CHECK(!memread_within(100, 200, 201, 0));
    CHECK(!memread_within(0, 0, 0, 1));
    for (uint64_t n = 8; n <= 80; n += 8)
        CHECK(!memread_within(100, 200, -n, 72)); /* its end wraps */
    CHECK(memread_within(~7ull, ~0ull, ~7ull, 7) && !memread_within(~7ull, ~0ull, ~7ull, 8));
    return NULL;
}

static const char *pages_are_counted_up_to_the_first_hole(void)
{
    CHECK(memread_pages(at(0), 0) == 0);
    CHECK(memread_pages(at(0), 1) == 1);
    CHECK(memread_pages(at(0), 64) == 64);
    CHECK(memread_pages(at(0), 65) == 65);
    CHECK(memread_pages(at(0), PAGES) == PAGES);
    CHECK(memread_pages(at(0), PAGES + 1) == PAGES);
    CHECK(memread_pages(at(3 * PAGE), 10 * PAGES) == PAGES - 3);
    CHECK(memread_pages(at(PAGES * PAGE), 5) == 0);
    for (uint64_t hole = 190; hole > 60; hole -= 21) {
        CHECK(!mprotect(pages + hole * PAGE, PAGE, PROT_NONE));
        CHECK(memread_pages(at(0), PAGES) == hole);
    }
    CHECK(memread_pages(0, 3) == 0);
    CHECK(memread_pages(0xffff800000000000, 3) == 0);
    CHECK(memread_pages(~0ull & ~(PAGE - 1), 3) == 0);
    return NULL;
}

static void with_process_vm_readv(void **state)
{
    assert_int_equal(memread_init(), 0);
    const char *wrong = ((check *)*state)();
    if (wrong)
        fail_msg("%s", wrong);
}

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))

/* Refuses process_vm_readv; with `probing`, rt_sigprocmask with an invalid `how` as well. */
static int refuse(bool probing)
{
    struct sock_filter filter[] = {
        LOAD(nr),      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        REFUSE,        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
        LOAD(args[0]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, probing ? 0xffffffff : 0x12345678, 0, 1),
        REFUSE,        ALLOW,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#define NO_SECCOMP 77

/* Runs `c` in a child that refuses; skips the case where the kernel has no filters. */
static void in_child(check *c, bool probing)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        if (refuse(probing))
            _exit(NO_SECCOMP);
        char byte = 0;
        struct iovec v = {&byte, 1};
        const char *wrong = process_vm_readv(getpid(), &v, 1, &v, 1, 0) == -1 && errno == EPERM
                                ? c()
                                : "process_vm_readv is not refused";
        if (wrong)
            dprintf(2, "# in the child: %s\n", wrong);
        _exit(wrong ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP)
        skip();
    assert_int_equal(status, 0);
}

static check *wanted;

static const char *after_init(void)
{
    CHECK(memread_init() == 0);
    return wanted();
}

static void without_process_vm_readv(void **state)
{
    wanted = (check *)*state;
    in_child(after_init, false);
}

static const char *init_fails(void)
{
    CHECK(memread_init() == -ENOSYS);
    return NULL;
}

static void init_reports_where_no_way_works(void **state)
{
    (void)state;
    in_child(init_fails, true);
}

#define BOTH_WAYS(f)                                                                               \
    {#f " (process_vm_readv)", with_process_vm_readv, before_##f, tear_down, NULL},                \
    {                                                                                              \
        #f " (refused)", without_process_vm_readv, before_##f, tear_down, NULL                     \
    }
#define BEFORE(f)                                                                                  \
    static int before_##f(void **state)                                                            \
    {                                                                                              \
        *state = (void *)f;                                                                        \
        return set_up(state);                                                                      \
    }

BEFORE(readable_memory_is_copied)
BEFORE(a_boundary_between_readable_pages_is_crossed)
BEFORE(unreadable_memory_is_refused)
BEFORE(pages_are_probed)
BEFORE(a_read_into_unreadable_memory_is_refused)
BEFORE(addresses_that_no_program_has_are_refused)
BEFORE(what_lies_between_two_addresses_is_known_for_any_values)
BEFORE(pages_are_counted_up_to_the_first_hole)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(readable_memory_is_copied),
        BOTH_WAYS(a_boundary_between_readable_pages_is_crossed),
        BOTH_WAYS(unreadable_memory_is_refused),
        BOTH_WAYS(pages_are_probed),
        BOTH_WAYS(a_read_into_unreadable_memory_is_refused),
        BOTH_WAYS(addresses_that_no_program_has_are_refused),
        BOTH_WAYS(what_lies_between_two_addresses_is_known_for_any_values),
        BOTH_WAYS(pages_are_counted_up_to_the_first_hole),
        cmocka_unit_test(init_reports_where_no_way_works),
    };
    return cmocka_run_group_tests_name("memread", tests, NULL, NULL);
}

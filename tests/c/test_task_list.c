#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "task_list.h"

#define MAX 256
#define FLOOR 100
#define TRIES 10000 /* any process that begins meanwhile changes the newest number */

struct tids {
    pid_t tid[MAX];
    size_t n;
};

struct worker {
    pthread_t thread;
    pid_t tid;
    pthread_barrier_t runs, may_end;
};

static void add(void *context, pid_t tid, pid_t number)
{
    struct tids *found = context;
    assert_int_equal(number, tid);
    assert_in_range(found->n, 0, MAX - 1);
    found->tid[found->n++] = tid;
}

static bool has(const struct tids *found, pid_t tid)
{
    size_t n = 0;
    for (size_t i = 0; i < found->n; i++)
        n += found->tid[i] == tid;
    assert_in_range(n, 0, 1);
    return n;
}

static struct tids listed(struct task_list *l)
{
    struct tids found = {.n = 0};
    assert_true(task_list_read(l, add, &found));
    return found;
}

/* A look after which the list is known to be the same still. */
static struct tids settled(struct task_list *l)
{
    struct tids found;
    int tries = 0;
    do {
        assert_int_not_equal(tries++, TRIES);
        found = listed(l);
    } while (task_list_changed(l));
    return found;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    w->tid = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&w->runs);
    pthread_barrier_wait(&w->may_end);
    return NULL;
}

static void begin(struct worker *w)
{
    pthread_barrier_init(&w->runs, NULL, 2);
    pthread_barrier_init(&w->may_end, NULL, 2);
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    pthread_barrier_wait(&w->runs);
}

static void end(struct worker *w)
{
    pthread_barrier_wait(&w->may_end);
    pthread_join(w->thread, NULL);
    while (!syscall(SYS_tgkill, getpid(), w->tid, 0)) /* joined before it is gone */
        sched_yield();
    pthread_barrier_destroy(&w->runs);
    pthread_barrier_destroy(&w->may_end);
}

static struct task_list opened(void)
{
    struct task_list l;
    assert_int_equal(task_list_open(&l, FLOOR), 0);
    assert_true(task_list_changed(&l)); /* nothing is known yet */
    return l;
}

static struct task_list opened_with_numbers(void)
{
    struct task_list l = opened();
    if (!l.has_last)
        skip(); /* a kernel without CONFIG_CHECKPOINT_RESTORE */
    return l;
}

static void all_threads_are_listed_once(void **state)
{
    (void)state;
    struct task_list l = opened();
    static struct worker workers[100]; /* more than one buffer holds */
    begin(workers);
    end(workers); /* with the first thread TSan begins one, too */
    size_t before = listed(&l).n;
    for (size_t i = 0; i < 100; i++)
        begin(workers + i);
    struct tids found = listed(&l);
    assert_int_equal(found.n, before + 100);
    assert_true(has(&found, getpid()));
    for (size_t i = 0; i < 100; i++) {
        assert_true(has(&found, workers[i].tid));
        end(workers + i);
    }
    assert_int_equal(listed(&l).n, before);
    task_list_close(&l);
}

static void each_change_is_found(void **state)
{
    (void)state;
    struct task_list l = opened_with_numbers();
    struct worker first;
    settled(&l);
    begin(&first);
    assert_true(task_list_changed(&l));
    settled(&l);
    end(&first);
    assert_true(task_list_changed(&l));
    task_list_close(&l);
}

static void one_that_begins_as_another_ends_is_found(void **state)
{
    (void)state;
    struct task_list l = opened_with_numbers();
    struct worker first, second;
    begin(&first);
    size_t n = settled(&l).n;
    end(&first);
    begin(&second);
    assert_true(task_list_changed(&l));
    assert_int_equal(settled(&l).n, n);
    end(&second);
    task_list_close(&l);
}

/* They are closed, and their numbers are those of other files: the program's, which stay as they are. */
static void descriptors_that_the_program_closed_are_opened_again(void **state)
{
    (void)state;
    struct task_list l = opened_with_numbers();
    size_t n = settled(&l).n;
    int folder = l.folder.fd, number = l.last_pid.fd;
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(lseek(program, 7, SEEK_SET), 7);
    assert_int_equal(dup2(program, folder), folder);
    assert_int_equal(dup2(program, number), number);
    assert_true(task_list_changed(&l));
    assert_int_equal(settled(&l).n, n);
    assert_int_equal(lseek(program, 0, SEEK_CUR), 7);
    assert_int_not_equal(l.folder.fd, folder);
    task_list_close(&l);
    assert_int_equal(lseek(folder, 0, SEEK_CUR), 7); /* not closed */
    assert_int_equal(lseek(number, 0, SEEK_CUR), 7);
    close(folder);
    close(number);
    close(program);
}

static void without_the_newest_number_it_may_always_have_changed(void **state)
{
    (void)state;
    struct task_list l = opened();
    own_fd_close(&l.last_pid);
    l.has_last = false;
    for (int i = 0; i < 100; i++) {
        assert_int_not_equal(listed(&l).n, 0);
        assert_true(task_list_changed(&l));
    }
    task_list_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_are_listed_once),
        cmocka_unit_test(each_change_is_found),
        cmocka_unit_test(one_that_begins_as_another_ends_is_found),
        cmocka_unit_test(descriptors_that_the_program_closed_are_opened_again),
        cmocka_unit_test(without_the_newest_number_it_may_always_have_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

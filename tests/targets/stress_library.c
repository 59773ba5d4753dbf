/* stress_library.c - what stress.c loads and unloads: its code and unwind information come and go. */
static long __attribute__((noinline)) deeper(long n, long depth)
{
    volatile long done = 0;
    if (depth)
        return deeper(n, depth - 1) + 0 * done;
    while (done < n)
        done++;
    return done;
}

long spin(long n)
{
    return deeper(n, 20);
}

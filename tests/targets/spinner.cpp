// A C++ function with a name that perf demangles, and parameters of its own.
namespace work {
struct Spinner {
    volatile long sink;
    __attribute__((noinline)) long turn(long n, const long &step);
};

long Spinner::turn(long n, const long &step)
{
    for (long i = 0; i < n; i += step)
        sink = sink + i;
    return sink;
}
} // namespace work

extern "C" long turns(long n)
{
    static work::Spinner spinner;
    const long step = 1;
    return spinner.turn(n, step) + 1;
}

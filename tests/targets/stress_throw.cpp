// stress_throw.cpp - exceptions all the time: libgcc unwinds the stack that a signal interrupts.
#include <chrono>
#include <stdexcept>

static long thrown;

static void __attribute__((noinline)) descend(int depth)
{
    volatile int at = depth;
    struct Guard {
        ~Guard() { thrown++; }
    } guard;
    if (!depth)
        throw std::runtime_error("at the bottom");
    descend(depth - 1);
    at = 0;
}

extern "C" long throw_storm(double seconds)
{
    auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    long caught = 0;
    thrown = 0;
    while (std::chrono::steady_clock::now() < until) {
        try {
            descend(20);
            return -1;
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    return thrown == caught * 21 ? caught : -1;
}

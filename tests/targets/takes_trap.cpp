// A library that takes SIGTRAP: by abseil's handler for crashes, or by one of its own.
#include <absl/debugging/failure_signal_handler.h>
#include <csignal>
#include <dlfcn.h>

static volatile sig_atomic_t n_seen;

static void on_trap(int) { n_seen = n_seen + 1; }

extern "C" {

void install_abseil() { absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions()); }

// Opened by C code: no event of the interpreter's tells.
int open_by_c(const char *path) { return dlopen(path, RTLD_NOW) != nullptr; }

// Takes SIGTRAP, sends itself one and gives it back, `n` times; what went wrong.
int take_and_give_back(int n)
{
    struct sigaction mine = {}, before = {};
    int wrong = 0;
    mine.sa_handler = on_trap;
    for (int i = 0; i < n; i++) {
        sigaction(SIGTRAP, &mine, &before);
        wrong += !i && before.sa_handler != SIG_DFL; // later perhaps a handler of ours, which does the same
        raise(SIGTRAP);
        wrong += n_seen != i + 1;
        sigaction(SIGTRAP, &before, nullptr);
    }
    return wrong;
}
}

#ifdef AT_LOAD
__attribute__((constructor)) static void at_load() { install_abseil(); }
#endif

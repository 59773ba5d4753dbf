/* compiler.h - what we ask of the compiler on paths where nanoseconds count. */
#ifndef PYH_COMPILER_H
#define PYH_COMPILER_H

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NO_ASAN                                                                                    \
    __attribute__((no_sanitize("address"))) /* reads what may be no object, or another's */
#define NO_TSAN                                                                                    \
    __attribute__((no_sanitize("thread"))) /* reads what is being written to, and forgets it then */
#define LIKELY(x) __builtin_expect(!!(x), 1)

#endif

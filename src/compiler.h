/* compiler.h - what we ask of the compiler on paths where nanoseconds count. */
#ifndef PYH_COMPILER_H
#define PYH_COMPILER_H

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NO_ASAN                                                                                    \
    __attribute__((no_sanitize("address"))) /* reads what may be no object, or another's */
#define LIKELY(x) __builtin_expect(!!(x), 1)

#endif

/* calls_back.c - calls back what it is given from inlined functions: `drive` from call_it, which is inlined into twice,
 * which is inlined into drive; `both` from there, and from another one. */
#define INLINE __attribute__((always_inline)) static inline
typedef void (*callback)(void);

INLINE void call_it(callback f)
{
    f();
    __asm__ volatile("");
}
INLINE void twice(callback f)
{
    call_it(f);
    call_it(f);
}
INLINE void other(callback f)
{
    f();
    __asm__ volatile("");
}
void drive(callback f)
{
    twice(f);
}
void both(callback f)
{
    twice(f);
    other(f);
}

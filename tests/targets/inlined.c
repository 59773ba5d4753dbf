/* inlined.c - burns CPU in a chain of inlined functions: burn > outer > middle > innermost, of which
 * burn and outer have code of their own. */
#define INLINE __attribute__((always_inline)) static inline

#line 10 "innermost.h"
INLINE double innermost(long n)
{
    double x = 1;
    for (long i = 0; i < n; i++)
        __asm__ volatile("addsd %0, %0\n\tmulsd %0, %0" : "+x"(x));
    return x;
}
#line 30 "inlined.c"
INLINE double middle(long n)
{
    return innermost(n) + 1;
}
__attribute__((noinline)) static double outer(long n)
{
    double x = middle(n);
    __asm__ volatile("" : "+x"(x));
    return x;
}
double burn(long n)
{
    double x = outer(n);
    __asm__ volatile("" : "+x"(x));
    return x;
}

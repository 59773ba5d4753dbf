/* inlined.c - the library that test_dwarf_lines.c and test_debug_file.c look into: chains of inlined
 * functions whose files, lines and addresses are known.  It is never called.
 *
 * A label is a symbol with the address of a nop, on the line where it stands. */
#define INLINE __attribute__((always_inline)) static inline
#define OWN __attribute__((noinline))
#define AT(label) __asm__ volatile(".globl " #label "\n" #label ": nop")
#define AT_NUMBERED(label, number)                                                                 \
    __asm__ volatile(".globl " #label "_%c0\n" #label "_%c0: nop" ::"i"(number))

void outer(void);
void named(void) __asm__("linkage_name_of_named");
void calls_twice(void);
void apart(void);
void around(int value);

#ifdef WITH_ALTERNATE /* as dwz adds it: a path, and the build-id that meson.build gives dwarf5.so */
__asm__(".pushsection .gnu_debugaltlink, \"\", @progbits\n"
        ".asciz \"alternate/split.debug\"\n"
        ".quad 0x7766554433221100, 0xffeeddccbbaa9988\n"
        ".popsection");
#endif

/* clang-format off */
#line 10 "headers/chain.h"
INLINE void innermost(void)
{
    AT(at_innermost);
}
#line 20 "headers/chain.h"
INLINE void middle(void)
{
    innermost();
    AT(at_middle);
}
#line 30 "inlined.c"
__attribute__((visibility("hidden"))) OWN void outer(void)
{
    middle();
    AT(at_outer);
}
#line 40 "inlined.c"
void named(void)
{
    AT(at_named);
}
#line 50 "inlined.c"
INLINE void numbered(int number)
{
    AT_NUMBERED(at_numbered, number);
}
#line 60 "inlined.c"
void calls_twice(void)
{
    numbered(1);
    { int local = 2; numbered(local); }
}
#line 70 "inlined.c"
__attribute__((section(".text.apart"))) void apart(void)
{
    AT(at_apart);
}
#line 80 "inlined.c"
void around(int value)
{
    OWN void nested(void)
    {
        AT(at_nested);
    }
    if (value)
        nested();
    AT(at_around);
}

/* probe.h - USDT probes: places that a tracer (bpftrace, perf, BCC) finds in .note.stapsdt, and may put a breakpoint on.
 *
 * A site is one nop, with a note for each name that it is known by: where the nop and its semaphore are, and which
 * register holds which argument.  The semaphore counts the tracers' attachments: the kernel adds to it, in each process
 * that maps the object.  A site has one semaphore whatever it is called, or the kernel refuses the second tracer; sites
 * may share one.
 *
 * The nop has one byte: Linux may put a call in the place of one of five, which writes below the stack pointer, where a
 * function that calls nothing has its variables.  For the same reason: compile with -mno-red-zone.
 *
 * Source: SystemTap's wiki, UserSpaceProbeImplementation (version 3 of the notes).  x86-64 only.
 */
#ifndef PYH_PROBE_H
#define PYH_PROBE_H

#define PROBE_SEMAPHORE(name)                                                                      \
    static volatile unsigned short name __attribute__((section(".probes"), used))

/* `arguments`: like "8@%[text] -4@%[line]": size in bytes, negative if it is signed, and the operand. */
#define PROBE_NOTE(provider, name, semaphore, arguments)                                           \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                                                 \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b\n"                                                                           \
    ".8byte _.stapsdt.base\n"                                                                      \
    ".8byte " #semaphore "\n"                                                                      \
    ".asciz \"" #provider "\"\n"                                                                   \
    ".asciz \"" #name "\"\n"                                                                       \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"

/* Where the linker's shift of addresses can be seen (prelink). */
#define PROBE_BASE_                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                    \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

/* Use it once in a function, which is not inlined.  What arguments point to is written before. */
#define PROBE_SITE(notes, ...)                                                                     \
    __asm__ __volatile__("990: nop\n" notes PROBE_BASE_::__VA_ARGS__ : "memory")

#define PROBE_POINTER(name, value) [name] "r"((const void *)(value))
#define PROBE_INT(name, value) [name] "r"((int)(value))

#endif

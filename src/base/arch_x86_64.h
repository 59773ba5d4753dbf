/* arch_x86_64.h - all that the signal side knows about this architecture.
 *
 * Registers of an interrupted context, DWARF register numbers (System V AMD64 ABI, figure 3.36),
 * raw system calls, call instructions.
 *
 * Context: async-signal-safe; no libc.
 */
#ifndef PYH_ARCH_X86_64_H
#define PYH_ARCH_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#ifndef __x86_64__
#error "this file is for x86-64"
#endif

#define ARCH_USER_BITS                                                                             \
    47 /* of an address of a program's (5-level paging gives more only who asks for it) */

enum dwarf_reg { DW_RBX = 3, DW_RBP = 6, DW_RSP = 7, DW_R10 = 10, DW_RA = 16 };

struct unwind_regs {
    uint64_t pc; /* lies inside the instruction: return address - 1 for callers */
    uint64_t sp;
    uint64_t bp;
    uint64_t bx;
    uint64_t r10; /* known in the interrupted frame only, else 0 */
};

static inline void arch_regs_from_context(struct unwind_regs *r, const ucontext_t *uc)
{
    const greg_t *g = uc->uc_mcontext.gregs;
    r->pc = (uint64_t)g[REG_RIP];
    r->sp = (uint64_t)g[REG_RSP];
    r->bp = (uint64_t)g[REG_RBP];
    r->bx = (uint64_t)g[REG_RBX];
    r->r10 = (uint64_t)g[REG_R10];
}

/* Fills `r` with the registers of the calling function. */
static inline __attribute__((always_inline)) void arch_regs_here(struct unwind_regs *r)
{
    *r = (struct unwind_regs){0};
    __asm__ volatile("movq %%rsp, %1\n\tmovq %%rbp, %2\n\tmovq %%rbx, %3\n\tleaq (%%rip), %0"
                     : "=r"(r->pc), "=m"(r->sp), "=m"(r->bp), "=m"(r->bx));
}

/* Registers that a function keeps for its caller, by DWARF number. */
#define ARCH_KEPT_REGISTERS {3, 6, 12, 13, 14, 15}

/* Returns one of them, or 0 for any other number. */
static inline uint64_t arch_kept_register(const ucontext_t *uc, int number)
{
    const greg_t *g = uc->uc_mcontext.gregs;
    switch (number) {
    case DW_RBX:
        return (uint64_t)g[REG_RBX];
    case DW_RBP:
        return (uint64_t)g[REG_RBP];
    case 12:
    case 13:
    case 14:
    case 15:
        return (uint64_t)g[REG_R12 + number - 12];
    default:
        return 0;
    }
}

/* Returns argument `i` (0 to 2) of the system call, if the context is in one; of the function, if it is at its first
 * instruction. */
static inline uint64_t arch_argument(const ucontext_t *uc, int i)
{
    static const int registers[] = {REG_RDI, REG_RSI, REG_RDX};
    return (uint64_t)uc->uc_mcontext.gregs[registers[i]];
}

/* Makes the second and third argument NULL. */
static inline void arch_clear_arguments(ucontext_t *uc)
{
    uc->uc_mcontext.gregs[REG_RSI] = uc->uc_mcontext.gregs[REG_RDX] = 0;
}

/* Returns where the instruction of a system call stands that the signal may have ended early: it returns EINTR,
 * or is about to be begun again.  0: neither. */
static inline uint64_t arch_interrupted_syscall(const ucontext_t *uc)
{
    const greg_t *g = uc->uc_mcontext.gregs;
    if (g[REG_RAX] == -4) /* EINTR */
        return (uint64_t)g[REG_RIP] - 2;
    return g[REG_RAX] >= 0 && g[REG_RAX] < 1024 ? (uint64_t)g[REG_RIP] : 0;
}

/* Returns whether the kernel has come back from a system call just now, or is about to begin it again.  The
 * instruction leaves its return address in rcx and the flags in r11 (Intel SDM, SYSCALL). */
static inline bool arch_leaves_syscall(const ucontext_t *uc)
{
    const greg_t *g = uc->uc_mcontext.gregs;
    return g[REG_R11] == g[REG_EFL] && (g[REG_RCX] == g[REG_RIP] || g[REG_RCX] == g[REG_RIP] + 2);
}

static inline bool arch_is_syscall(const unsigned char *p)
{
    return p[0] == 0x0f && p[1] == 0x05;
}

/* Returns the address of the thread control block, which glibc puts at the upper end of a thread's stack. */
static inline uint64_t arch_thread_pointer(void)
{
    uint64_t p;
    __asm__("movq %%fs:0, %0" : "=r"(p));
    return p;
}

/* Reads the time stamp counter. */
static inline uint64_t arch_ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* Returns whether it runs at one rate, whatever the processor does (CPUID 0x80000007, EDX bit 8). */
static inline bool arch_ticks_steady(void)
{
    uint32_t a = 0x80000000u, b, c, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    if (a < 0x80000007u)
        return false;
    a = 0x80000007u;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    return d >> 8 & 1;
}

/* Returns whether a call instruction ends at `p`; `p[-7 .. -1]` must be readable. */
static inline bool arch_follows_call(const unsigned char *p)
{
    if (p[-5] == 0xe8)
        return true;
    if (p[-2] == 0xff && (p[-1] & 0x38) == 0x10 && (p[-1] >= 0xd0 || p[-1] < 0x40))
        return true;
    if (p[-3] == 0xff && (p[-2] & 0x38) == 0x10)
        return true;
    if (p[-6] == 0xff && (p[-5] & 0x38) == 0x10)
        return true;
    return p[-7] == 0xff && (p[-6] & 0x38) == 0x10;
}

/* Returns what the direct call that ends at `p` calls, or 0 if it is none. */
static inline uint64_t arch_direct_callee(const unsigned char *p)
{
    int32_t distance;
    if (p[-5] != 0xe8)
        return 0;
    __builtin_memcpy(&distance, p - 4, sizeof distance);
    return (uint64_t)p + (uint64_t)(int64_t)distance;
}

/* Returns where a jump at `p`, of `bytes` that may be read, leads; 1: a register or memory has that; 0: it is no
 * jump. */
static inline uint64_t arch_jump_target(const unsigned char *p, size_t bytes)
{
    int32_t distance;
    size_t size = p[0] == 0xe9 ? 5 : 6; /* jmp, and jcc with two bytes of code */
    if (bytes >= 2 && p[0] == 0xff && (p[1] & 0x38) == 0x20)
        return 1;
    if (bytes < size || (p[0] != 0xe9 && (p[0] != 0x0f || (p[1] & 0xf0) != 0x80)))
        return 0;
    __builtin_memcpy(&distance, p + size - 4, sizeof distance);
    return (uint64_t)p + size + (uint64_t)(int64_t)distance;
}

/* Returns whether this is `[endbr64] [bnd] jmp *slot(%rip)`, an entry of .plt.sec or .plt.got. */
static inline bool arch_is_jump_stub(const unsigned char *p)
{
    if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa)
        p += 4;
    if (p[0] == 0xf2)
        p++;
    return p[0] == 0xff && p[1] == 0x25;
}

/* Call it while you wait for another thread. */
static inline void arch_pause(void)
{
    __builtin_ia32_pause();
}

static inline long arch_syscall6(long n, long a, long b, long c, long d, long e, long f)
{
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r; /* -errno on error */
}

#endif

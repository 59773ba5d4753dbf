/* step_through.h - code run with the processor's trap flag set: SIGTRAP after each of its instructions. */
#ifndef PYH_STEP_THROUGH_H
#define PYH_STEP_THROUGH_H

/* f(argument), stepped; the handler of SIGTRAP is the caller's.  Can be unwound. */
void step_through(void (*f)(void *), void *argument);
__asm__(".text\n.globl step_through\n.hidden step_through\n.type step_through, @function\n"
        "step_through: .cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "pushfq\n orq $0x100, (%rsp)\n popfq\n"
        "call *%rax\n"
        "pushfq\n andq $~0x100, (%rsp)\n popfq\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        "ret\n.cfi_endproc\n.size step_through, . - step_through\n");

#endif

#include "stack_bounds.h"

#include "memread.h"

#define PAGE 4096ull
#define STEP_MAX (64ull << 20) /* how far the bound is moved at once */
#define FOREIGN_PAGES 64

static bool prove(struct unwind *u, uint64_t low, uint64_t high)
{
    low &= ~(PAGE - 1);
    if (low >= high || high - low > STEP_MAX)
        return false;
    size_t n = (high - low + PAGE - 1) / PAGE;
    if (memread_pages(low, n) != n)
        return false;
    u->stack_low = low;
    return true;
}

void stack_bounds_update(struct unwind *u, uint64_t sp, uint64_t main_stack_high)
{
    if (!u->stack_is_foreign) {
        if (sp >= u->stack_low && sp < u->stack_high)
            return;
        if (sp < u->stack_low && prove(u, sp, u->stack_low))
            return;
    }
    uint64_t self = arch_thread_pointer();
    uint64_t high = sp > self && main_stack_high > sp ? main_stack_high : self;
    if (sp < high && prove(u, sp, high)) {
        u->stack_high = high;
        u->stack_is_foreign = false;
        return;
    }
    u->stack_is_foreign = true;
    u->stack_low = sp & ~(PAGE - 1);
    u->stack_high = u->stack_low + PAGE * memread_pages(u->stack_low, FOREIGN_PAGES);
}

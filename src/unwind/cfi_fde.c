#include "cfi_fde.h"

#include <stddef.h>

#include "cfi.h"
#include "libraries.h"

/* Pointer encodings, LSB 5.0 section 10.5.1. */
enum {
    PE_ABSPTR = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_OMIT = 0xff,
};

uint64_t cursor_u(struct cursor *c, unsigned n)
{
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        return 0;
    }
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)c->p[i] << 8 * i;
    c->p += n;
    return v;
}

static uint64_t read_leb(struct cursor *c, bool is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0;
    for (;;) {
        uint64_t byte = cursor_u(c, 1);
        if (c->bad || shift > 63)
            return 0;
        v |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (is_signed && (byte & 0x40) && shift < 64)
                v |= ~0ull << shift;
            return v;
        }
    }
}

uint64_t cursor_uleb(struct cursor *c)
{
    return read_leb(c, false);
}

int64_t cursor_sleb(struct cursor *c)
{
    return (int64_t)read_leb(c, true);
}

uint64_t cursor_encoded(struct cursor *c, uint8_t encoding, uint64_t data_base)
{
    uint64_t at = (uint64_t)c->p, v;
    switch (encoding & 0x0f) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        v = cursor_u(c, 8);
        break;
    case PE_UDATA4:
        v = cursor_u(c, 4);
        break;
    case PE_SDATA4:
        v = (uint64_t)(int64_t)(int32_t)cursor_u(c, 4);
        break;
    case PE_UDATA2:
        v = cursor_u(c, 2);
        break;
    case PE_SDATA2:
        v = (uint64_t)(int64_t)(int16_t)cursor_u(c, 2);
        break;
    case PE_ULEB128:
        v = cursor_uleb(c);
        break;
    case PE_SLEB128:
        v = (uint64_t)cursor_sleb(c);
        break;
    default:
        c->bad = true;
        return 0;
    }
    switch (encoding & 0x70) {
    case PE_PCREL:
        return v + at;
    case PE_DATAREL:
        return v + data_base;
    case 0:
        return v;
    }
    c->bad = true;
    return 0;
}

static bool parse_cie(const uint8_t *cie, const uint8_t *limit, struct fde *f)
{
    struct cursor c = {cie, limit, false};
    uint64_t length = cursor_u(&c, 4);
    if (c.bad || length == 0xffffffff || length > (uint64_t)(limit - c.p))
        return false;
    c.end = c.p + length;
    uint64_t id = cursor_u(&c, 4), version = cursor_u(&c, 1);
    if (id != 0 || (version != 1 && version != 3))
        return false;
    const char *augmentation = (const char *)c.p;
    while (cursor_u(&c, 1))
        if (c.bad)
            return false;
    f->code_align = cursor_uleb(&c);
    f->data_align = cursor_sleb(&c);
    f->return_register = version == 1 ? cursor_u(&c, 1) : cursor_uleb(&c);
    f->encoding = PE_ABSPTR;
    f->signal_frame = false;
    f->augmented = *augmentation == 'z';
    if (f->augmented) {
        uint64_t n = cursor_uleb(&c);
        if (c.bad || n > (uint64_t)(c.end - c.p))
            return false;
        const uint8_t *after = c.p + n;
        for (const char *a = augmentation + 1; *a && !c.bad; a++) {
            if (*a == 'R') {
                f->encoding = (uint8_t)cursor_u(&c, 1);
            } else if (*a == 'P') {
                uint8_t encoding = (uint8_t)cursor_u(&c, 1);
                cursor_encoded(&c, encoding & 0x0f, 0);
            } else if (*a == 'L') {
                cursor_u(&c, 1);
            } else if (*a == 'S') {
                f->signal_frame = true;
            }
        }
        c.p = after;
    } else if (*augmentation) {
        return false;
    }
    f->cie_instructions = c;
    return !c.bad;
}

static bool parse_fde(const uint8_t *fde, const uint8_t *base, const uint8_t *limit, struct fde *f)
{
    struct cursor c = {fde, limit, false};
    uint64_t length = cursor_u(&c, 4);
    if (c.bad || length == 0xffffffff || length < 4 || length > (uint64_t)(limit - c.p))
        return false;
    c.end = c.p + length;
    const uint8_t *here = c.p;
    uint64_t cie_offset = cursor_u(&c, 4);
    if (!cie_offset || cie_offset > (uint64_t)(here - base))
        return false;
    const uint8_t *cie = here - cie_offset;
    if (!parse_cie(cie, limit, f))
        return false;
    f->start = cursor_encoded(&c, f->encoding, 0);
    f->end = f->start + cursor_encoded(&c, f->encoding & 0x0f, 0);
    if (f->augmented) {
        uint64_t n = cursor_uleb(&c);
        if (c.bad || n > (uint64_t)(c.end - c.p))
            return false;
        c.p += n;
    }
    f->instructions = c;
    return !c.bad;
}

/* The FDE for `pc` by the table of .eh_frame_hdr: sorted (start, FDE) pairs of 32-bit offsets. */
bool fde_find(uint64_t pc, struct fde *f)
{
    struct library object;
    if (!libraries_find(pc, &object) || !object.eh_frame)
        return false;
    /* For an executable with holes between its segments libc returns the one of the address. */
    const uint8_t *header = object.eh_frame;
    uint64_t at = (uint64_t)header;
    if ((at < object.start || at >= object.end) && !libraries_find(at, &object))
        return false;
    const uint8_t *base = (const uint8_t *)object.start, *limit = (const uint8_t *)object.end;
    struct cursor c = {header, limit, false};
    uint64_t version = cursor_u(&c, 1);
    uint8_t frame_encoding = (uint8_t)cursor_u(&c, 1), count_encoding = (uint8_t)cursor_u(&c, 1),
            table_encoding = (uint8_t)cursor_u(&c, 1);
    if (version != 1 || count_encoding == PE_OMIT || table_encoding != (PE_DATAREL | PE_SDATA4))
        return false;
    cursor_encoded(&c, frame_encoding, (uint64_t)header);
    uint64_t n = cursor_encoded(&c, count_encoding, (uint64_t)header);
    if (c.bad || !n || n > (uint64_t)(limit - c.p) / 8)
        return false;
    const int32_t (*table)[2] = (const void *)c.p;
    int64_t wanted = (int64_t)(pc - (uint64_t)header);
    if (wanted < table[0][0])
        return false;
    uint64_t low = 0, high = n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (table[middle][0] <= wanted)
            low = middle;
        else
            high = middle;
    }
    const uint8_t *fde = header + table[low][1];
    if (fde < base || fde >= limit)
        return false;
    f->next = low + 1 < n ? (uint64_t)header + (uint64_t)(int64_t)table[low + 1][0] : ~0ull;
    return parse_fde(fde, base, limit, f) && pc >= f->start && pc < f->end;
}

bool cfi_is_mapped(uint64_t address)
{
    struct library object;
    return libraries_find(address, &object);
}

/* line_program.c - steps through a line number program; only where operations end is of interest. */
#include "line_program.h"

#include <dwarf.h>
#include <string.h>

enum { ADDRESS_SIZE = 8 };

struct program {
    const uint8_t *at, *end;
    unsigned opcode_base;
    const uint8_t *n_operands; /* of the standard opcodes from 1 on */
};

static int skip(struct program *p, uint64_t n)
{
    if (n > (uint64_t)(p->end - p->at))
        return 0;
    p->at += n;
    return 1;
}

static int read_number(struct program *p, unsigned n, uint64_t *out)
{
    const uint8_t *at = p->at;

    *out = 0;
    if (!skip(p, n))
        return 0;
    memcpy(out, at, n); /* little endian */
    return 1;
}

static int skip_leb128(struct program *p)
{
    while (p->at < p->end)
        if (!(*p->at++ & 0x80))
            return 1;
    return 0;
}

/* A length of one byte: longer ones are of files' names alone. */
static int extended_defines_no_file(struct program *p)
{
    uint64_t length, opcode;
    const uint8_t *begin;

    if (!read_number(p, 1, &length) || length >= 0x80)
        return 0;
    begin = p->at;
    if (!read_number(p, 1, &opcode))
        return 0;
    switch (opcode) {
    case DW_LNE_end_sequence:
        break;
    case DW_LNE_set_address:
        if (!skip(p, ADDRESS_SIZE))
            return 0;
        break;
    case DW_LNE_set_discriminator:
        if (!skip_leb128(p))
            return 0;
        break;
    default:
        return 0;
    }
    return p->at == begin + length;
}

static int standard_defines_no_file(struct program *p, unsigned opcode)
{
    static const uint8_t usual[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    unsigned n = p->n_operands[opcode - 1];

    if (opcode > sizeof(usual) || n != usual[opcode - 1])
        return 0;
    if (opcode == DW_LNS_fixed_advance_pc)
        return skip(p, 2);
    while (n-- > 0)
        if (!skip_leb128(p))
            return 0;
    return 1;
}

/* Leaves the program itself in *p. */
static int read_header(struct program *p)
{
    uint64_t length, version, n, number;
    int is_64;

    if (!read_number(p, 4, &length))
        return 0;
    is_64 = length == UINT32_MAX;
    if (is_64 && !read_number(p, 8, &length))
        return 0;
    if (length > (uint64_t)(p->end - p->at))
        return 0;
    p->end = p->at + length;
    if (!read_number(p, 2, &version) || version < 2 || version > 5)
        return 0;
    if (version == 5 && (!read_number(p, 1, &number) || number != ADDRESS_SIZE || !skip(p, 1)))
        return 0;
    if (!read_number(p, is_64 ? 8 : 4, &length) || length > (uint64_t)(p->end - p->at))
        return 0;
    struct program header = {.at = p->at, .end = p->at + length};

    /* min_inst_length, max_ops (DWARF 4), default_is_stmt, line_base, line_range */
    if (!skip(&header, version >= 4 ? 5 : 4) || !read_number(&header, 1, &n) || n == 0)
        return 0;
    p->opcode_base = (unsigned)n;
    p->n_operands = header.at;
    p->at = header.end;
    return skip(&header, n - 1);
}

int line_program_may_define_files(const uint8_t *section, size_t size, size_t begin)
{
    struct program p = {.end = section + size};

    if (begin > size)
        return 1;
    p.at = section + begin;
    if (!read_header(&p))
        return 1;
    while (p.at < p.end) {
        unsigned opcode = *p.at++;

        if (opcode == 0 ? !extended_defines_no_file(&p)
                        : opcode < p.opcode_base && !standard_defines_no_file(&p, opcode))
            return 1;
    }
    return 0;
}

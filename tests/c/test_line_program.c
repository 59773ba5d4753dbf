#include "unit.h"

#include "line_program.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 256 };

/* A table of one program, by hand: DWARF 6.2.4. */
struct table {
    uint8_t bytes[SIZE];
    size_t size;
};

static void put(struct table *t, const void *bytes, size_t n)
{
    assert_true(t->size + n <= SIZE);
    memcpy(t->bytes + t->size, bytes, n);
    t->size += n;
}

#define PUT(t, string) put(t, string, sizeof(string) - 1)

static struct table table_of(uint16_t version, const void *program, size_t n)
{
    struct table t = {.size = 4};
    uint32_t length, rest;
    size_t at_length;

    put(&t, &version, 2);
    if (version == 5)
        PUT(&t, "\x08\x00"); /* sizes of addresses and of selectors */
    at_length = t.size;
    PUT(&t, "....");
    if (version >= 4)
        PUT(&t, "\x01\x01\x01\xfb\x0e\x0d"); /* operations of an instruction, too */
    else
        PUT(&t, "\x01\x01\xfb\x0e\x0d");
    PUT(&t, "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01"); /* operands of 1 to 12 */
    PUT(&t, "\x00"
            "file.c\x00\x00\x00\x00\x00");
    rest = (uint32_t)(t.size - at_length - 4);
    memcpy(t.bytes + at_length, &rest, 4);
    put(&t, program, n);
    length = (uint32_t)(t.size - 4);
    memcpy(t.bytes, &length, 4);
    return t;
}

static int may_define(uint16_t version, const void *program, size_t n)
{
    struct table t = table_of(version, program, n);

    return line_program_may_define_files(t.bytes, t.size, 0);
}

#define MAY_DEFINE(version, program) may_define(version, program, sizeof(program) - 1)

/* An address and lines that look like a file's definition, and each standard operation. */
#define ORDINARY                                                                                   \
    "\x00\x09\x02\xf9\x00\x09\x03\x00\x00\x00\x00\x03\x0b\x01\x02\x80\x03\x04\x00\x05\x03\x06\x07" \
    "\x08\x09\x00\x03\x0a\x0b\x0c\x03\x00\x02\x04\x03\x20\xff"
#define END "\x00\x01\x01"
#define DEFINED                                                                                    \
    "\x00\x08\x03"                                                                                 \
    "new\x00\x00\x00\x00"

static void ordinary_programs_define_no_files(void **state)
{
    (void)state;
    for (uint16_t version = 2; version <= 5; version++)
        assert_false(MAY_DEFINE(version, ORDINARY END ORDINARY END));
    assert_false(MAY_DEFINE(4, ""));
}

static void a_definition_is_found_wherever_it_is(void **state)
{
    (void)state;
    for (uint16_t version = 2; version <= 5; version++) {
        assert_true(MAY_DEFINE(version, DEFINED));
        assert_true(MAY_DEFINE(version, ORDINARY DEFINED END));
        assert_true(MAY_DEFINE(version, ORDINARY END DEFINED));
        assert_true(MAY_DEFINE(version, ORDINARY "\x00\x88\x00\x03"
                                                 "new\x00\x00\x00\x00" END));
    }
}

static void what_can_be_read_in_two_ways_may_define_one(void **state)
{
    (void)state;
    assert_true(MAY_DEFINE(4, "\x00\x00\x02"));                 /* no length */
    assert_true(MAY_DEFINE(4, "\x00\x05\x02\x01\x02\x03\x04")); /* an address of 4 bytes */
    assert_true(MAY_DEFINE(4, "\x00\x02\x01\x00"));             /* an end with operands */
    assert_true(MAY_DEFINE(4, "\x00\x03\x04\x01\x00")); /* a discriminator that is shorter */
    assert_true(MAY_DEFINE(4, "\x00\x02\x80\x00"));     /* an unknown operation */
    assert_true(MAY_DEFINE(4, "\x00\x09\x02\x00"));     /* beyond the end */
    assert_true(MAY_DEFINE(4, "\x03\x80"));
    assert_true(MAY_DEFINE(6, END));
}

static void a_damaged_header_may_define_one(void **state)
{
    (void)state;
    struct table t = table_of(4, END, sizeof(END) - 1);

    assert_false(line_program_may_define_files(t.bytes, t.size, 0));
    for (size_t cut = 0; cut < t.size; cut++)
        assert_true(line_program_may_define_files(t.bytes, cut, 0));
    assert_true(line_program_may_define_files(t.bytes, t.size, t.size));
    assert_true(line_program_may_define_files(t.bytes, t.size, SIZE_MAX));
    t = table_of(4, ORDINARY, sizeof(ORDINARY) - 1);
    assert_false(line_program_may_define_files(t.bytes, t.size, 0));
    t.bytes[16 + 8] = 2; /* operands of opcode 9 */
    assert_true(line_program_may_define_files(t.bytes, t.size, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_programs_define_no_files),
        cmocka_unit_test(a_definition_is_found_wherever_it_is),
        cmocka_unit_test(what_can_be_read_in_two_ways_may_define_one),
        cmocka_unit_test(a_damaged_header_may_define_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

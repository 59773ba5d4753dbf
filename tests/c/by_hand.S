/* DWARF as no C compiler here writes it: a unit without ranges of its own, which only .debug_aranges
 * has, a function inside a namespace (as clang and Rust put them), and inlined calls that overlap. */
    .file 1 "by_hand.c"
    .text
    .globl at_start, at_inlined
    .type at_start, @function
at_start:
    .loc 1 12
    nop
at_inlined:
    .loc 1 22
    nop
end_inlined:
    .loc 1 14
    nop
end:
    .size at_start, . - at_start

    .section .debug_abbrev, "", @progbits
abbreviations:
    .uleb128 1, 0x11; .byte 1     /* compile_unit, with children */
    .uleb128 0x03, 0x08           /* name, string */
    .uleb128 0x10, 0x17           /* stmt_list, sec_offset */
    .uleb128 0, 0
    .uleb128 2, 0x39; .byte 1     /* namespace, with children */
    .uleb128 0x03, 0x08
    .uleb128 0, 0
    .uleb128 3, 0x2e; .byte 1     /* subprogram, with children */
    .uleb128 0x03, 0x08
    .uleb128 0x11, 0x01           /* low_pc, addr */
    .uleb128 0x12, 0x07           /* high_pc, data8 */
    .uleb128 0, 0
    .uleb128 4, 0x1d; .byte 0     /* inlined_subroutine */
    .uleb128 0x31, 0x13           /* abstract_origin, ref4 */
    .uleb128 0x11, 0x01
    .uleb128 0x12, 0x07
    .uleb128 0x58, 0x0b           /* call_file, data1 */
    .uleb128 0x59, 0x0b           /* call_line, data1 */
    .uleb128 0, 0
    .uleb128 5, 0x2e; .byte 0     /* subprogram that is inlined everywhere */
    .uleb128 0x03, 0x08
    .uleb128 0x6e, 0x08           /* linkage_name, string */
    .uleb128 0, 0
    .byte 0

    .section .debug_info, "", @progbits
unit:
    .long unit_end - unit_begin
unit_begin:
    .value 4
    .long abbreviations
    .byte 8
    .uleb128 1; .asciz "by_hand.c"; .long lines
    .uleb128 2; .asciz "space"
origin:
    .uleb128 5; .asciz "plain"; .asciz "linkage_name"
    .uleb128 3; .asciz "inside"; .quad at_start, end - at_start
    .uleb128 4; .long origin - unit; .quad at_inlined, end_inlined - at_inlined; .byte 1, 13
                                  /* over the same code: the first one counts */
    .uleb128 4; .long origin - unit; .quad at_inlined, end_inlined - at_inlined; .byte 1, 99
    .byte 0, 0, 0                 /* ends of inside, space, unit */
unit_end:

    .section .debug_aranges, "", @progbits
    .long ranges_end - ranges_begin
ranges_begin:
    .value 2
    .long unit
    .byte 8, 0
    .long 0                       /* up to a multiple of 16 */
    .quad at_start, end - at_start, 0, 0
ranges_end:

    .section .debug_line, "", @progbits
lines:
    .section .note.GNU-stack, "", @progbits

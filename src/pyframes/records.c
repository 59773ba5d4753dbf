#include "records.h"

#include "pyframe.h"

static void copy_text(unsigned char **to, const struct py_code_text *text, uint32_t *bytes,
                      memread_way *read)
{
    uint32_t n = text->length * text->kind;
    if (n > CODE_TEXT_MAX)
        n = CODE_TEXT_MAX - CODE_TEXT_MAX % text->kind;
    *bytes = read(*to, text->address, n) ? n : 0;
    *to += *bytes;
}

size_t code_record_fill(struct code_record *r, uint64_t code, memread_way *read)
{
    struct py_code_info info;
    if (!pyframe_read_code(code, &info, read))
        return 0;
    unsigned char *end = r->text;
    r->first_line = info.first_line;
    r->first_traceable = info.first_traceable;
    r->qualname_kind = info.qualname.kind;
    r->file_name_kind = info.file_name.kind;
    r->pad = 0;
    copy_text(&end, &info.qualname, &r->qualname_bytes, read);
    copy_text(&end, &info.file_name, &r->file_name_bytes, read);
    r->line_table_bytes = 0;
    if (info.line_table_length <= CODE_LINE_TABLE_MAX &&
        read(end, info.line_table, info.line_table_length))
        r->line_table_bytes = info.line_table_length;
    end += r->line_table_bytes;
    return (size_t)(end - (unsigned char *)r);
}

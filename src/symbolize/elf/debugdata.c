/* debugdata.c - unpacking `.gnu_debugdata`.
 *
 * A stripped library may carry the symbols of its static functions in a small ELF file, packed
 * with xz, in a section of its own (GDB manual, "MiniDebugInfo").
 *
 * Context: as symbolize.h.  The packed bytes are not trusted: no more than 64 times their size
 * comes out (at least 1 MiB, at most 512 MiB), and the decoder's dictionary is bounded.
 *
 * The one file that knows liblzma.
 */
#include "elf_reader.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#define RATIO_MAX 64
#define SIZE_AT_LEAST ((size_t)1 << 20) /* the bound for tiny sections, whose ratio is high */
#define SIZE_AT_MOST ((size_t)512 << 20)
#define DECODER_MEMORY ((uint64_t)80 << 20) /* `xz -9` needs 65 MiB */

static size_t output_limit(size_t packed_size)
{
    if (packed_size < SIZE_AT_LEAST / RATIO_MAX)
        return SIZE_AT_LEAST;
    return packed_size > SIZE_AT_MOST / RATIO_MAX ? SIZE_AT_MOST : packed_size * RATIO_MAX;
}

/* Runs the decoder into a buffer that doubles up to `limit`. */
static int decode(lzma_stream *stream, size_t limit, uint8_t **buffer)
{
    size_t capacity = 0;
    lzma_ret status = LZMA_OK;

    while (status == LZMA_OK) {
        if (stream->avail_out == 0) {
            size_t grown = capacity ? 2 * capacity : 8 * stream->avail_in + 4096;
            uint8_t *larger;

            if (capacity == limit)
                return -EFBIG;
            grown = grown > limit ? limit : grown;
            larger = realloc(*buffer, grown);
            if (!larger)
                return -ENOMEM;
            *buffer = larger;
            stream->next_out = larger + capacity;
            stream->avail_out = grown - capacity;
            capacity = grown;
        }
        status = lzma_code(stream, LZMA_FINISH);
    }
    if (status == LZMA_STREAM_END)
        return 0;
    return status == LZMA_MEM_ERROR ? -ENOMEM : status == LZMA_MEMLIMIT_ERROR ? -EFBIG : -EBADMSG;
}

int debugdata_unpack(const uint8_t *packed, size_t packed_size, uint8_t **out, size_t *out_size)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    uint8_t *buffer = NULL;
    int r;

    if (lzma_stream_decoder(&stream, DECODER_MEMORY, 0) != LZMA_OK)
        return -ENOMEM;
    stream.next_in = packed;
    stream.avail_in = packed_size;
    r = decode(&stream, output_limit(packed_size), &buffer);
    *out_size = (size_t)stream.total_out;
    lzma_end(&stream);
    if (r) {
        free(buffer);
        return r;
    }
    *out = buffer;
    return 0;
}

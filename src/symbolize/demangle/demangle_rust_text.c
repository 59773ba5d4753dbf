/* demangle_rust_text.c - the bounded text that a Rust symbol's readable form is written to.
 */
#include "demangle_rust.h"

#include <string.h>

enum { MAX_POINTS = 128 }; /* of a Punycode identifier */

void rust_text_put(struct rust_text *t, const char *bytes, size_t length)
{
    if (t->full || length > t->size - t->length) {
        t->full = true;
        return;
    }
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
}

bool rust_text_put_char(struct rust_text *t, uint32_t c)
{
    char utf8[4];
    size_t n = 0;

    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return false;
    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else if (c < 0x800) {
        utf8[n++] = (char)(0xC0 | c >> 6);
        utf8[n++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        utf8[n++] = (char)(0xE0 | c >> 12);
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        utf8[n++] = (char)(0x80 | (c & 0x3F));
    } else {
        utf8[n++] = (char)(0xF0 | c >> 18);
        utf8[n++] = (char)(0x80 | (c >> 12 & 0x3F));
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        utf8[n++] = (char)(0x80 | (c & 0x3F));
    }
    rust_text_put(t, utf8, n);
    return true;
}

/* RFC 3492, section 6.1. */
static uint32_t adapt_bias(uint32_t delta, uint32_t n_points, bool first)
{
    uint32_t k = 0;

    delta = first ? delta / 700 : delta / 2;
    for (delta += delta / n_points; delta > 35 * 26 / 2; k += 36)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

static int punycode_digit(char c)
{
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    return c >= '0' && c <= '9' ? c - '0' + 26 : -1;
}

/* RFC 3492, section 6.2: reads one delta, adding it to *index; false at the end of the digits. */
static bool read_delta(const char **at, const char *end, uint32_t bias, uint32_t *index)
{
    uint32_t weight = 1;

    for (uint32_t k = 36;; k += 36) {
        uint32_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        int digit = *at < end ? punycode_digit(*(*at)++) : -1;
        uint32_t product;

        if (digit < 0 || __builtin_mul_overflow((uint32_t)digit, weight, &product) ||
            __builtin_add_overflow(*index, product, index))
            return false;
        if ((uint32_t)digit < threshold)
            return true;
        if (__builtin_mul_overflow(weight, 36 - threshold, &weight))
            return false;
    }
}

bool rust_text_put_punycode(struct rust_text *t, const char *bytes, size_t length)
{
    uint32_t points[MAX_POINTS];
    uint32_t n = 0, point = 0x80, index = 0, bias = 72;
    const char *at = bytes, *end = bytes + length, *delimiter = memrchr(bytes, '_', length);

    if (delimiter) {
        for (; at < delimiter; at++) {
            if (n == MAX_POINTS)
                return false;
            points[n++] = (unsigned char)*at;
        }
        at = delimiter + 1;
    }
    while (at < end) {
        uint32_t before = index;

        if (n == MAX_POINTS || !read_delta(&at, end, bias, &index))
            return false;
        bias = adapt_bias(index - before, n + 1, before == 0);
        if (__builtin_add_overflow(point, index / (n + 1), &point))
            return false;
        index %= n + 1;
        memmove(points + index + 1, points + index, (n - index) * sizeof(*points));
        points[index++] = point;
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!rust_text_put_char(t, points[i]))
            return false;
    return true;
}

/* build_id.h - the build-id among the notes of a loaded object's segment (NT_GNU_BUILD_ID).
 *
 * Context: usable everywhere; the notes must be readable.
 */
#ifndef PYH_BUILD_ID_H
#define PYH_BUILD_ID_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

/* Returns the build-id's bytes and how many; NULL: there is none. */
static inline const unsigned char *build_id_find(const void *notes, size_t size, size_t *length)
{
    const unsigned char *p = notes;
    while (size >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)p;
        size_t name = (note->n_namesz + 3u) & ~3u, body = (note->n_descsz + 3u) & ~3u;
        if (name > size - sizeof *note || body > size - sizeof *note - name)
            break;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof ELF_NOTE_GNU &&
            !memcmp(note + 1, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU)) {
            *length = note->n_descsz;
            return p + sizeof *note + name;
        }
        p += sizeof *note + name + body;
        size -= sizeof *note + name + body;
    }
    return NULL;
}

#endif

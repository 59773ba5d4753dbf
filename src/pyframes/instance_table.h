/* instance_table.h - objects that are frames of their own where their method runs: layers of a model.
 *
 * One code object is known (instance_method), the way into all of them: where it runs, its first local variable is the
 * object.  The table maps that object's address to a word (frame.h, PYH_TAG_REGION), which is put between the method
 * and its caller.  An object that dies is taken out before another can have its address.
 *
 * Context: instance_word and instance_word_of_frame are async-signal-safe; the others need the GIL.
 */
#ifndef PYH_INSTANCE_TABLE_H
#define PYH_INSTANCE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct _object;

struct instance {
    _Atomic uint64_t object; /* 0: free, and never used */
    _Atomic uint64_t word;   /* 0: it has died */
    struct _object *weak;    /* a reference of ours to the weak one */
    struct _object *path;
    bool is_root;  /* its path is its own name */
    bool is_seen;  /* all below it was gone through: */
    uint32_t walk; /* the last one that came by */
    uint32_t seen; /* after so many changes (instances.c) */
};

struct instance_table {
    uint32_t mask, n_used;
    struct instance slot[];
};

/* The table; NULL: no object has been in it.  One that was outgrown stays where it is: a handler may be reading it. */
extern _Atomic(struct instance_table *) instance_table;

/* Returns the object's slot, or the free one where it would be. */
struct instance *instance_slot(struct instance_table *t, uint64_t address);

/* The method's code object; 0: there is none. */
extern _Atomic uint64_t instance_method;

/* Returns the object's word, or 0 if it is not in the table. */
uint64_t instance_word(uint64_t address);

/* The same for the object of the frame at `frame`, which can be read as far as its locals, and which runs the
 * method. */
uint64_t instance_word_of_frame(uint64_t frame);

/* Returns the object's place, or NULL if it is not there. */
struct instance *instance_find(uint64_t address);

/* Returns the place of a new one, with its object, but without a word.  Places move.  NULL: no memory. */
struct instance *instance_add(uint64_t address);

/* Returns one after another, the dead ones, too; NULL: no more. */
struct instance *instance_at(uint32_t i);

#endif

/* remote.h - the stacks of another process: the interpreter's by reading its memory, native ones by libdw.
 *
 * Nothing runs in the process.  Its interpreter must be of the version that this is built for: the structs are its own.
 *
 * Context: a process of ours, one thread of it.
 */
#ifndef PYH_REMOTE_H
#define PYH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns false where it cannot be read: errno. */
bool remote_read(pid_t pid, uint64_t address, void *to, size_t n);

struct remote_interpreter {
    uint64_t main;         /* PyInterpreterState *; 0: not yet */
    uint64_t gil, gil_end; /* the struct */
    uint64_t holder;       /* the thread state that has the GIL; 0: none */
    uint64_t switches;     /* how often it changed hands */
    uint64_t first;        /* thread state */
    bool ends;             /* the interpreter is being taken down */
    uint64_t pending_lock, pending_free, pending_mask; /* inject.h */
};

/* `runtime`: the address of _PyRuntime.  Returns false where it cannot be read. */
bool remote_interpreter(pid_t pid, uint64_t runtime, struct remote_interpreter *out);

struct remote_thread {
    uint64_t state, next, tid;
    uint64_t frame; /* the innermost one; 0: none */
};

bool remote_thread(pid_t pid, uint64_t state, struct remote_thread *out);

/* Takes back what sys.remote_exec asks of a thread, if it has not begun (3.14+). */
bool remote_withdraw(pid_t pid, uint64_t state);

struct remote_frame {
    uint64_t code; /* 0: it is the entry frame of an eval loop */
    uint64_t frame, previous;
    uint32_t offset;
};

bool remote_frame(pid_t pid, uint64_t address, struct remote_frame *out);

#define REMOTE_TEXT_MAX 4096
#define REMOTE_TABLE_MAX 262144

struct remote_text {
    uint32_t length, kind; /* characters, and bytes of each: Latin-1, UCS-2, UCS-4 */
    uint64_t address;
};

bool remote_text(pid_t pid, uint64_t address, struct remote_text *out);

#define REMOTE_LOCALS_MAX 128
#define REMOTE_VALUE_MAX 128

/* What the exact type of a value tells: no code of the program's runs, and nothing is followed further. */
struct remote_value {
    bool is_string;
    struct remote_text string;   /* of one */
    char text[REMOTE_VALUE_MAX]; /* of others: 5, 2.5, None, <list of 3>, <Tensor> */
};

struct remote_local {
    struct remote_text name;
    struct remote_value value;
};

/* Reads the variables of the frame at `address` that have a value; returns how many.  A frame that runs meanwhile may
 * have others by then: what cannot be read is left out. */
uint32_t remote_locals(pid_t pid, uint64_t address, struct remote_local *out, uint32_t most);

struct remote_code {
    struct remote_text qualname, file;
    uint32_t first_line, table_length;
    uint64_t table;
};

bool remote_code(pid_t pid, uint64_t address, struct remote_code *out);

struct remote_unwind;

/* One native frame, innermost first. */
struct native_frame {
    uint64_t pc, sp;  /* sp 0: not known */
    bool is_exact;    /* the instruction itself, not where a call returns to */
    const char *path; /* of its file; NULL: none */
    uint64_t address; /* in the file */
};

/* Returns NULL where it cannot: *error, libdw's text. */
struct remote_unwind *remote_unwind_new(pid_t pid, const char **error);
void remote_unwind_free(struct remote_unwind *u);

/* Calls `each` for the frames of a thread that is stopped, until it is false.  Returns NULL or why it ended before the
 * last one. */
const char *remote_unwind_thread(struct remote_unwind *u, pid_t tid,
                                 bool (*each)(const struct native_frame *frame, void *argument),
                                 void *argument);

#endif

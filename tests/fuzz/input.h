/* input.h - what every target has: its input as a file, and an account of the memory that reading it takes.
 *
 * A target is a program of libFuzzer's, which calls LLVMFuzzerTestOneInput() with one damaged file after the other.
 * It runs in a folder of its own: `input` is the file, `roots` are folders of debug files, and what
 * else lies there (seeds.py) is whole.
 *
 * Files that are read by our own code are not mapped but copied into memory of their exact size, so that ASan sees
 * what is read beyond their ends (-Wl,--wrap=mmap).
 */
#ifndef PYH_FUZZ_INPUT_H
#define PYH_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#define INPUT_PATH "input"
#define DEBUG_ROOTS "roots:other_roots"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Makes the bytes the file INPUT_PATH. */
void input_write(const uint8_t *bytes, size_t size);

/* Heap memory is counted from here on; input_check_memory() fails if there was ever more than `limit` bytes of it. */
void input_count_memory(void);
void input_check_memory(size_t limit);

/* The program fails, and libFuzzer keeps the input. */
#define INPUT_CHECK(holds) ((holds) ? (void)0 : input_fail(#holds, __FILE__, __LINE__))
_Noreturn void input_fail(const char *what, const char *file, int line);

/* Random enough; `state` is not 0. */
uint64_t input_random(uint64_t *state);

/* Addresses to look up: of sections and symbols as the bytes have them, and by chance. */
#define N_ADDRESSES 64
void input_addresses(const uint8_t *bytes, size_t size, uint64_t addresses[N_ADDRESSES]);

#endif

/* late_signals.h - signals of the program that come while we keep it from ending.
 *
 * What Python code handled, the interpreter sets to its default when it is taken down, which is mostly death.
 * Without us a program with a timer still running is gone by then, or nearly; with us it has its profile to
 * finish.  So such signals are ignored while we work, for as long again and a second afterwards (the interpreter is
 * being taken down, and without us might have been when the signal came), and while exit() waits for the files.
 * Should the interpreter's end take longer they do what they would do: whoever waits for that can end it.
 *
 * Context: ordinary, one thread at a time; signals come to any thread.
 */
#ifndef PYH_LATE_SIGNALS_H
#define PYH_LATE_SIGNALS_H

#include <sys/types.h>

/* One that comes is ignored from now on. */
void late_signal_hold(int number);

/* Those that are held are ignored for as long again, and a second. */
void late_signals_release(void);

/* Ignored again, also those that got their default meanwhile. */
void late_signals_hold_again(void);

/* A SIGINT that is sent to this process alone, or was while none was told, goes on to process `pid`; 0: to none. */
void late_signals_interrupt(pid_t pid);

#endif

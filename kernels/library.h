/* library.h: libraries of others (OpenBLAS, oneDNN, LLVM) that are opened while a program runs. Their code may be
 * running in a thread of ours when the process ends, so nothing of theirs is taken down: they are never closed, and
 * what they ask to have called at the end is not called. Of those that take themselves down all the same, and of what
 * was asked for while they were loaded, runtime/base/ending.c takes care.
 */
#ifndef DFLOW_LIBRARY_H
#define DFLOW_LIBRARY_H
#include <stdbool.h>

/* dlopen(name, flags), or NULL: dlerror() says why. stays: what the libraries that come with it pass to atexit and
 * __cxa_atexit (C++: the destructors of static objects) from now on is never called. Any thread. */
void *dfk_library_open(const char *name, int flags, bool stays);

/* `fn` is called whenever a library was opened, by the thread that opened it. Once, before any. */
void dfk_library_on_open(void (*fn)(void));
#endif

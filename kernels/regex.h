/* regex.h: regular expressions in RE2's syntax, matched in time that is linear in the text (regex.c). */
#ifndef DFLOW_REGEX_H
#define DFLOW_REGEX_H
#include "kernel.h"

enum { DFK_GROUPS = 10 };                   /* that are remembered: the whole match and \1 … \9 */

typedef struct dfk_regex dfk_regex;
/* Begin and end of each group in the text; -1: the group took no part. */
typedef struct dfk_match { int64_t from[DFK_GROUPS], to[DFK_GROUPS]; } dfk_match;

/* Owned. NULL: the kernel's error says what is wrong with the pattern. */
dfk_regex *dfk_regex_new(df_kernel *k, const char *pattern, int64_t n);
void       dfk_regex_free(dfk_regex *r);
/* How many groups it has, besides the whole match. */
int32_t    dfk_regex_groups(const dfk_regex *r);
/* The leftmost match in the text at byte `at` or behind it; `whole`: of all the text from there. 1: found; 0: there is
 * none; -1: the kernel's error is filled (memory, or the run shall stop). */
int32_t    dfk_regex_find(df_kernel *k, dfk_regex *r, const char *text, int64_t n, int64_t at, bool whole,
                          dfk_match *m);
#endif

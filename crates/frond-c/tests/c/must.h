/* Checks of the test programs: a check that fails prints its place and ends the program. */
#ifndef MUST_H
#define MUST_H

#include "frond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static frond_error error;

#define DIE(what)                                                                        \
    do {                                                                                 \
        fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, what, error.code, error.message); \
        exit(1);                                                                         \
    } while (0)
#define MUST(call)                                                                       \
    do {                                                                                 \
        if ((call) != FROND_OK)                                                          \
            DIE(#call);                                                                  \
    } while (0)
#define GIVES(code, call)                                                                \
    do {                                                                                 \
        int got = (call);                                                                \
        if (got != (code)) {                                                             \
            fprintf(stderr, "gives %d\n", got);                                          \
            DIE(#call);                                                                  \
        }                                                                                \
    } while (0)
#define CHECK(fact)                                                                      \
    do {                                                                                 \
        if (!(fact))                                                                     \
            DIE(#fact);                                                                  \
    } while (0)

#endif

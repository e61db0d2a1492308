#pragma once

// What our test programs share: a broken rule prints one line and is counted, and the rest goes on.

#include <cstdio>

static int n_broken = 0;

#define EXPECT(condition, ...)                                     \
    do {                                                           \
        if (!(condition)) {                                        \
            ++n_broken;                                            \
            printf("line %d: %s: ", __LINE__, #condition);         \
            printf(__VA_ARGS__);                                   \
            printf("\n");                                          \
        }                                                          \
    } while (0)

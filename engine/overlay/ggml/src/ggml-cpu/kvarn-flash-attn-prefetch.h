// Rows of one head lie a stride apart, few to a page: what the processor would guess comes late, so memory is asked for by hand.

#pragma once

#include "kvarn-flash-attn-tile.h"

#include <immintrin.h>

#include <cstdint>

namespace kvarn_fa {

// Asks for bytes from .. from + size - 1 of the row that is met a tile after this one, but for a line now and then. Behind the end of
// a cache that is of no use, and does no harm.
static inline void prefetch_after(const char * row, size_t stride, size_t from, size_t size) {
    const uintptr_t first = (uintptr_t) row + KVARN_FA_KEYS*stride + from;
    _mm_prefetch((const char *) first, _MM_HINT_T0);
    for (size_t at = 64; at + 64 < size; at += 64) {
        _mm_prefetch((const char *) (first + at), _MM_HINT_T0);
    }
    _mm_prefetch((const char *) (first + size - 1), _MM_HINT_T0);
}

} // namespace kvarn_fa

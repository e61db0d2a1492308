#pragma once

// K-V pairs that the vector kernel of FlashAttention is compiled for; attention over any other pair converts to f16 first.
// Heads of 64 meet the types of 64-value blocks, as llama/fit-kv-types chooses. Each pair is instantiated in a file of its own,
// kvarn-fattn-vec-<K>-<V>.cu. To be included after fattn-vec.cuh, which has no guard of its own.

#define KVARN_FATTN_VEC_CASES(X)                                              \
    X( 64, GGML_TYPE_KVARN_TBQ4_0_64,    GGML_TYPE_KVARN_TBQ4_0_64)           \
    X(128, GGML_TYPE_KVARN_TBQ4_0,       GGML_TYPE_KVARN_TBQ4_0)              \
    X(256, GGML_TYPE_KVARN_TBQ4_0,       GGML_TYPE_KVARN_TBQ4_0)              \
    X( 64, GGML_TYPE_KVARN_TBQ4_0_64,    GGML_TYPE_KVARN_PLANAR3_0_64)        \
    X(128, GGML_TYPE_KVARN_TBQ4_0,       GGML_TYPE_KVARN_PLANAR3_0)           \
    X(256, GGML_TYPE_KVARN_TBQ4_0,       GGML_TYPE_KVARN_PLANAR3_0)           \
    X( 64, GGML_TYPE_KVARN_PLANAR3_0_64, GGML_TYPE_KVARN_PLANAR3_0_64)        \
    X(128, GGML_TYPE_KVARN_PLANAR3_0,    GGML_TYPE_KVARN_PLANAR3_0)           \
    X(256, GGML_TYPE_KVARN_PLANAR3_0,    GGML_TYPE_KVARN_PLANAR3_0)           \
    X( 64, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_TBQ4_0_64)           \
    X(128, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_TBQ4_0)              \
    X(256, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_TBQ4_0)              \
    X( 64, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_PLANAR3_0_64)        \
    X(128, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_PLANAR3_0)           \
    X(256, GGML_TYPE_Q8_0,               GGML_TYPE_KVARN_PLANAR3_0)           \
    X( 64, GGML_TYPE_KVARN_TCQ4_0_64,   GGML_TYPE_KVARN_TCQ4_0_64)            \
    X(128, GGML_TYPE_KVARN_TCQ4_0,      GGML_TYPE_KVARN_TCQ4_0)               \
    X(256, GGML_TYPE_KVARN_TCQ4_0,      GGML_TYPE_KVARN_TCQ4_0)               \
    X( 64, GGML_TYPE_KVARN_TCQ4_0_64,   GGML_TYPE_KVARN_TCQ3_0_64)            \
    X(128, GGML_TYPE_KVARN_TCQ4_0,      GGML_TYPE_KVARN_TCQ3_0)               \
    X(256, GGML_TYPE_KVARN_TCQ4_0,      GGML_TYPE_KVARN_TCQ3_0)               \
    X( 64, GGML_TYPE_KVARN_TCQ3_0_64,   GGML_TYPE_KVARN_TCQ3_0_64)            \
    X(128, GGML_TYPE_KVARN_TCQ3_0,      GGML_TYPE_KVARN_TCQ3_0)               \
    X(256, GGML_TYPE_KVARN_TCQ3_0,      GGML_TYPE_KVARN_TCQ3_0)               \
    X( 64, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ4_0_64)            \
    X(128, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ4_0)               \
    X(256, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ4_0)               \
    X( 64, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ3_0_64)            \
    X(128, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ3_0)               \
    X(256, GGML_TYPE_Q8_0,              GGML_TYPE_KVARN_TCQ3_0)

#define KVARN_EXTERN_DECL(D, type_K, type_V) extern DECL_FATTN_VEC_CASE(D, type_K, type_V);
KVARN_FATTN_VEC_CASES(KVARN_EXTERN_DECL)
#undef KVARN_EXTERN_DECL

typedef void (* kvarn_fattn_vec_case_t)(ggml_backend_cuda_context & ctx, ggml_tensor * dst);

// nullptr: not compiled
static inline kvarn_fattn_vec_case_t kvarn_get_fattn_vec_case(const int64_t head_size, const ggml_type type_K, const ggml_type type_V) {
#define KVARN_CASE(D, type_K_case, type_V_case)                                      \
    if (head_size == (D) && type_K == type_K_case && type_V == type_V_case) {        \
        return ggml_cuda_flash_attn_ext_vec_case<D, type_K_case, type_V_case>;       \
    }
    KVARN_FATTN_VEC_CASES(KVARN_CASE)
#undef KVARN_CASE
    return nullptr;
}

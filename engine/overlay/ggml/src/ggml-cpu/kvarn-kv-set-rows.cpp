#include "kvarn-kv-set-rows.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"

#include <algorithm>

static bool is_trellis(ggml_type type) {
    switch (type) {
        case GGML_TYPE_KVARN_TCQ4_0:
        case GGML_TYPE_KVARN_TCQ3_0:
        case GGML_TYPE_KVARN_TCQ4_0_64:
        case GGML_TYPE_KVARN_TCQ3_0_64: return true;
        default:                        return false;
    }
}

static bool is_ours(const ggml_tensor * dst) {
    return is_trellis(dst->type) && dst->src[0]->type == GGML_TYPE_F32;
}

static int64_t index_at(const ggml_tensor * index, int64_t i0, int64_t i1, int64_t i2) {
    const char * at = (const char *) index->data + i0*index->nb[0] + i1*index->nb[1] + i2*index->nb[2];
    return index->type == GGML_TYPE_I64 ? *(const int64_t *) at : *(const int32_t *) at;
}

// All blocks of all rows in one line, cut evenly: a block knows nothing of its neighbours, so a row may be cut, and a decode step
// has only one.
bool kvarn_maybe_set_rows(const ggml_compute_params * params, ggml_tensor * dst) {
    if (!is_ours(dst)) {
        return false;
    }
    const ggml_tensor * src   = dst->src[0];
    const ggml_tensor * index = dst->src[1];
    const int64_t block   = ggml_blck_size(dst->type);
    const int64_t n_cols  = src->ne[0]/block;
    const int64_t total   = n_cols*ggml_nrows(src);
    const int64_t end     = total*(params->ith + 1)/params->nth;
    const auto from_float = ggml_get_type_traits_cpu(dst->type)->from_float;

    for (int64_t at = total*params->ith/params->nth; at < end; ) {
        const int64_t col   = at % n_cols;
        const int64_t count = std::min(n_cols - col, end - at);
        const int64_t i1    = at/n_cols % src->ne[1];
        const int64_t i2    = at/n_cols/src->ne[1] % src->ne[2];
        const int64_t i3    = at/n_cols/src->ne[1]/src->ne[2];
        const int64_t row   = index_at(index, i1, i2 % index->ne[1], i3 % index->ne[2]);
        GGML_ASSERT(row >= 0 && row < dst->ne[1]);

        const char * from = (const char *) src->data + i1*src->nb[1] + i2*src->nb[2] + i3*src->nb[3];
        char       * to   = (char *) dst->data + row*dst->nb[1] + i2*dst->nb[2] + i3*dst->nb[3];
        from_float((const float *) from + col*block, to + col*ggml_type_size(dst->type), count*block);
        at += count;
    }
    return true;
}

#include "kvarn-kv-devices.h"

#include "ggml-cpp.h"
#include "kvarn-kv-rotation.h"
#include "llama-impl.h"
#include "llama-model.h"

// One query meets 256 cached rows: kernels of every backend are chosen for shapes like this.
static const int64_t n_rows = 256;

struct attention_shape {
    int64_t head_k, head_v, n_head, n_head_kv;
};

static bool runs_flash_attention(ggml_backend_dev_t dev, const attention_shape & s, const llama_context_params & params) {
    ggml_context_ptr ctx { ggml_init({ 8*ggml_tensor_overhead(), nullptr, true }) };
    ggml_tensor * q    = ggml_new_tensor_4d(ctx.get(), GGML_TYPE_F32, s.head_k, 1, s.n_head, 1);
    ggml_tensor * k    = ggml_new_tensor_4d(ctx.get(), params.type_k, s.head_k, n_rows, s.n_head_kv, 1);
    ggml_tensor * v    = ggml_new_tensor_4d(ctx.get(), params.type_v, s.head_v, n_rows, s.n_head_kv, 1);
    ggml_tensor * mask = ggml_new_tensor_4d(ctx.get(), GGML_TYPE_F16, n_rows, 1, 1, 1);
    return ggml_backend_dev_supports_op(dev, ggml_flash_attn_ext(ctx.get(), q, k, v, mask, 1.0f, 0.0f, 0.0f));
}

static bool multiplies_keys(ggml_backend_dev_t dev, const attention_shape & s, const llama_context_params & params) {
    ggml_context_ptr ctx { ggml_init({ 8*ggml_tensor_overhead(), nullptr, true }) };
    ggml_tensor * k = ggml_new_tensor_4d(ctx.get(), params.type_k, s.head_k, n_rows, s.n_head_kv, 1);
    ggml_tensor * q = ggml_new_tensor_4d(ctx.get(), GGML_TYPE_F32, s.head_k, 1, s.n_head, 1);
    return ggml_backend_dev_supports_op(dev, ggml_mul_mat(ctx.get(), k, q));
}

static bool can_attend(ggml_backend_dev_t dev, const attention_shape & s, const llama_context_params & params) {
    if (params.flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED && runs_flash_attention(dev, s, params)) {
        return true;
    }
    const bool needs_flash_attention = params.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_ENABLED || ggml_is_quantized(params.type_v);
    return !needs_flash_attention && multiplies_keys(dev, s, params);
}

std::string kvarn_attention_problem(const llama_model & model, const llama_context_params & params) {
    const auto & hparams = model.hparams;
    const bool rotated = kvarn_is_rotated_type(params.type_k) || kvarn_is_rotated_type(params.type_v);
    if (!rotated || !params.offload_kqv || hparams.is_mla()) { // MLA meets other head sizes than the cache's
        return "";
    }
    for (uint32_t il = 0; il < hparams.n_layer(); ++il) {
        ggml_backend_dev_t dev = model.dev_layer(il);
        const attention_shape s = { hparams.n_embd_head_k(il), hparams.n_embd_head_v(il), hparams.n_head(il), hparams.n_head_kv(il) };
        const bool has_keys = s.n_head_kv > 0 && s.n_head % s.n_head_kv == 0;
        const bool fits     = s.head_k % ggml_blck_size(params.type_k) == 0 && s.head_v % ggml_blck_size(params.type_v) == 0;
        if (!dev || !has_keys || !fits || can_attend(dev, s, params)) { // what does not fit is refused by upstream
            continue;
        }
        const bool off = params.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_DISABLED;
        return format("%s has no attention over a %s K and %s V cache with heads of %d values%s; q8_0 and q4_0 work (or keep the cache on the "
                "CPU, --no-kv-offload)", ggml_backend_dev_name(dev), kvarn_public_type_name(params.type_k).c_str(),
                kvarn_public_type_name(params.type_v).c_str(), (int) s.head_k, off ? " while flash attention is off" : "");
    }
    return "";
}

#include "kvarn-kv-rotation.h"

#include "../ggml/src/kvarn-kv-types.h"
#include "kvarn-kv-devices.h"
#include "llama-hparams.h"
#include "llama-impl.h"
#include "llama-io.h"
#include "llama-model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

bool kvarn_is_rotated_type(ggml_type type) {
    switch (type) {
        KVARN_KV_TYPE_CASES
            return true;
        default:
            return false;
    }
}

//
// which types fit a model
//

static ggml_type with_blocks_of_64(ggml_type type) {
    switch (type) {
        case GGML_TYPE_KVARN_TBQ4_0:    return GGML_TYPE_KVARN_TBQ4_0_64;
        case GGML_TYPE_KVARN_PLANAR3_0: return GGML_TYPE_KVARN_PLANAR3_0_64;
        case GGML_TYPE_KVARN_TCQ4_0:    return GGML_TYPE_KVARN_TCQ4_0_64;
        case GGML_TYPE_KVARN_TCQ3_0:    return GGML_TYPE_KVARN_TCQ3_0_64;
        default:                        return type;
    }
}

std::string kvarn_public_type_name(ggml_type type) {
    const std::string name = ggml_type_name(type);
    const bool small = kvarn_is_rotated_type(type) && ggml_blck_size(type) == KVARN_QK_64;
    return small ? name.substr(0, name.size() - strlen("_64")) : name;
}

static bool divides_all(int64_t n, const std::vector<uint32_t> & heads) {
    for (uint32_t head : heads) {
        if (head % n != 0) {
            return false;
        }
    }
    return true;
}

// Would the device accept rows of this type? Asking is cheap; allocating and then failing aborts the program.
static bool can_store(ggml_backend_dev_t dev, ggml_type type) {
    ggml_context_ptr ctx { ggml_init({ 8*ggml_tensor_overhead(), nullptr, true }) };
    const int64_t n = 256;
    ggml_tensor * cache = ggml_new_tensor_2d(ctx.get(), type, n, 4);
    ggml_tensor * rows  = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, n, 1);
    ggml_tensor * where = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I64, 1);
    return ggml_backend_dev_supports_op(dev, ggml_set_rows(ctx.get(), cache, rows, where));
}

static std::vector<ggml_backend_dev_t> cache_devices(const llama_model & model, bool offload) {
    std::vector<ggml_backend_dev_t> devices;
    for (uint32_t il = 0; il < model.hparams.n_layer(); ++il) {
        devices.push_back(offload ? model.dev_layer(il) : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    }
    return devices;
}

static ggml_backend_dev_t first_refusing(const std::vector<ggml_backend_dev_t> & devices, ggml_type type) {
    ggml_backend_dev_t last = nullptr; // layers come in runs of one device
    for (ggml_backend_dev_t dev : devices) {
        if (dev && dev != last && !can_store(dev, type)) {
            return dev;
        }
        last = dev;
    }
    return nullptr;
}

static std::string types_that_work(const std::vector<uint32_t> & heads, const std::vector<ggml_backend_dev_t> & devices) {
    std::string names;
    for (ggml_type type : { GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0, GGML_TYPE_BF16, GGML_TYPE_F16 }) {
        if (divides_all(ggml_blck_size(type), heads) && !first_refusing(devices, type)) {
            names += (names.empty() ? "" : ", ") + std::string(ggml_type_name(type));
        }
    }
    return names;
}

static std::string fit_type(const char * side, ggml_type & type, const std::vector<uint32_t> & heads,
        const std::vector<ggml_backend_dev_t> & devices) {
    if (!kvarn_is_rotated_type(type)) {
        return "";
    }
    const std::string name = kvarn_public_type_name(type);
    if (!divides_all(64, heads)) {
        return format("%s cache type %s needs heads of a multiple of 64 values, and this model has heads of %u; these types work: %s",
                side, name.c_str(), *std::find_if(heads.begin(), heads.end(), [](uint32_t h) { return h % 64 != 0; }),
                types_that_work(heads, devices).c_str());
    }
    if (!divides_all(128, heads)) {
        type = with_blocks_of_64(type);
    }
    if (ggml_backend_dev_t dev = first_refusing(devices, type)) {
        return format("%s cache type %s is not supported on %s; these types work: %s (or keep the cache on the CPU, --no-kv-offload)",
                side, name.c_str(), ggml_backend_dev_name(dev), types_that_work(heads, devices).c_str());
    }
    return "";
}

std::string kvarn_fit_kv_types(const llama_model & model, llama_context_params & params) {
    std::vector<uint32_t> heads_k;
    std::vector<uint32_t> heads_v;
    for (uint32_t il = 0; il < model.hparams.n_layer(); ++il) {
        heads_k.push_back(model.hparams.n_embd_head_k(il));
        heads_v.push_back(model.hparams.n_embd_head_v(il));
    }
    const auto devices = cache_devices(model, params.offload_kqv);

    std::string problem = fit_type("K", params.type_k, heads_k, devices);
    if (problem.empty()) {
        problem = fit_type("V", params.type_v, heads_v, devices);
    }
    return problem.empty() ? kvarn_attention_problem(model, params) : problem;
}

//
// the rotation of a cache
//

static int64_t largest_power_of_two_in(int64_t n) {
    return n & -n;
}

// H is symmetric, and h_ij = (-1)^popcount(i & j) / sqrt(n)
static std::vector<float> matrices_of(int64_t n) {
    std::vector<float> rows(2*n*n);
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            int parity = 0;
            for (int64_t both = i & j; both; both &= both - 1) {
                parity ^= 1;
            }
            const float h = (parity ? -1.0f : 1.0f)/std::sqrt((float) n);
            rows[i*n + j]       = kvarn_sign_bit((uint32_t) j) ? -h : h; // H*D
            rows[(n + i)*n + j] = kvarn_sign_bit((uint32_t) i) ? -h : h; // D*H
        }
    }
    return rows;
}

static ggml_tensor * new_rotation(ggml_context * ctx, const char * side, const ggml_tensor * cache, bool rot, int32_t n_head) {
    if (!cache || !kvarn_is_rotated_type(cache->type)) {
        return nullptr;
    }
    if (!rot) {
        throw std::runtime_error(format("%s cache type %s stores rotated values only, and this %s; q8_0 and q4_0 work without rotation",
                side, kvarn_public_type_name(cache->type).c_str(),
                n_head > 0 ? "cache is not rotated (LLAMA_ATTN_ROT_DISABLE)" : "model's heads differ in size within one cache"));
    }
    const int64_t n = largest_power_of_two_in(n_head);
    ggml_tensor * result = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, 2*n);
    ggml_format_name(result, "kvarn_rotation_%s", side);
    LLAMA_LOG_INFO("%s: %s cache %s: blocks of %d, %.3f bits a value, rotated over %d values with signs\n", __func__, side,
            kvarn_public_type_name(cache->type).c_str(), (int) ggml_blck_size(cache->type),
            8.0*ggml_type_size(cache->type)/ggml_blck_size(cache->type), (int) n);
    return result;
}

std::shared_ptr<kvarn_kv_rotation> kvarn_make_rotation(const llama_hparams & hparams, const ggml_tensor * k, const ggml_tensor * v,
        bool rot_k, bool rot_v, int32_t n_head_k, int32_t n_head_v) {
    auto r = std::make_shared<kvarn_kv_rotation>();
    r->ctx.reset(ggml_init({ 2*ggml_tensor_overhead(), nullptr, true }));
    r->k = new_rotation(r->ctx.get(), "K", k, rot_k, n_head_k);
    r->v = new_rotation(r->ctx.get(), "V", v, rot_v, n_head_v);
    if (!r->k && !r->v) {
        return nullptr;
    }
    for (uint32_t il = 0; il < hparams.n_layer_all; ++il) {
        r->can_shift = r->can_shift && (!r->k || hparams.n_rot(il) == hparams.n_embd_head_k(il));
    }
    ggml_backend_buffer_type_t buft = ggml_backend_buffer_get_type((r->k ? k : v)->buffer);
    if (hparams.no_alloc) {
        r->buf.reset(ggml_backend_buft_alloc_buffer(buft, 0)); // as the cache's own tensors: present, without memory
        for (ggml_tensor * t = ggml_get_first_tensor(r->ctx.get()); t; t = ggml_get_next_tensor(r->ctx.get(), t)) {
            t->buffer = r->buf.get();
        }
        return r;
    }
    r->buf.reset(ggml_backend_alloc_ctx_tensors_from_buft(r->ctx.get(), buft));
    if (!r->buf) {
        throw std::runtime_error("failed to allocate the rotation of the kv cache");
    }
    for (ggml_tensor * t : { r->k, r->v }) {
        if (t) {
            ggml_backend_tensor_set(t, matrices_of(t->ne[0]).data(), 0, ggml_nbytes(t));
        }
    }
    return r;
}

//
// graphs
//

static bool has_signs(const ggml_tensor * rot) {
    return rot->ne[1] == 2*rot->ne[0];
}

static ggml_tensor * transform(ggml_context * ctx, ggml_tensor * cur, ggml_tensor * rot, int32_t hint) {
    const int64_t n = rot->ne[0];
    const size_t offset = hint == KVARN_HINT_UNROTATE ? n*rot->nb[1] : 0;
    ggml_tensor * matrix = ggml_view_2d(ctx, rot, n, n, rot->nb[1], offset);

    ggml_tensor * rows = ggml_is_contiguous(cur) ? ggml_reshape_2d(ctx, cur, n, ggml_nelements(cur)/n)
                                                 : ggml_cont_2d   (ctx, cur, n, ggml_nelements(cur)/n);
    rows = ggml_mul_mat(ctx, matrix, rows);
    rows->op_params[1] = hint;
    return ggml_reshape_4d(ctx, rows, cur->ne[0], cur->ne[1], cur->ne[2], cur->ne[3]);
}

ggml_tensor * kvarn_rotate(ggml_context * ctx, ggml_tensor * cur, ggml_tensor * rot) {
    return has_signs(rot) ? transform(ctx, cur, rot, KVARN_HINT_ROTATE) : llama_mul_mat_hadamard(ctx, cur, rot);
}

ggml_tensor * kvarn_unrotate(ggml_context * ctx, ggml_tensor * cur, ggml_tensor * rot) {
    return has_signs(rot) ? transform(ctx, cur, rot, KVARN_HINT_UNROTATE) : llama_mul_mat_hadamard(ctx, cur, rot);
}

void kvarn_require_plain(const ggml_tensor * rot) {
    if (has_signs(rot)) {
        throw std::runtime_error("this model rotates its cache in a way of its own, which rotated cache types do not support; "
                "q8_0 and q4_0 work");
    }
}

void kvarn_require_rotated(const ggml_tensor * cur, const ggml_tensor * cache) {
    if (!kvarn_is_rotated_type(cache->type)) {
        return;
    }
    while (cur->op == GGML_OP_RESHAPE || cur->op == GGML_OP_VIEW || cur->op == GGML_OP_PERMUTE || cur->op == GGML_OP_CONT) {
        cur = cur->src[0];
    }
    if (cur->op != GGML_OP_MUL_MAT || cur->op_params[1] != KVARN_HINT_ROTATE) {
        throw std::runtime_error(format("this model stores values into its cache that were not rotated, which %s does not support; "
                "q8_0 and q4_0 work", kvarn_public_type_name(cache->type).c_str()));
    }
}

//
// saved states
//

// No number of streams is as large, so upstream's reader refuses our states and ours refuses upstream's.
static const uint32_t kv_format_magic = 0x6b76726e;

static std::string format_of_side(const ggml_tensor * cache, bool rot) {
    if (!cache) {
        return "none";
    }
    const char * how = kvarn_is_rotated_type(cache->type) ? "signs and hadamard" : rot ? "hadamard" : "plain";
    return format("%s %s", ggml_type_name(cache->type), how);
}

static std::string format_of(const ggml_tensor * k, const ggml_tensor * v, bool rot_k, bool rot_v) {
    const bool quantised = (k && ggml_is_quantized(k->type)) || (v && ggml_is_quantized(v->type));
    return quantised ? "1: K " + format_of_side(k, rot_k) + ", V " + format_of_side(v, rot_v) : "";
}

void kvarn_write_kv_format(llama_io_write_i & io, const ggml_tensor * k, const ggml_tensor * v, bool rot_k, bool rot_v) {
    const std::string text = format_of(k, v, rot_k, rot_v);
    if (!text.empty()) {
        io.write(&kv_format_magic, sizeof(kv_format_magic));
        io.write_string(text);
    }
}

void kvarn_check_kv_format(llama_io_read_i & io, const ggml_tensor * k, const ggml_tensor * v, bool rot_k, bool rot_v) {
    const std::string expected = format_of(k, v, rot_k, rot_v);
    if (expected.empty()) {
        return;
    }
    uint32_t magic;
    io.read(&magic, sizeof(magic));
    if (magic != kv_format_magic) {
        throw std::runtime_error("the saved state does not say how its quantised cache was stored");
    }
    std::string found;
    io.read_string(found);
    if (found != expected) {
        throw std::runtime_error("the saved state holds another kind of cache: " + found + "; this one is " + expected);
    }
}

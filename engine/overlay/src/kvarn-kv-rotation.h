#pragma once

// The contract of the rotated cache types (kvarn-kv-types.h): no value is stored unless it was rotated, nothing is read without
// being rotated back, and nothing that was stored under another rotation is taken for ours. Whatever cannot keep it is refused
// when the context is made. Upstream's own types keep upstream's rotation.
//
// A rotation of n values is a tensor [n, 2n], f32: n rows of R = H*D, then n rows of its inverse D*H (see kvarn-kv-types.h).
// Upstream's is [n, n], so the shape tells them apart.

#include "ggml-cpp.h"
#include "llama.h"

#include <cstdint>
#include <memory>
#include <string>

class llama_io_read_i;
class llama_io_write_i;
struct llama_hparams;

bool kvarn_is_rotated_type(ggml_type type); // one of kvarn-kv-types.h, either block size

// The name people give and read; one name stands for both block sizes.
std::string kvarn_public_type_name(ggml_type type);

// Gives params the block size that fits the model's heads. Returns what is wrong as a sentence that names types that do work,
// empty when nothing is.
std::string kvarn_fit_kv_types(const llama_model & model, llama_context_params & params);

// Lives as long as its cache, in a buffer of its own: unlike upstream's, nothing is copied for each batch.
struct kvarn_kv_rotation {
    ggml_tensor * k = nullptr; // null when K is of one of upstream's types
    ggml_tensor * v = nullptr;

    bool can_shift = true; // does RoPE turn whole heads, as a shift of rotated K needs?

    ggml_context_ptr        ctx;
    ggml_backend_buffer_ptr buf;
};

// null when neither type needs one; throws when a type does and its heads cannot be rotated (n_head_* <= 0: not all alike)
std::shared_ptr<kvarn_kv_rotation> kvarn_make_rotation(const llama_hparams & hparams, const ggml_tensor * k, const ggml_tensor * v,
        bool rot_k, bool rot_v, int32_t n_head_k, int32_t n_head_v);

// With one of upstream's rotations these are llama_mul_mat_hadamard().
ggml_tensor * kvarn_rotate  (ggml_context * ctx, ggml_tensor * cur, ggml_tensor * rot);
ggml_tensor * kvarn_unrotate(ggml_context * ctx, ggml_tensor * cur, ggml_tensor * rot);

// Both throw; the first where a model's own graph would rotate as if R were its own inverse, the second where it stores
// values into a cache of our types that did not come from kvarn_rotate().
void kvarn_require_plain  (const ggml_tensor * rot);
void kvarn_require_rotated(const ggml_tensor * cur, const ggml_tensor * cache);

// What a saved state must agree in, as text: type names and rotation. Written for caches with a quantised type only.
void kvarn_write_kv_format(llama_io_write_i & io, const ggml_tensor * k, const ggml_tensor * v, bool rot_k, bool rot_v);
void kvarn_check_kv_format(llama_io_read_i  & io, const ggml_tensor * k, const ggml_tensor * v, bool rot_k, bool rot_v); // throws

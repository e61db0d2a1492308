#pragma once

// One sequence's state in host memory, taken in one pass and without a copy of the whole in pinned memory.
//
// What is written is what llama_memory_i::state_write() writes for the same flags; the form is our own and never
// leaves the process. The owner of the context calls these.

#include "kvarn-host-copy.h"

// The state of `seq_id`. When this returns the context may go on; the last bytes may still be on their way
// (kvarn_state_bytes::wait). Throws std::runtime_error when the memory cannot write its state.
// `spent`: a state no longer wanted, given up; its memory is used again where nobody else holds it.
LLAMA_API std::shared_ptr<kvarn_state_bytes> kvarn_state_save(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags,
        std::shared_ptr<kvarn_state_bytes> spent = nullptr);

// Bytes kvarn_state_save() would take now. Copies nothing.
LLAMA_API size_t kvarn_state_size(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags);

// False when the state does not fit the context; the sequence is then empty or as it was.
LLAMA_API bool kvarn_state_load(llama_context * ctx, const kvarn_state_bytes & bytes, llama_seq_id seq_id, llama_state_seq_flags flags);

// Of the process-wide copier: pinned memory in bytes (any thread); wait until no state is on its way; give all back.
LLAMA_API size_t kvarn_state_staging_bytes();
LLAMA_API void   kvarn_state_drain();
LLAMA_API void   kvarn_state_release();

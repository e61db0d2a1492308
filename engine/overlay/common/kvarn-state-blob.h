#pragma once

// The saved state a checkpoint holds. Copies of a checkpoint share it, so a prompt that is cloned or moved to the
// prompt cache costs no second copy; the bytes are freed with the last one, even while they are still arriving.

#include "llama.h"

#include <cstddef>
#include <memory>

class kvarn_state_bytes;

class kvarn_state_blob {
public:
    size_t size()  const;
    bool   empty() const { return size() == 0; }
    void   clear()       { bytes.reset(); }

    // take the state of `seq_id`, in place of what was held
    void save(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags);

    // give it back. Ends the program when the context does not take it, as upstream does
    void load(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags) const;

    // count it as a context checkpoint, with `extra` bytes that belong to it (kvarn-checkpoint-stats.h)
    void charge(size_t extra);

    // add its bytes to those of the checkpoint it is part of
    void charge_along();

    // equal for copies of the same state, NULL when empty
    const void * key() const { return bytes.get(); }

private:
    std::shared_ptr<kvarn_state_bytes> bytes;
};

#include "kvarn-checkpoint-stats.h"

#include "../src/kvarn-state.h"

kvarn_checkpoint_totals & kvarn_checkpoint_counters() {
    // never destroyed: a checkpoint may be freed after our statics
    static auto * totals = new kvarn_checkpoint_totals();
    return *totals;
}

kvarn_checkpoint_stats kvarn_checkpoint_stats_get() {
    const auto & t = kvarn_checkpoint_counters();

    return {
        /*.count         =*/ t.count,
        /*.bytes         =*/ t.bytes,
        /*.budget_bytes  =*/ t.budget_bytes,
        /*.staging_bytes =*/ kvarn_state_staging_bytes(),
        /*.saved         =*/ t.saved,
        /*.restored      =*/ t.restored,
        /*.evicted       =*/ t.evicted,
        /*.declined      =*/ t.declined,
    };
}

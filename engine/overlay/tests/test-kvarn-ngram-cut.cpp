// An n-gram drafter whose drafts are cut, as an adaptive depth does, is judged by the tokens that were verified.
// No model.

#include "../common/common.h"
#include "../common/speculative.h"

#include <algorithm>
#include <cstdio>

static int n_failed = 0;

static void check(bool ok, const char * what) {
    printf("%s %s\n", ok ? "ok  " : "FAIL", what);
    n_failed += !ok;
}

struct drafter {
    common_params_speculative params;
    common_speculative *      spec;
    llama_tokens              text;
    llama_tokens              draft;

    drafter(const common_params_speculative & params, int period, int length) : params(params) {
        for (int i = 0; i < length; ++i) {
            text.push_back(100 + i%period);
        }
        spec = common_speculative_init(this->params, 1);
        common_speculative_begin(spec, 0, text);
    }

    ~drafter() { common_speculative_free(spec); }

    // length of a draft of at most n_max tokens, of which n_right are accepted
    int step(int n_max, int n_right, int period) {
        draft.clear();
        common_speculative_get_draft_params(spec, 0) =
            { true, n_max, (llama_pos) text.size(), llama_token(100 + text.size()%period), &text, &draft };
        common_speculative_draft(spec);
        const int n = (int) draft.size();
        if (n > 0) {
            common_speculative_accept(spec, 0, std::min(n, n_right));
        }
        return n;
    }
};

static void check_mod() {
    common_params_speculative params;
    params.types     = { COMMON_SPECULATIVE_TYPE_NGRAM_MOD };
    params.ngram_mod = { /* .n_match = */ 4, /* .n_max = */ 16, /* .n_min = */ 4 };

    // too short to be learned again once it is forgotten
    drafter right(params, 6, 24);
    int n_drafts = 0;
    for (int i = 0; i < 12; ++i) {
        n_drafts += right.step(2, 2, 6) == 2;
    }
    check(n_drafts == 12, "ngram-mod: two right tokens of two, again and again, are no low acceptance");

    drafter wrong(params, 6, 24);
    n_drafts = 0;
    for (int i = 0; i < 12; ++i) {
        n_drafts += wrong.step(2, 0, 6) == 2;
    }
    check(n_drafts == 5, "ngram-mod: five wrong drafts reset the pool, cut or not");
}

static void check_map() {
    common_params_speculative params;
    params.types       = { COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K };
    params.ngram_map_k = { /* .size_n = */ 3, /* .size_m = */ 4, /* .min_hits = */ 1 };

    drafter d(params, 7, 36);
    check(d.step( 1, 1, 7) == 1, "ngram-map-k: a draft is cut to one token");
    check(d.step(-1, 4, 7) == 4, "ngram-map-k: the next one is not, as nothing was wrong");
    check(d.step( 3, 2, 7) == 3, "ngram-map-k: two of three");
    check(d.step(-1, 2, 7) == 2, "ngram-map-k: what was wrong is not drafted again");
}

int main() {
    check_mod();
    check_map();

    printf("%s\n", n_failed == 0 ? "all passed" : "FAILED");
    return n_failed == 0 ? 0 : 1;
}

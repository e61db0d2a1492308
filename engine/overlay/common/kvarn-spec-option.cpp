#include "kvarn-spec-option.h"

bool & kvarn_spec_adaptive() {
    static bool adaptive = false;
    return adaptive;
}

#include "kvarn-live-section.h"

const std::vector<kvarn_live_section> & kvarn_live_sections() {
    static const std::vector<kvarn_live_section> sections = {
    };
    return sections;
}

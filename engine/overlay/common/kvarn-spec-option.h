#pragma once

// --spec-adaptive, off at first. Set while the arguments are read, by one thread.
bool & kvarn_spec_adaptive();

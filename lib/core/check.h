// ESCALIER_CHECK(condition, message): an internal promise, checked in every build. Not for user input.
#pragma once

#include <string>

#include "core/error.h"

#define ESCALIER_CHECK(condition, message)                                                                  \
    do {                                                                                                    \
        if (!(condition))                                                                                   \
            throw ::escalier::InternalError(std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " + \
                                            (message) + " [" #condition "]");                               \
    } while (false)

#include "collective.h"

#include <iostream>

#include "core/error.h"

namespace escalier::apps {

int run_collective(comm::MpiEnv& env, const std::function<int()>& work) {
    const auto ends_with = [&](int code) {
        env.ends_with(code);
        return code;
    };
    try {
        return ends_with(work());
    } catch (const comm::AgreedError& error) {
        if (env.world().rank() == 0) std::cerr << "escalier: " << error.what() << std::endl;
        return ends_with(static_cast<int>(error.code()));
    } catch (const std::exception& error) {
        env.abort(error);
    }
}

}  // namespace escalier::apps

// What every process of a launch has to say, said once.
#pragma once

#include <functional>

#include "core/error.h"

namespace escalier::apps {

// Whether this is the first process of a launch, as the launcher numbers them.
bool first_process();

// For what all processes meet alike before MPI is there to let them agree: prints through `say` on the first
// of them and returns. mpirun ends all processes as soon as one has failed, so
// the others wait until it does; one that nobody ended in five seconds has met this alone and says it.
void say_once(const std::function<void()>& say);

// The same for an error's message; returns its exit code.
int refuse(const char* message, ExitCode code);

}  // namespace escalier::apps

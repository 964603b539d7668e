// Where a file that is written whole and then renamed has to go.
#pragma once

#include <string>

namespace escalier {

// `path` with its links followed, so that a rename replaces the file a link points to and leaves the link;
// that file need not exist yet. Throws IoError (write, exit 74), naming the path, when what is there is no
// regular file (a folder, pipe, socket or device): a rename would put a file in its place.
std::string write_target(const std::string& path);

}  // namespace escalier

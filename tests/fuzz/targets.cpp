#include "targets.h"

#include "core/error.h"

namespace escalier::fuzz {

bool accepts(const Target& target, std::string_view input) {
    try {
        target.read(input);
        return true;
    } catch (const DataError&) {
    } catch (const ConfigError&) {
    } catch (const IoError&) {
    }
    return false;
}

}  // namespace escalier::fuzz

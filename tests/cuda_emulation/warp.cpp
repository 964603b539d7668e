#include "cuda_emulation/warp.h"

namespace escalier::cuda_emulation {

void exchange(Thread* warp, std::uint32_t mask) {
    for (std::uint32_t rest = mask; rest; rest &= rest - 1) {
        Thread& lane = warp[__builtin_ctz(rest)];
        if (!(mask >> lane.slot.argument & 1)) {
            self = &lane;
            fault("a shuffle reads a lane outside its mask");
        }
        __builtin_memcpy(lane.slot.out, warp[lane.slot.argument].slot.in, sizeof lane.slot.out);
    }
}

std::uint32_t vote(std::uint32_t mask, bool predicate) {
    Thread* me = self;
    me->slot.argument = predicate;
    warp_collective(WarpOperation::ballot, mask, [](Thread* warp, std::uint32_t lanes) {
        std::uint32_t ballot = 0;
        for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            ballot |= warp[lane].slot.argument << lane;
        }
        for (std::uint32_t rest = lanes; rest; rest &= rest - 1)
            __builtin_memcpy(warp[__builtin_ctz(rest)].slot.out, &ballot, sizeof ballot);
    });
    std::uint32_t ballot;
    __builtin_memcpy(&ballot, me->slot.out, sizeof ballot);
    return ballot;
}

}  // namespace escalier::cuda_emulation
